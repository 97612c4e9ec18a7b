"""Rules for first values against arithmetic: each number that a pattern has, defaults, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor
from mpiparallel.common.initializer import (
    Constant,
    Dirac,
    HeNormal,
    Initializer,
    Normal,
    Orthogonal,
    Sparse,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    XavierNormal,
    XavierUniform,
    initializer,
)
from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.box import Box

INPUTS, OUTPUTS = 200, 300
WITHIN_TWO = 0.87962566
"""The standard deviation of a standard normal number of which it is known that it lies within 2 of 0."""
DEFAULTS = [
    (Uniform(), 0.07 / math.sqrt(3), 0.07),
    (Normal(), 0.01, 0.06),
    (TruncatedNormal(), 0.01 * WITHIN_TWO, 0.02),
    (XavierUniform(), math.sqrt(2 / (INPUTS + OUTPUTS)), math.sqrt(6 / (INPUTS + OUTPUTS))),
    (XavierNormal(), math.sqrt(2 / (INPUTS + OUTPUTS)), math.inf),
    (HeNormal(), math.sqrt(2 / INPUTS), math.inf),
    (VarianceScaling(), math.sqrt(1 / INPUTS), 2 * math.sqrt(1 / INPUTS) / WITHIN_TWO),
    (Orthogonal(), math.sqrt(1 / OUTPUTS), 1.0),
]


def filled(rule: Initializer, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return rule.part("w", shape, Box.whole(shape))


@pytest.mark.parametrize(("rule", "sigma", "bound"), DEFAULTS, ids=repr)
def test_a_rule_that_is_told_nothing_has_the_scale_of_its_page(rule: Initializer, sigma: float, bound: float) -> None:
    numbers = filled(rule, (OUTPUTS, INPUTS))
    error = 4 * sigma / math.sqrt(numbers.size)
    assert abs(numbers.mean()) < error
    assert abs(numbers.std() - sigma) < error
    # The bound is come near to from both sides, and not passed.
    assert abs(numbers).max() <= bound
    assert bound > 5 * sigma or min(numbers.max(), -numbers.min()) > 0.99 * bound or isinstance(rule, Orthogonal)


def test_the_variance_of_one_input_is_not_scaled_down() -> None:
    for rule in (VarianceScaling(4.0, distribution="uniform"), VarianceScaling(4.0, "fan_out", "uniform")):
        numbers = filled(rule, (1000, 1) if rule.mode == "fan_in" else (1, 1000))
        assert abs(numbers.std() - 2.0) < 0.1
        assert 0.99 < abs(numbers).max() / math.sqrt(12.0) <= 1


def test_a_sparse_matrix_has_numbers_of_a_hundredth_where_nothing_is_said() -> None:
    numbers = filled(Sparse(0.5), (100, 100))
    assert abs(numbers[numbers != 0].std() - 0.01) < 0.001
    assert (numbers == 0).sum() == 5000


@pytest.mark.parametrize("rule", [TruncatedNormal(1.0), TruncatedNormal(0.5, 3.0, -1.0, 2.5)], ids=repr)
def test_numbers_that_are_cut_off_are_the_inverse_distribution_of_uniform_ones(rule: TruncatedNormal) -> None:
    normal, shape = NormalDist(), (40, 30)
    shares = filled(Uniform(0.5), shape) + 0.5
    low, high = normal.cdf(rule.a), normal.cdf(rule.b)
    wanted = [rule.mean + rule.sigma * normal.inv_cdf(low + (high - low) * share) for share in shares.ravel()]
    np.testing.assert_allclose(filled(rule, shape).ravel(), wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "groups"),
    [((3, 2, 3), 1), ((2, 3, 4), 1), ((4, 3, 3), 2), ((6, 4, 3, 5), 2), ((4, 2, 2, 3), 4), ((2, 2, 3, 2, 5), 1)],
)
def test_a_dirac_weight_has_a_one_in_the_middle_where_channels_meet(shape: tuple[int, ...], groups: int) -> None:
    wanted = np.zeros(shape)
    middle = tuple(extent // 2 for extent in shape[2:])
    for output, channel in product(*map(range, shape[:2])):
        wanted[(output, channel, *middle)] = output % (shape[0] // groups) == channel
    rule = Dirac(groups) if groups > 1 else Dirac()
    np.testing.assert_array_equal(filled(rule, shape), wanted)


@pytest.mark.parametrize("shape", [(2, 2), (2, 2, 2, 2, 2, 2), (3, 2, 2)])
def test_a_dirac_weight_has_three_to_five_dims_and_outputs_for_each_group(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError, match=r"3 to 5 dims whose first is a multiple of groups=2, not of shape"):
        filled(Dirac(2), shape)


@pytest.mark.parametrize("value", [3, 2.5, [1.0, 2.0], [[1.0], [2.0], [3.0]], np.arange(6.0).reshape(3, 2)])
def test_a_constant_is_a_number_or_what_can_be_spread_to_the_shape(value: Any) -> None:
    wanted = np.broadcast_to(np.asarray(value), (3, 2))
    np.testing.assert_array_equal(initializer(Constant(value), (3, 2)).asnumpy(), wanted)
    np.testing.assert_array_equal(Constant(value).part("w", (3, 2), Box((1, 1), (3, 2))), wanted[1:, 1:])


@pytest.mark.parametrize(("shape", "inputs", "outputs"), [((4, 8), 8, 4), ((4, 8, 3), 24, 12), ((4, 8, 3, 5), 120, 60)])
def test_dims_after_the_second_multiply_inputs_and_outputs(shape: tuple[int, ...], inputs: int, outputs: int) -> None:
    bound = math.sqrt(6 / (inputs + outputs))
    numbers = abs(filled(XavierUniform(), shape))
    assert 0.75 * bound < numbers.max() <= bound


SHAPES: list[tuple[Any, tuple[int, ...]]] = [
    (None, ()),
    (3, (3,)),
    (np.int64(3), (3,)),
    ([3, np.int32(2)], (3, 2)),
    ((1, 1), (1, 1)),
    ((), ()),
]


@pytest.mark.parametrize(("shape", "wanted"), SHAPES)
def test_a_shape_may_be_left_out_a_number_or_a_sequence(shape: Any, wanted: tuple[int, ...]) -> None:
    made = initializer("ones", shape)
    assert (made.shape, made.asnumpy().sum()) == (wanted, math.prod(wanted))
    assert initializer(7, shape).asnumpy().max() == 7


def test_a_tensor_is_returned_as_it_is_whether_its_shape_is_said_or_not() -> None:
    tensor = Tensor([1.0, 2.0])
    assert all(initializer(tensor, shape) is tensor for shape in (None, 2, (2,), [2]))


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: initializer("ones", (2, -1)), r"shape \(2, -1\) must be made of integers of at least 1"),
    (lambda: initializer("ones", 0), r"shape \(0,\) must be made of integers of at least 1"),
    (lambda: initializer("ones", (2, 1.5)), r"shape \(2, 1.5\) must be made of integers of at least 1"),
    (lambda: initializer(dict, (2,)), "initializer: init is a type; give a name, a number, a Tensor or an Init"),
    (lambda: initializer("zzz", (2,)), r"initializer 'zzz' is not one of .*zeros[^;]*$"),
    (lambda: initializer("normel", (2,)), "'normel' is not one of .*; did you mean 'normal'"),
    (lambda: VarianceScaling(-1.0), r"VarianceScaling: scale -1.0 must be above 0"),
    (lambda: filled(XavierNormal(), (3,)), r"needs a shape of at least two dims, not \(3,\); use Normal or Zero"),
    (lambda: filled(Orthogonal(), (3,)), r"at least two dims, not of shape \(3,\)"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_cannot_be_made_is_refused_with_what_can(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make()


def test_words_of_a_rule_are_known_by_their_letters_wherever_they_come_from() -> None:
    uniform, leaky = (bytes(one, "ascii").decode() for one in ("uniform", "leaky_relu"))
    numbers = filled(VarianceScaling(1.0, "fan_in", uniform), (OUTPUTS, INPUTS))
    assert abs(numbers).max() == pytest.approx(math.sqrt(3 / INPUTS), rel=0.01)
    assert filled(HeNormal(2.0, "FAN_IN", leaky), (OUTPUTS, INPUTS)).std() == pytest.approx(
        math.sqrt(2 / 5 / INPUTS), rel=0.02
    )


def test_a_rule_of_ones_own_that_keeps_no_seed_is_filled_all_the_same() -> None:
    class Own(Initializer):
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def _initialize(self, array: np.ndarray[Any, Any]) -> None:
            array[...] = np.random.uniform(size=array.shape) * self.scale

    first = initializer(Own(2.0), (3, 2)).asnumpy()
    assert first.min() > 0
    assert repr(Own(2.0)) == "Own(scale=2.0)"


def test_a_rule_that_needs_arguments_is_asked_for_by_the_first_of_them() -> None:
    class Sloped(Initializer):
        def __init__(self, slope: float, height: float) -> None:
            super().__init__(slope=slope, height=height)

    said = r"initializer 'sloped' needs slope; give Sloped\(slope=...\)"
    with pytest.raises(ConfigurationError, match=said):
        initializer("sloped", (2,))


def test_a_weight_of_one_input_and_one_output_has_the_scale_itself_as_variance() -> None:
    rule, whole = VarianceScaling(0.25, "fan_avg", "uniform"), Box.whole((1, 1))
    numbers = np.array([rule.part(f"w{number}", (1, 1), whole) for number in range(400)])
    assert numbers.std() == pytest.approx(0.5, rel=0.1)
    assert abs(numbers).max() <= math.sqrt(3 * 0.25)
