"""The one block that ends a failed job: who was first, when and why, its last lines, and where the rest is."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.launch.watching.rank_outcome import RankOutcome

if TYPE_CHECKING:
    from mpiparallel.launch.watching.mpirun_result import MpirunResult

_LAST_LINES = 10
_LONGEST_LINE = 240
_TAIL_BYTES = 16 * 1024
_PACKAGE = str(Path(__file__).parents[2])
_THREAD = re.compile(r"^(?:Current thread|Thread) .*\n((?: +File .*\n?)+)", re.MULTILINE)
_FRAME = re.compile(r'File ".*')
_NO_SIGN = "gave no sign"
_FATAL = "Fatal Python error:"
_NOT_THE_USERS = ("<frozen runpy>", str(Path(__file__).parents[1]))


class Summary:
    """Puts what is known of ``outcomes`` and of the ``result`` of a job under a ``headline``."""

    def __init__(self, headline: str, outcomes: Sequence[RankOutcome], result: MpirunResult) -> None:
        self._headline = headline
        self._outcomes = outcomes
        self._result = result

    def of_failure(self, cause: RankOutcome) -> str:
        """Return the block of a rank that failed with an exception, or left by ``sys.exit``."""
        if cause.failure and cause.failure.is_exit:
            return self.of_death(cause)
        traceback = cause.failure.traceback.rstrip().splitlines() if cause.failure else []
        return self._block(cause, traceback, "its traceback is above")

    def of_death(self, cause: RankOutcome) -> str:
        """Return the block of a rank that died without an exception."""
        lines = last_lines(cause.folder.log)
        return self._block(cause, ["its last lines:", *lines] if lines else [], "its last lines are above")

    def of_hang(self) -> str:
        """Return the block of a job that hung, with the places of its ranks."""
        seen = [
            outcome for outcome in self._outcomes if not outcome.ended_well and _place(outcome.folder.stack) != _NO_SIGN
        ]
        return "\n".join([self._headline, *_places(seen), *self._where_all()])

    def of_job(self) -> str:
        """Return the block of a job without a culprit: where its ranks were, and what mpirun said."""
        places = _places(outcome for outcome in self._outcomes if not outcome.ended_well)
        if len(places) == 1:
            places = []
        said = [f"    {line}" for line in self._result.output.strip().splitlines()[-2 * _LAST_LINES :]]
        if said:
            said.insert(0, "  mpirun said:")
        return "\n".join([self._headline, *places, *said, *self._where_all()])

    def of_places(self) -> str:
        """Return where the ranks were that had not ended."""
        places = _places(outcome for outcome in self._outcomes if not outcome.ended_well)
        return "\n".join([self._headline, *(places or ["  at their end"]), *self._where_all()])

    def of_survival(self, dead: Sequence[RankOutcome]) -> str:
        """Return what to say of ranks that died while the others went on and completed."""
        return f"{_ranks(dead)} of {len(self._outcomes)} died; the others went on and completed"

    def _block(self, cause: RankOutcome, details: Sequence[str], elsewhere: str) -> str:
        # Of a log that is full, or on another host, nothing was shown.
        is_shown = cause.rank in self._result.shown and (not details or _has(cause.folder.log, details[-1]))
        body = [f"  {elsewhere}"] if is_shown else [f"    {line}" for line in details]
        return "\n".join([self._headline, *body, *self._facts(cause)])

    def _facts(self, cause: RankOutcome) -> list[str]:
        facts = [f"  {self._when(cause)}"] if cause.time < float("inf") else []
        others = [outcome for outcome in self._outcomes if not outcome.ended_well and outcome.rank != cause.rank]
        ended = [outcome for outcome in others if outcome.time >= cause.time]
        if ended:
            facts.append(f"  ended because of it: {_ranks(ended)}")
        then = min((outcome for outcome in ended if outcome.failure), key=lambda outcome: outcome.time, default=None)
        if then and then.failure and not cause.failure:
            facts.append(f"  then rank {then.rank} failed: {then.failure.summary}")
        own = [f"  its log: {cause.folder.log}"] if self._result.keeps_logs else []
        return [*facts, *own, *self._where_all()]

    def _when(self, cause: RankOutcome) -> str:
        host = f", on host {cause.host}" if cause.host else ""
        clock = time.strftime("%H:%M:%S", time.localtime(cause.time))
        if not self._result.started_at:
            return f"at {clock}{host}"
        return f"at {clock}, {max(0.0, cause.time - self._result.started_at):.1f} s after the start{host}"

    def _where_all(self) -> list[str]:
        if not self._result.keeps_logs:
            return []
        log_dir = self._outcomes[0].folder.log_dir
        return [f"  all logs: {log_dir}/device*/train.log*, of mpirun: {log_dir}/launcher.log"]


def last_lines(path: Path) -> list[str]:
    """Return the last ten lines of the file; none where it cannot be read.

    Of what Python says of a fatal signal they are the first, and of its frames only the user's.
    """
    lines = end_of_log(path).rstrip().splitlines()
    fatal = next((number for number, line in enumerate(lines) if line.startswith(_FATAL)), None)
    if fatal is None:
        last = lines[-_LAST_LINES:]
    else:
        last = [line for line in lines[fatal:] if line and not any(name in line for name in _NOT_THE_USERS)][
            :_LAST_LINES
        ]
    return [line[:_LONGEST_LINE] for line in last]


def end_of_log(path: Path) -> str:
    """Return the last 16 KiB of the file; nothing where it cannot be read."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _TAIL_BYTES))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


def _has(log: Path, line: str) -> bool:
    return line in end_of_log(log)


def _places(missing: Iterable[RankOutcome]) -> list[str]:
    """Say where each rank was when it was told to end, ranks at one place together."""
    places: dict[str, list[RankOutcome]] = {}
    for outcome in missing:
        places.setdefault(_place(outcome.folder.stack), []).append(outcome)
    return [f"  {_ranks(outcomes)}: {place}" for place, outcomes in places.items()]


def _place(stack: Path) -> str:
    """Return the innermost frame of the main thread that is the user's own; Python lists that thread last."""
    try:
        threads = _THREAD.findall(stack.read_text(errors="replace"))
    except OSError:
        threads = []
    if not threads:
        return _NO_SIGN
    frames = _FRAME.findall(threads[-1])
    own = [frame for frame in frames if _PACKAGE not in frame and "mpi4py" not in frame]
    return str((own or frames)[0])


def _ranks(outcomes: Sequence[RankOutcome]) -> str:
    numbers = ", ".join(str(outcome.rank) for outcome in outcomes)
    return f"rank {numbers}" if len(outcomes) == 1 else f"ranks {numbers}"
