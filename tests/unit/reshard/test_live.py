from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.threads.communicator import ThreadCommunicator
from mpiparallel.errors import ConfigurationError, ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import Movement, ReshardOptions, reshard
from tests.conformance.mpi4py_ranks import Mpi4pyRanks, mpi4py_ranks


@pytest.fixture(name="mpi4py_ranks")
def _mpi4py_ranks(monkeypatch: pytest.MonkeyPatch) -> Mpi4pyRanks:
    return mpi4py_ranks(monkeypatch)


Arrays = dict[str, NDArray[Any]]

HALVES = Layout((6,), DeviceMatrix((2,)), ((0,),))
THIRDS = Layout((6,), DeviceMatrix((3,)), ((0,),))
WHOLE = Layout((6,), DeviceMatrix((3,)), ((),))
BOTH = Layout((6,), DeviceMatrix((2,)), ((),))


def part(whole: NDArray[Any], layout: Layout, rank: int) -> NDArray[Any]:
    return whole[(*layout.box(rank).within(Box.whole(whole.shape)), ...)]


def test_no_tensors_make_an_empty_state() -> None:
    for report in run_world(2, lambda communicator: Movement({}, {}, {}, communicator).forward()):
        assert (report.bytes_moved, report.bytes_kept, report.messages) == (0, 0, 0)


def test_a_group_that_holds_all_ranks_of_the_layouts_reshards_alone() -> None:
    source, target = (Layout((4,), DeviceMatrix((2,), 1), tensor_map) for tensor_map in (((0,),), ((),)))

    def move(communicator: Communicator) -> list[int] | None:
        if communicator.rank not in (1, 2):
            return None
        local = np.arange(4)[part(np.arange(4), source, communicator.rank)]
        group = communicator.group((1, 2))
        return list(reshard({"w": local}, {"w": source}, {"w": target}, group)["w"])

    assert run_world(4, move) == [None, [0, 1, 2, 3], [0, 1, 2, 3], None]


def refusals(size: int, function: Callable[[Communicator], object]) -> list[str]:
    """Return the ReshardError message of every rank; a rank without one fails the test."""

    def attempt(communicator: Communicator) -> str:
        with pytest.raises(ReshardError) as caught:
            function(communicator)
        return str(caught.value)

    return run_world(size, attempt)


def test_ranks_with_other_layouts_are_named_on_every_rank() -> None:
    def move(communicator: Communicator) -> object:
        target = WHOLE if communicator.rank == 1 else THIRDS
        return reshard({"w": np.zeros(2)}, {"w": THIRDS}, {"w": target}, communicator)

    messages = refusals(3, move)
    assert len(set(messages)) == 1
    assert "ranks [1] were given other layouts or options than rank 0; nothing was moved" in messages[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"w": np.zeros(3)}, r"rank 1: w: .* gives this rank an array of shape (2,), got an array of shape (3,)"),
        ({"w": np.zeros(())}, r"rank 1: w: .* gives this rank an array of shape (2,), got an array of shape ()"),
        ({}, "rank 1: w: .* gives this rank an array of shape (2,), got no array"),
        ({"w": np.zeros(2), "v": np.zeros(2)}, "rank 1: v: .* gives this rank no array, got an array of shape (2,)"),
        ({"w": np.zeros(2, object)}, "rank 1: w: dtype object cannot be moved"),
        ({"w": np.zeros(2, "f4,i2")}, "rank 1: w: dtype .* cannot be moved"),
        ({"w": np.zeros(2, "V0")}, "rank 1: w: dtype .* cannot be moved"),
        ({"w": [0.0, 0.0]}, "rank 1: w: got a list, not a NumPy array"),
        ({"w": np.zeros(2), 7: np.zeros(2)}, "rank 1: 7: .* gives this rank no array, got an array of shape (2,)"),
        (None, "rank 1: arrays is a NoneType; give a mapping of tensor names to arrays"),
        ({"w": np.zeros(2, "f4")}, "w: arrays are float64 on ranks [0, 2], float32 on ranks [1]; nothing was moved"),
    ],
)
def test_an_array_that_does_not_fit_on_one_rank_is_refused_on_all(given: Any, message: str) -> None:
    def move(communicator: Communicator) -> object:
        arrays = given if communicator.rank == 1 else {"w": np.zeros(2)}
        return reshard(arrays, {"w": THIRDS}, {"w": WHOLE}, communicator)

    messages = refusals(3, move)
    assert len(set(messages)) == 1
    start, _, rest = message.partition(".*")
    assert messages[0].startswith(start)
    assert rest in messages[0]


def test_an_array_on_a_rank_that_holds_nothing_before_is_refused() -> None:
    def move(communicator: Communicator) -> object:
        return reshard({"w": np.zeros(3)}, {"w": HALVES}, {"w": THIRDS}, communicator)

    assert all("rank 2: w: " in message and "no array, got" in message for message in refusals(3, move))


def test_a_communicator_without_all_ranks_of_the_layouts_is_refused() -> None:
    def move(communicator: Communicator) -> object:
        return reshard({"w": np.zeros(3)}, {"w": HALVES}, {"w": THIRDS}, communicator)

    assert all("w: its layout is over ranks 0 to 2, the communicator over [0, 1]" in text for text in refusals(2, move))


def test_a_rank_without_memory_stops_all_ranks() -> None:
    extent = 1 << 60
    zeros_without_memory = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (extent,), (0,))
    source, target = (Layout((extent,), DeviceMatrix((1,), rank), ((),)) for rank in (0, 1))

    def move(communicator: Communicator) -> object:
        arrays = {"w": zeros_without_memory} if communicator.rank == 0 else {}
        return reshard(arrays, {"w": source}, {"w": target}, communicator)

    assert all(
        "rank 1: Unable to allocate" in message and "nothing was moved" in message for message in refusals(2, move)
    )


def test_ranks_with_other_options_are_named_on_every_rank() -> None:
    def move(communicator: Communicator) -> object:
        arrays = {"w": np.zeros(2)}
        return reshard(arrays, {"w": THIRDS}, {"w": WHOLE}, communicator, verify=communicator.rank != 2)

    assert all("ranks [2] were given other layouts or options" in message for message in refusals(3, move))


def test_a_tensor_with_only_one_layout_is_refused() -> None:
    def move(communicator: Communicator) -> object:
        return reshard({"w": np.zeros(2)}, {"w": THIRDS}, {}, communicator)

    assert all("w: give every tensor a source layout and a target layout" in message for message in refusals(3, move))


def test_one_tensor_may_be_given_as_an_array_and_two_layouts() -> None:
    def move(communicator: Communicator) -> list[float] | None:
        given = np.arange(3.0) + 3 * communicator.rank if communicator.rank < 2 else None
        moved = reshard(given, HALVES, THIRDS, communicator)
        return None if moved is None else moved.tolist()

    assert run_world(3, move) == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fast"}, "mode 'fast' is not one of safe, bounded"),
        ({"executor": "nccl"}, "executor 'nccl' is not one of auto, packed, datatypes, shared"),
        ({"scratch_bytes": 100}, "scratch_bytes 100 must be an integer of at least 4096"),
        ({"wave_bytes": 1.5}, "wave_bytes 1.5 must be an integer of at least 1"),
        ({"scratch": 1 << 20}, "unknown option 'scratch'; there are mode, scratch_bytes, wave_bytes"),
    ],
)
def test_wrong_options_on_one_rank_are_refused_by_name_on_all(options: dict[str, Any], message: str) -> None:
    def move(communicator: Communicator) -> None:
        chosen = options if communicator.rank == 1 else {}
        with pytest.raises(ConfigurationError, match=f"rank 1: reshard: {message}"):
            reshard({"w": np.zeros(6)}, {"w": WHOLE}, {"w": WHOLE}, communicator, **chosen)

    run_world(3, move)


def test_bounded_mode_refuses_a_mapping_that_it_cannot_keep_up_to_date() -> None:
    def move(communicator: Communicator) -> object:
        frozen: Any = MappingProxyType({"w": np.zeros(2)})
        return reshard(frozen, {"w": THIRDS}, {"w": WHOLE}, communicator, mode="bounded")

    assert all("a mappingproxy cannot be changed; give a dict" in message for message in refusals(3, move))


def test_a_target_whose_parts_overlap_is_refused_before_a_state_is_lost_in_it() -> None:
    wide = Layout((6,), DeviceMatrix((2,)), ((0,),), bounds=(((0, 4), (2, 6)),))

    def move(communicator: Communicator) -> object:
        return reshard({"w": np.zeros(2)}, {"w": THIRDS}, {"w": wide}, communicator, digest=True)

    assert all("parts that may overlap or leave elements out" in message for message in refusals(3, move))


@pytest.mark.parametrize("mode", ["safe", "bounded"])
@pytest.mark.parametrize("executor", ["packed", "datatypes", "shared"])
def test_a_movement_goes_forward_and_back_between_hosts_and_inside_them(mode: Any, executor: Any) -> None:
    """The shared executor sends what crosses hosts."""
    whole = np.arange(35 * 6.0).reshape(35, 6)
    rows, columns = (Layout(whole.shape, DeviceMatrix((5,)), axes) for axes in (((0,), ()), ((), (0,))))

    def move(communicator: Communicator) -> None:
        arrays = {name: part(whole, rows, communicator.rank) for name in "abc"}
        options = ReshardOptions(mode, scratch_bytes=4096, wave_bytes=1, digest=True, executor=executor)
        movement = Movement(arrays, dict.fromkeys("abc", rows), dict.fromkeys("abc", columns), communicator, options)
        there = movement.forward()
        assert all((movement.arrays[name] == part(whole, columns, communicator.rank)).all() for name in "abc")
        assert there.bytes_moved + there.bytes_kept == 3 * whole.nbytes
        assert there.waves == (1 if mode == "safe" else 3)
        assert there.executors == (executor,)
        assert movement.back().bytes_moved == there.bytes_moved
        assert all((movement.arrays[name] == part(whole, rows, communicator.rank)).all() for name in "abc")

    run_world(5, move, hosts=[0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("source", "target"),
    [((6,), (6,)), (None, THIRDS), (HALVES, None), (HALVES, (6,)), ({"array": HALVES}, {"array": "thirds"})],
)
def test_what_is_no_layout_on_one_rank_is_refused_on_all(source: Any, target: Any) -> None:
    def move(communicator: Communicator) -> None:
        layouts = (source, target) if communicator.rank == 1 else (HALVES, THIRDS)
        with pytest.raises(ConfigurationError, match=r"rank 1: reshard: .* layouts: .* not a Layout; give a Layout"):
            reshard(np.zeros(3) if communicator.rank < 2 else None, *layouts, communicator)

    run_world(3, move)


def test_where_ranks_do_not_see_the_memory_of_each_other_shared_memory_is_refused_on_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ThreadCommunicator, "can_share", False)
    arrays = [np.arange(3), np.arange(3, 6)]

    def move(communicator: Communicator, executor: str) -> list[int]:
        local = arrays[communicator.rank]
        return list(reshard(local, HALVES, BOTH, communicator, executor=executor))

    said = refusals(2, lambda communicator: move(communicator, "shared"))
    assert set(said) == {
        "executor 'shared': the ranks of a host cannot see each other's memory here (they are in other containers, "
        "or there is no /proc); take executor='auto'"
    }
    for executor in ("auto", "packed", "datatypes"):
        assert run_world(2, move, executor) == [[0, 1, 2, 3, 4, 5]] * 2


def test_ranks_of_mpi4py_reshard_by_a_communicator_that_is_freed(mpi4py_ranks: Any) -> None:
    def move(communicator: Communicator, target: Layout) -> list[int]:
        local = part(np.arange(6), HALVES, communicator.rank)
        return list(reshard(local, HALVES, target, mpi4py_ranks.of(communicator)))

    assert run_world(2, move, BOTH) == [[0, 1, 2, 3, 4, 5]] * 2
    assert mpi4py_ranks.freed == 2
    with pytest.raises(ReshardError):
        run_world(2, move, Layout((5,), DeviceMatrix((2,)), ((),)))
    assert mpi4py_ranks.freed == 4
