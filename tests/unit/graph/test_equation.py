"""Rules of cutting as equations: what their labels say, into how many parts each may be cut, and in which order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mpiparallel.errors import ShapeError
from mpiparallel.graph.broadcasting import broadcast_equation, broadcast_shape, sum_to
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.tensor import Tensor

PRODUCT = Equation.parse("bmk,bkn->bmn")
TWO, THREE = ("d0", "d1"), ("d0", "d1", "d2")


def test_a_text_names_one_label_a_dim_and_the_first_that_may_be_cut_is_that_of_the_batch() -> None:
    assert PRODUCT.inputs == (("b", "m", "k"), ("b", "k", "n"))
    assert PRODUCT.outputs == (("b", "m", "n"),)
    assert (PRODUCT.batch, PRODUCT.reduction, PRODUCT.whole) == ("b", "sum", frozenset())
    assert Equation.parse("abc->ab", whole="ab", reduction="max").batch == "c"
    assert Equation.parse("abc->ab", whole="ab", reduction="max").reduction == "max"
    assert Equation.parse("abc->ab", batch="b").batch == "b"
    assert Equation.parse("ab->a", whole="ab").batch is None


def test_dims_of_alike_tensors_correspond_from_the_right() -> None:
    same = Equation.same(3, 2, 0, outputs=2, whole=(1,))
    assert same.inputs == (THREE, ("d1", "d2"), ())
    assert same.outputs == (THREE, THREE)
    assert (same.whole, same.batch) == (frozenset({"d1"}), "d0")
    assert Equation.same(0).batch is None
    assert Equation.same(2).outputs == (TWO,)


@pytest.mark.parametrize(
    ("label", "parts", "allowed"),
    [
        ("a", 1, True),
        ("a", 7, True),
        ("a", 2, False),
        ("w", 1, True),
        ("w", 2, False),
        ("d", 3, True),
        ("d", 4, False),
        ("d", 12, False),
        ("u", 2, True),
        ("u", 3, False),
        ("u", 1, True),
    ],
)
def test_a_label_is_cut_into_as_many_parts_as_it_may_be(label: str, parts: int, allowed: bool) -> None:
    equation = replace(
        Equation.parse("awdu->awdu", whole="w"),
        divisors={"d": 6},
        sizes={(0, "u"): (3, 4), (1, "u"): (2, 5), (0, "a"): (1,) * 7},
    )
    assert equation.allows(label, parts) == allowed


def test_a_label_is_known_by_its_letters() -> None:
    equation = replace(Equation.same(1), sizes={(0, f"d{0}"): (3, 4)}, divisors={"d0": 12})
    assert [equation.allows("".join(("d", "0")), parts) for parts in (2, 3)] == [True, False]


def test_labels_that_only_outputs_have_are_their_own() -> None:
    assert Equation.parse("ab,c->abde").own_to_outputs == {"d", "e"}
    assert Equation((("a", None),), (("a", None),)).own_to_outputs == frozenset()


@pytest.mark.parametrize(
    ("equation", "labels"),
    [
        (PRODUCT, ("b", "m", "k", "n")),
        (Equation.parse("c,abc->abc"), ("a", "b", "c")),
        (Equation.parse("ab->ba"), ("a", "b")),
        (Equation.parse("a->ab"), ("a",)),
        (Equation((("a", None), (None, "b")), (("a", "b"),)), ("a", "b")),
        (replace(PRODUCT, order=("n", "z", "k")), ("n", "k", "b", "m")),
        (replace(Equation.parse("abc->abc"), strategy_inputs=(("c", "a"),)), ("a", "c")),
        (Equation((), ()), ()),
    ],
)
def test_labels_stand_in_the_order_of_the_axes_of_the_device_matrix(
    equation: Equation, labels: tuple[str, ...]
) -> None:
    assert equation.labels == labels


def test_equal_equations_have_one_hash_and_mappings_are_part_of_it() -> None:
    equal = Equation.parse("bmk,bkn->bmn")
    assert equal == PRODUCT
    assert hash(equal) == hash(PRODUCT)
    others = [replace(PRODUCT, divisors={"b": 2}), replace(PRODUCT, sizes={(0, "b"): (1, 2)})]
    assert len({hash(one) for one in (PRODUCT, *others)}) == 3
    assert PRODUCT not in others


@pytest.mark.parametrize(
    ("shapes", "shape", "labels", "batch"),
    [
        (((4, 1), (3,)), (4, 3), (("d0", None), ("d1",)), "d0"),
        (((2, 1, 5), (1, 3, 1)), (2, 3, 5), (("d0", None, "d2"), (None, "d1", None)), "d0"),
        (((1, 1), (1, 1)), (1, 1), (TWO, TWO), "d0"),
        (((), (0, 2)), (0, 2), ((), TWO), "d0"),
        (((0, 2), (1, 1)), (0, 2), (TWO, (None, None)), "d0"),
        (((), ()), (), ((), ()), None),
        (((1000,), (int("1000"),)), (1000,), (("d0",), ("d0",)), "d0"),
        (((3,), (2, 3), (4, 1, 1)), (4, 2, 3), (("d2",), ("d1", "d2"), ("d0", None, None)), "d0"),
    ],
)
def test_what_broadcasts_is_cut_together_but_for_repeated_dims_of_one_element(
    shapes: tuple[tuple[int, ...], ...], shape: tuple[int, ...], labels: tuple[Labels, ...], batch: str | None
) -> None:
    assert broadcast_shape(*shapes) == shape
    equation = broadcast_equation(*shapes)
    assert (equation.inputs, equation.batch) == (labels, batch)
    assert equation.outputs == (tuple(f"d{dim}" for dim in range(len(shape))),)


@pytest.mark.parametrize("shapes", [((2, 3), (2,)), ((4,), (1, 3)), ((0,), (2,))])
def test_shapes_that_do_not_broadcast_are_all_named(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ShapeError) as caught:
        broadcast_shape(*shapes)
    named = f"shapes {shapes[0]}, {shapes[1]} do not broadcast: each dim must be equal or 1"
    assert str(caught.value) == named


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((2, 3, 4), ()),
        ((3, 4), (0,)),
        ((1, 4), (0, 1)),
        ((2, 1, 4), (1,)),
        ((1, 3, 1), (0, 2)),
        ((), (0, 1, 2)),
        ((4,), (0, 1)),
    ],
)
def test_the_gradient_of_what_was_broadcast_is_summed_over_the_dims_that_were_repeated(
    shape: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    gradient = np.arange(24.0).reshape(2, 3, 4)
    found = sum_to(Tensor(gradient), shape).asnumpy()
    np.testing.assert_array_equal(found, gradient.sum(dims).reshape(shape))


def test_a_dim_of_one_element_that_was_not_repeated_is_left_as_it_is() -> None:
    gradient = Tensor(np.arange(3.0).reshape(3, 1))
    assert sum_to(gradient, (3, 1)) is gradient
    assert sum_to(gradient, (1, 1)).tolist() == [[3.0]]
    assert sum_to(gradient, (1,)).tolist() == [3.0]
