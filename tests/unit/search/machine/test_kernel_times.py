"""What kernels take by their names: found again from measurements that follow it, and what prices make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.rank_graph import local_graph, rank_graph
from mpiparallel.graph.cost import ELEMENTWISE, Cost
from mpiparallel.models.measured_steps import measured_steps
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.cost.floor import least_seconds
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.timed_nodes import scheduled_nodes
from mpiparallel.search.machine.fitted_times import MeasuredKernel, fitted_times
from mpiparallel.search.machine.kernel_times import PARTS, KernelTimes
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.machine.measured_kernels import compile_share, measured_kernels, node_cost, node_specs
from mpiparallel.search.machine.stopwatch import Stopwatch

DRAW = np.random.default_rng(3)
FLOAT32 = np.dtype(np.float32)


def drawn_cost() -> Cost:
    return Cost(*(int(number) for number in DRAW.integers(1, 10**7, 5)))


@pytest.mark.parametrize("names", [("call", "operations"), ("operand", "bytes_written"), PARTS], ids="+".join)
def test_times_are_found_again_from_kernels_that_take_them(names) -> None:
    true = KernelTimes("any", **{name: 1e-4 if name in PARTS[:2] else 5e-11 for name in names})
    costs = [(drawn_cost(), int(DRAW.integers(1, 9))) for _ in range(40)]
    found = fitted_times("any", [MeasuredKernel(*one, true.seconds(*one)) for one in costs])
    assert [getattr(found, part) for part in PARTS] == pytest.approx([getattr(true, part) for part in PARTS], rel=1e-4)


def test_no_time_is_below_0_however_kernels_scatter() -> None:
    for count in (1, 2, 5, 20):
        some = [MeasuredKernel(drawn_cost(), 2, float(DRAW.uniform(1e-6, 1e-3))) for _ in range(count)]
        found = fitted_times("any", some)
        assert min(getattr(found, part) for part in PARTS) >= 0
        assert all(found.seconds(one.cost, one.operands) > 0 for one in some)


def test_a_measured_kernel_is_priced_by_its_name_and_one_of_16_bits_is_not() -> None:
    times = KernelTimes("MaxPool", call=1e-3, operand=1e-4, bytes_read=1e-9)
    machine = Machine(ranks_per_host=8, cores=4, kernels=(times,))
    for kind, is_measured in ((np.float32, True), (np.float16, False)):
        x, y = (TensorSpec(shape, np.dtype(kind)) for shape in ((2, 4, 8, 8), (2, 4, 4, 4)))
        priced = Prices(machine).operator(ops.MaxPool(2, 2), [x], [y])
        assert (priced == pytest.approx(2 * (1e-3 + 2e-4 + 4 * 512e-9))) is is_measured


def test_an_elementwise_operator_without_times_of_its_own_takes_those_of_all() -> None:
    machine = Machine(cores=8, kernels=(KernelTimes(ELEMENTWISE, call=1e-3), KernelTimes("Add", call=2e-3)))
    spec = TensorSpec((4,), FLOAT32)
    priced = [Prices(machine).operator(one, [spec] * count, [spec]) for one, count in ((ops.ReLU(), 1), (ops.Add(), 2))]
    assert priced == pytest.approx([1e-3, 2e-3])


def test_a_convolution_with_one_window_to_an_image_is_priced_as_the_product_that_it_is() -> None:
    machine = Machine(kernels=(KernelTimes("Conv2D", call=7.0),))
    weight = TensorSpec((5, 3, 3, 3), FLOAT32)
    seconds = []
    for size in (1, 2):
        specs = [TensorSpec((4, channels, size, size), FLOAT32) for channels in (3, 5)]
        seconds.append(Prices(machine).operator(ops.Conv2D(5, 3, pad_mode="same"), [specs[0], weight], specs[1:]))
    assert seconds[0] < 7.0 <= seconds[1]


class Pooled(nn.Cell):
    """A convolution, what is element-wise, and a pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)
        self.pool = nn.MaxPool2d(2, 2)

    def construct(self, x):
        y = self.convolution(x)
        return self.pool(ops.relu(y * y + 1.0))


def laid_out(ranks: int, side: int = 32):
    configuration = ParallelConfiguration("semi_auto_parallel", device_num=ranks, full_batch=True)
    return Pooled().sharded_graph(np.ones((4, 3, side, side), np.float32), configuration=configuration)


def test_kernels_of_graphs_are_measured_by_name_and_tell_what_those_graphs_take() -> None:
    sharded = laid_out(1)
    graph = local_graph(sharded, 0)
    ticks = iter(range(10**6))
    found = measured_kernels([graph], Stopwatch(lambda: next(ticks) * 1e-3))
    assert {"Conv2D", "MaxPool", ELEMENTWISE} <= {one.name for one in found}
    few = local_graph(laid_out(1, side=4), 0)
    assert measured_kernels([few], Stopwatch(lambda: next(ticks) * 1e-3)) == ()
    timed = scheduled_nodes(rank_graph(sharded, 0), Prices(Machine(cores=8, kernels=found)))
    kernels = [node for node in graph.nodes if not node.operator.is_view]
    # By this clock each kernel takes a millisecond.
    assert sum(one.seconds for one in timed) == pytest.approx(1e-3 * len(kernels), rel=1e-6)


def test_ranks_that_share_kernels_out_run_each_once_and_all_of_a_name_on_one_rank(monkeypatch) -> None:
    graph = local_graph(laid_out(1), 0)
    ran: list[tuple[int, str]] = []
    place = 0
    for node in graph.nodes:
        name = node.operator.kernel_names(*node_specs(node))[0]
        kernel = node.operator.kernel

        def bound(*given, name=name, kernel=kernel):
            run = kernel(*given)
            return lambda: (run(), ran.append((place, name)))

        monkeypatch.setattr(node.operator, "kernel", bound)
    for place in range(3):
        compile_share([graph], place, 3)
    kernels = [node for node in graph.nodes if not node.operator.is_view]
    assert len(ran) == len(kernels)
    assert len(set(ran)) == len({name for _, name in ran}) == 3
    assert {one for one, _ in ran} == {0, 1, 2}


def test_kernels_that_divide_by_zero_are_compiled_and_measured_without_a_warning() -> None:
    class Divided(nn.Cell):
        def construct(self, x):
            return x / 0.0 + 1.0 / ops.matmul(x - x, x)

    graph = local_graph(Divided().sharded_graph(Tensor(np.ones((4, 4), np.float32))), 0)
    compile_share([graph], 0, 1)
    measured_kernels([graph], Stopwatch())


def test_no_strategy_goes_below_the_bound_by_measured_kernels() -> None:
    graph = laid_out(1).graph
    times = {part: 1e-5 if part in PARTS[:2] else 1e-10 for part in PARTS}
    machine = Machine(cores=8, kernels=(KernelTimes("Conv2D", **times), KernelTimes(ELEMENTWISE, **times)))
    for ranks in (1, 2, 4):
        taken = sum(one.seconds for one in scheduled_nodes(rank_graph(laid_out(ranks), 0), Prices(machine)))
        assert 0 < least_seconds(graph, machine, ranks) <= taken
        doubled = replace(machine, kernels=tuple(replace(one, operations=2e-10) for one in machine.kernels))
        assert least_seconds(graph, doubled, ranks) > least_seconds(graph, machine, ranks)


def test_the_steps_that_calibration_measures_have_convolutions_and_what_a_transformer_does_beside_attention() -> None:
    nodes = [node for graph in measured_steps() for node in graph.nodes]
    names = [node.operator.name for node in nodes]
    for name in ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"):
        assert names.count(name) > len(PARTS), name
    for name in ("GeLU", "GeluGrad", "LayerNorm", "LayerNormGrad", "Adam", "ApplyMomentum"):
        assert sum(name in one.split("+") for one in names) >= 2, name
    # A core's own cache has a megabyte or two.
    adam = [node_cost(node) for node in nodes if node.operator.name == "Adam"]
    assert max(one.bytes_read + one.bytes_written for one in adam) > 4 << 20


@pytest.mark.parametrize("call", [1e-2, 1e-4, 1e-6])
def test_ranks_that_take_turns_wait_in_a_collective_while_others_compute_but_no_longer_than_was_measured(call) -> None:
    local, found = rank_graph(laid_out(8), 0), []
    for resuming in (0.0, 3e-3):
        kernels = tuple(KernelTimes(name, call=call) for name in ("Conv2D", "MaxPool", ELEMENTWISE))
        machine = Machine(ranks_per_host=8, cores=2, kernels=kernels, resuming=resuming)
        *computing, gather = scheduled_nodes(local, Prices(machine))
        assert gather.step is not None
        found.append(gather.seconds)
    waited = min(sum(one.seconds for one in computing), 3e-3 * machine.turns)
    assert found[1] - found[0] == pytest.approx(waited, abs=1e-12)
