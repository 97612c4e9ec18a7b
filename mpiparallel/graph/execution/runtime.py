"""What a running program may use: arrays, the world, random numbers, scratch memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.transport.opening import open_transport
from mpiparallel.communication.transport.protocol import Transport
from mpiparallel.communication.transport.staged import PinnedSlots
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CommunicationError
from mpiparallel.graph.execution.late_values import LateValues
from mpiparallel.graph.execution.run_numbers import RunNumbers

Kernel = Callable[[], object]
"""What computes something once each time it is called."""


def do_nothing() -> None:
    """Do nothing, where nothing has to be done."""


@dataclass
class RandomState:
    """The seed of a program and what names its draw, such as a step: with a name, the key of random numbers."""

    seed: int = 0
    draw: int | str = 0


@dataclass
class FedArray:
    """An input of a program, where kernels read it, and what looks at each host array before it is fed there."""

    array: Array
    checks: list[Callable[[np.ndarray[Any, Any]], None]] = field(default_factory=list)


@dataclass
class Runtime:
    """The surroundings of one rank's program, and whether that ``has_run``.

    ``communicator`` is None where a program has no collectives. ``label`` names the node that is being bound.
    ``numbers`` has what changes from run to run, ``fed`` the inputs; ``late`` brings results. ``stage`` is the rank's
    stage of a pipeline. ``departures`` has what is sent to other stages, ``arrivals`` what is received, both by tag.
    ``copies`` has the host's memory, by bytes, of messages that are sent by that point of the program; later ones take
    it. ``begun`` has the collectives that are under way, by the operator that starts them. ``slots`` are those of calls
    that are staged through the host. ``opened`` are the transports of the node that is being bound. ``meets`` says that
    all ranks run the program together. With ``rehearsed`` kernels are bound only to see what memory they take. None of
    them runs, so the texts of loops are collected there and not compiled.
    """

    backend: Backend = field(default_factory=NumpyBackend)
    communicator: Communicator | None = None
    random: RandomState = field(default_factory=RandomState)
    label: str = ""
    has_run: bool = False
    stage: int = 0
    meets: bool = False
    rehearsed: set[str] | None = None
    departures: dict[int, Any] = field(default_factory=dict)
    arrivals: dict[int, Any] = field(default_factory=dict)
    copies: dict[int, list[np.ndarray[Any, Any]]] = field(default_factory=dict)
    begun: dict[object, Any] = field(default_factory=dict)
    opened: list[Transport] = field(default_factory=list)
    slots: PinnedSlots = field(default_factory=PinnedSlots)
    numbers: RunNumbers = field(init=False)
    late: LateValues = field(init=False)
    fed: list[FedArray] = field(default_factory=list)
    _scratch: dict[int, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = RunNumbers(self.backend)
        self.late = LateValues(self.backend)

    @property
    def array_module(self) -> Any:
        """The array library, with NumPy's names."""
        return self.backend.array_module

    def looks_when_fed(self, array: Array, check: Callable[[np.ndarray[Any, Any]], None]) -> bool:
        """Have all that is fed as ``array`` looked at on the host, and return True; False where that is no input.

        So the host does not wait for a device in the middle of a run.
        """
        if not self.backend.is_asynchronous or not array.size or not array.flags.c_contiguous:
            return False
        address = self.backend.address
        for one in self.fed:
            if (address(one.array), one.array.nbytes, one.array.dtype) == (address(array), array.nbytes, array.dtype):
                one.checks.append(check)
                return True
        return False

    def group(self, ranks: tuple[int, ...]) -> Communicator:
        """Return the communicator of these world ranks; only they may call this, all in one order."""
        if self.communicator is None:
            raise CommunicationError(
                f"a collective over ranks {ranks} needs a world; call mpiparallel.communication.init() first"
            )
        group = self.communicator if ranks == self.communicator.ranks else self.communicator.group(ranks)
        return group.labelled(self.label)

    def transport(self, ranks: tuple[int, ...]) -> Transport:
        """Return how these world ranks move arrays of the backend; only they may call this, all in one order."""
        group = self.group(ranks)
        self.opened.append(open_transport(self.communicator or group, group, self.backend, self.slots))
        return self.opened[-1]

    def memory(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return uninitialised memory of the backend, in C order."""
        byte_count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        return self.backend.empty(byte_count, self.label).view(dtype).reshape(shape)

    def scratch(self, shape: tuple[int, ...], dtype: Any, slot: int = 0) -> Array:
        """Return uninitialised memory that is the kernel's own only while it runs; slots do not overlap."""
        wanted = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        memory = self._scratch.get(slot)
        if memory is None or memory.size < wanted:
            memory = self._scratch[slot] = self.backend.empty(max(wanted, 1 << 16), f"scratch of {self.label}")
        return memory[:wanted].view(dtype).reshape(shape)
