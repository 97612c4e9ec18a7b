"""What a movement reports, what it keeps, and what it says where it cannot begin or go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import Movement, ReshardOptions, ReshardReport
from mpiparallel.reshard.planning.plan_cache import PlanCache
from tests.conformance.meddling_communicator import Meddling

HALVES = Layout((6,), DeviceMatrix((2,)), ((0,),))
THIRDS = Layout((6,), DeviceMatrix((3,)), ((0,),))
WHOLE = Layout((6,), DeviceMatrix((3,)), ((),))
COPIES = Layout((6,), DeviceMatrix((24,)), ((),))
LATER = Layout((6,), DeviceMatrix((2,), 1), ((0,),))


def half(rank: int, dtype: Any = np.int64) -> Any:
    return np.arange(3 * rank, 3 * rank + 3, dtype=dtype)


def reports(options: ReshardOptions, back: bool = False) -> list[ReshardReport]:
    """Return what each of three ranks reports of two tensors that go from two ranks to three, or back."""

    def move(communicator: Communicator) -> ReshardReport:
        arrays = {"a": half(communicator.rank), "b": half(communicator.rank, np.int16)} if communicator.rank < 2 else {}
        movement = Movement(arrays, dict.fromkeys("ab", HALVES), dict.fromkeys("ab", THIRDS), communicator, options)
        there = movement.forward()
        return movement.back() if back else there

    return run_world(3, move)


@pytest.mark.parametrize("executor", ["packed", "datatypes", "shared"])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(("mode", "waves"), [("safe", 1), ("bounded", 2)])
def test_a_report_counts_bytes_and_messages_of_all_ranks(mode: Any, waves: int, back: bool, executor: Any) -> None:
    # Of 0 1 2 | 3 4 5 the middle rank gets 2, and the last one 4 and 5: three of six elements, in two messages a wave.
    found = reports(ReshardOptions(mode, wave_bytes=1, executor=executor), back)
    assert found == [found[0]] * 3
    assert (found[0].bytes_moved, found[0].bytes_kept) == (3 * (8 + 2), 3 * (8 + 2))
    assert (found[0].messages, found[0].waves, found[0].executors) == (2 * waves, waves, (executor,))
    assert 0 < found[0].seconds < 60


def test_a_move_of_what_is_there_already_moves_nothing_and_keeps_all() -> None:
    def move(communicator: Communicator) -> tuple[bool, ReshardReport]:
        array = np.zeros(2)
        movement = Movement({"a": array}, {"a": THIRDS}, {"a": THIRDS}, communicator)
        report = movement.forward()
        return movement.arrays["a"] is array, report

    for same, report in run_world(3, move):
        assert same
        assert (report.bytes_moved, report.bytes_kept, report.messages, report.waves) == (0, 48, 0, 0)
        assert report.executors == ()


def test_safe_mode_leaves_the_given_mapping_and_bounded_mode_keeps_it_up_to_date() -> None:
    def move(communicator: Communicator) -> list[Any]:
        told: list[Any] = []
        for mode in ("safe", "bounded"):
            given = {"a": half(communicator.rank)} if communicator.rank < 2 else {}
            movement = Movement(given, {"a": HALVES}, {"a": LATER}, communicator, ReshardOptions(mode))  # type: ignore[arg-type]
            movement.forward()
            told.append(
                (movement.arrays is given, sorted(given), sorted(movement.arrays), movement.layouts["a"] == LATER)
            )
        return told

    first, second, third = run_world(3, move)
    assert first == [(False, ["a"], [], True), (True, [], [], True)]
    assert second == [(False, ["a"], ["a"], True), (True, ["a"], ["a"], True)]
    assert third == [(False, [], ["a"], True), (True, ["a"], ["a"], True)]


class CountedPlans(PlanCache):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def plan(self, *question: Any, **named: Any) -> Any:
        self.asked += 1
        return super().plan(*question, **named)


def test_plans_are_taken_from_the_cache_that_is_given() -> None:
    def move(communicator: Communicator) -> int:
        plans = CountedPlans()
        arrays = {"a": half(communicator.rank)} if communicator.rank < 2 else {}
        Movement(arrays, {"a": HALVES}, {"a": THIRDS}, communicator, plans=plans).forward()
        return plans.asked

    assert run_world(3, move) == [1] * 3


def test_those_that_have_died_give_nothing_and_need_not_be_there() -> None:
    copies = Layout((6,), DeviceMatrix((3,)), ((),))
    pair = Layout((6,), DeviceMatrix((2,), ranks=(0, 2)), ((0,),))

    def move(communicator: Communicator) -> list[int] | None:
        if communicator.rank == 1:
            return None
        living = communicator.group((0, 2))
        movement = Movement({"a": np.arange(6)}, {"a": copies}, {"a": pair}, living, absent=[1])
        movement.forward()
        return list(movement.arrays["a"].tolist())

    assert run_world(3, move) == [[0, 1, 2], None, [3, 4, 5]]


def test_a_copy_on_the_host_of_the_taker_is_the_one_that_is_sent() -> None:
    copies = Layout((2,), DeviceMatrix((2,), ranks=(0, 3)), ((),))
    alone = Layout((2,), DeviceMatrix((1,), 1), ((),))

    def move(communicator: Communicator) -> list[int]:
        rank = communicator.rank
        # Copies that differ show who has sent his.
        arrays = {"a": np.full(2, rank)} if rank in (0, 3) else {}
        movement = Movement(arrays, {"a": copies}, {"a": alone}, communicator)
        movement.forward()
        return [int(value) for array in movement.arrays.values() for value in array]

    assert run_world(4, move, hosts=[0, 1, 2, 1]) == [[], [3, 3], [], []]
    assert run_world(4, move, hosts=[0, 0, 1, 1]) == [[], [0, 0], [], []]
    assert run_world(4, move, hosts=[0, 1, 2, 3]) == [[], [0, 0], [], []]


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
@pytest.mark.parametrize(("verify", "rounds"), [(True, 4), (False, 3)])
def test_windows_and_the_memory_of_checksums_share_the_scratch_memory(verify: bool, rounds: int, dtype: Any) -> None:
    # Of 4096 bytes checksums take a quarter. Half of the rest is for what is sent: 4 times 1520 and 16 to round up.
    extent = 6080 // np.dtype(dtype).itemsize
    here, there = (Layout((extent,), DeviceMatrix((1,), rank), ((),)) for rank in (0, 1))
    calls: list[str] = []

    def move(communicator: Communicator) -> None:
        meddling: Any = Meddling(communicator, calls.append) if communicator.rank == 0 else communicator
        arrays = {"a": np.ones(extent, dtype)} if communicator.rank == 0 else {}
        options = ReshardOptions(scratch_bytes=4096, verify=verify, executor="packed")
        Movement(arrays, {"a": here}, {"a": there}, meddling, options).forward()

    run_world(2, move)
    assert calls.count("exchange") == rounds


def refused(size: int, function: Callable[[Communicator], object]) -> str:
    """Return the one message with which all ranks refuse."""

    def attempt(communicator: Communicator) -> str:
        with pytest.raises(ReshardError) as caught:
            function(communicator)
        return str(caught.value)

    (message,) = set(run_world(size, attempt))
    return message


def test_a_communicator_that_lacks_ranks_is_refused_with_the_first_tensor_that_needs_them() -> None:
    pairs = {"c": (HALVES, HALVES), "b": (THIRDS, HALVES), "a": (HALVES, HALVES), "d": (THIRDS, HALVES)}
    source, target = ({name: pair[side] for name, pair in pairs.items()} for side in (0, 1))
    wanted = (
        "its layout is over ranks 0 to 2, the communicator over [0, 1]; call reshard on a communicator of all ranks"
    )
    for before, after in ((source, target), (target, source)):
        said = refused(2, lambda world, before=before, after=after: Movement({}, before, after, world))
        assert said == f"b: {wanted} before and after"


def test_tensors_with_one_layout_alone_are_counted_and_the_first_is_named() -> None:
    said = refused(2, lambda world: Movement({}, {"c": HALVES, "a": HALVES}, {"a": HALVES, "b": HALVES}, world))
    assert said == ("ranks 0, 1: b: give every tensor a source layout and a target layout; 2 have only one")


def test_a_target_that_leaves_elements_out_is_refused_by_name() -> None:
    gap = HALVES.with_bounds([((0, 2), (3, 6))])
    said = refused(2, lambda world: Movement({"w": half(world.rank)}, {"w": HALVES}, {"w": gap}, world))
    assert said == (
        f"w: its target layout {gap} has parts that may overlap or leave elements out, from which it could not be "
        "moved on or back; give an even layout"
    )


@pytest.mark.parametrize("arrays", [None, [np.zeros(3)], np.zeros(3)], ids=lambda arrays: type(arrays).__name__)
def test_arrays_that_are_no_mapping_are_refused_by_their_kind(arrays: Any) -> None:
    said = refused(2, lambda world: Movement(arrays, {"w": HALVES}, {"w": HALVES}, world))
    kind = type(arrays).__name__
    assert said == (
        f"ranks 0, 1: arrays is a {kind}; give a mapping of tensor names to arrays, empty where none is held"
    )


@pytest.mark.parametrize("dtype", ["O", "f4,i2", "V0"])
def test_elements_whose_bytes_mean_nothing_elsewhere_are_refused(dtype: str) -> None:
    array = np.zeros(3, dtype)
    said = refused(2, lambda world: Movement({"w": array}, {"w": HALVES}, {"w": HALVES}, world))
    assert said == f"ranks 0, 1: w: dtype {array.dtype} cannot be moved; use a numeric dtype of NumPy"


def test_ranks_with_other_options_are_named_whatever_these_are() -> None:
    def begin(world: Communicator) -> None:
        options = ReshardOptions(wave_bytes=1 + world.rank)
        Movement({"w": np.zeros(6)}, {"w": COPIES}, {"w": COPIES}, world, options)

    assert refused(24, begin).startswith(f"ranks {list(range(1, 24))} were given other layouts or options than rank 0;")


def test_ranks_with_other_layouts_are_all_named() -> None:
    def begin(world: Communicator) -> None:
        target = WHOLE if world.rank % 2 else THIRDS
        Movement({"w": np.zeros(2)}, {"w": THIRDS}, {"w": target}, world)

    assert refused(4, begin) == (
        "ranks [1, 3] were given other layouts or options than rank 0; nothing was moved: give every rank the same "
        "tensors, source layouts, target layouts and options"
    )


@pytest.mark.parametrize(
    ("mode", "there"), [("safe", "nothing was moved"), ("bounded", "1 of 3 tensors are in their new layout")]
)
def test_an_error_says_how_many_tensors_have_moved_already(mode: Any, there: str) -> None:
    def move(world: Communicator) -> None:
        unlike = np.arange(6, dtype=np.int16) + np.int16(world.rank == 1)
        # What gives back the most memory moves first.
        given = {"a": np.arange(6.0), "b": unlike, "c": unlike}
        source, target = dict.fromkeys("abc", WHOLE), dict.fromkeys("abc", THIRDS)
        Movement(given, source, target, world, ReshardOptions(mode, wave_bytes=1, digest=True)).forward()

    assert refused(3, move) == (
        "b: its 3 replicas are not equal; what is moved must have one value on all of them\n"
        f"{there}, the old state of all others is intact"
    )
