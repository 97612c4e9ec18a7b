"""The numbers of a machine: what is assumed where nothing was measured, and what lies between what was."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from math import inf, log2

import pytest

from mpiparallel.graph.cost import Cost
from mpiparallel.search.machine.kernel_times import PARTS, KernelTimes
from mpiparallel.search.machine.machine import CollectiveTimes, Link, Machine, interpolated


def test_a_machine_that_nobody_has_measured_is_the_one_of_the_cluster_file_of_one_host() -> None:
    """The numbers are those that `clusters/one_host_8.json` and `clusters/two_hosts_8.json` have, by hand."""
    assumed = Machine()
    assert (assumed.hosts, assumed.ranks_per_host, assumed.cores, assumed.turns) == (1, 8, 0, 1.0)
    assert (assumed.operation_rate, assumed.memory_bandwidth, assumed.reduction_rate) == (2e9, 5e9, 4e9)
    assert (assumed.launch, assumed.resuming) == (4e-6, 0.0)
    assert (assumed.inside, assumed.between) == (Link(4e-6, 3e9), Link(20e-6, 12.5e9))
    assert assumed.products == ((1e4, 5e8), (1e6, 8e9), (1e8, 3e10), (1e10, 4e10))
    assert (assumed.memory, assumed.libraries, assumed.operand_bandwidth) == (inf, 0.0, inf)
    assert (assumed.products_16, assumed.kernels, assumed.collectives) == ((), (), ())


TIMES = CollectiveTimes("gather", 2, ((1e3, 2.0), (2e3, 3.0), (4e3, 4.0)))


@pytest.mark.parametrize(
    ("size", "seconds"),
    [(0, 2.0), (1e3, 2.0), (1.5e3, 2.5), (2e3, 3.0), (2.5e3, 3.25), (4e3, 4.0), (4.4e3, 4.4), (8e3, 8.0)],
)
def test_a_collective_takes_what_lies_between_two_sizes_and_beyond_them_in_proportion(
    size: float, seconds: float
) -> None:
    assert TIMES.seconds(size) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("size", "value"), [(0.5, 10), (1, 10), (2, 15), (4, 20), (16, 30), (32, 130), (64, 230), (65, 230), (1e9, 230)]
)
def test_a_rate_is_interpolated_over_doublings_and_beyond_its_points_it_is_that_of_the_nearest(
    size: float, value: float
) -> None:
    assert interpolated(((1, 10), (16, 30), (64, 230)), size) == pytest.approx(value)


def test_a_product_of_no_operations_has_the_rate_of_the_smallest_and_one_of_16_bits_its_own_where_there_is_one() -> (
    None
):
    machine = Machine(products=((1.0, 5.0), (2.0, 7.0)))
    assert machine.product_rate(0.0) == 5.0
    assert [machine.product_rate(2.0, is_narrow) for is_narrow in (False, True)] == [7.0, 7.0]
    narrow = replace(machine, products_16=((1.0, 9.0),))
    assert [narrow.product_rate(2.0, is_narrow) for is_narrow in (False, True)] == [7.0, 9.0]


def test_the_first_of_some_kernels_that_was_measured_tells_what_they_take() -> None:
    first, second = KernelTimes("ReLU", call=1.0), KernelTimes("Sqrt", call=2.0)
    machine = Machine(kernels=(first, second))
    assert machine.kernel_times(("Tanh", "Sqrt", "ReLU")) == second
    assert machine.kernel_times(("Tanh",)) is None


def test_between_groups_that_were_measured_a_collective_is_interpolated_whatever_their_order() -> None:
    larger, smaller = (CollectiveTimes("reduce", ranks, ((1e3, ranks * 1.0),)) for ranks in (8, 2))
    machine = Machine(collectives=(larger, smaller, CollectiveTimes("gather", 4, ((1e3, 50.0),))))
    found = [machine.collective_seconds("reduce", ranks, 1e3) for ranks in (2, 3, 4, 8, 16)]
    assert found == pytest.approx([2.0, 2.0 + 6.0 * (log2(3) - 1) / 2, 5.0, 8.0, 8.0])
    assert machine.collective_seconds("exchange", 4, 1e3) is None


@pytest.mark.parametrize(("hosts", "ranks", "told"), [(1, 8, "1 host of 8 ranks"), (3, 4, "3 hosts of 4 ranks")])
def test_a_machine_is_told_by_its_hosts_and_ranks(hosts: int, ranks: int, told: str) -> None:
    assert Machine(hosts, ranks).summary == told


def test_each_part_of_a_kernels_time_counts_what_it_is_of() -> None:
    cost = Cost(operations=2, bytes_read=3, bytes_written=5, bytes_gathered=7, bytes_turned=11)
    counts = dict(zip(PARTS, (1, 13, 2, 3, 5, 7, 11), strict=True))
    for part, count in counts.items():
        assert KernelTimes("any", **{part: 0.5}).seconds(cost, 13) == 0.5 * count
    assert KernelTimes("any", **dict.fromkeys(PARTS, 1.0)).seconds(cost, 13) == sum(counts.values())


def test_work_that_is_dealt_out_is_called_by_each_rank() -> None:
    shared = KernelTimes("any", **dict.fromkeys(PARTS, 6.0)).shared(3)
    assert [getattr(shared, part) for part in PARTS] == [6.0, 6.0, 2.0, 2.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("what", [Machine(), Link(1.0, 1.0), TIMES, KernelTimes("any")])
def test_nobody_changes_a_machine_that_steps_are_priced_for(what: object) -> None:
    name = next(iter(vars(what)))
    with pytest.raises(FrozenInstanceError):
        setattr(what, name, None)


@pytest.mark.parametrize(
    ("ranks", "cores", "turns"), [(8, 0, 1.0), (8, 1, 8.0), (7, 2, 3.5), (8, 8, 1.0), (2, 8, 1.0), (1, 0, 1.0)]
)
def test_ranks_that_outnumber_the_cores_take_turns_and_without_a_number_each_has_a_core(
    ranks: int, cores: int, turns: float
) -> None:
    assert Machine(ranks_per_host=ranks, cores=cores).turns == turns
