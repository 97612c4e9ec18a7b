from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.errors import ConfigurationError, ShapeError
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.random_stream import drawing_at
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression import block_places
from mpiparallel.graph.operator import OPERATORS
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.ops import operations as P
from mpiparallel.testing.case_program import CaseProgram
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_cases import CASES
from tests.conformance.cases.operator_expected import expected

by_name = {"ids": lambda case: case.name}


def compute_at_once(case: OperatorCase, order: Any) -> tuple[Any, ...]:
    """Return the outputs, or the new values of the parameters that the operator updates."""
    operator = case.build()
    arrays = [np.array(array, order=order) for array in case.inputs]
    tensors = [
        Parameter(array, f"p{index}") if index in operator.updates else Tensor(array)
        for index, array in enumerate(arrays)
    ]
    with drawing_at(0):
        outputs = case.apply(operator, tensors)
    return tuple(one.asnumpy() for one in outputs or [tensors[index] for index in operator.updates])


def assert_equal(actual: Any, wanted: Any, case: OperatorCase) -> None:
    assert len(actual) == len(wanted)
    for one, other in zip(actual, wanted, strict=True):
        assert one.shape == np.shape(other)
        assert one.dtype == np.asarray(other).dtype
        tolerance = 1e-8 if "GeluGrad" in case.name else 1e-13
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("size", [4, 1 << 14])
@pytest.mark.parametrize("case", CASES, **by_name)
def test_an_operator_computes_its_formula_from_memory_in_any_order_in_blocks_of_any_size(
    case: OperatorCase, size: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_places, "_BLOCK", size)
    assert_equal(compute_at_once(case, order), expected(case), case)


@pytest.mark.parametrize("case", [case for case in CASES if not case.build().updates], **by_name)
def test_a_program_computes_what_the_operator_computes_at_once(case: OperatorCase) -> None:
    if "Dropout" in case.name:
        pytest.skip("its mask depends on its place in the program")
    program = CaseProgram.of(case)
    wanted = expected(case)
    for _ in range(2):
        assert_equal(program.run(case.inputs)[: len(wanted)], wanted, case)


def test_every_operator_has_a_case() -> None:
    # Collectives need ranks: tests/unit/parallel/test_collective.py has their table.
    defined = {
        name
        for name, operator in OPERATORS.items()
        if getattr(P, name, None) is operator and operator.kind != "communication"
    }
    assert defined <= {case.build().name for case in CASES}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Sigmoid", "GeLU", "ReLU"])
def test_a_function_keeps_the_dtype_and_does_not_overflow(name: str, dtype: Any) -> None:
    output = getattr(P, name)()(np.array([[-3e4, -5.0, 0.0, 5.0, 3e4]], dtype)).asnumpy()
    assert output.dtype == dtype
    assert np.isfinite(output[0, 1:]).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: P.Gather()(np.ones((3, 2)), np.array([0, 3])), "Gather: index 3 is out of range for the 3 elements"),
        (lambda: P.Gather()(np.ones((3, 2)), np.array([-1])), "index -1 is out of range"),
        (lambda: P.Gather()(np.ones((3, 2)), np.array([0.5])), "input_indices is of dtype float64"),
        (lambda: P.GatherLast()(np.ones((3, 2)), np.array([0, 1, 2])), "index 2 is out of range for the 2 elements"),
        (lambda: P.SparseSoftmaxCrossEntropyWithLogits()(np.ones((1, 2)), np.array([2])), "index 2 is out of range"),
        (lambda: P.Softmax(2)(np.ones((3, 2))), "axis 2 is out of range for 2 dims; use -2 to 1"),
        (lambda: P.LayerNorm()(np.ones((3, 2)), np.ones(3), np.ones(2)), "gamma has shape"),
        (lambda: P.GeLU()(np.ones(3, np.int32)), "x is of dtype int32"),
        (lambda: P.Squeeze(0)(np.ones((3, 1))), "must name dims of one element"),
        (lambda: P.ApplyMomentum()(*[Parameter(np.ones(2), f"p{i}") for i in range(5)]), "input 2 has shape"),
        (lambda: P.BatchMatMul()(np.ones(3), np.ones((3, 2))), r"x \(3,\) and y \(3, 2\) must have at least two dims"),
        (lambda: P.ReduceSum()(np.ones((3, 2)), (0, 2)), r"axis \(0, 2\) is out of range for 2 dims; use -2 to 1"),
        (lambda: P.Flatten()(1.0), "Flatten: x has no dims; it needs at least one, for the rows"),
        (lambda: P.Stack()((np.ones(2), np.ones(3))), r"\(3,\) cannot be stacked with \(2,\); they must be equal"),
        (lambda: P.Pad(((1, 1),))(np.ones((3, 2))), r"1 pairs of paddings for \(3, 2\); give each of the dims one"),
        (lambda: P.Slice()(np.ones((3, 2)), (0,), (1, 2)), r"begin \(0,\) and size \(1, 2\) must have one entry for"),
        (lambda: P.Gather(2)(np.ones((3, 2)), np.ones((3, 2), int), 1), "batch_dims 2 must be at most axis 1"),
        (lambda: P.Gather(-2)(np.ones((3, 2)), np.ones(3, int), 1), "batch_dims -2 must be at least -1"),
        (lambda: P.Gather(2)(np.ones((3, 2, 2)), np.ones(3, int), 2), "axis 2 and the 1 dims of the indices"),
        (lambda: P.MaxPool(2)(np.ones((3, 4, 4))), r"x has shape \(3, 4, 4\); it must be \(images, channels, height"),
        (lambda: P.AdaptiveAvgPool2D(1)(np.ones((3, 4, 4))), r"x has shape \(3, 4, 4\); it must be \(images, channels"),
        (lambda: P.AdaptiveAvgPool2D(1)(np.ones((1, 1, 0, 4))), r"x has shape \(1, 1, 0, 4\); it must be \(images"),
        (
            lambda: P.Conv2D(2, 1, group=2)(np.ones((1, 3, 4, 4)), np.ones((2, 1, 1, 1))),
            r"x has shape \(1, 3, 4, 4\); it must be .* channels a multiple of group=2",
        ),
        (
            lambda: P.SparseSoftmaxCrossEntropyWithLogits()(np.ones(2), np.array([1])),
            r"logits have shape \(2,\); they must be \(n, classes\)",
        ),
        (lambda: P.SumExp()(np.float32(1.0), np.float32(1.0)), "x has no dims; it needs at least one, to sum over"),
        (lambda: P.BlockedAttention()(*[np.ones((1, 2, 4))] * 3), r"query \(1, 2, 4\) and key \(1, 2, 4\) must have"),
        *(
            (
                lambda shape=shape: P.BlockedAttention()(*[np.ones((2, 3, 4, 5))] * 3, np.ones(shape)),
                r"mask has shape .*; it must be \(2, 3, 4, 4\), or 1 in the first two dims",
            )
            for shape in [(4, 4), (1, 1, 4, 1), (1, 2, 4, 4), (3, 1, 4, 4)]
        ),
        (
            lambda: P.Assign()(Parameter(np.ones(3), "p"), np.ones(2)),
            r"value has shape \(2,\); it must be that of the variable, \(3,\), or \(\)",
        ),
        (lambda: P.BiasAdd()(np.ones(3), np.ones(3)), r"^input_x has shape \(3,\); it must be \(n, channels, ...\)$"),
        (
            lambda: P.BatchNorm()(np.ones(3), *[np.ones(3)] * 4),
            r"^x has shape \(3,\); it must be \(images, channels, ...\)$",
        ),
        (lambda: P.BatchNorm()(np.ones((2, 3)), *[np.ones(2)] * 4), r"input 1 .*\(2,\); it must be \(3,\)"),
        (lambda: P.Add()(np.ones(3), "1"), "Add: input 1 is a str; give a Tensor, an array or a number"),
    ],
)
def test_an_operator_says_what_does_not_fit(call: Any, said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        call()


@pytest.mark.parametrize("operator", [P.Dropout, P.BlockedAttention])
@pytest.mark.parametrize("keep_prob", [0.0, 1.5])
def test_dropout_refuses_a_probability_outside_of_0_to_1(keep_prob: float, operator: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be above 0 and at most 1"):
        operator(keep_prob)


def test_floats_beside_integers_decide_the_dtype() -> None:
    counts = Tensor(np.array([1, 2], np.int64))
    assert (counts + Tensor([0.5, 0.5])).dtype == np.float32
    assert P.Select()(np.array([True, False]), counts, 5).asnumpy().tolist() == [1, 5]


def test_an_index_of_integers_gives_a_view_that_follows_the_array() -> None:
    array = np.arange(6.0).reshape(2, 3)
    element = Tensor(array)[1, 2]
    array[1, 2] = 9.0
    assert element.item() == 9.0


@pytest.mark.parametrize("length", [5, 40])
@pytest.mark.parametrize("nans", [1, 3])
def test_what_is_no_number_is_the_largest_of_all(length: int, nans: int) -> None:
    x = np.arange(length) / 7
    x[1 : 1 + nans] = np.nan
    values, indices = P.TopK()(x, 2)
    wanted = [1, 2] if nans > 1 else [1, length - 1]
    assert indices.asnumpy().tolist() == wanted
    np.testing.assert_array_equal(values.asnumpy(), x[wanted])


def run_program(network: Any, *arrays: Any) -> Any:
    trace = Trace()
    inputs = [trace.graph.add_input(f"x{index}", Tensor(array).spec) for index, array in enumerate(arrays)]
    with recording(trace):
        trace.graph.outputs = [network(*map(Tensor.of_value, inputs)).value]
    return Program(trace.graph, Runtime()).run(arrays)[0]


def test_no_operator_overwrites_memory_that_another_of_its_inputs_shows() -> None:
    x = np.random.default_rng(0).standard_normal((300, 300))
    actual = run_program(lambda x: P.SigmoidGrad()(-x, P.Transpose()(-x, (1, 0))), x)
    shared = run_program(lambda x: (lambda y: P.SigmoidGrad()(y, P.Transpose()(y, (1, 0))))(-x), x)
    np.testing.assert_array_equal(shared, actual)


def test_an_exponent_that_the_network_computes_is_read_when_it_runs() -> None:
    x = np.array([1.0, 2.0, 3.0])
    actual = run_program(lambda x, y: P.Pow()(x, y + y), x, np.array(1.5))
    np.testing.assert_allclose(actual, x**3)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ([], "the network takes 1 inputs and was given 0"),
        ([np.ones(2), np.ones(2)], "the network takes 1 inputs and was given 2"),
        ([np.ones(3)], r"input 'x' has shape \(3,\); the network was compiled for \(2,\)"),
    ],
)
def test_a_program_takes_inputs_of_the_shapes_that_it_was_compiled_for(arrays: list[Any], said: str) -> None:
    trace = Trace()
    x = trace.graph.add_input("x", Tensor(np.ones(2)).spec)
    with recording(trace):
        trace.graph.outputs = [(Tensor.of_value(x) * 2.0).value]
    with pytest.raises(ShapeError, match=said):
        Program(trace.graph, Runtime()).run(arrays)
