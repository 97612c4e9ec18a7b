"""Who waits for whom where: the one sentence after a hang, from the recordings of all ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from mpiparallel.cluster.flight.recorder import spans
from mpiparallel.cluster.flight.recording import RecordedCall, Recording
from mpiparallel.dataclass import dataclass

_SILENT_SECONDS = 5.0
_PLURAL = {"is": "are", "has": "have"}


@dataclass(frozen=True)
class Diagnosis:
    """Ranks ``waiting`` in a call for the ``culprits``; ``is_proven`` where waiting longer cannot help."""

    sentence: str
    waiting: tuple[int, ...]
    culprits: tuple[int, ...]
    is_proven: bool


@dataclass(frozen=True)
class _Wait:
    """Ranks that wait in one call; ranks that are missing from it; ranks that have made another call in its place."""

    call: RecordedCall
    ranks: tuple[int, ...]
    missing: tuple[int, ...]
    mismatched: tuple[int, ...]


def diagnose(
    recordings: Sequence[Recording], state_of: Callable[[Recording], str] = lambda recording: ""
) -> Diagnosis | None:
    """Return who waits for whom, or None where no rank waits.

    Of several waits it is that for ranks that wait for nobody themselves. ``state_of`` tells what the system knows of
    the process of a recording: "dead", "stopped" or nothing.
    """
    by_rank = {recording.rank: recording for recording in recordings}
    halted = {rank for rank, recording in by_rank.items() if state_of(recording) in ("dead", "stopped")}
    waits = _waits(by_rank, halted)
    if not waits:
        return None
    waiting = {rank for wait in waits for rank in wait.ranks}
    wait = min(waits, key=lambda one: _order(one, waiting))
    ended = [rank for rank in wait.missing if _has_gone(by_rank.get(rank), state_of)]
    culprits = wait.missing or wait.mismatched
    return Diagnosis(_sentence(wait, by_rank, recordings, state_of), wait.ranks, culprits, bool(ended))


def _waits(by_rank: Mapping[int, Recording], halted: AbstractSet[int]) -> list[_Wait]:
    found: dict[tuple[str, int, str, int | None], list[int]] = {}
    calls: dict[tuple[str, int, str, int | None], RecordedCall] = {}
    for rank, recording in by_rank.items():
        call = recording.inside
        if call is None or rank in halted:
            continue
        key = (call.group.name, call.sequence, call.name, call.peer)
        found.setdefault(key, []).append(rank)
        calls[key] = call
    return [_wait(calls[key], tuple(sorted(ranks)), by_rank, halted) for key, ranks in found.items()]


def _wait(
    call: RecordedCall, ranks: tuple[int, ...], by_rank: Mapping[int, Recording], halted: AbstractSet[int]
) -> _Wait:
    if call.peer is not None:
        return _Wait(call, ranks, (call.peer,), ())
    missing, mismatched = [], []
    for rank in call.group.ranks:
        other = by_rank.get(rank)
        if rank in ranks:
            continue
        # Who was halted inside the call holds it up as much as who never came; who has left it does not.
        if other is None or other.entered(call.group) < call.sequence or (rank in halted and _is_in(other, call)):
            missing.append(rank)
            continue
        its = other.call(call.group, call.sequence)
        if its is not None and its.name != call.name:
            mismatched.append(rank)
    return _Wait(call, ranks, tuple(missing), tuple(mismatched))


def _is_in(recording: Recording, call: RecordedCall) -> bool:
    inside = recording.inside
    return inside is not None and (inside.group.name, inside.sequence) == (call.group.name, call.sequence)


def _order(wait: _Wait, waiting: set[int]) -> tuple[bool, int, int]:
    """Sort first the waits for ranks that wait for nobody, then those of many ranks."""
    culprits = set(wait.missing or wait.mismatched)
    return (not culprits or bool(culprits & waiting), -len(wait.ranks), wait.call.sequence)


def _has_gone(recording: Recording | None, state_of: Callable[[Recording], str]) -> bool:
    return recording is not None and (recording.state in ("ended", "failed") or state_of(recording) == "dead")


def _sentence(
    wait: _Wait,
    by_rank: Mapping[int, Recording],
    recordings: Sequence[Recording],
    state_of: Callable[[Recording], str],
) -> str:
    one = len(wait.ranks) == 1
    message = _of_stage(wait, by_rank)
    begin = f"{message}{_ranks(wait.ranks)} {'waits' if one else 'wait'} in {wait.call.name if message else wait.call}"
    place = by_rank[wait.ranks[0]].place
    if place and all(by_rank[rank].place == place for rank in wait.ranks):
        begin += f" at {place}"
    if wait.mismatched and not wait.missing:
        return f"{begin}, but {_described(wait.mismatched, by_rank, recordings, state_of)}"
    if wait.missing and not any(rank in by_rank for rank in wait.missing):
        return f"{begin} for {_ranks(wait.missing)}, of which nothing is known here"
    if not wait.missing:
        return f"{begin}, all that belong to it are there: the network or the MPI library does not get on"
    return f"{begin} for {_described(wait.missing, by_rank, recordings, state_of)}"


def _of_stage(wait: _Wait, by_rank: Mapping[int, Recording]) -> str:
    """Return in words which stage of a pipeline waits for which message; nothing where it is none between stages."""
    stage = by_rank[wait.ranks[0]].stage
    if stage is None or wait.call.peer is None or not wait.call.label:
        return ""
    what = "to hand over" if wait.call.name == "start_send" else "for"
    return f"stage {stage} waits {what} {wait.call.label}: "


def _described(
    ranks: Sequence[int],
    by_rank: Mapping[int, Recording],
    recordings: Sequence[Recording],
    state_of: Callable[[Recording], str],
) -> str:
    last_beat = max(recording.beat for recording in recordings)
    told: dict[str, list[int]] = {}
    for rank in ranks:
        told.setdefault(_whereabouts(by_rank.get(rank), last_beat, state_of), []).append(rank)
    return " and for ".join(f"{_ranks(those)}, {_which(those, words)}" for words, those in told.items())


def _which(ranks: Sequence[int], words: str) -> str:
    """Return what is told of one rank as a clause about ``ranks``."""
    if len(ranks) == 1:
        return f"which {words}"
    verb, _, rest = words.partition(" ")
    return f"which all {_PLURAL.get(verb, verb)} {rest}"


def _whereabouts(recording: Recording | None, last_beat: float, state_of: Callable[[Recording], str]) -> str:
    if recording is None:
        return "left no recording"
    ended = (call for call in reversed(recording.calls) if call.left is not None and call.peer is None)
    last = next((call for call in ended if len(call.group.ranks) != 1), None)
    after = f" after {last}" if last else " before its first collective"
    if recording.action:
        after = f" in {recording.action}"
    if recording.inside is not None:
        after = f" in {recording.inside}"
    if recording.state in ("ended", "failed"):
        return f"has {recording.state}{after}"
    state = state_of(recording)
    if state == "dead":
        return f"has died{after}, on {recording.host}"
    at = f" at {recording.place}" if recording.place else ""
    silent = last_beat - recording.beat
    if state == "stopped" or silent > _SILENT_SECONDS:
        why = "is stopped" if state == "stopped" else f"has given no sign for {silent:.0f} s"
        return f"{why}{at and f', last seen{at},'}{after}"
    if recording.inside is not None:
        return f"is in {recording.inside}{at}"
    if recording.action:
        return f"is{after}{at and f',{at}'}"
    return f"is{at or ' computing'}{after}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {spans(ranks)}"
