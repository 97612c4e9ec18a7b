"""Whatever happens to one rank, or to the launcher, the job ends, says what came first, and leaves nothing running.

The times are promises to users, not claims of these tests: a machine may be busy. They are recorded, and the page tells
them. ``make test-reliability`` runs a sample, ``make soak`` every case.
"""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mpiparallel.cluster.exit_codes import FAILED, HUNG, SIGNALLED
from mpiparallel.cluster.flight.recorder import spans
from tests.conformance import patience
from tests.conformance.mpi_launcher import interpreters, library
from tests.reliability.counts import record_failure, share
from tests.reliability.launched_job import Ended, LaunchedJob
from tests.reliability.ranks import failing_ranks, mismatched_ranks

pytestmark = pytest.mark.mpi

SIZE = 3
RANKS = range(SIZE)
WATCHDOG = 3
DEATHS = {"kill": SIGNALLED + signal.SIGKILL, "segfault": SIGNALLED + signal.SIGSEGV, "exit": 13}
ENDS = {"exception": FAILED, "code": failing_ranks.CODE, "vanish": FAILED}
HANGS = ("leave", "stop", "loop")
WAITING = ("Barrier", "AllReduce")
TERMINAL = "terminal closed"
SIGNALS = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT, "SIGHUP": signal.SIGHUP, "SIGKILL": signal.SIGKILL}
EVENTS = {
    "kill": "kill -9 of a rank",
    "segfault": "segmentation fault of a rank",
    "exit": "os._exit(13) on a rank",
    "exception": "exception on a rank",
    "code": "sys.exit(3) on a rank",
    "vanish": "os._exit(0) on a rank",
    "leave": "sys.exit(0) too early",
    "stop": f"rank stopped (SIGSTOP), --watchdog {WATCHDOG}",
    "loop": f"rank in an endless loop, --watchdog {WATCHDOG}",
}


class Case(NamedTuple):
    """One job: whose MPI, which collective, what happens to which rank, and when."""

    interpreter: Path
    operation: str
    kind: str
    moment: str
    victim: int

    @property
    def name(self) -> str:
        return f"{library(self.interpreter)}-{self.kind}-{self.moment}-{self.operation}-rank{self.victim}"


def sampled(cases: Sequence[Any], few: int, name: str) -> list[Any]:
    """Return ``few`` of the cases, or in ``make soak`` the share asked for of all of them, in order."""
    number = min(len(cases), max(few, round(len(cases) * share())))
    places = random.Random(name).sample(range(len(cases)), number)
    return [cases[place] for place in sorted(places)]


def cases(kinds: Sequence[str], moments: Sequence[str], few: dict[str, int]) -> list[Any]:
    """Return the cases of each MPI library as parameters."""
    found: list[Any] = []
    for interpreter in interpreters():
        every = [
            Case(interpreter, operation, kind, moment, victim)
            for kind, moment, operation, victim in product(kinds, moments, failing_ranks.OPERATIONS, RANKS)
        ]
        found += sampled(every, few[library(interpreter)], f"{kinds} {library(interpreter)}")
    return [pytest.param(case, id=case.name) for case in found]


def line_of(module: Any, comment: str) -> str:
    """Return the place of the line of a module that ends in ``comment``, as a diagnosis or a traceback writes it."""
    lines = Path(module.__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {comment}")]
    return rf'{Path(module.__file__).name}(:|", line ){number}\b'


def ended(case: Case, notes: Path, *options: str) -> Ended:
    """Run the job of a case to its end; see that nothing of it is left, and write down how long it took."""
    words = case.operation, case.kind, case.moment, case.victim
    with LaunchedJob(
        case.interpreter, SIZE, "tests.reliability.ranks.failing_ranks", notes, *words, options=options
    ) as job:
        found = job.end()
    check_gone(found)
    record_end(EVENTS[case.kind], case.interpreter, notes, found)
    return found


def record_end(event: str, interpreter: Path, notes: Path, found: Ended) -> None:
    struck = notes / "struck"
    assert struck.exists(), f"the job ended before anything struck it:\n{found.said}"
    seconds = found.time - float(struck.read_text())
    record_failure(event, library(interpreter), 1, seconds, found.code, found.first_words, found.gone_after)


def watchdog() -> tuple[str, str]:
    """Return the option by which a rank that does not come is missed, but none that this machine lets wait."""
    return "--watchdog", str(patience.stretched(WATCHDOG))


def check_gone(found: Ended) -> None:
    assert not found.remain, f"{found.left} processes were left, and {found.remain} are still there"


@pytest.mark.sample
@pytest.mark.parametrize("case", cases(tuple(DEATHS), ("at", "in", "after"), {"mpich": 4, "openmpi": 2}))
def test_death_of_a_rank_ends_the_job_with_its_signal_and_names_it(case: Case, tmp_path: Path) -> None:
    found = ended(case, tmp_path)
    assert found.code == DEATHS[case.kind], found.said
    assert re.match(rf"rank {case.victim}\b", found.first_words), found.said


@pytest.mark.parametrize("case", cases(tuple(ENDS), ("at", "after"), {"mpich": 3, "openmpi": 1}))
def test_exception_or_exit_code_of_a_rank_is_that_of_the_job(case: Case, tmp_path: Path) -> None:
    found = ended(case, tmp_path)
    assert found.code == ENDS[case.kind], found.said
    assert re.match(rf"rank {case.victim}\b", found.first_words), found.said
    if case.kind == "exception":
        comment = "the line of the fault" if case.moment == "at" else "the line of the fault after the operation"
        assert re.search(line_of(failing_ranks, comment), found.printed + found.said), found.said


@pytest.mark.parametrize(
    "case",
    [
        *cases(HANGS, ("at",), {"mpich": 2, "openmpi": 1}),
        *cases(("stop",), ("in",), {"mpich": 1, "openmpi": 1}),
    ],
)
def test_rank_that_does_not_come_is_named_by_the_watchdog(case: Case, tmp_path: Path) -> None:
    found = ended(case, tmp_path, *watchdog())
    assert found.code == HUNG, found.said
    others = spans([rank for rank in RANKS if rank != case.victim])
    assert re.search(rf"ranks {others} wait in .* for rank {case.victim}\b", found.first_words), found.said
    # Where a rank was is sampled twice a second, so that of one which is stopped may be the place before.
    if case.kind == "loop":
        assert re.search(line_of(failing_ranks, "the line of the fault"), found.said), found.said


@pytest.mark.parametrize(
    ("interpreter", "kind", "victim"),
    [
        pytest.param(interpreter, *words, id="-".join([library(interpreter), words[0], f"rank{words[1]}"]))
        for interpreter in interpreters()
        for words in sampled(list(product(mismatched_ranks.KINDS, RANKS)), 1, f"mismatch {library(interpreter)}")
    ],
)
def test_collective_that_does_not_match_ends_the_job_and_names_who_called_it_where(
    interpreter: Path, kind: str, victim: int, tmp_path: Path
) -> None:
    module = "tests.reliability.ranks.mismatched_ranks"
    with LaunchedJob(interpreter, SIZE, module, tmp_path, kind, victim, 0, options=watchdog()) as job:
        found = job.end()
    check_gone(found)
    record_end(f"collectives of another {kind}", interpreter, tmp_path, found)
    assert found.code == FAILED, found.said
    assert re.search(rf"\brank {victim}\b", found.first_words), found.said
    if kind != "network":
        assert re.search(line_of(mismatched_ranks, kind), found.said), found.said


@pytest.mark.parametrize(
    ("kinds", "fingerprints"),
    [
        pytest.param(mismatched_ranks.KINDS, "on", marks=pytest.mark.sample, id="on"),
        pytest.param(mismatched_ranks.STRICT_KINDS, "strict", id="strict"),
    ],
)
@pytest.mark.parametrize("interpreter", interpreters(), ids=library)
def test_collective_that_does_not_match_raises_on_every_rank_before_anything_is_changed(
    interpreter: Path, kinds: Iterable[str], fingerprints: str, tmp_path: Path
) -> None:
    victim, module = 1, "tests.reliability.ranks.mismatched_ranks"
    variables = {"MPIPARALLEL_FINGERPRINTS": fingerprints}
    words = ",".join(kinds), victim, 1
    with LaunchedJob(interpreter, SIZE, module, tmp_path, *words, options=watchdog(), variables=variables) as job:
        found = job.end()
        told = [job.printed_by(rank).splitlines() for rank in RANKS]
    check_gone(found)
    assert found.code == 0, found.said
    for lines in told:
        assert [line.split(": ")[:2] for line in lines] == [[kind, "untouched"] for kind in kinds]
        for kind, line in zip(kinds, lines, strict=True):
            assert re.search(rf"\brank {victim}\b", line), line
            assert kind == "network" or re.search(line_of(mismatched_ranks, kind), line), line


def ends_of_launchers(mpi: str) -> list[tuple[str, str]]:
    """Return what happens to the launcher, and where its ranks wait: at least where ranks were once left behind."""
    first = {"openmpi": [("SIGKILL", "Barrier"), (TERMINAL, "Barrier")], "mpich": [("SIGTERM", "AllReduce")]}[mpi]
    return [*dict.fromkeys([*first, *sampled(list(product([*SIGNALS, TERMINAL], WAITING)), 0, f"launcher {mpi}")])]


@pytest.mark.parametrize(
    ("interpreter", "event", "operation"),
    [
        pytest.param(interpreter, *words, id="-".join([library(interpreter), *words]))
        for interpreter in interpreters()
        for words in sampled(
            list(product([*SIGNALS, "terminal closed"], ["Barrier", "AllReduce"])),
            2,
            f"launcher {library(interpreter)}",
        )
    ],
)
def test_no_process_outlives_the_launcher(interpreter: Path, event: str, operation: str, tmp_path: Path) -> None:
    with LaunchedJob(
        interpreter, SIZE, "tests.reliability.ranks.sleeping_ranks", tmp_path, operation, terminal=event not in SIGNALS
    ) as job:
        job.wait_for(lambda: len(list(tmp_path.glob("up*"))) == SIZE)
        assert len(job.processes()) > SIZE, "the mark is not on all processes of the job"
        segments = job.segments()
        start = job.strike(SIGNALS.get(event))
        found = job.end()
    check_gone(found)
    if library(interpreter) == "mpich" or event != "SIGKILL":
        # Open MPI's memory is cleared away by mpirun, which dies with a launcher that is killed.
        assert not [path for path in segments if path.exists()]
    number = SIGNALS.get(event, signal.SIGHUP)
    record_failure(
        f"launcher: {event}",
        library(interpreter),
        1,
        found.time - start,
        found.code,
        found.first_words,
        found.gone_after,
    )
    # A launcher that lets the signal end itself is seen by a shell as 128 and the signal, too.
    assert found.code in (-number, SIGNALLED + number)
