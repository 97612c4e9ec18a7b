"""Schedules that users write: the text that a schedule prints, read again."""

from __future__ import annotations

import re
from dataclasses import field, replace
from pathlib import Path
from typing import Final, NoReturn

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ScheduleError, reason
from mpiparallel.pipeline.action import COMPUTATIONS, LETTERS, MARKS, Action, Kind
from mpiparallel.pipeline.messages import with_messages
from mpiparallel.pipeline.placement import Placement
from mpiparallel.pipeline.rules import check_known
from mpiparallel.pipeline.schedule import Schedule

_ACTION: Final = re.compile(r"([FIW])([0-9]{1,6})(?:\.([0-9]{1,4}))?(?:([<>])([0-9]{1,4}))?")
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_WORD: Final = re.compile(r"\S+")
_KINDS: Final = {(letter, mark): kind for kind, letter, mark in zip(Kind, LETTERS, MARKS, strict=True)}
_HOW: Final = (
    "write F3 for the forward pass of micro-batch 3, I3 and W3 for its input and weight gradient, F3.1 for chunk 1, "
    "F3>2 and I3>0 to send their results to another stage, F3<0 and I3<2 to receive what they need, R to reduce, U to "
    "update"
)


def read_schedule(path: Path | str) -> Schedule:
    r"""Return the schedule that a text file holds; see `parse`.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Schedule
        Not checked yet.

    Raises
    ------
    ScheduleError
        Where it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "schedule.txt"
    ...     _ = path.write_text("micro-batches 1\nparts 0\nstage 0: F0 I0 W0\n", encoding="utf-8")
    ...     read_schedule(path).micro_batches
    1
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ScheduleError(f"{path}: {reason(error)}; give a text file with a schedule") from error
    return parse(text, str(path))


def parse(text: str, source: str = "schedule") -> Schedule:
    r"""Return the schedule that a text describes.

    It has a line ``micro-batches N``. Then comes a line ``parts`` with the stage of each part of the network, in order.
    Then comes for each stage a line ``stage N:`` with its actions. Several lines of one stage are one list.
    ``schedule NAME`` may come first. What follows a ``#`` is not read. Where all lists only compute, messages, reduce
    and update are added.

    Parameters
    ----------
    text : str
        Lines.
    source : str
        What errors call it.

    Returns
    -------
    Schedule
        `check` says whether it can run.

    Raises
    ------
    ScheduleError
        For what cannot be read; it names line and field.

    Examples
    --------
    >>> print(parse("micro-batches 1\nparts 0 1\nstage 0: F0 I0 W0\nstage 1: F0 I0 W0").actions[1][0])
    F0<0
    """
    draft = _Draft(source)
    for number, line in enumerate(text.split("\n"), start=1):
        words = [(place, found.group()) for place, found in enumerate(_WORD.finditer(line.partition("#")[0]), start=1)]
        if words:
            draft.take(number, words)
    return draft.schedule()


_Words = list[tuple[int, str]]
"""The fields of a line, counted from 1."""


@dataclass
class _Draft:
    """What has been read so far."""

    source: str
    name: str = "user"
    micro_batches: int | None = None
    stages: tuple[int, ...] | None = None
    lists: dict[int, list[Action]] = field(default_factory=dict)

    def take(self, line: int, words: _Words) -> None:
        """Read one line."""
        head, rest = words[0][1], words[1:]
        if head == "stage":
            self._take_stage(line, rest)
        elif head == "schedule" and len(rest) == 1:
            if not rest[0][1].isprintable():
                self._refuse(line, rest[0], "a name has no control characters; leave them out")
            self.name = rest[0][1]
        elif head == "micro-batches" and len(rest) == 1 and self.micro_batches is None:
            self.micro_batches = self._number(line, rest[0], "a number of micro-batches")
        elif head == "parts" and rest and self.stages is None:
            self.stages = tuple(self._number(line, word, "the number of a stage") for word in rest)
        elif head in ("schedule", "micro-batches", "parts"):
            self._refuse(line, words[0], f"write {head} once, and behind it what it is")
        else:
            self._refuse(line, words[0], "a line begins with schedule, micro-batches, parts, or stage")

    def _take_stage(self, line: int, rest: _Words) -> None:
        if not rest:
            self._refuse(line, (1, "stage"), "write its number and a colon behind it: stage 0: F0 ...")
        (place, word), actions = rest[0], rest[1:]
        if not word.endswith(":"):
            self._refuse(line, rest[0], "a colon follows the number of a stage: stage 0: F0 ...")
        stage = self._number(line, (place, word[:-1]), "the number of a stage")
        self.lists.setdefault(stage, []).extend(self._action(line, action) for action in actions)

    def _action(self, line: int, word: tuple[int, str]) -> Action:
        if word[1] in ("R", "U"):
            return Action(_KINDS[word[1], ""])
        found = _ACTION.fullmatch(word[1])
        if found is None:
            self._refuse(line, word, f"is no action; {_HOW}")
        letter, micro_batch, chunk, mark, peer = found.groups()
        kind = _KINDS.get((letter, mark or ""))
        if kind is None:
            self._refuse(line, word, "a weight gradient stays on its stage; leave the peer out")
        return Action(kind, int(micro_batch), int(chunk or 0), None if peer is None else int(peer))

    def _number(self, line: int, word: tuple[int, str], what: str) -> int:
        if not _NUMBER.fullmatch(word[1]):
            self._refuse(line, word, f"is not {what}; write digits, six at most")
        return int(word[1])

    def _refuse(self, line: int, word: tuple[int, str], problem: str) -> NoReturn:
        shown = word[1] if len(word[1]) <= 40 else f"{word[1][:37]}..."
        raise ScheduleError(f'{self.source}, line {line}, field {word[0]} ("{shown}"): {problem}')

    def schedule(self) -> Schedule:
        """Return the whole schedule, with messages where no list has any."""
        if not self.micro_batches or self.stages is None:
            lacking = "parts 0 1 2 3" if self.micro_batches else "micro-batches 8"
            raise ScheduleError(f'{self.source}: a line is missing; write one like "{lacking}"')
        try:
            placement = Placement(self.stages)
        except ScheduleError as error:
            raise ScheduleError(f"{self.source}: {error}") from error
        if set(self.lists) != set(range(len(placement.parts))):
            listed = ", ".join(map(str, sorted(self.lists))) or "none"
            raise ScheduleError(
                f"{self.source}: parts names {len(placement.parts)} stages, and there are lists of stage {listed}; "
                "write one list for each"
            )
        actions = tuple(tuple(self.lists[stage]) for stage in sorted(self.lists))
        schedule = Schedule(self.name, self.micro_batches, placement, actions)
        if any(action.kind not in COMPUTATIONS for each in actions for action in each):
            return schedule
        check_known(schedule)
        return replace(schedule, actions=with_messages(self.name, self.micro_batches, placement, actions))
