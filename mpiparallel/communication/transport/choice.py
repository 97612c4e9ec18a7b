"""The one rule that says how arrays travel between the devices of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mpiparallel.communication.transport.facts import VARIABLE, MemberFacts
from mpiparallel.errors import ConfigurationError

_OLDEST_NCCL: Final = 21800


class TransportChoice(NamedTuple):
    """The ``name`` of a way, and ``why`` it is taken."""

    name: str
    why: str


def choose_way(facts: Sequence[MemberFacts]) -> TransportChoice:
    """Return how the members talk: the quickest way that nothing speaks against; the same on all of them.

    Raises ConfigurationError where the environment of the first member asks for another that cannot be had.

    >>> alone = MemberFacts(0, "a", "0000:01:00.0", 0, False, "auto")
    >>> choose_way([alone]).name
    'staging'
    """
    asked = facts[0].asked
    if asked != "auto" and asked not in _PROBLEMS:
        raise ConfigurationError(f"{VARIABLE}={asked!r} in the environment is none of auto, {', '.join(_PROBLEMS)}")
    if asked != "auto":
        problem = _PROBLEMS[asked](facts)
        if problem:
            raise ConfigurationError(f"{VARIABLE}={asked} cannot be had: {problem}; unset it")
        return TransportChoice(asked, f"{VARIABLE} asks for it")
    against: list[str] = []
    for name in _SHOWN:
        problem = _PROBLEMS[name](facts)
        if problem is None:
            return TransportChoice(name, "; ".join(against) or "every rank has a GPU of its own")
        against.append(f"no {_SHOWN[name]}: {problem}")
    return TransportChoice("staging", "; ".join(against))


def _against_nccl(facts: Sequence[MemberFacts]) -> str | None:
    if len(facts) == 1:
        return "a rank alone"
    for own, one in enumerate(facts):
        for member, other in enumerate(facts[:own]):
            if one.device == other.device:
                return f"members {member} and {own} share a GPU"
            if (one.host, one.card) == (other.host, other.card):
                return f"members {member} and {own} have parts of one card"
    versions = sorted({one.nccl for one in facts})
    if versions[0] < _OLDEST_NCCL:
        lacking = next(member for member, one in enumerate(facts) if one.nccl < _OLDEST_NCCL)
        return f"member {lacking} has no NCCL of 2.18 or later (pip install 'mpiparallel[cuda12x]')"
    return None if len(versions) == 1 else f"members have NCCL {' and '.join(map(str, versions))}"


def _against_ipc(facts: Sequence[MemberFacts]) -> str | None:
    if len(facts) == 1:
        return "a rank alone"
    for member, one in enumerate(facts):
        if one.host != facts[0].host:
            return f"members 0 and {member} are on two hosts"
        if one.device != facts[0].device:
            return f"members 0 and {member} have two GPUs"
    return None


def _against_mpi(facts: Sequence[MemberFacts]) -> str | None:
    unproven = next((member for member, one in enumerate(facts) if not one.aware), None)
    return None if unproven is None else f"member {unproven}'s MPI was not seen to take GPU arrays (ask the doctor)"


_PROBLEMS: Final[dict[str, Callable[[Sequence[MemberFacts]], str | None]]] = {
    "nccl": _against_nccl,
    "ipc": _against_ipc,
    "mpi": _against_mpi,
    "staging": lambda facts: None,
}
_SHOWN: Final = {"nccl": "NCCL", "ipc": "CUDA IPC", "mpi": "CUDA-aware MPI"}
