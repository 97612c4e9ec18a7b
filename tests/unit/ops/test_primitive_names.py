"""MindSpore's names for what makes operators and constants, and functions that are compiled where they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.errors import ConfigurationError, ShapeError, TraceError
from mpiparallel.ops import door
from mpiparallel.ops.just_in_time import jit
from mpiparallel.ops.primitive_names import Partial, _VirtualDataset, constexpr, prim_attr_register

X = np.array([1.0, 2.0, 3.0])


def test_first_arguments_and_those_by_name_are_given_beforehand() -> None:
    assert Partial()(lambda *given, **named: (given, named), 1, 2, base=3)(4, other=5) == (
        (1, 2, 4),
        {"base": 3, "other": 5},
    )


@pytest.mark.parametrize("option", ["get_instance", "name", "reuse_result", "check"])
def test_a_function_of_constants_stays_what_it_is_and_options_are_said_to_change_nothing(
    option: str, remarks: Callable[[], list[str]]
) -> None:
    def half(extent: int) -> int:
        return extent // 2

    assert constexpr(half) is half
    assert constexpr()(half) is half
    assert remarks() == []
    given = "half" if option == "name" else False
    assert constexpr(**{option: given})(half) is half
    assert [line.split(" has no effect")[0] for line in remarks()] == [f"constexpr: {option}={given!r}"]


class Scale:
    """What keeps its arguments before it is made."""

    @prim_attr_register
    def __init__(self, factor: float, *others: int, offset: float = 0.5) -> None:
        """Make it."""
        self.seen = (self.factor, self.others, self.offset)  # type: ignore[attr-defined]


def test_arguments_are_kept_under_their_names_with_their_defaults() -> None:
    assert Scale(2.0, 3, 4).seen == (2.0, (3, 4), 0.5)
    assert Scale(factor=2.0, offset=1.0).seen == (2.0, (), 1.0)
    assert Scale.__init__.__name__ == "__init__"
    assert Scale.__init__.__doc__ == "Make it."
    with pytest.raises(TypeError, match="factor"):
        Scale()  # type: ignore[call-arg]


def test_the_mark_of_inputs_gives_them_back() -> None:
    mark = _VirtualDataset()
    assert mark(1) == 1
    assert mark(1, 2) == (1, 2)
    assert mark.add_prim_attr("repeat_dim_direct", "right") is mark


def test_a_door_hands_out_what_is_public_alone() -> None:
    assert "MatMul" in door.public(ops)
    handed = door.public(door)
    assert {"functions_of", "public"} <= set(handed)
    assert not {"inspect", "annotations", "TYPE_CHECKING", "_SERVING"} & set(handed)


def test_a_compiled_function_keeps_its_name_and_says_what_changes_nothing(remarks: Callable[[], list[str]]) -> None:
    @jit
    def doubled(x: Any) -> Any:
        """Return twice as much."""
        return x * 2

    assert (doubled.__name__, doubled.__doc__) == ("doubled", "Return twice as much.")
    assert doubled(Tensor(X)).tolist() == (2 * X).tolist()
    assert remarks() == []
    jit(lambda x: x, "pynative", backend="ms_backend")
    said = [line.split(" has no effect")[0] for line in remarks()]
    assert said == ["jit: argument 2='pynative'", "jit: backend='ms_backend'"]
    assert jit(mode="x") is jit


@pytest.mark.parametrize("wrong", ["text", 5, Tensor(X)])
def test_what_cannot_be_called_is_not_compiled(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"is no function; write @jit, or @jit\(\.\.\.\) with options by name"):
        jit(wrong)


def test_constants_make_a_program_each_and_tuples_of_tensors_are_fed() -> None:
    traced: list[Any] = []

    @jit
    def combined(pair: Any, factor: Any, scale: Any = 1.0) -> Any:
        traced.append((factor, scale))
        return (pair[0] + pair[1]) * factor * scale

    pair = (Tensor(X), Tensor(X))
    for factor in (2, 2.0, True, 2):
        assert combined(pair, factor).tolist() == (2 * X * factor).tolist()
    assert combined(pair, factor=2, scale=3.0).tolist() == (12 * X).tolist()
    assert traced == [(2, 1.0), (2.0, 1.0), (True, 1.0), (2, 3.0)]


def test_arguments_that_cannot_be_constants_are_refused_by_the_name_of_the_function() -> None:
    @jit
    def picked(x: Any, options: Any) -> Any:
        return x

    with pytest.raises(TraceError, match=r"picked: .*give tensors, or constants that can be hashed"):
        picked(Tensor(X), {"a": set()})

    @jit
    def named(x: Any, *, factor: int = 2) -> Any:
        return x * factor

    with pytest.raises(TraceError, match="named: jit takes no arguments that are only by name; make them positional"):
        named(Tensor(X))


class Net(nn.Cell):
    """A network with a compiled method and a compiled function in it."""

    @jit
    def tripled(self, x: Any) -> Any:
        return x * 3

    def construct(self, x: Any) -> Any:
        return self.tripled(x) + 1


def test_a_compiled_method_is_bound_and_is_part_of_the_network_around_it() -> None:
    assert Net()(Tensor(X)).tolist() == (3 * X + 1).tolist()


CUSTOM: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: ops.Custom(np.sin, equation="ab->ab")(X),
        ConfigurationError,
        r"'sin'.*'ab->ab' does not fit tensors of 1",
    ),
    (lambda: ops.Custom(np.sin, equation="a->a")(X[None]), ConfigurationError, "'a->a' does not fit tensors of 2 -> 2"),
    (lambda: ops.Custom(np.sin, equation="a")(X), ConfigurationError, "'a' does not fit tensors of 1 -> 1 dims"),
    (lambda: ops.Custom(np.sin, func_type="aot"), ConfigurationError, "func_type 'aot' compiles code for MindSpore's"),
    (lambda: ops.Custom(5), ConfigurationError, "Custom: func 5 is no function; give one of arrays"),
    (lambda: ops.Custom(np.sin, bprop=5), ConfigurationError, "Custom: bprop 5 is no function"),
    (lambda: ops.Custom(np.sin, [(3,), (3,)], [np.float64])(X), ShapeError, "out_shape has 2 outputs, out_dtype 1"),
    (lambda: ops.Custom(np.sin, (2,))(X), ShapeError, r"returned shape \(3,\) for output 0, not \(2,\)"),
    (lambda: ops.Custom(np.sin, [(3,), (3,)])(X), ShapeError, "returned 1 arrays, not the 2 of out_shape"),
]


@pytest.mark.parametrize(("call", "error", "said"), CUSTOM)
def test_a_function_of_arrays_that_does_not_do_what_it_says_is_refused(
    call: Callable[[], Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        call()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((2,), np.float32), (lambda given: (given[0] - 1,), np.float32), ([(2,)], [np.float32]), ([2], np.float32)],
)
def test_the_output_of_a_function_is_what_is_said_of_it(shape: Any, dtype: Any) -> None:
    found = ops.Custom(lambda x: x[1:], shape, dtype)(X)
    one = found[0] if isinstance(found, tuple) else found
    np.testing.assert_array_equal(one.asnumpy(), X[1:].astype(np.float32), strict=True)


def test_the_output_of_a_function_is_like_its_first_input_where_nothing_is_said_of_it() -> None:
    found = ops.Custom(lambda x, y: x + y)(X.astype(np.float32), np.ones(1))
    np.testing.assert_array_equal(found.asnumpy(), (X + 1).astype(np.float32), strict=True)


def test_a_function_or_method_of_several_names_is_called_by_the_first() -> None:
    assert (ops.sub.__name__, ops.subtract.__name__, ops.floor_divide.__qualname__) == ("sub", "sub", "floor_div")
    assert (Tensor.subtract.__name__, Tensor.multiply.__name__, Tensor.arctan2.__name__) == ("sub", "mul", "atan2")
    assert {ops.absolute.__name__, ops.abs.__name__, Tensor.absolute.__name__, Tensor.abs.__name__} == {"abs"}
