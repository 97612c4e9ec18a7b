"""Steps that a device is given in one call are those of the host: no GPU is needed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import context, nn, ops
from mpiparallel.backend.protocol import Array
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport.facts import VARIABLE
from mpiparallel.compatibility.remark import forget_remarks
from mpiparallel.compile import rank_graph
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import ShapeError
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from tests.conformance.cuda_emulator.emulator import NO_COMPILER, EmulatedKernels, compiler
from tests.conformance.hidden_arrays.backend import install
from tests.conformance.hidden_arrays.checked_capture import BakedInError, capture_nothing, check_replays
from tests.conformance.hidden_arrays.stream import DEVICE, HiddenStream, MissingEventError

STEPS = 6
TOLERANCES = {np.float32: (1e-5, 0.0), np.float16: (2e-3, 2e-3), bfloat16: (1.6e-2, 1.6e-2)}


class Network(nn.Cell):
    """Two layers, and what is asked for between them."""

    def __init__(self, between: Sequence[nn.Cell] = ()) -> None:
        super().__init__()
        self.layers = nn.SequentialCell(nn.Dense(3, 4, activation="relu"), *between, nn.Dense(4, 2))

    def construct(self, x: Any, y: Any) -> Any:
        return ops.ReduceMean()(ops.Square()(self.layers(x) - y))


def rate_table() -> list[float]:
    return [0.2, 0.1, 0.05, 0.025]


@dataclass(frozen=True)
class Case:
    """A training: what is between the layers, by which optimizer, in which step; rows of batches that are infinite."""

    optimizer: Callable[[Any], nn.Optimizer] = lambda weights: nn.Momentum(weights, 0.1, 0.9)
    step: Callable[[nn.Cell, nn.Optimizer], TrainOneStepCell] = nn.TrainOneStepCell
    between: Callable[[], Sequence[nn.Cell]] = tuple
    infinite: frozenset[int] = frozenset()
    recompute: bool = False
    ranks: int = 1
    dtype: Any = np.float32
    settings: dict[str, Any] = field(default_factory=dict)


def scaled(network: nn.Cell, optimizer: nn.Optimizer, accumulation: int = 1) -> TrainOneStepCell:
    return nn.TrainOneStepWithLossScaleCell(
        network, optimizer, nn.DynamicLossScaleUpdateCell(2.0**16, 2, 2), accumulation_steps=accumulation
    )


def guarded(network: nn.Cell, optimizer: nn.Optimizer) -> TrainOneStepCell:
    step = nn.TrainOneStepCell(network, optimizer)
    step.check_finite(skip=True)
    return step


def accumulating(network: nn.Cell, optimizer: nn.Optimizer) -> TrainOneStepCell:
    return nn.TrainOneStepCell(network, optimizer, accumulation_steps=3)


CASES = {
    "SGD": Case(lambda weights: nn.SGD(weights, 0.1, momentum=0.9, weight_decay=0.01)),
    "Momentum": Case(),
    "Adam": Case(lambda weights: nn.Adam(weights, 0.01)),
    "AdamWeightDecay": Case(lambda weights: nn.AdamWeightDecay(weights, 0.01, weight_decay=0.1)),
    "a table of rates": Case(lambda weights: nn.Momentum(weights, rate_table(), 0.9)),
    "a schedule of rates": Case(lambda weights: nn.Adam(weights, nn.CosineDecayLR(0.001, 0.1, 4))),
    "a rate that rises": Case(lambda weights: nn.Adam(weights, nn.WarmUpLR(0.1, 4))),
    "dropout": Case(between=lambda: [nn.Dropout(p=0.5)]),
    "overflow": Case(step=scaled, infinite=frozenset({1, 3})),
    "overflow in batches of a step": Case(step=lambda *made: scaled(*made, accumulation=2), infinite=frozenset({3})),
    "batches that are skipped": Case(step=guarded, infinite=frozenset({2, 4})),
    "moving averages of those": Case(step=guarded, between=lambda: [nn.BatchNorm1d(4)], infinite=frozenset({2})),
    "accumulation": Case(step=accumulating),
    "recomputation": Case(recompute=True, between=lambda: [nn.Dropout(p=0.5)]),
    "accumulation on ranks": Case(step=accumulating, ranks=2),
    "overflow on ranks": Case(step=scaled, infinite=frozenset({2}), ranks=2),
    "overflow of float16": Case(step=scaled, infinite=frozenset({3}), dtype=np.float16),
    "overflow of bfloat16": Case(step=scaled, infinite=frozenset({3}), dtype=bfloat16),
}


@dataclass
class Trained:
    """Losses and weights of a training, and what each step has cost."""

    losses: list[float]
    weights: list[np.ndarray[Any, Any]]
    reads: list[int]
    graphs: list[int]
    launches: list[int]
    copies: list[int]


def made_step(case: Case) -> TrainOneStepCell:
    ms.set_seed(3)
    network = Network(case.between())
    if case.dtype != np.float32:
        network.to_float(case.dtype)
    if case.recompute:
        network.layers.recompute()
    step = case.step(network, case.optimizer(network.trainable_params()))
    step.set_train()
    return step


def batches(case: Case) -> Iterator[list[np.ndarray[Any, Any]]]:
    random = np.random.default_rng(0)
    for number in range(STEPS):
        x, y = (random.standard_normal((4, extent)).astype(np.float32) for extent in (3, 2))
        if number in case.infinite:
            x[0, 0] = np.inf
        yield [x, y]


def counted() -> tuple[int, ...]:
    return DEVICE.reads + DEVICE.waits, DEVICE.graphs, DEVICE.launches, DEVICE.copies


def trained(communicator: Communicator, case: Case, target: str) -> Trained:
    context.set_context(device_target=target)
    context.reset_auto_parallel_context()
    if communicator.size > 1:
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    step, made = made_step(case), Trained([], [], [], [], [], [])
    for number, batch in enumerate(batches(case)):
        before = counted()
        result = step.run(number, [ms.Tensor(one) for one in batch])
        after = counted()
        lists = made.reads, made.graphs, made.launches, made.copies
        for counts, first, last in zip(lists, before, after, strict=True):
            counts.append(last - first)
        made.losses.append(float(result[0] if isinstance(result, tuple) else result))
    made.weights = [one.asnumpy().copy() for one in step.get_parameters()]
    return made


def on(target: str, case: Case) -> list[Trained]:
    return run_world(case.ranks, trained, case, target)


def assert_alike(found: Trained, wanted: Trained, rtol: float, share: float = 0.0) -> None:
    """Compare; of an array's largest number a ``share`` may lack."""
    np.testing.assert_allclose(found.losses, wanted.losses, rtol)
    for one, other in zip(found.weights, wanted.weights, strict=True):
        np.testing.assert_allclose(one, other, rtol, max(1e-7, share * float(np.abs(other).max())))


@pytest.mark.parametrize("name", CASES)
def test_a_training_that_is_replayed_is_that_of_the_host_and_to_the_bit_that_which_is_not(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    wanted, *_ = on("CPU", case)
    install(monkeypatch)
    with monkeypatch.context() as patch:
        check_replays(patch)
        replayed = on("GPU", case)
    capture_nothing(monkeypatch)
    for found, plain in zip(replayed, on("GPU", case), strict=True):
        assert_alike(found, wanted, *TOLERANCES[case.dtype])
        assert_alike(found, plain, 0)
        assert found.graphs[-1] > 0 == plain.graphs[-1]


WHOLE = ("SGD", "Momentum", "Adam", "AdamWeightDecay", "a schedule of rates", "a rate that rises", "accumulation")
MOST_LAUNCHES = 90


@pytest.mark.parametrize("name", WHOLE)
def test_a_step_is_one_graph_and_the_host_waits_for_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    (found,) = on("GPU", CASES[name])
    assert found.graphs == [0, *[1] * (STEPS - 1)]
    assert found.reads == [0] * STEPS
    assert max(found.launches) <= MOST_LAUNCHES


@pytest.mark.parametrize("name", ["overflow", "overflow in batches of a step", "batches that are skipped"])
def test_the_host_reads_no_flag_between_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    (found,) = on("GPU", CASES[name])
    assert found.reads == [0] * STEPS
    monkeypatch.setattr(rank_graph, "decide_on_device", lambda _graph: None)
    (planted,) = on("GPU", CASES[name])
    assert min(planted.reads) > 0
    assert_alike(found, planted, 1e-6)


def test_ranks_that_accumulate_exchange_once_an_update_and_read_the_flag_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch)
    # What is exchanged is then read on the host, and counted there.
    monkeypatch.setenv(VARIABLE, "staging")
    for found in on("GPU", CASES["accumulation on ranks"]):
        between, update = found.launches[3], found.launches[5]
        assert between < update
        assert found.copies[3] < found.copies[5]


@pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
def test_with_kernels_of_a_gpu_a_step_of_all_this_is_one_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(
        lambda weights: nn.Adam(weights, nn.ExponentialDecayLR(0.1, 0.5, 2)),
        scaled,
        lambda: [nn.Dropout(p=0.5), nn.LayerNorm((4,))],
        frozenset({2}),
    )
    (wanted,), kernels = on("CPU", case), EmulatedKernels(tmp_path)
    install(monkeypatch, kernels)
    check_replays(monkeypatch)
    try:
        (found,) = on("GPU", case)
    finally:
        kernels.close()
    assert_alike(found, wanted, 1e-4)
    assert found.graphs == [0, *[1] * (STEPS - 1)]
    assert found.reads == [0] * STEPS


class Embedded(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)

    def construct(self, x: Any) -> Any:
        return ops.ReduceMean()(ops.Square()(self.table(x)))


def test_an_index_out_of_range_is_refused_as_it_is_fed_and_nothing_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)

    def run(_communicator: Communicator) -> None:
        context.set_context(device_target="GPU")
        network = Embedded()
        step = nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.5))
        for number in range(3):
            before = DEVICE.reads
            step.run(number, [ms.Tensor(np.array([[0, 4], [1, 1]], np.int32))])
            assert DEVICE.reads == before
        weights = network.table.embedding_table.asnumpy().copy()
        with pytest.raises(ShapeError, match="index 5 is out of range"):
            step.run(3, [ms.Tensor(np.array([[0, 5], [1, 1]], np.int32))])
        np.testing.assert_array_equal(network.table.embedding_table.asnumpy(), weights)

    run_world(1, run)


class Halved(Operator):
    """``x / 2``, by a kernel that each test writes."""

    replays = True
    work: Callable[[Runtime, Array, Array], Kernel]

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return type(self).work(runtime, inputs[0], outputs[0])


class Halving(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        return ops.ReduceSum()(Halved()(x * 1.0) + y)


def halved(communicator: Communicator) -> list[int]:
    context.set_context(device_target="GPU")
    network, counts = Halving(), []
    for _ in range(4):
        before = DEVICE.graphs
        assert float(network(ms.Tensor(np.ones(4, np.float32)), ms.Tensor(np.ones(4, np.float32)))) == 6.0
        counts.append(DEVICE.graphs - before)
    return counts


def in_order(runtime: Runtime, x: Array, y: Array) -> Kernel:
    return lambda: runtime.array_module.multiply(x, 0.5, out=y)


def with_a_host_copy(runtime: Runtime, x: Array, y: Array) -> Kernel:
    def run() -> None:
        runtime.backend.copy_from_host(runtime.backend.to_host(x) / 2, y)

    return run


def with_a_number_of_python(runtime: Runtime, x: Array, y: Array) -> Kernel:
    rates = iter([0.5, 0.5, 0.25, 0.25, 0.25])
    return lambda: runtime.array_module.multiply(x, next(rates), out=y)


def with_memory_of_the_pool(runtime: Runtime, x: Array, y: Array) -> Kernel:
    return lambda: runtime.array_module.copyto(y, x * 0.5)


def test_a_host_copy_or_new_memory_in_a_step_is_run_by_the_host_which_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(monkeypatch)
    reasons = {
        in_order: "",
        with_a_host_copy: "Halved reads the device's memory on the host",
        with_memory_of_the_pool: "Halved allocates memory",
    }
    for work, reason in reasons.items():
        monkeypatch.setattr(Halved, "work", staticmethod(work), raising=False)
        forget_remarks()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            (graphs,) = run_world(1, halved)
        said = [record.getMessage() for record in caplog.records if "CUDA graph" in record.getMessage()]
        assert graphs == [0, 1, 1, 1]
        assert len(said) == bool(reason)
        assert reason in "".join(said)


def test_a_number_of_python_that_is_part_of_a_graph_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    check_replays(monkeypatch)
    monkeypatch.setattr(Halved, "work", staticmethod(in_order), raising=False)
    run_world(1, halved)
    monkeypatch.setattr(Halved, "work", staticmethod(with_a_number_of_python))
    with pytest.raises(BakedInError, match="raised on rank 0"):
        run_world(1, halved)


def test_a_kernel_of_a_users_own_is_called_in_each_run_unless_its_class_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Own(Halved):
        def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
            return super().kernel(runtime, inputs, outputs)

    assert (Halved.replays, Own.replays, ops.ReLU.replays, ops.Custom.replays) == (True, False, True, False)


def test_a_missing_event_between_the_streams_of_a_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    monkeypatch.setattr(HiddenStream, "wait_event", lambda _stream, _event: None)
    with pytest.raises(MissingEventError):
        on("GPU", CASES["Momentum"])


def test_a_users_function_is_called_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    calls = []

    def doubled(x: Array) -> Array:
        calls.append(x.shape)
        return x + x

    class Doubling(nn.Cell):
        def construct(self, x: Any) -> Any:
            return ops.Custom(doubled, lambda shape: shape, lambda dtype: dtype)(x * 1.0) * 1.0

    def run(_communicator: Communicator) -> list[float]:
        context.set_context(device_target="GPU")
        network = Doubling()
        return [float(network(ms.Tensor(np.full((1,), number, np.float32)))[0]) for number in range(4)]

    assert run_world(1, run) == [[0, 2, 4, 6]]
    assert len(calls) == 4
