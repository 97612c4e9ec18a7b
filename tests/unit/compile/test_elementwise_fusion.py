"""Fused, compiled or not, element-wise operators compute what they compute one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.compile import rank_graph
from mpiparallel.compile.elementwise_fusion import FusedElementwise, fuse_elementwise
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression import loop_kernel
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import call, operand
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.models.resnet import ResNet
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork
from mpiparallel.nn.transformer import TransformerOpParallelConfig
from mpiparallel.ops import operations as P
from mpiparallel.testing.case_program import CaseProgram
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_cases import CASES

SHAPE = (3, 4, 5)
ONE = [P.Neg, P.Exp, P.Sqrt, P.Abs, P.Sign, P.Square, P.Tanh, P.ReLU, P.GeLU, P.Sigmoid, P.Rsqrt, P.Softmax]
TWO = [P.Add, P.Sub, P.Mul, P.Div, P.Maximum, P.Minimum, "compare", "select", "sums"]
SMOOTH = [P.Neg, P.Abs, P.Tanh, P.ReLU, P.GeLU, P.Sigmoid, P.Softmax, P.Add, P.Sub, P.Mul, P.Maximum, "sums"]
"""Where a change by rounding changes the result by no more than that: a compiled loop rounds less often."""
SPECIAL = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]


@pytest.fixture
def compiling(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "numba"))
    monkeypatch.delenv("MPIPARALLEL_JIT", raising=False)
    monkeypatch.setattr(loop_kernel, "_SMALLEST", 0)


@pytest.fixture
def not_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPIPARALLEL_JIT", "0")


def apply(choice: Any, x: Any, y: Any) -> list[Any]:
    """Return what a choice of operators makes of two tensors."""
    if choice == "compare":
        return [P.Cast()(P.Greater()(x, y), x.dtype) * x]
    if choice == "select":
        return [P.Select()(P.Less()(x, y), x, y)]
    if choice == "sums":
        return [x + P.ReduceSum(keep_dims=True)(x * y, -1)]
    return [choice()(x)] if choice in ONE else [choice()(x, y)]


Recipe = tuple[list[tuple[Any, int, int]], tuple[int, ...], list[int]]


def trace(recipe: Recipe, arrays: list[Any]) -> Graph:
    """Return the graph of a recipe: at each step an operator of values made before, all counted backwards."""
    steps, shape, outputs = recipe
    made = Trace()
    with recording(made):
        values = [
            Tensor.of_value(made.graph.add_input(f"x{place}", Tensor(one).spec)) for place, one in enumerate(arrays)
        ]
        values[0] = P.Transpose()(values[0], (2, 0, 1)) if values[0].shape != shape else values[0]
        for choice, first, second in steps:
            x, y = (values[-1 - index % len(values)] for index in (first, second))
            values += apply(choice, P.Add()(x, values[0]) if x.shape != shape else x, y)
    chosen = {-1 - index % len(steps) for index in outputs}
    made.graph.outputs = [values[index].value for index in sorted(chosen) if values[index].value is not None]
    made.graph.remove_dead_nodes()
    return made.graph


recipes = st.tuples(
    st.lists(st.tuples(st.sampled_from([*ONE, *TWO]), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=9),
    st.just(SHAPE),
    st.lists(st.integers(0, 9), min_size=1, max_size=3),
)


def inputs(shape: tuple[int, ...], dtype: Any, seed: int, special: bool) -> list[Any]:
    """Return a transposed whole tensor, a whole one, one with a number for each row, a vector and a number."""
    random = np.random.default_rng(seed)
    a, b, c = shape
    arrays = [random.normal(size=one) for one in ((b, c, a), shape, (b, 1), (c,), ())]
    if special:
        for array in arrays[:2]:
            where = random.random(array.shape) < 0.2
            array[where] = random.choice(SPECIAL, int(where.sum()))
    return [np.asarray(array, dtype) for array in arrays]


TOLERANCES = {np.float64: 1e-12, np.float32: 2e-5, np.float16: 2e-3}


def check(recipe: Recipe, dtype: Any, seed: int, special: bool) -> None:
    arrays = inputs(recipe[1], dtype, seed, special)
    plain, fused = trace(recipe, arrays), trace(recipe, arrays)
    fuse_elementwise(fused, 0)
    with np.errstate(all="ignore"):
        wanted = [np.array(one) for one in Program(plain, Runtime()).run(arrays)]
        program = Program(fused, Runtime())
        for _ in range(2):
            for one, other in zip(program.run(arrays), wanted, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_allclose(one, other, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


common = {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


@settings(max_examples=80, **common)
@given(recipes, st.sampled_from([np.float64, np.float32, np.float16]), st.integers(0, 99), st.booleans())
@pytest.mark.usefixtures("not_compiling")
def test_any_graph_fused_in_blocks_computes_what_it_does_unfused(
    recipe: Recipe, dtype: Any, seed: int, special: bool
) -> None:
    check(recipe, dtype, seed, special)


@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(4))
def test_a_graph_fused_and_compiled_computes_what_it_does_unfused(seed: int, dtype: Any) -> None:
    random = np.random.default_rng(seed)
    steps = [(SMOOTH[one], int(first), int(second)) for one, first, second in random.integers(0, len(SMOOTH), (7, 3))]
    check((steps, SHAPE, [0, 1, 4]), dtype, seed, special=seed % 2 == 1)


@pytest.mark.usefixtures("not_compiling")
@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (1, 1, 1)])
def test_tensors_without_elements_and_of_one_fuse_too(shape: tuple[int, ...]) -> None:
    steps = [(P.Add, 0, 4), (P.ReLU, 0, 0), (P.Mul, 0, 1), (P.GeLU, 1, 1)]
    check((steps, shape, [0, 1]), np.float32, 3, False)


def run_case(case: OperatorCase, fuses: bool, dtype: Any = np.float64) -> list[Any]:
    made = CaseProgram.of(case)
    if fuses:
        graph = made.program._graph
        fuse_elementwise(graph, 0)
        made.program = Program(graph, Runtime())
    return made.run(case.inputs)


fusible = [case for case in CASES if not case.build().updates and "Dropout" not in case.name]


@pytest.mark.usefixtures("not_compiling")
@pytest.mark.parametrize("case", fusible, ids=lambda case: case.name)
def test_an_operator_with_its_gradient_computes_the_same_fused(case: OperatorCase) -> None:
    for found, wanted in zip(run_case(case, True), run_case(case, False), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


COMPILED = (
    "Softmax",
    "LogSoftmax",
    "LayerNorm",
    "BatchNorm",
    "SoftmaxCrossEntropyWithLogits",
    "SumExp",
    "GeLU",
    "Select",
)


def first_of(name: str) -> OperatorCase:
    return next(case for case in fusible if case.name.split("-")[0] == name)


@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("name", [name for name in COMPILED if any(one.name.split("-")[0] == name for one in fusible)])
def test_an_operator_with_its_gradient_computes_the_same_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = first_of(name)
    found = run_case(case, True)
    monkeypatch.setenv("MPIPARALLEL_JIT", "0")
    for one, wanted in zip(found, run_case(case, False), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-11, atol=1e-11)


def updated(case: OperatorCase) -> list[Any]:
    operator = case.build()
    tensors: list[Any] = [
        ms.Parameter(np.array(array), f"p{place}") if place in operator.updates else Tensor(array)
        for place, array in enumerate(case.inputs)
    ]
    case.apply(operator, tensors)
    return [tensors[place].asnumpy() for place in operator.updates]


@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("name", ["Adam", "AdamWeightDecay", "ApplyMomentum", "SGD"])
def test_an_optimizer_updates_in_place_the_same_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in CASES if case.build().name == name)
    found = updated(case)
    monkeypatch.setenv("MPIPARALLEL_JIT", "0")
    for one, wanted in zip(found, updated(case), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-12, atol=1e-12)


def small_resnet() -> tuple[Any, list[Any]]:
    network = ResNet((1, 1, 1, 1), 4, widths=(8, 4, 4, 4))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    random = np.random.default_rng(0)
    images = random.normal(size=(2, 3, 32, 32)).astype(np.float32)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), nn.Momentum(network.trainable_params(), 0.05, 0.9))
    return step, [images, random.integers(0, 4, 2).astype(np.int32)]


def small_transformer() -> tuple[Any, list[Any]]:
    sizes = TranslationConfig(
        batch_size=4, source_length=6, target_length=6, vocab_size=40, hidden_size=32, num_heads=4, dropout_rate=0.1
    )
    network = TranslationNetwork(sizes, TransformerOpParallelConfig())
    random = np.random.default_rng(0)
    ids = random.integers(3, 40, (4, 6)).astype(np.int32)
    places, mask = np.tile(np.arange(6, dtype=np.int32), (4, 1)), np.ones((4, 6, 6), np.float32)
    step = nn.TrainOneStepCell(network, nn.AdamWeightDecay(network.trainable_params(), 1e-3))
    return step, [ids, places, mask, ids, places, mask, ids]


def losses(make: Callable[[], tuple[Any, list[Any]]]) -> list[float]:
    ms.set_seed(2)
    step, batch = make()
    step.set_train()
    return [float(step(*map(ms.Tensor, batch))) for _ in range(5)]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what switches fusion and compilation off."""

    def switch() -> None:
        monkeypatch.setattr(rank_graph, "fuse_elementwise", lambda graph: None)
        monkeypatch.setenv("MPIPARALLEL_JIT", "0")

    return switch


@pytest.mark.parametrize("make", [small_resnet, small_transformer], ids=["ResNet", "Transformer"])
def test_training_fused_and_compiled_gives_the_losses_of_training_unfused(
    make: Callable[[], tuple[Any, list[Any]]],
    plain: Callable[[], None],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "numba"))
    found = losses(make)
    plain()
    np.testing.assert_allclose(found, losses(make), rtol=2e-5)


def test_what_only_a_fused_kernel_reads_gets_no_memory() -> None:
    made = Trace()
    with recording(made):
        x = Tensor.of_value(made.graph.add_input("x", Tensor(np.ones((64, 64), np.float32)).spec))
        made.graph.outputs = [((x * 2.0 + 1.0) * x).value]
    fuse_elementwise(made.graph)
    (node,) = made.graph.nodes
    assert isinstance(node.operator, FusedElementwise)
    assert Program(made.graph, Runtime()).arena_bytes == 64 * 64 * 4


def test_what_two_micro_batches_compute_is_not_fused_by_its_sum() -> None:
    made = Trace()
    with recording(made):
        x = Tensor.of_value(made.graph.add_input("x", Tensor(np.ones((64, 64), np.float32)).spec))
        made.graph.outputs = [(P.Neg()(x) + P.Exp()(x)).value]
    for number, node in enumerate(made.graph.nodes[:2]):
        node.notes = replace(node.notes, micro_batch=number)
    fuse_elementwise(made.graph)
    assert len(made.graph.nodes) == 2


def test_a_parameter_that_is_overwritten_is_read_before() -> None:
    parameter = ms.Parameter(np.ones((40, 40), np.float32), "weight")
    made = Trace()
    with recording(made):
        x = Tensor.of_value(made.graph.add_input("x", parameter.spec))
        double = parameter * 2.0
        P.AssignAdd()(parameter, x)
        made.graph.outputs = [(double + x).value]
    fuse_elementwise(made.graph)
    (found,) = Program(made.graph, Runtime()).run([np.full((40, 40), 5.0, np.float32)])
    assert found[0, 0] == 7.0


@pytest.mark.usefixtures("not_compiling")
def test_a_choice_among_small_tensors_is_made_once_and_spread_over_a_large_one() -> None:
    random = np.random.default_rng(7)
    arrays = [random.normal(size=(4, 1)) > 0, *(random.normal(size=(4, extent)) for extent in (1, 1, 300))]
    mask, rows, more, large = arrays
    terms = [operand(place, array.shape, array.dtype) for place, array in enumerate(arrays)]
    found = np.empty((4, 300))
    run = expression_kernel(Runtime(), [call("where", *terms[:3]) * terms[3] + call("exp", terms[1])], arrays, [found])
    for _ in range(2):
        run()
        np.testing.assert_allclose(found, np.where(mask, rows, more) * large + np.exp(rows), rtol=1e-12)
        mask[...] = ~mask
