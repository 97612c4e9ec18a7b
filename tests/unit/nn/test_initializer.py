"""Initializers: their names, their distributions against the definitions, and that a rank makes only its own part."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpiparallel.common.initializer import (
    Constant,
    Dirac,
    HeNormal,
    HeUniform,
    Identity,
    Initializer,
    Normal,
    One,
    Orthogonal,
    Sparse,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    XavierNormal,
    XavierUniform,
    Zero,
    initializer,
)
from mpiparallel.context import set_seed
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.layout.box import Box

SHAPE = (300, 200)
INPUTS, OUTPUTS = 200, 300

# The names that MindSpore 2.10 knows (mindspore.common.initializer), beside those of its classes.
NAMES = {
    Zero: "Zero zero zeros ZEROS",
    One: "One one ones",
    XavierNormal: "XavierNormal xaviernormal xavier_normal",
    XavierUniform: "XavierUniform xavieruniform xavier_uniform",
    HeUniform: "HeUniform heuniform he_uniform",
    HeNormal: "HeNormal henormal he_normal",
    Identity: "Identity identity",
    Dirac: "Dirac dirac",
    Orthogonal: "Orthogonal orthogonal",
    VarianceScaling: "VarianceScaling variancescaling",
    Uniform: "Uniform uniform",
    Normal: "Normal normal",
    TruncatedNormal: "TruncatedNormal truncatedNormal truncatednormal",
}

# Mean, standard deviation and bounds of each distribution, by its definition.
CUT_OFF = 0.87962566
MOMENTS = [
    (Uniform(0.5), 0.0, 0.5 / math.sqrt(3), 0.5),
    (Normal(0.2, 3.0), 3.0, 0.2, math.inf),
    (TruncatedNormal(0.5), 0.0, 0.5 * CUT_OFF, 1.0),
    (
        TruncatedNormal(2.0, 1.0, 0.0, 40.0),
        1.0 + 2.0 * math.sqrt(2 / math.pi),
        2.0 * math.sqrt(1 - 2 / math.pi),
        math.inf,
    ),
    (XavierUniform(2.0), 0.0, 2 * math.sqrt(2 / (INPUTS + OUTPUTS)), 2 * math.sqrt(6 / (INPUTS + OUTPUTS))),
    (XavierNormal(), 0.0, math.sqrt(2 / (INPUTS + OUTPUTS)), math.inf),
    (HeUniform(), 0.0, math.sqrt(2 / INPUTS), math.sqrt(6 / INPUTS)),
    (HeUniform(math.sqrt(5)), 0.0, math.sqrt(1 / 3 / INPUTS), math.sqrt(1 / INPUTS)),
    (HeNormal(mode="fan_out", nonlinearity="relu"), 0.0, math.sqrt(2 / OUTPUTS), math.inf),
    (VarianceScaling(3.0), 0.0, math.sqrt(3 / INPUTS), 2 * math.sqrt(3 / INPUTS) / CUT_OFF),
    (VarianceScaling(1.0, "fan_out", "untruncated_normal"), 0.0, math.sqrt(1 / OUTPUTS), math.inf),
    (VarianceScaling(1.0, "fan_avg", "uniform"), 0.0, math.sqrt(1 / 250), math.sqrt(3 / 250)),
]
RULES = [*(rule for rule, *_ in MOMENTS), Constant(2.5), Identity(), Sparse(0.3), Orthogonal()]


def filled(rule: Initializer, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return rule.part("w", shape, Box.whole(shape))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names.split()])
def test_each_name_of_mindspore_means_its_class_in_any_case(kind, name):
    shape = (4, 4, 3) if kind is Dirac else (4, 4)
    tensor = initializer(name, shape)
    assert type(tensor.initial) is kind
    assert tensor.asnumpy().shape == shape
    assert tensor.asnumpy().dtype == np.float32


@pytest.mark.parametrize(("rule", "mean", "sigma", "bound"), MOMENTS, ids=repr)
def test_numbers_have_the_mean_the_deviation_and_the_bounds_of_their_definition(rule, mean, sigma, bound):
    numbers = filled(rule)
    # Four standard errors; that of a standard deviation is below sigma / sqrt(count) for all of these.
    error = 4 * sigma / math.sqrt(numbers.size)
    assert abs(numbers.mean() - mean) < error
    assert abs(numbers.std() - sigma) < error
    assert abs(numbers - mean).max() <= bound


@pytest.mark.parametrize("rule", [Normal(1.0), TruncatedNormal(1.0), Uniform(1.0)], ids=repr)
def test_numbers_follow_their_cumulative_distribution(rule):
    within = math.erf(2 / math.sqrt(2))
    cumulative = {
        Normal: lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))),
        TruncatedNormal: lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2)) / within),
        Uniform: lambda x: 0.5 * (x + 1),
    }[type(rule)]
    numbers = np.sort(filled(rule), axis=None)
    wanted = np.array([cumulative(x) for x in numbers])
    # Kolmogorov's bound at a level of one in a million.
    assert abs(wanted - np.arange(numbers.size) / numbers.size).max() < 2.7 / math.sqrt(numbers.size)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_rank_makes_its_part_as_one_rank_would(rule):
    whole, box = filled(rule), Box((70, 20), (150, 190))
    np.testing.assert_array_equal(rule.part("w", SHAPE, box), whole[70:150, 20:190])


def test_a_part_of_a_dirac_weight_is_that_of_the_whole():
    whole = filled(Dirac(2), (6, 4, 3, 5))
    np.testing.assert_array_equal(
        Dirac(2).part("w", whole.shape, Box((2, 1, 1, 0), (6, 3, 3, 5))), whole[2:6, 1:3, 1:3]
    )


def test_a_dirac_weight_passes_each_channel_through_its_centre():
    weight = filled(Dirac(), (3, 3, 3, 3))
    images = np.random.default_rng(0).normal(size=(3, 5, 5))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(images, ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
    np.testing.assert_array_equal(np.einsum("oihw,ixyhw->oxy", weight, windows), images)


def test_the_groups_of_a_dirac_weight_are_alike():
    weight = filled(Dirac(2), (4, 2, 3))
    np.testing.assert_array_equal(weight[:2], weight[2:])


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (20, 5, 2, 2)])
def test_an_orthogonal_matrix_has_orthogonal_rows_or_columns_of_length_gain(shape):
    matrix = filled(Orthogonal(3.0), shape).reshape(shape[0], -1)
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 9.0 * np.eye(len(product)), atol=1e-12)


def test_a_sparse_matrix_has_as_many_zeros_in_each_column_as_said_at_rows_of_no_order():
    matrix = filled(Sparse(0.25, 0.5), (30, 400))
    assert ((matrix == 0).sum(0) == math.ceil(0.25 * 30)).all()
    assert abs(matrix[matrix != 0].std() - 0.5) < 0.02
    assert (matrix == 0).sum(1).min() > 60
    assert (matrix == 0).sum(1).max() < 150


def test_an_identity_may_be_wider_than_high():
    np.testing.assert_array_equal(filled(Identity(), (2, 3)), np.eye(2, 3))


def test_numbers_depend_on_the_seed_and_the_name_of_a_parameter():
    def of(seed, name):
        set_seed(seed)
        return Parameter(initializer("Normal", (4, 4)), name).asnumpy()

    np.testing.assert_array_equal(of(1, "w"), of(1, "w"))
    assert (of(1, "w") != of(2, "w")).all()
    assert (of(1, "w") != of(1, "v")).all()


def test_tensors_without_a_name_differ_and_come_again_with_the_seed():
    rule = Normal()

    def two():
        set_seed(5)
        return [initializer(rule, (3, 3)).init_data().asnumpy() for _ in range(2)]

    first, second = two()
    assert (first != second).all()
    np.testing.assert_array_equal(two(), [first, second])


def test_a_parameter_of_a_filled_tensor_keeps_what_was_seen():
    tensor = initializer("normal", (2, 2)).init_data()
    np.testing.assert_array_equal(Parameter(tensor, "w").asnumpy(), tensor.asnumpy())


class Counted(Initializer):
    """A rule as MindSpore's users write them, with NumPy's own generator."""

    def _initialize(self, arr):
        arr[...] = np.random.normal(size=arr.shape)


def test_a_rule_that_fills_a_whole_array_is_seeded_by_the_name_and_leaves_numpy_as_it_was():
    state = np.random.get_state()[1].copy()
    rule = Counted()
    whole = rule.part("w", (6, 4), Box.whole((6, 4)))
    np.testing.assert_array_equal(rule.part("w", (6, 4), Box((2, 0), (6, 3))), whole[2:, :3])
    assert (rule.part("v", (6, 4), Box.whole((6, 4))) != whole).all()
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    assert type(initializer("counted", (2,)).initial) is Counted


@pytest.mark.parametrize(
    ("init", "shape", "message"),
    [
        ("xavier", (2, 2), r"'xavier' is not one of .*did you mean 'xavier"),
        ("sparse", (2, 2), r"'sparse' needs sparsity; give Sparse\(sparsity=...\)"),
        (Normal, (2,), r"Normal is a class; give Normal\(\)"),
        (None, (2,), "init is a NoneType"),
        ("zeros", (2, 0), r"shape \(2, 0\) must be made of integers of at least 1"),
        (Tensor([1.0]), (2,), r"the tensor has shape \(1,\), but \(2,\) is asked for"),
    ],
)
def test_what_cannot_be_made_is_refused(init, shape, message):
    with pytest.raises(ConfigurationError, match=message):
        initializer(init, shape)


@pytest.mark.parametrize(
    ("rule", "shape", "message"),
    [
        (Identity(), (2, 2, 2), "Identity fills tensors of two dims"),
        (Sparse(0.5), (2,), "Sparse fills tensors of two dims"),
        (Orthogonal(), (2,), "at least two dims"),
        (Dirac(), (2, 2), "3 to 5 dims"),
        (Dirac(2), (3, 2, 2), "multiple of groups=2"),
        (XavierUniform(), (2,), "at least two dims"),
        (Initializer(), (2,), "neither part"),
    ],
)
def test_a_shape_that_a_rule_cannot_fill_is_refused(rule, shape, message):
    with pytest.raises(ConfigurationError, match=message):
        filled(rule, shape)


@pytest.mark.parametrize(
    ("nonlinearity", "slope", "gain"),
    [
        ("relu", 0, 2**0.5),
        ("linear", 0, 1),
        ("sigmoid", 0, 1),
        ("tanh", 0, 5 / 3),
        ("leaky_relu", 0, 2**0.5),
        ("leaky_relu", 1, 1),
    ],
)
def test_hes_initializers_have_the_gain_of_the_nonlinearity_that_pytorch_documents(nonlinearity, slope, gain) -> None:
    normal = initializer(HeNormal(slope, "fan_in", nonlinearity), (200, 500)).asnumpy()
    assert normal.std() == pytest.approx(gain / 500**0.5, rel=0.02)
    uniform = initializer(HeUniform(slope, "fan_in", nonlinearity), (200, 500)).asnumpy()
    assert abs(uniform).max() == pytest.approx(gain * (3 / 500) ** 0.5, rel=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HeUniform(nonlinearity="relu6"), "nonlinearity 'relu6' is not one of relu, linear, .*leaky_relu"),
        (lambda: HeNormal(mode="fan_avg"), "initializer: mode 'fan_avg' is not one of fan_in, fan_out"),
        (lambda: VarianceScaling(scale=0), "VarianceScaling: scale 0 must be above 0"),
        (lambda: VarianceScaling(mode="fan"), "initializer: mode 'fan' is not one of fan_in, fan_out, fan_avg"),
        (lambda: VarianceScaling(distribution="normal"), "distribution 'normal' is not one of truncated_normal, untr"),
    ],
)
def test_an_argument_that_a_rule_does_not_know_is_refused(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()
