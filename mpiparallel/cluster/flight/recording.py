"""What a flight recorder has written, of a rank that lives, hangs or is dead."""

from __future__ import annotations

from pathlib import Path

from mpiparallel.cluster.flight import format as layout
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError

_NANO = 1e-9


@dataclass(frozen=True)
class RecordedGroup:
    """The ranks of a group; ``name`` tells it from others of the same ranks; so many collectives were ``entered``.

    ``is_whole`` says that all ranks of the job are in it.
    """

    name: str
    ranks: tuple[int, ...]
    entered: int
    is_whole: bool

    def __str__(self) -> str:
        members = self.name.partition("/")[0]
        return "all ranks" if self.is_whole else f"rank{'' if len(self.ranks) == 1 else 's'} {members}"


@dataclass(frozen=True)
class RecordedCall:
    """A collective, or a message to or from ``peer``: its number in the process, its sequence in the group.

    Times are seconds since 1970 by the host's clock; ``left`` is None while it goes on.
    """

    number: int
    sequence: int
    group: RecordedGroup
    operation: str
    label: str
    count: int
    peer: int | None
    entered: float
    left: float | None

    @property
    def name(self) -> str:
        """The operation without its dtype."""
        return self.operation.partition(" ")[0]

    def __str__(self) -> str:
        details = [self.label] if self.label else []
        if self.group.name:
            details.append(str(self.group))
        numbered = f"{self.name} #{self.sequence}" if self.peer is None else self.name
        return f"{numbered} ({', '.join(details)})" if details else numbered


@dataclass(frozen=True)
class Recording:
    """One rank: who it is, in which ``state``, where its main thread was at the time ``beat``, and its last calls.

    ``process`` is the number of its process in the namespace ``process_space`` of its ``host``.

    ``inside`` is the call in which the process is blocked. ``calls`` are the last ones, in their order. ``stage`` is
    its stage of a pipeline, or None, and ``action`` what it does there.
    """

    rank: int
    size: int
    process: int
    process_space: int
    host: str
    started: float
    state: str
    beat: float
    place: str
    inside: RecordedCall | None
    calls: tuple[RecordedCall, ...]
    groups: tuple[RecordedGroup, ...]
    stage: int | None = None
    action: str = ""

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Return what is in a recorder's file; raise LaunchError where it is none."""
        try:
            with path.open("rb") as stream:
                content = stream.read(layout.BYTES + 1)
        except OSError as error:
            raise LaunchError(f"{path}: {error.strerror}") from error
        try:
            return cls.of_memory(content)
        except LaunchError as error:
            raise LaunchError(f"{path}: {error}") from error

    @classmethod
    def of_memory(cls, memory: bytes) -> Recording:
        """Return what is in a recorder's memory; raise LaunchError where it is none."""
        if len(memory) != layout.BYTES or not memory.startswith(layout.MAGIC):
            raise LaunchError("is not the file of a flight recorder")
        _, rank, size, process, started, space = layout.IDENTITY.unpack_from(memory, 0)
        (state,) = layout.STATE.unpack_from(memory, layout.STATE_AT)
        text_bytes, group_count = layout.FILLED.unpack_from(memory, layout.FILLED_AT)
        texts = _texts(memory, text_bytes)
        groups = _groups(memory, texts, group_count, size)
        calls = _calls(memory, texts, groups)
        (inside,) = layout.INSIDE.unpack_from(memory, layout.INSIDE_AT)
        (beat,) = layout.BEAT.unpack_from(memory, layout.BEAT_AT)
        return cls(
            rank,
            size,
            process,
            space,
            _words(memory, layout.HOST_AT, layout.HOST_BYTES),
            started * _NANO,
            layout.STATES[state] if 0 <= state < len(layout.STATES) else "",
            beat * _NANO,
            _words(memory, layout.PLACE_AT, layout.PLACE_BYTES),
            next((call for call in calls if inside and call.number == inside), None),
            tuple(calls),
            tuple(groups),
            *_action(memory, texts),
        )

    def entered(self, group: RecordedGroup) -> int:
        """Return how many collectives of a group this rank has entered."""
        return next((own.entered for own in self.groups if own.name == group.name), 0)

    def call(self, group: RecordedGroup, sequence: int) -> RecordedCall | None:
        """Return the call of this sequence in a group, if it is still known."""
        found = (call for call in self.calls if call.sequence == sequence and call.group.name == group.name)
        return next(found, None)


def ranks_of(spans: str) -> tuple[int, ...]:
    """Return the ranks that ``spans`` names; none where it is not understood.

    >>> ranks_of("0-2,5"), ranks_of("0-1/2"), ranks_of("?")
    ((0, 1, 2, 5), (0, 1), ())
    """
    ranks: list[int] = []
    for words in spans.partition("/")[0].split(","):
        first, _, last = words.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal() and len(words) < 20):
            return ()
        stop = int(last or first) + 1
        if stop - int(first) > 1 << 20:
            return ()
        ranks += range(int(first), stop)
    return tuple(ranks)


def _action(memory: bytes, texts: list[str]) -> tuple[int | None, str]:
    """Return the stage of a pipeline in which the rank is, and what it does there, in words."""
    stage, text, micro_batch = layout.ACTION.unpack_from(memory, layout.ACTION_AT)
    if stage < 0 or not 0 <= text < len(texts):
        return None, ""
    return stage, f"stage {stage}'s {texts[text].replace('#', str(micro_batch))}"


def _words(memory: bytes, start: int, length: int) -> str:
    return memory[start : start + length].rstrip(b"\0").decode(errors="replace")


def _texts(memory: bytes, length: int) -> list[str]:
    bounded = min(max(length, 0), layout.TEXTS_BYTES)
    return memory[layout.TEXTS_AT : layout.TEXTS_AT + bounded].decode(errors="replace").split("\n")


def _groups(memory: bytes, texts: list[str], count: int, size: int) -> list[RecordedGroup]:
    groups = []
    for slot in range(min(max(count, 0), layout.MOST_GROUPS)):
        name, entered = layout.GROUP.unpack_from(memory, layout.GROUPS_AT + slot * layout.GROUP.size)
        words = texts[name] if name < len(texts) else ""
        ranks = ranks_of(words)
        groups.append(RecordedGroup(words, ranks, entered, len(ranks) == size))
    return groups


def _calls(memory: bytes, texts: list[str], groups: list[RecordedGroup]) -> list[RecordedCall]:
    calls = []
    for slot in range(layout.RING):
        number, sequence, group, call, label, peer, count, entered, left = layout.CALL.unpack_from(
            memory, layout.CALLS_AT + slot * layout.CALL.size
        )
        if number and 0 <= group < len(groups) and call < len(texts) and label < len(texts):
            known = None if peer == layout.NO_PEER else peer
            times = entered * _NANO, left * _NANO if left else None
            calls.append(RecordedCall(number, sequence, groups[group], texts[call], texts[label], count, known, *times))
    return sorted(calls, key=lambda each: each.number)
