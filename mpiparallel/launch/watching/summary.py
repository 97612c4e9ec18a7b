"""The one block that ends a failed job: who was first, when and why, its last lines, and where the rest is."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.launch.watching.fate import Fate

if TYPE_CHECKING:
    from mpiparallel.launch.watching.launch import Launch

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
    """Puts what is known of ``fates`` and of the ``launch`` of a job under a ``headline``."""

    def __init__(self, headline: str, fates: Sequence[Fate], launch: Launch) -> None:
        self._headline = headline
        self._fates = fates
        self._launch = launch

    def of_failure(self, cause: Fate) -> str:
        """Return the block of a rank that failed with an exception, or left by ``sys.exit``."""
        if cause.failure and cause.failure.is_exit:
            return self.of_death(cause)
        traceback = cause.failure.traceback.rstrip().splitlines() if cause.failure else []
        return self._block(cause, traceback, "its traceback is above")

    def of_death(self, cause: Fate) -> str:
        """Return the block of a rank that died without an exception."""
        lines = last_lines(cause.folder.log)
        return self._block(cause, ["its last lines:", *lines] if lines else [], "its last lines are above")

    def of_hang(self) -> str:
        """Return the block of a job that hung, with the places of its ranks."""
        seen = [fate for fate in self._fates if not fate.ended_well and _place(fate.folder.stack) != _NO_SIGN]
        return "\n".join([self._headline, *_places(seen), *self._where_all()])

    def of_job(self) -> str:
        """Return the block of a job without a culprit: where its ranks were, and what mpirun said."""
        places = _places(fate for fate in self._fates if not fate.ended_well)
        if len(places) == 1:
            places = []
        said = [f"    {line}" for line in self._launch.output.strip().splitlines()[-2 * _LAST_LINES :]]
        if said:
            said.insert(0, "  mpirun said:")
        return "\n".join([self._headline, *places, *said, *self._where_all()])

    def of_places(self) -> str:
        """Return where the ranks were that had not ended."""
        places = _places(fate for fate in self._fates if not fate.ended_well)
        return "\n".join([self._headline, *(places or ["  at their end"]), *self._where_all()])

    def of_survival(self, dead: Sequence[Fate]) -> str:
        """Return what to say of ranks that died while the others went on and completed."""
        return f"{_ranks(dead)} of {len(self._fates)} died; the others went on and completed"

    def _block(self, cause: Fate, details: Sequence[str], elsewhere: str) -> str:
        # Of a log that is full, or on another host, nothing was shown.
        is_shown = cause.rank in self._launch.shown and (not details or _has(cause.folder.log, details[-1]))
        body = [f"  {elsewhere}"] if is_shown else [f"    {line}" for line in details]
        return "\n".join([self._headline, *body, *self._facts(cause)])

    def _facts(self, cause: Fate) -> list[str]:
        facts = [f"  {self._when(cause)}"] if cause.time < float("inf") else []
        others = [fate for fate in self._fates if not fate.ended_well and fate.rank != cause.rank]
        ended = [fate for fate in others if fate.time >= cause.time]
        if ended:
            facts.append(f"  ended because of it: {_ranks(ended)}")
        then = min((fate for fate in ended if fate.failure), key=lambda fate: fate.time, default=None)
        if then and then.failure and not cause.failure:
            facts.append(f"  then rank {then.rank} failed: {then.failure.summary}")
        own = [f"  its log: {cause.folder.log}"] if self._launch.keeps_logs else []
        return [*facts, *own, *self._where_all()]

    def _when(self, cause: Fate) -> str:
        host = f", on host {cause.host}" if cause.host else ""
        clock = time.strftime("%H:%M:%S", time.localtime(cause.time))
        if not self._launch.started_at:
            return f"at {clock}{host}"
        return f"at {clock}, {max(0.0, cause.time - self._launch.started_at):.1f} s after the start{host}"

    def _where_all(self) -> list[str]:
        if not self._launch.keeps_logs:
            return []
        log_dir = self._fates[0].folder.log_dir
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


def _places(missing: Iterable[Fate]) -> list[str]:
    """Say where each rank was when it was told to end, ranks at one place together."""
    places: dict[str, list[Fate]] = {}
    for fate in missing:
        places.setdefault(_place(fate.folder.stack), []).append(fate)
    return [f"  {_ranks(fates)}: {place}" for place, fates in places.items()]


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


def _ranks(fates: Sequence[Fate]) -> str:
    numbers = ", ".join(str(fate.rank) for fate in fates)
    return f"rank {numbers}" if len(fates) == 1 else f"ranks {numbers}"
