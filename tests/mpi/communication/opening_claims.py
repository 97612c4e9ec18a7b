"""What the ranks of a world that is opened are told: of their hosts, of calls that are compared, of the variables."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from mmap import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import MISMATCH, CommunicationError
from mpiparallel.pipeline.action import Action, Kind

MOST_CALLS = 4096


def ranks_of_two_hosts_share_memory_on_their_own_alone(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import opening

    patch.setattr(opening, "_hosts", lambda comm: (0, 0, *range(2, comm.Get_size())))
    world = opening.world()
    here = (0, 1) if world.rank < 2 else (world.rank,)
    assert world.host_ranks == here
    memory = world.share(8)
    for member in world.ranks:
        if member in here:
            assert memory.of(member).size == 8
        else:
            with pytest.raises(CommunicationError, match=f"memory of member {member} is not seen"):
                memory.of(member)
    host = world.group(here)
    if host.size > 1:
        with pytest.raises(CommunicationError, match=MISMATCH):
            host.noted(f"the call of rank {world.rank}")
    world.free()


def rank_0_says_for_all_how_calls_are_compared(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import opening

    for asked, others, agreed in (("off", "strict", "off"), ("on", "off", "on"), ("STRICT", "on", "strict")):
        patch.setenv("MPIPARALLEL_FINGERPRINTS", others if world.rank else asked)
        assert opening._agreed_fingerprints(world) == agreed
    patch.setenv("MPIPARALLEL_FINGERPRINTS", "some")
    with pytest.raises(CommunicationError, match=r"MPIPARALLEL_FINGERPRINTS='some' .* none of off, on, strict"):
        opening._agreed_fingerprints(world)


def segments_that_a_rank_has_mapped_lose_their_names_and_others_keep_theirs(
    world: Communicator, patch: pytest.MonkeyPatch
) -> None:
    from mpiparallel.communication.mpi import opening

    with tempfile.TemporaryDirectory() as folder:
        patch.setattr(opening, "_SHARED_MEMORY", f"{folder}/segment_")
        mapped, other = Path(folder) / "segment_mine", Path(folder) / "segment_other"
        for path in (mapped, other):
            path.write_bytes(b"shared")
        with mapped.open("r+b") as file, mmap(file.fileno(), 0) as memory:
            opening.take_names_away()
            assert (mapped.exists(), other.exists(), memory[:]) == (False, True, b"shared")


def a_member_alone_hears_what_it_says_itself(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    alone = world.group([world.rank])
    flag = alone.step_flag
    for own, heard in ((3, 3), (1, 3)):
        flag.own = own
        alone.start_step_check("a step")()
        assert flag.heard == heard
    flag.own = flag.heard = 0


def a_rank_remembers_no_more_than_a_few_thousand_calls(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    if world.rank:
        return
    alone: Any = world.group([0])
    for count in range(MOST_CALLS + 100):
        with alone.noted("call", count=count):
            pass
    assert len(alone._monitor._codes) <= MOST_CALLS


def planned_faults_are_told_where_an_action_and_a_step_begin(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    alone: Any = world.group([world.rank])
    monitor = alone._monitor
    patch.setattr(monitor, "_faults", SimpleNamespace(begin=told.append))
    begins = [monitor.beginning(1, Action(Kind.FORWARD, 2)), monitor.beginning(1, None)]
    assert not told
    for begin in begins:
        begin()
    assert told == ["F2", ""]


def a_job_that_is_left_says_why_before_it_ends(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication import abort_hook
    from mpiparallel.communication.mpi import opening

    told: list[object] = []
    printed = io.StringIO()
    patch.setattr(sys, "stderr", printed)
    patch.setattr(abort_hook, "let_last_words_through", lambda: told.append(printed.getvalue()))
    patch.setattr(opening, "abort_job", told.append)
    opening.leave_job(7, "two tests have failed")
    assert told == ["mpiparallel: two tests have failed; the job ends\n", 7]


def mpi_starts_where_variables_of_its_launcher_are_unclear(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import process_recorder

    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        if name in os.environ:
            patch.setenv(name, "first")
    assert process_recorder._own_place() == (0, 1)
    with process_recorder.starting_mpi():
        pass


OPENING_CLAIMS = (
    ranks_of_two_hosts_share_memory_on_their_own_alone,
    rank_0_says_for_all_how_calls_are_compared,
    segments_that_a_rank_has_mapped_lose_their_names_and_others_keep_theirs,
    a_member_alone_hears_what_it_says_itself,
    a_rank_remembers_no_more_than_a_few_thousand_calls,
    planned_faults_are_told_where_an_action_and_a_step_begin,
    a_job_that_is_left_says_why_before_it_ends,
    mpi_starts_where_variables_of_its_launcher_are_unclear,
)
