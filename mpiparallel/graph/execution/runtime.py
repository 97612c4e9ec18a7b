"""What a running program may use: arrays, the world, random numbers, scratch memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.outbox import Outbox
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError

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
class Runtime:
    """The surroundings of one rank's program, and whether that ``has_run``.

    ``communicator`` is None where a program has no collectives. ``label`` names the node that is being bound.
    ``outbox`` has the messages that are being sent, ``arrivals`` those that are received, by tag, ``begun`` the
    collectives that are under way, by the operator that starts them; ``stage`` is that of a pipeline in which the rank
    is. With ``rehearsed`` kernels are bound only to see what memory they take: none of them runs, so instead of being
    compiled the texts of loops are put there.
    """

    backend: Backend = field(default_factory=NumpyBackend)
    communicator: Communicator | None = None
    random: RandomState = field(default_factory=RandomState)
    label: str = ""
    has_run: bool = False
    stage: int = 0
    rehearsed: set[str] | None = None
    outbox: Outbox = field(default_factory=Outbox)
    arrivals: dict[int, Any] = field(default_factory=dict)
    begun: dict[object, Any] = field(default_factory=dict)
    _scratch: dict[int, Array] = field(default_factory=dict)

    @property
    def array_module(self) -> Any:
        """The array library, with NumPy's names."""
        return self.backend.array_module

    def group(self, ranks: tuple[int, ...]) -> Communicator:
        """Return the communicator of these world ranks; only they may call this, all in one order."""
        if self.communicator is None:
            raise CommunicationError(
                f"a collective over ranks {ranks} needs a world; call mpiparallel.communication.init() first"
            )
        group = self.communicator if ranks == self.communicator.ranks else self.communicator.group(ranks)
        return group.labelled(self.label)

    def scratch(self, shape: tuple[int, ...], dtype: Any, slot: int = 0) -> Array:
        """Return uninitialised memory that is the kernel's own only while it runs; slots do not overlap."""
        wanted = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        memory = self._scratch.get(slot)
        if memory is None or memory.size < wanted:
            memory = self._scratch[slot] = self.backend.empty(max(wanted, 1 << 16))
        return memory[:wanted].view(dtype).reshape(shape)
