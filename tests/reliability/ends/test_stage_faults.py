"""A rank of a pipeline's stage that is killed, stopped or fails at any kind of action: the job ends and names it all.

Started again it ends as if nothing had struck it. What strikes which rank, in which step, at which action of which
micro-batch, is drawn from a seed. ``make test-reliability`` draws each kind of action once, ``make soak`` 60 jobs.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mpiparallel.cluster.exit_codes import FAILED, HUNG, SIGNALLED
from tests.conformance import patience
from tests.conformance.mpi_launcher import interpreters, library
from tests.reliability.counts import count, record
from tests.reliability.launched_job import Ended, LaunchedJob
from tests.reliability.ranks.stage_ranks import MICRO_BATCHES, NAP_PIECE, RANKS, STAGES, STEPS
from tests.reliability.test_resumed_training import check_equal

pytestmark = pytest.mark.mpi

MODULE = "tests.reliability.ranks.stage_ranks"
WATCHDOG = 3
SEED = 4
# After the first checkpoint, and before the last step.
FIRST_STEP = 3
# Each fault: the job's exit code, and what is said of the rank around the name of its action.
FAULTS = {
    "kill": (SIGNALLED + 9, "rank {rank} of 4 died first, in {action}: killed by SIGKILL"),
    "exception": (
        FAILED,
        "rank {rank} of 4 failed first, in {action}: RuntimeError: chaos: raise an exception on rank",
    ),
    "stop": (HUNG, "for rank {rank}, which is stopped,.* in {action}"),
}
# Each kind of action: how schedules write it and what it is called, in the first stage and in the last.
FORWARD = ("F{m}", "forward pass of micro-batch {m}")
INPUT = ("I{m}", "input gradient of micro-batch {m}")
WEIGHT = ("W{m}", "weight gradient of micro-batch {m}")
REDUCE = ("R", "sum of gradients over ranks")
UPDATE = ("U", "update")
ACTIONS = {
    "forward": (FORWARD, FORWARD),
    # Nobody waits for a gradient of the first stage's input.
    "input gradient": (None, INPUT),
    "weight gradient": (WEIGHT, WEIGHT),
    "send": (
        ("F{m}>1", "sending of the activations of micro-batch {m} to stage 1"),
        ("I{m}>0", "sending of the gradients of micro-batch {m} to stage 0"),
    ),
    "receive": (
        ("I{m}<1", "receiving of the gradients of micro-batch {m} from stage 1"),
        ("F{m}<0", "receiving of the activations of micro-batch {m} from stage 0"),
    ),
    "reduce": (REDUCE, REDUCE),
    "update": (UPDATE, UPDATE),
}


class Strike(NamedTuple):
    """One job: what strikes which rank, in which step, at which kind of action, of which micro-batch."""

    fault: str
    stage: int
    kind: str
    rank: int
    step: int
    micro_batch: int

    @property
    def plan(self) -> str:
        """What ``--chaos`` is given."""
        mark, _ = self._action
        return f"{self.fault}@{self.rank}:{self.step}/{mark.format(m=self.micro_batch)}"

    @property
    def said(self) -> str:
        """What the launcher is to say of it, as a pattern."""
        _, words = self._action
        action = f"stage {self.stage}'s {words.format(m=self.micro_batch)}"
        return FAULTS[self.fault][1].format(rank=self.rank, action=action)

    @property
    def _action(self) -> tuple[str, str]:
        found = ACTIONS[self.kind][self.stage]
        assert found is not None
        return found


def strikes() -> list[Any]:
    """Return strikes at each MPI library as parameters: at few, each kind of action once, at 60, each fault there."""
    every = [
        (fault, stage, kind)
        for kind, (*stages,) in ACTIONS.items()
        for stage, there in enumerate(stages)
        for fault in FAULTS
        if there
    ]
    found = []
    for place, interpreter in enumerate(interpreters()):
        mpi = library(interpreter)
        chance = random.Random(f"{SEED} {mpi}")
        # From other ends, so that two libraries together have tried all.
        order = random.Random(SEED).sample(every, len(every))[:: -1 if place else 1]
        first = [next(one for one in order if one[2] == kind) for kind in list(ACTIONS)[place :: len(interpreters())]]
        order = [*first, *(one for one in order if one not in first)]
        for number in range(count(60 // len(interpreters()), len(first))):
            fault, stage, kind = order[number % len(order)]
            rank = stage * (RANKS // STAGES) + chance.randrange(RANKS // STAGES)
            strike = Strike(
                fault, stage, kind, rank, chance.randrange(FIRST_STEP, STEPS), chance.randrange(MICRO_BATCHES)
            )
            found.append(pytest.param(interpreter, strike, id=f"{mpi}-{strike.plan}"))
    return found


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a training that nothing struck has left; both MPI libraries sum two ranks alike."""
    notes = tmp_path_factory.mktemp("left alone")
    assert trained(interpreters()[0], notes).code == 0
    return notes


def trained(interpreter: Path, notes: Path, *options: str, sleeper: int = -1) -> Ended:
    """Train from where the folder stands, to the end or until something strikes."""
    (notes / "ranks").mkdir(exist_ok=True)
    with LaunchedJob(interpreter, RANKS, MODULE, notes, notes / "checkpoints", sleeper, options=options) as job:
        found = job.end()
    assert not found.remain, f"{found.left} processes were left, and {found.remain} are still there"
    return found


def watchdog() -> tuple[str, str]:
    return "--watchdog", str(patience.stretched(WATCHDOG))


@pytest.mark.parametrize(("interpreter", "strike"), strikes())
def test_job_names_rank_stage_action_and_micro_batch_and_goes_on_as_if_nothing_had_been(
    interpreter: Path, strike: Strike, left_alone: Path, tmp_path: Path
) -> None:
    found = trained(interpreter, tmp_path, *watchdog(), "--chaos", strike.plan)
    assert found.code == FAULTS[strike.fault][0], found.said
    assert re.search(strike.said, found.first_words), found.said
    logged = (tmp_path / f"losses_{strike.rank}").read_text().splitlines()
    # Open MPI wakes what is stopped before it ends it, so that such a rank may end its step with the others.
    woken = strike.fault == "stop" and library(interpreter) == "openmpi"
    assert int(logged[-1].split()[0]) in (strike.step - 1, strike.step - 1 + woken)
    again = trained(interpreter, tmp_path)
    assert again.code == 0, again.said
    check_equal(left_alone, tmp_path, RANKS, STEPS)
    record(f"rank of a stage struck at an action: {library(interpreter)}, {strike.kind}", jobs=1, wrong=0)


def test_a_stage_that_waits_for_one_that_computes_says_for_which_micro_batch(interpreter: Path, tmp_path: Path) -> None:
    found = trained(interpreter, tmp_path, *watchdog(), sleeper=RANKS - 1)
    assert found.code == HUNG, found.said
    message = f"the job hung: stage 0 waits for the gradients of micro-batch {NAP_PIECE} from stage 1: "
    waiting = rf"rank \d waits in start_receive at \S+ for rank {RANKS - 1}, "
    doing = rf"which is in stage 1's forward pass of micro-batch {NAP_PIECE}, at stage_ranks.py:\d+"
    assert re.fullmatch(message + waiting + doing, found.first_words), found.said
