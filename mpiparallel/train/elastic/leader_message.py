"""What the rank that leads tells the spares: a reshard to take part in, or that there is nothing to wait for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Generic, TypeVar

import numpy as np

from mpiparallel import errors
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.context.compiled_function import InputSignature
from mpiparallel.context.settings import LoadedStrategies
from mpiparallel.dataclass import dataclass
from mpiparallel.dtype import dtype_text
from mpiparallel.errors import MpiParallelError, name_origins
from mpiparallel.graph.operator import Strategy
from mpiparallel.layout.interned import Interned
from mpiparallel.layout.layout import Layout
from mpiparallel.layout.layout_json import layout_from_json, layout_to_json


@dataclass(frozen=True)
class MovedParameter(metaclass=Interned):
    """One parameter: what it is, and its layouts before and after by the ranks of those who train."""

    spec: TensorSpec
    source: Layout
    target: Layout


@dataclass(frozen=True)
class ReshardCommand:
    """A reshard: all that a rank must know that has not trained so far.

    ``before`` and ``after`` are the ranks that train, ``leaving`` those that will not wait. ``parallel``, ``seed`` and
    ``draws`` are settings, ``strategies`` those of a file. ``cuts`` are those of operators and ``stages`` those of
    cells by their places in the training network. ``position`` is where a running training stands. ``dead`` ranks are
    those of ``before`` that have died. Where ``reloads`` names a folder and a prefix, nothing is moved, but all is
    loaded from the newest checkpoint there.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    leaving: tuple[int, ...]
    step: int
    parallel: dict[str, Any]
    seed: int
    draws: int
    strategies: LoadedStrategies
    cuts: dict[str, tuple[Strategy | None, Strategy | None]]
    stages: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, MovedParameter] = field(default_factory=dict)
    signature: InputSignature | None = None
    options: dict[str, Any] = field(default_factory=dict)
    position: dict[str, Any] | None = None
    dead: tuple[int, ...] = ()
    reloads: tuple[str, ...] = ()

    @property
    def living(self) -> tuple[int, ...]:
        """Those of ``before`` that can give what they hold."""
        return tuple(rank for rank in self.before if rank not in self.dead)


@dataclass(frozen=True)
class Refusal:
    """A reshard that has been refused because of ranks ``origins``; all stays as it is."""

    why: str
    origins: Sequence[int] = ()


@dataclass(frozen=True)
class TrainingEnd:
    """The end of a training: by ``error``, the name of its class, of ranks ``origins``, or well where there is none."""

    error: str = ""
    why: str = ""
    origins: Sequence[int] = ()


@dataclass(frozen=True)
class PreemptionEnd:
    """The end of a training that a signal has asked for: all ranks of the job end with this exit code."""

    code: int
    why: str


@dataclass(frozen=True)
class SpawnRequest:
    """Processes to be started by everyone together, before a reshard."""

    count: int


@dataclass(frozen=True)
class Shutdown:
    """The end of the leader's program: no more messages come."""


LeaderMessage = ReshardCommand | Refusal | TrainingEnd | PreemptionEnd | SpawnRequest | Shutdown
_PLAIN = {kind.__name__: kind for kind in (Refusal, TrainingEnd, PreemptionEnd, SpawnRequest, Shutdown)}


def error_of(end: TrainingEnd) -> MpiParallelError:
    """Return, for ranks that waited, the error that ended the training on the others."""
    kind: type[MpiParallelError] = getattr(errors, end.error, MpiParallelError)
    error = kind(f"Model.train: the training that this rank waited for has ended: {end.error}: {end.why}")
    return name_origins(error, end.origins)


def encode(message: LeaderMessage) -> bytes:
    """Return a message as bytes."""
    if isinstance(message, ReshardCommand):
        content = {"kind": ReshardCommand.__name__, **_command_to_json(message)}
    else:
        content = {"kind": type(message).__name__, **vars(message)}
    return json.dumps(content, sort_keys=True).encode()


def decode(content: bytes) -> LeaderMessage:
    """Return the message that ``encode`` made bytes of.

    >>> decode(encode(TrainingEnd("NonFiniteError", "the loss is nan", [0])))
    TrainingEnd(error='NonFiniteError', why='the loss is nan', origins=[0])
    """
    found = json.loads(content)
    kind = found.pop("kind")
    if kind == ReshardCommand.__name__:
        return _command_from_json(found)
    return _PLAIN[kind](**found)


def _command_to_json(command: ReshardCommand) -> dict[str, Any]:
    layouts = _Table(layout_to_json)
    moves = _Table[MovedParameter](
        lambda one: [_spec_to_json(one.spec), layouts.place(one.source), layouts.place(one.target)]
    )
    return {
        **vars(command),
        "tensors": {name: moves.place(one) for name, one in sorted(command.tensors.items())},
        "moves": moves.entries,
        "layouts": layouts.entries,
        "signature": None
        if command.signature is None
        else [[_spec_to_json(spec) for spec in command.signature.specs], command.signature.structure],
    }


def _command_from_json(found: dict[str, Any]) -> ReshardCommand:
    layouts = [layout_from_json(entry) for entry in found.pop("layouts")]
    moves = [
        MovedParameter(_spec_from_json(spec), layouts[source], layouts[target])
        for spec, source, target in found.pop("moves")
    ]
    tensors = {name: moves[place] for name, place in found["tensors"].items()}
    path, strategies, made_for = found["strategies"]
    signature = found["signature"]
    known = {
        "before": tuple(found["before"]),
        "after": tuple(found["after"]),
        "leaving": tuple(found["leaving"]),
        "dead": tuple(found["dead"]),
        "reloads": tuple(found["reloads"]),
        "strategies": (path, tuple((name, _tuples(cuts)) for name, cuts in strategies), made_for),
        "cuts": {place: _tuples(cuts) for place, cuts in found["cuts"].items()},
        "tensors": tensors,
        "signature": None
        if signature is None
        else InputSignature(tuple(_spec_from_json(spec) for spec in signature[0]), _tuples(signature[1])),
    }
    return ReshardCommand(**{**found, **known})


_Entry = TypeVar("_Entry")


class _Table(Generic[_Entry]):
    """Distinct values as JSON in a list: many tensors have equal ones. They are held elsewhere meanwhile."""

    def __init__(self, to_json: Callable[[_Entry], Any]) -> None:
        self.entries: list[Any] = []
        self._to_json = to_json
        self._places: dict[_Entry, int] = {}
        # Objects are compared faster than what they say.
        self._seen: dict[int, int] = {}

    def place(self, one: _Entry) -> int:
        """Return where a value is in the list."""
        place = self._seen.get(id(one))
        if place is None:
            place = self._places.setdefault(one, len(self._places))
            if place == len(self.entries):
                self.entries.append(self._to_json(one))
            self._seen[id(one)] = place
        return place


def _spec_to_json(spec: TensorSpec) -> list[Any]:
    return [spec.shape, dtype_text(spec.dtype)]


def _spec_from_json(entry: Any) -> TensorSpec:
    return TensorSpec(tuple(entry[0]), np.dtype(entry[1]))


def _tuples(item: Any) -> Any:
    """Return nested lists as tuples, as they were before they became JSON."""
    return tuple(_tuples(one) for one in item) if isinstance(item, list) else item


def settings_for(parallel: Mapping[str, Any], devices: int, rank: int = 0) -> dict[str, Any]:
    """Return parallel settings as ``rank`` of ``devices`` has them: where they name a rank or a count, that one."""
    return {
        **parallel,
        "device_num": None if parallel["device_num"] is None else devices,
        "global_rank": None if parallel["global_rank"] is None else rank,
    }
