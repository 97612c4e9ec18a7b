"""What a rank says and does where another may have died; no rank dies here."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone
from mpiparallel.errors import CommunicationError, RankFailureError


def errors_of_mpi_say_whether_a_rank_has_died(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import library
    from mpiparallel.communication.mpi.library import MPI

    for code, survives, is_death in (
        (MPI.ERR_PROC_FAILED, False, True),
        (MPI.ERR_REVOKED, False, True),
        (MPI.ERR_OTHER, False, False),
        (MPI.ERR_OTHER, True, True),
        (MPI.ERR_ARG, True, False),
    ):
        patch.setattr(library, "SURVIVES", survives)

        @library.reporting
        def gather(code: int = code) -> None:
            raise MPI.Exception(code)

        with pytest.raises(CommunicationError, match=r"^gather") as caught:
            gather()
        assert isinstance(caught.value, RankFailureError) == is_death


def dead_members_are_named_by_their_ranks_once_mpi_has_looked(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import library
    from mpiparallel.communication.mpi.library import MPI

    everyone = MPI.COMM_WORLD.Get_group()
    known = [MPI.GROUP_EMPTY]
    comm: Any = SimpleNamespace(
        Iprobe=lambda: known.append(everyone.Incl([1])), Get_failed=lambda: known[-1], Get_group=lambda: everyone
    )
    patch.setattr(library, "SURVIVES", False)
    library.check_members(comm, (10, 11, 12, 13))
    patch.setattr(library, "SURVIVES", True)
    with pytest.raises(RankFailureError, match=r"has died: \[11\]"):
        library.check_members(comm, (10, 11, 12, 13))
    patch.setattr(world, "comm", comm)
    with pytest.raises(RankFailureError, match=r"has died: \[1\]"):
        world.check_members()


def the_end_of_a_job_with_dead_ranks_does_not_wait_for_them(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import library

    done: list[object] = []
    patch.setattr(library, "signal", SimpleNamespace(alarm=lambda seconds: done.append(seconds > 0)))
    patch.setattr(library, "MPI", SimpleNamespace(COMM_WORLD=SimpleNamespace(Abort=done.append)))
    for survives in (False, True):
        patch.setattr(library, "SURVIVES", survives)
        library.abort_job(5)
    assert done == [5, True, 5]


def ranks_are_told_why_they_cannot_go_on_after_a_death(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import survival
    from mpiparallel.communication.mpi.library import MPI

    is_open_mpi = MPI.get_vendor()[0] == "Open MPI"
    expected = "was started without fault tolerance" if is_open_mpi else "ends the job when a rank dies; use Open MPI 5"
    patch.setattr(survival, "SURVIVES", False)
    assert expected in (survival.survival_problem() or "")
    patch.setattr(survival, "SURVIVES", True)
    assert (survival.survival_problem() is None) == is_open_mpi
    with pytest.raises(CommunicationError, match="they are those of MPI ranks"):
        survival.survivors(alone())


def ranks_do_not_agree_where_one_dies_meanwhile(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import survival
    from mpiparallel.communication.mpi.library import MPI

    answers: list[object] = [MPI.Exception(MPI.ERR_PROC_FAILED), MPI.Exception(MPI.ERR_ARG), 1, 0]

    def agree(flag: int) -> int:
        answer = answers.pop(0)
        if isinstance(answer, MPI.Exception):
            raise answer
        return flag & answer

    everyone = SimpleNamespace(Get_size=lambda: world.size, Ack_failed=lambda count: count, Agree=agree)
    patch.setattr(survival, "MPI", SimpleNamespace(COMM_WORLD=everyone, Exception=MPI.Exception))
    assert survival.agreed(world, True, all_live=False) is False
    with pytest.raises(MPI.Exception):
        survival.agreed(world, True, all_live=False)
    assert survival.agreed(world, True, all_live=False) is True
    assert survival.agreed(world, True, all_live=False) is False


def survivors_meet_anew_until_all_have_heard_of_the_death(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import survival
    from mpiparallel.communication.mpi.library import MPI

    old, last = world.world_of(world.ranks), world.size - 1
    is_dead = world.rank == last
    met = [MPI.COMM_WORLD.Dup(), MPI.COMM_WORLD.Split(MPI.UNDEFINED if is_dead else 0, world.rank)]
    if is_dead:
        return
    have_heard = [False, True]
    patch.setattr(survival, "revoke", lambda communicator: None)
    patch.setattr(survival, "_shrunk", lambda: met.pop(0))
    patch.setattr(survival, "agreed", lambda *_, **__: have_heard.pop(0))
    living = survival.survivors(old)
    assert living.ranks == world.ranks[:last]
    total = np.array(1)
    living.all_reduce(total)
    assert total == last


def a_job_that_is_given_up_says_why_before_it_ends(world: Communicator, patch: pytest.MonkeyPatch) -> None:
    from mpiparallel.communication.mpi import survival

    said, told = io.StringIO(), []
    patch.setattr(sys, "stderr", said)
    patch.setattr(survival, "let_last_words_through", lambda: told.append(said.getvalue()))
    patch.setattr(survival, "abort_job", lambda: told.append("ended"))
    survival.give_up("no checkpoint can be read")
    assert told == ["mpiparallel: no checkpoint can be read; the job ends\n", "ended"]


DEATH_CLAIMS = (
    errors_of_mpi_say_whether_a_rank_has_died,
    dead_members_are_named_by_their_ranks_once_mpi_has_looked,
    the_end_of_a_job_with_dead_ranks_does_not_wait_for_them,
    ranks_are_told_why_they_cannot_go_on_after_a_death,
    ranks_do_not_agree_where_one_dies_meanwhile,
    survivors_meet_anew_until_all_have_heard_of_the_death,
    a_job_that_is_given_up_says_why_before_it_ends,
)
