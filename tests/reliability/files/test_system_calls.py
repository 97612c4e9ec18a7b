"""Every system call of a save fails once, is cut short once, and is once the last: the SQLite way.

The k-th call goes wrong, for k = 1, 2, ... until the save has no k-th call. The checkpoint before is then as it was,
the new one is all there or does not count, and the next save succeeds and clears away what was left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from mpiparallel.checkpoint.catalogue import CheckpointFiles, newest, remove, uncommitted
from mpiparallel.checkpoint.files.durable_file import PARTIAL_PREFIX
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.reliability import states
from tests.reliability.child import exit_status
from tests.reliability.counts import record, share
from tests.reliability.files.system_calls import CHANGES, EXIT_OF_CRASH, KINDS, LOOKS, Fault, observed
from tests.reliability.subject import PREFIX, save, saved, steps_in, wrong_arrays

# What every save of one rank does, whatever else: a sweep that does not see these has not been between.
ESSENTIAL = {"open", "pwrite", "fsync", "close", "replace"}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_save_in_which_any_call_fails_leaves_what_was_saved_before(quick_folder: Path, kind: str, ranks: int) -> None:
    if ranks == 2 and kind in ("ENOSPC", "EINTR", "EDQUOT") and not share():
        pytest.skip("make soak tries each error on two ranks too")
    state, folder = state_of(ranks), quick_folder

    def attempt(fault: Fault, step: int) -> None:
        with observed(CHANGES, fault):
            committed = run_world(ranks, outcome, folder, state, step)
        assert len(set(committed)) == 1, "ranks disagree on whether they have saved"
        if kind == "short write" or not fault.fired:
            assert committed[0] == "saved"
        elif committed[0] != "saved":
            assert str(quick_folder.parent) in committed[0], f"the message does not say where: {committed[0]}"

    sweep(attempt, kind, ranks, state, folder)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_save_that_ends_at_any_call_leaves_what_was_saved_before(quick_folder: Path, ranks: int) -> None:
    state, folder = state_of(ranks), quick_folder

    def attempt(fault: Fault, step: int) -> None:
        def saving() -> None:
            with observed(CHANGES, fault):
                run_world(ranks, save, folder, state, step)

        status = exit_status(saving)
        assert status in (0, EXIT_OF_CRASH)
        fault.fired = status == EXIT_OF_CRASH

    sweep(attempt, "crash", ranks, state, folder)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind", ["EIO", "EIO for ever", "short read"])
def test_a_load_in_which_any_call_fails_is_right_or_refused(quick_folder: Path, kind: str, ranks: int) -> None:
    state = state_of(ranks)
    saved(quick_folder, ranks, state, 1)
    refused = 0
    for number in count(1):
        fault = Fault(number, kind)
        with observed(LOOKS, fault):
            told = load_newest(quick_folder, ranks, state)
        assert not told or (fault.fired and kind != "short read")
        refused += bool(told)
        if not fault.fired:
            break
    assert number > 2
    record(f"call of a load that goes wrong: {kind}", faults=number - 1, refused=refused, wrong=0)


def load_newest(folder: Path, ranks: int, state: states.State) -> str:
    """Load the newest checkpoint, which must be right; return the message if that is refused."""
    try:
        assert wrong_arrays(folder, newest(folder), ranks, state) == []
    except CheckpointError as error:
        return str(error)
    return ""


def sweep(attempt: Callable[[Fault, int], None], kind: str, ranks: int, state: states.State, folder: Path) -> None:
    """Attempt to save with the first call going wrong, with the second, and so on, until none does."""
    old, seen, listed = 1, Counter[str](), 0
    saved(folder, ranks, state, old)
    for number in count(1):
        fault = Fault(number, kind)
        attempt(fault, old + 1)
        seen |= fault.seen
        there = steps_in(folder)
        assert set(there) - {old + 1} == {old}
        for manifest in there.values():
            assert wrong_arrays(folder, manifest, ranks, state) == []
        listed += old + 1 in there
        check_leftovers(folder, kind, old + 1)
        old = check_next_save(folder, ranks, state, old + 1 if old + 1 not in there else old + 2)
        if not fault.fired:
            break
    if kind not in ("crash", "short write"):
        assert set(seen) >= ESSENTIAL, f"the save went by other ways: {sorted(seen)}"
    assert number > (1 if kind == "short write" else len(ESSENTIAL))
    record(f"call of a save that goes wrong: {kind}", faults=number - 1, committed=listed, lost=0)


def check_leftovers(folder: Path, kind: str, step: int) -> None:
    """See that nothing lies about but what was begun: shards of the new step, and partial files of a crash."""
    left = [path.name for path in uncommitted(folder)]
    names = {f"{PREFIX}-1_{step}.h5"}
    assert all(name in names or name.startswith(PARTIAL_PREFIX) for name in left), left
    if kind in ("EIO", "ENOSPC", "EINTR", "EDQUOT", "short write"):
        assert not [name for name in left if name.startswith(PARTIAL_PREFIX)]


def check_next_save(folder: Path, ranks: int, state: states.State, step: int) -> int:
    """Save ``step`` with nothing going wrong; see that it is there and that no partial file is; delete all before."""
    manifest = saved(folder, ranks, state, step)
    assert wrong_arrays(folder, manifest, ranks, state) == []
    assert not list(folder.rglob(f"{PARTIAL_PREFIX}*"))
    for old, before in steps_in(folder).items():
        if old != step:
            remove(folder, [CheckpointFiles.of(before)])
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == ranks + 1, f"files that nobody needs: {files}"
    return step


def outcome(communicator: Communicator, folder: Path, state: states.State, step: int) -> str:
    """Save; return "saved", or the message of the refusal."""
    try:
        save(communicator, folder, state, step)
    except CheckpointError as error:
        return str(error)
    return "saved"


def state_of(ranks: int) -> states.State:
    """Return a small state over one rank or two."""
    if ranks == 2:
        return states.small(2)
    alone = DeviceMatrix((1,))
    return {
        name: states.Tensor(Layout.replicated(tensor.layout.global_shape, alone), tensor.dtype)
        for name, tensor in states.small(2).items()
    }
