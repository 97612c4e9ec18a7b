"""The price of an operator, of a collective and of a move, against sums made by hand."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.graph import Graph
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.operator_placement import OperatorPlacement
from mpiparallel.search.cost.prices import Prices, bytes_held
from mpiparallel.search.machine.kernel_times import KernelTimes
from mpiparallel.search.machine.machine import Link, Machine

A, B, CARD_A, CARD_B, LAUNCH = 1e-5, 1e9, 3e-4, 4e9, 1e-6
MACHINE = Machine(ranks_per_host=4, inside=Link(A, B), between=Link(CARD_A, CARD_B), launch=LAUNCH, reduction_rate=2e9)


def spec(*shape: int, kind: type = np.float32) -> TensorSpec:
    return TensorSpec(shape, np.dtype(kind))


@pytest.mark.parametrize(
    ("operations", "memory", "wanted"), [(1e6, inf, 1000 / 1e6), (inf, 1e6, 8000 / 1e6), (1e3, 8e4, 1000 / 1e3)]
)
def test_an_elementwise_operator_takes_its_operations_or_its_memory_and_is_launched(
    operations: float, memory: float, wanted: float
) -> None:
    machine = Machine(operation_rate=operations, memory_bandwidth=memory, launch=0.25, ranks_per_host=6, cores=2)
    found = Prices(machine).operator(ops.ReLU(), [spec(1000)], [spec(1000)])
    # Three ranks take turns on a core.
    assert found == pytest.approx(3 * (wanted + 0.25))


@pytest.mark.parametrize(
    ("kinds", "rate"),
    [
        ((np.float16, np.float16), 8e9),
        ((np.float16, np.float32), 1e9),
        ((np.float32, np.float16), 1e9),
        ((np.float16, np.float16, np.float32), 8e9),
        ((), 1e9),
    ],
)
def test_a_product_is_one_of_16_bits_where_both_matrices_are(kinds: tuple[type, ...], rate: float) -> None:
    machine = Machine(products=((1e3, 1e9),), products_16=((1e3, 8e9),), memory_bandwidth=inf, launch=0.0)
    inputs = [spec(8, 8, kind=kind) for kind in kinds]
    assert Prices(machine).kernel(ops.MatMul(), Cost(10**9), inputs, []) == pytest.approx(1e9 / rate)


@pytest.mark.parametrize(("operand", "memory", "wanted"), [(1e6, inf, 1.0 + 12.0), (inf, 1e6, 12.0)])
def test_what_a_product_reads_and_writes_counts_beside_its_operations(
    operand: float, memory: float, wanted: float
) -> None:
    machine = Machine(products=((1e3, 1e9),), operand_bandwidth=operand, memory_bandwidth=memory, launch=0.0)
    cost = Cost(10**9, 5 * 10**6, 7 * 10**6)
    assert Prices(machine).kernel(ops.MatMul(), cost, [spec(8, 8)] * 2, [spec(8, 8)]) == pytest.approx(wanted)


def test_a_measured_kernel_counts_its_inputs_and_outputs_and_no_other_kernel_is_priced_by_it() -> None:
    prices = Prices(Machine(kernels=(KernelTimes("TopK", operand=1.0),), launch=0.0, memory_bandwidth=inf))
    assert prices.kernel(ops.TopK(), Cost(0), [spec(4)], [spec(2), spec(2)]) == 3.0
    assert prices.kernel(ops.Softmax(), Cost(0), [spec(4)], [spec(2), spec(2)]) == 0.0
    # Kernels were measured in 32 bits.
    assert prices.kernel(ops.TopK(), Cost(0), [spec(4, kind=np.float16)], [spec(2), spec(2)]) == 0.0


def test_a_node_is_priced_by_the_part_of_the_first_rank_and_one_that_shows_memory_is_free() -> None:
    graph, devices = Graph(), DeviceMatrix((4,))
    x = graph.add_input("x", spec(6, 8))
    relu, shown = (graph.add_node(one, "one", [x], [x.spec]) for one in (ops.ReLU(), ops.ExpandDims()))
    rows = Layout((6, 8), devices, ((0,), ()))
    whole = Layout.replicated((6, 8), devices)
    prices = Prices(Machine(operation_rate=1.0, launch=0.0))
    # Six rows on four ranks: the first has two.
    assert prices.computing(relu, OperatorPlacement((rows,), (rows,))) == 16.0
    assert prices.computing(relu, OperatorPlacement((whole,), (whole,))) == 48.0
    assert prices.computing(shown, OperatorPlacement((rows,), (rows,))) == 0.0


def test_nodes_are_of_one_kind_where_they_compute_the_same_from_the_same_shapes() -> None:
    graph = Graph()
    values = [graph.add_input(name, spec(*shape)) for name, shape in (("x", (4, 4)), ("y", (4, 4)), ("z", (8, 4)))]
    cases = (ops.ReLU(), 0), (ops.ReLU(), 1), (ops.ReLU(), 2), (ops.Sqrt(), 0)
    nodes = [graph.add_node(one, f"node {place}", [values[place]], [values[place].spec]) for one, place in cases]
    prices = Prices(MACHINE)
    first, twin, longer, other = map(prices.kind, nodes)
    assert first == twin
    assert len({first, longer, other}) == 3


def on(devices: DeviceMatrix, *dims: tuple[int, ...], partial: tuple[int, ...] = (), kind: str = "sum") -> Layout:
    return Layout((64, 64), devices, dims, partial, kind)


HOST = DeviceMatrix((4,))
HOSTS = DeviceMatrix((2, 4))


@pytest.mark.parametrize(
    ("source", "target", "wanted"),
    [
        # 16 KB are gathered, of which a rank has a quarter.
        (on(HOST, (0,), ()), on(HOST, (), ()), 2 * A + 3 / 4 * 16384 / B),
        # Each rank gets 16 columns of the 48 rows that it lacks.
        (on(HOST, (0,), ()), on(HOST, (), (0,)), 3 * A + 48 * 16 * 4 / B),
        (on(HOST, (), (), partial=(0,)), on(HOST, (), (0,)), 2 * A + 3 / 4 * 16384 / B + 3 / 4 * 16384 / 2e9),
        (on(HOST, (), (), partial=(0,)), on(HOST, (), ()), 2 * (A + 16384 / B + 16384 / 2e9)),
        # Two hosts, with four groups of two ranks at their cards: each has a quarter of the card.
        (on(HOSTS, (0,), ()), on(HOSTS, (), ()), CARD_A + 1 / 2 * 16384 / (CARD_B / 4)),
        # All eight ranks: half between hosts, then all inside.
        (on(HOSTS, (0, 1), ()), on(HOSTS, (), ()), CARD_A + 1 / 2 * 4096 / (CARD_B / 4) + 2 * A + 3 / 4 * 16384 / B),
    ],
    ids=["gather", "exchange", "reduce-scatter", "reduce", "between-hosts", "both"],
)
def test_a_move_takes_the_collective_that_the_planner_makes_of_it(
    source: Layout, target: Layout, wanted: float
) -> None:
    assert Prices(MACHINE).moving(source, target, 4) == pytest.approx(wanted + LAUNCH, rel=1e-9)


def test_taking_a_part_of_what_one_has_and_staying_are_free() -> None:
    prices, whole, rows = Prices(MACHINE), on(HOST, (), ()), on(HOST, (0,), ())
    assert prices.moving(whole, rows, 4) == prices.moving(rows, rows, 4) == 0.0


@pytest.mark.parametrize(
    ("bounds", "elements"),
    [
        # Seven elements lie as 3, 2 and 2; what each wants beyond these it receives.
        (((0, 5), (3, 5), (5, 7)), 2),
        (((0, 3), (2, 6), (5, 7)), 2),
        (((0, 3), (3, 5), (1, 7)), 4),
    ],
    ids=["the-first", "the-middle", "the-last"],
)
def test_an_exchange_counts_what_the_rank_receives_that_lacks_most(
    bounds: tuple[tuple[int, int], ...], elements: int
) -> None:
    thirds = Layout((7,), DeviceMatrix((3,)), ((0,),))
    prices = Prices(Machine(ranks_per_host=4, inside=Link(0.0, 1.0), launch=0.0))
    assert prices.moving(thirds, thirds.with_bounds([bounds]), 8) == 8 * elements


@pytest.mark.parametrize(
    ("ranks", "first", "per_host", "hosts", "on_host", "beside"),
    [
        (2, 0, 4, 1, 2, 0),
        # Three ranks on hosts of two: one host has two of them.
        (3, 0, 2, 2, 2, 1),
        (5, 0, 4, 2, 3, 1),
        # Two neighbours on two hosts, and nobody else.
        (2, 3, 4, 2, 1, 2),
        (16, 0, 4, 4, 4, 1),
    ],
)
def test_a_group_is_priced_by_its_hosts_and_the_groups_that_share_their_cards(
    ranks: int, first: int, per_host: int, hosts: int, on_host: int, beside: int
) -> None:
    devices = DeviceMatrix((ranks,), first)
    machine = Machine(ranks_per_host=per_host, inside=Link(A, B), between=Link(CARD_A, CARD_B), launch=0.0)
    inside = {1: 0, 2: 1, 3: 2, 4: 2}[on_host] * A + (on_host - 1) / on_host * 1e6 / B
    card = {1: 0, 2: 1, 4: 2}[hosts] * CARD_A
    if hosts > 1:
        card += (hosts - 1) / hosts * (1e6 / on_host) / (CARD_B / (beside * on_host))
    assert Prices(machine).collective("gather", devices, (0,), 10**6) == pytest.approx(inside + card)


def test_no_rank_waits_longer_in_a_collective_than_others_compute_and_not_at_all_within_a_move() -> None:
    machine = Machine(ranks_per_host=4, cores=2, resuming=0.5, launch=0.125, inside=Link(0.0, inf), reduction_rate=inf)
    prices = Prices(machine)
    found = [prices.collective("gather", HOST, (0,), 1, computed) for computed in (0.0, 0.25, 9.0)]
    # Two ranks take turns, so all that a rank spends counts twice.
    assert found == pytest.approx([0.25, 0.5, 1.25])
    assert prices.waiting == 1.0
    assert prices.collective("gather", HOST, (0,), 1) == pytest.approx(1.25)
    terms, turned = on(HOSTS, (0,), (), partial=(1,)), on(HOSTS, (), (0,))
    # A sum, then an exchange, which waits for nobody.
    alone = Prices(Machine(ranks_per_host=8, cores=8, launch=0.125, inside=Link(0.0, inf), reduction_rate=inf))
    waits = Prices(
        Machine(ranks_per_host=8, cores=8, resuming=0.5, launch=0.125, inside=Link(0.0, inf), reduction_rate=inf)
    )
    assert alone.moving(terms, turned, 4) == pytest.approx(0.25)
    assert waits.moving(terms, turned, 4) == pytest.approx(0.75)


@pytest.mark.parametrize("kind", ["gather", "reduce_scatter", "exchange"])
def test_what_no_byte_takes_and_what_each_takes_are_those_of_any_message(kind: str) -> None:
    prices = Prices(MACHINE)
    none, each = prices.line(kind, HOSTS, (0, 1))
    for size in (0, 1000, 10**7):
        assert none + size * each == pytest.approx(prices.collective(kind, HOSTS, (0, 1), size), rel=1e-9)


def test_a_rank_holds_at_most_the_largest_part() -> None:
    assert bytes_held(Layout((7, 5), HOST, ((0,), ())), 2) == 2 * 5 * 2
