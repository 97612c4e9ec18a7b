"""What every move must hold, whoever the ranks are; NumPy's slices of the whole tensors are the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import Movement, ReshardOptions, reshard
from mpiparallel.reshard.planning.plan import ReshardPlan, Transfer, plan_reshard
from tests.conformance.resharding.reshard_cases import Arrays, Case


def plans_of(case: Case) -> list[ReshardPlan]:
    """Return the plan of each rank of a case."""
    hosts = Hosts.uniform(case.ranks_per_host)
    return [plan_reshard(case.pairs, rank, case.itemsizes, hosts) for rank in range(case.size)]


def bytes_moved(case: Case, plans: list[ReshardPlan]) -> int:
    """Return how many bytes pass from rank to rank."""
    return sum(send.box.size * case.itemsizes[send.tensor] for plan in plans for send in plan.sends)


def assert_each_element_is_delivered_once(case: Case, plans: list[ReshardPlan]) -> None:
    """What the ranks send is what they receive, and each target element comes from one place that has it."""

    def order(transfer: Transfer) -> tuple[object, ...]:
        return (transfer.tensor, transfer.source, transfer.target, transfer.box.start, transfer.box.stop)

    sent = sorted((send for plan in plans for send in plan.sends), key=order)
    assert sent == sorted((taken for plan in plans for taken in plan.receives), key=order)
    for rank, plan in enumerate(plans):
        assert all(send.source == rank != send.target for send in plan.sends)
        assert all(copy.source == rank == copy.target for copy in plan.copies)
        for name, layout in case.target.items():
            arrived = [move for move in (*plan.receives, *plan.copies) if move.tensor == name]
            if name in plan.kept or rank not in layout.devices:
                assert not arrived
                continue
            box = layout.box(rank)
            deliveries = np.zeros(box.shape, np.int8)
            for move in arrived:
                assert case.source[name].box(move.source).contains(move.box)
                deliveries[(*move.box.within(box), ...)] += 1
            assert (deliveries == 1).all()


def assert_state(case: Case, arrays: Mapping[str, NDArray[Any]], layouts: Mapping[str, Layout], rank: int) -> None:
    """These arrays are bit for bit the slices that NumPy gives ``rank`` by these layouts."""
    expected = case.expected(rank, layouts)
    assert arrays.keys() == expected.keys()
    for name, part in expected.items():
        assert arrays[name].dtype == part.dtype
        assert arrays[name].shape == part.shape
        assert arrays[name].tobytes() == part.tobytes(), f"{name} on rank {rank} holds other bits than NumPy's slice"


def assert_only_what_moves_is_new(case: Case, given: Arrays, found: Mapping[str, NDArray[Any]], rank: int) -> None:
    """What was given is as it was; an array whose box stays is the very one that was given, another shares nothing."""
    assert_state(case, given, case.source, rank)
    for name in found.keys() & given.keys():
        if case.source[name].box(rank) == case.target[name].box(rank):
            assert found[name] is given[name]
        else:
            assert not np.may_share_memory(found[name], given[name])


def moves_as_numpy_slices(communicator: Communicator, case: Case, moved: int) -> None:
    """``reshard`` gives each rank its slices, leaves what was given as it was, and returns what stays as it is."""
    rank = communicator.rank
    given = case.given(rank)
    found = reshard(dict(given), case.source, case.target, communicator, **case.options)
    assert_state(case, found, case.target, rank)
    assert_only_what_moves_is_new(case, given, found, rank)


def moves_there_and_back(communicator: Communicator, case: Case, moved: int) -> None:
    """A movement goes forward and back, bit for bit, and reports that it moved so many bytes between ranks."""
    rank = communicator.rank
    given = case.given(rank)
    movement = Movement(dict(given), case.source, case.target, communicator, ReshardOptions(**case.options))
    assert_state(case, movement.arrays, movement.layouts, rank)
    report = movement.forward()
    assert report.bytes_moved == moved
    assert movement.layouts == case.target
    assert_state(case, movement.arrays, case.target, rank)
    assert_only_what_moves_is_new(case, given, movement.arrays, rank)
    movement.back()
    assert movement.layouts == case.source
    assert_state(case, movement.arrays, case.source, rank)


Claim = Callable[[Communicator, Case, int], None]
CLAIMS: Sequence[Claim] = (moves_as_numpy_slices, moves_there_and_back)


def refusal(function: Callable[[], object]) -> str:
    """Return the message of the ReshardError that ``function`` raises; without one, the test fails."""
    try:
        function()
    except ReshardError as error:
        return str(error)
    raise AssertionError("no ReshardError was raised")
