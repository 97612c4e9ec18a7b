"""The flight recorder of a rank: its last collectives, in memory that outlives the process where it has a file."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mpiparallel.cluster.flight import format as layout

FILE_VARIABLE = "MPIPARALLEL_FLIGHT"
"""The environment variable that names the file of a rank's recorder."""

_OTHER_GROUPS = layout.MOST_GROUPS - 1


class FlightRecorder:
    """What one rank writes down of itself: about a microsecond a collective, and no call of the system.

    The memory is mapped from ``path``, so after SIGKILL the file tells the last collective. Without a path it is there
    only for the process itself. ``numbers`` count the collectives of the process, sequences those of each group.

    >>> recorder = FlightRecorder(None, rank=0, size=2)
    >>> world = recorder.group([0, 1])
    >>> number = recorder.enter(world, recorder.text("all_reduce float32"), recorder.text("layer3.w"), 12)
    >>> recorder.leave(number)
    """

    def __init__(self, path: Path | None, rank: int, size: int) -> None:
        self._begin(_created(path))
        host = os.uname().nodename.encode()[: layout.HOST_BYTES]
        self._memory[layout.HOST_AT : layout.HOST_AT + len(host)] = host
        identity = (layout.MAGIC, rank, size, os.getpid(), time.time_ns(), process_space())
        layout.IDENTITY.pack_into(self._memory, 0, *identity)
        self.begin_action(layout.NO_STAGE, 0, 0)
        self.beat("")

    def _begin(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._texts: dict[str, int] = {}
        self._entered: list[int] = []
        self._group_names: dict[str, int] = {}
        self._number = 0
        self._inside = 0
        self._text_bytes = 0
        self.text("")

    @classmethod
    def attached(cls, path: Path) -> FlightRecorder:
        """Return a recorder that goes on in the file that another of this process has made; it has no calls yet.

        Raises OSError where the file cannot be opened.
        """
        recorder = cls.__new__(cls)
        recorder._begin(_opened(path))
        return recorder

    @classmethod
    def of_process(cls, variables: Mapping[str, str], rank: int, size: int) -> FlightRecorder:
        """Return the recorder of the file that ``variables`` name; without such a name, a recorder without a file."""
        path = variables.get(FILE_VARIABLE)
        with suppress(OSError, ValueError):
            if path:
                return cls.attached(Path(path))
        return cls(None, rank, size)

    @property
    def memory(self) -> bytes:
        """All that is recorded, as a file holds it."""
        return bytes(self._memory)

    @property
    def number(self) -> int:
        """How many calls were entered so far."""
        return self._number

    @property
    def inside(self) -> int:
        """The number of the call in which the process is, or 0."""
        return self._inside

    @property
    def written_inside(self) -> int:
        """The same, whichever recorder of the file has written it."""
        return int(layout.INSIDE.unpack_from(self._memory, layout.INSIDE_AT)[0])

    def text(self, words: str) -> int:
        """Return the index of a text, which is written the first time; that of no text where there is no more room."""
        index = self._texts.get(words)
        if index is None:
            line = words.replace("\n", " ").encode(errors="replace") + b"\n"
            start = layout.TEXTS_AT + self._text_bytes
            if self._text_bytes + len(line) > layout.TEXTS_BYTES:
                return 0
            self._memory[start : start + len(line)] = line
            self._text_bytes += len(line)
            index = self._texts[words] = len(self._texts)
            self._write_filled()
        return index

    def group(self, ranks: Sequence[int]) -> int:
        """Return the slot of a new group of these ranks; members that make the same groups call them the same."""
        members = spans(ranks)
        made = self._group_names[members] = self._group_names.get(members, 0) + 1
        if len(self._entered) > _OTHER_GROUPS:
            return _OTHER_GROUPS
        slot = len(self._entered)
        name = members if made == 1 else f"{members}/{made}"
        self._entered.append(0)
        layout.GROUP.pack_into(self._memory, _group_at(slot), self.text(name if slot < _OTHER_GROUPS else ""), 0)
        self._write_filled()
        return slot

    def enter(self, group: int, call: int, label: int, count: int) -> int:
        """Write down that a collective of a group begins; return its number."""
        self._number = number = self._number + 1
        self._entered[group] = sequence = self._entered[group] + 1
        layout.INSIDE.pack_into(self._memory, _group_at(group) + 8, sequence)
        self._write_call(number, sequence, group, call, label, layout.NO_PEER, count)
        return number

    def enter_message(self, group: int, call: int, label: int, count: int, peer: int) -> int:
        """Write down that a message to or from rank ``peer`` begins; return its number."""
        self._number = number = self._number + 1
        self._write_call(number, 0, group, call, label, peer, count)
        return number

    def leave(self, number: int, outer: int = 0) -> None:
        """Write down that call ``number`` has ended, inside call ``outer`` if that is not 0."""
        memory = self._memory
        layout.BEAT.pack_into(memory, _call_at(number) + layout.LEFT_AT, time.time_ns())
        layout.INSIDE.pack_into(memory, layout.INSIDE_AT, outer)
        self._inside = outer

    def pause(self, outer: int = 0) -> None:
        """Write down that the process goes on while what it has started goes on too."""
        layout.INSIDE.pack_into(self._memory, layout.INSIDE_AT, outer)
        self._inside = outer

    def wait(self, number: int) -> None:
        """Write down that the process now waits for call ``number``, which it has started."""
        layout.INSIDE.pack_into(self._memory, layout.INSIDE_AT, number)
        self._inside = number

    def begin_action(self, stage: int, text: int, micro_batch: int) -> None:
        """Write down what the process does from here on in a stage of a pipeline; ``NO_STAGE`` for nothing there.

        In the text ``#`` stands for the micro-batch.
        """
        layout.ACTION.pack_into(self._memory, layout.ACTION_AT, stage, text, micro_batch)

    def beat(self, place: str) -> None:
        """Write down that the process is alive, and where its main thread is."""
        content = place.encode(errors="replace")[: layout.PLACE_BYTES].ljust(layout.PLACE_BYTES, b"\0")
        self._memory[layout.PLACE_AT : layout.PLACE_AT + layout.PLACE_BYTES] = content
        layout.BEAT.pack_into(self._memory, layout.BEAT_AT, time.time_ns())

    def change_state(self, state: int) -> None:
        """Write down that the rank is ``RUNNING``, ``ENDED``, ``FAILING`` or ``FAILED``."""
        layout.STATE.pack_into(self._memory, layout.STATE_AT, state)
        layout.BEAT.pack_into(self._memory, layout.BEAT_AT, time.time_ns())

    def _write_call(self, number: int, sequence: int, group: int, call: int, label: int, peer: int, count: int) -> None:
        memory = self._memory
        place = _call_at(number)
        layout.CALL.pack_into(memory, place, number, sequence, group, call, label, peer, count, time.time_ns(), 0)
        layout.INSIDE.pack_into(memory, layout.NUMBER_AT, number)
        layout.INSIDE.pack_into(memory, layout.INSIDE_AT, number)
        self._inside = number

    def _write_filled(self) -> None:
        layout.FILLED.pack_into(self._memory, layout.FILLED_AT, self._text_bytes, len(self._entered))


def spans(ranks: Sequence[int]) -> str:
    """Return ranks in few words.

    >>> spans([0, 1, 2, 5, 7, 8]), spans([3])
    ('0-2,5,7-8', '3')
    """
    words: list[str] = []
    first = last = None
    for rank in [*sorted(ranks), None]:
        if last is not None and rank == last + 1:
            last = rank
            continue
        if last is not None:
            words.append(str(first) if first == last else f"{first}-{last}")
        first = last = rank
    return ",".join(words)


def _call_at(number: int) -> int:
    return layout.CALLS_AT + number % layout.RING * layout.CALL.size


def _group_at(slot: int) -> int:
    return layout.GROUPS_AT + slot * layout.GROUP.size


def process_space() -> int:
    """Return in which namespace of Linux the number of this process counts; 0 where that is not known."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _created(path: Path | None) -> mmap.mmap:
    if path is None:
        return mmap.mmap(-1, layout.BYTES)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(descriptor, 0)
        # Room that is missing shows here, as an error; at the first write it would end the process.
        os.posix_fallocate(descriptor, 0, layout.BYTES)
        return mmap.mmap(descriptor, layout.BYTES)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(descriptor, layout.BYTES)
    finally:
        os.close(descriptor)
