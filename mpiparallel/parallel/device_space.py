"""Live arrays of devices on their way to other layouts: packed, sent, checked and unpacked where they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from math import prod
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.transport.opening import open_transport
from mpiparallel.communication.transport.protocol import Transport, TransportCall
from mpiparallel.errors import CommunicationError, ConfigurationError, RankFailureError, ReshardError
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.written_kernels.box_packing import BoxPacking
from mpiparallel.graph.written_kernels.word_sums import BLOCKS, byte_sums, part_sums
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import memory
from mpiparallel.reshard.bound_plan import BoundPlan
from mpiparallel.reshard.executors.rounds import Round, Rounds
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.options import ReshardOptions
from mpiparallel.reshard.pieces import ALIGNMENT
from mpiparallel.reshard.verification import Checked

_HOLDER: Final = "what is on its way to other ranks"


class DeviceSpace:
    """The memory of the ranks' devices; arrays travel as those of a step do (``transport.choice``).

    ``moves_on_devices`` says whether a move is for it. What it moves is in C order.
    """

    NAME: Final = "device"

    def __init__(self, backend: Backend, options: ReshardOptions, communicator: Communicator) -> None:
        self._runtime = Runtime(backend, communicator)
        self._options = options
        self._communicator = communicator
        self._transport: Transport | None = None
        self.checksum_bytes = 0

    def problem(self, array: Any) -> str | None:
        """Say what to do with what is no array of the device, in C order."""
        if not isinstance(array, self._runtime.array_module.ndarray):
            return f"got a {type(array).__name__}, and the other ranks' arrays are on GPUs; give Backend.from_host(...)"
        return None if array.flags.c_contiguous else "an array on a GPU moves in C order; give a copy"

    def get_ready(self) -> None:
        """Open the transport of the ranks."""
        if self._transport is not None:
            return
        world, runtime = self._communicator, self._runtime
        try:
            self._transport = open_transport(world, world, runtime.backend, runtime.slots)
        except RankFailureError:
            raise
        except (ConfigurationError, CommunicationError) as error:
            raise ReshardError(f"arrays of GPUs cannot travel: {error}") from error

    def choose(self, shape: TrafficShape) -> str:
        """Return the name of the one executor."""
        return self.NAME

    def targets(
        self, executor: str, layouts: Mapping[str, Layout], dtypes: Mapping[str, np.dtype[Any]], kept: Collection[str]
    ) -> tuple[str, memory.Targets]:
        """Return new arrays of the device."""
        new = {tensor: layout for tensor, layout in layouts.items() if tensor not in kept}
        rank = self._communicator.ranks[self._communicator.rank]
        targets = memory.Targets({})
        with failing_together(self._communicator, ReshardError):
            targets = memory.private_targets(new, dtypes, rank, self._new)
        return executor, targets

    def executor(self, name: str, bound: BoundPlan, shape: TrafficShape, targets: memory.Targets) -> DeviceExecutor:
        """Return what carries out a plan; the transport is open."""
        if self._transport is None:
            raise ReshardError("the transport between the devices was not opened; call get_ready before")
        return DeviceExecutor(self._runtime, bound, self._communicator, shape, self._transport, self._options.verify)

    def digest(self, array: Any, box: Box, global_shape: tuple[int, ...]) -> int:
        """Return the digest of a part, made on the device."""
        sums = _Sums(self._runtime, 1)
        part_sums(self._runtime, array, box, global_shape, sums.next())()
        return sums.read()[0]

    def _new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        memory_of = self._runtime.backend.empty(prod(shape) * dtype.itemsize, "a parameter that moves")
        return memory_of.view(dtype).reshape(shape)


class DeviceExecutor:
    """Windows of bounded size on the device: packed by one kernel a round, sent by the transport, unpacked by one.

    With ``verifies`` the device makes a checksum of each window at both ends; the host reads them all at the end.
    """

    def __init__(
        self,
        runtime: Runtime,
        bound: BoundPlan,
        communicator: Communicator,
        shape: TrafficShape,
        transport: Transport,
        verifies: bool,
    ) -> None:
        self._runtime = runtime
        self._bound = bound
        self._communicator = communicator
        self._transport = transport
        new = runtime.backend.empty
        self._rounds = Rounds(bound, shape.share, lambda count: new(max(count, 1), _HOLDER), alignment=ALIGNMENT)
        steps = self._rounds.steps
        self._packs = [self._packing([(place, piece) for place, piece in step.packing], "pack") for step in steps]
        self._unpacks = [self._packing([(place, piece) for piece, place in step.unpacking], "unpack") for step in steps]
        self._checks = _Checks(runtime, steps) if verifies else None
        self._calls: list[TransportCall] = []

    def connect(self) -> None:
        """Bind the messages of all rounds; all ranks call it together."""
        self._rounds.agree(self._communicator)
        try:
            self._calls = [self._transport.exchange(step.sends, step.receives) for step in self._rounds.steps]
        except RankFailureError:
            raise
        except CommunicationError as error:
            raise ReshardError(str(error)) from error

    def run(self) -> Checked:
        """Fill the targets from the sources, and wait until that is done; all ranks call it together."""
        copy = self._runtime.array_module.copyto
        for target, source in self._bound.copies:
            copy(target, source)
        for number, call in enumerate(self._calls):
            own = number < len(self._packs)
            if own:
                _run(self._packs[number])
                if self._checks:
                    _run(self._checks.sent[number])
            call.run()
            if own:
                if self._checks:
                    _run(self._checks.arrived[number])
                _run(self._unpacks[number])
        # What was given is taken over, or given back, as soon as this returns.
        self._runtime.backend.synchronize()
        return self._checks.read(self._rounds.tensors) if self._checks else Checked(tensors=self._rounds.tensors)

    def free(self) -> None:
        """Give back the windows."""
        self._rounds.forget()
        self._calls, self._packs, self._unpacks, self._checks = [], [], [], None

    def _packing(self, pairs: Sequence[tuple[Array, Array]], direction: str) -> list[Kernel]:
        """Return what copies pieces to or from their places in the buffer: one kernel for all of one width."""
        buffer = self._rounds.sent if direction == "pack" else self._rounds.received
        if self._runtime.backend.kernels is None:
            copy = self._runtime.array_module.copyto
            turned = [(place, piece) if direction == "pack" else (piece, place) for place, piece in pairs]
            return [lambda: [copy(target, source) for target, source in turned]]
        address = self._runtime.backend.address
        start = address(buffer)
        found: list[Kernel] = []
        ordered = sorted((pair for pair in pairs if pair[1].size), key=_width)
        for width, group in groupby(ordered, key=_width):
            own = list(group)
            places = [(address(place) - start) // width for place, _ in own]
            whole = buffer[: buffer.size // width * width].view(own[0][1].dtype)
            packing = BoxPacking(self._runtime, [piece for _, piece in own], whole, places)
            found.append(packing.pack if direction == "pack" else packing.unpack)
        return found


class _Checks:
    """The checksums of all windows: of what each round sends, and of what has arrived in it, by member."""

    def __init__(self, runtime: Runtime, steps: Sequence[Round]) -> None:
        count = sum(len(step.sends) + len(step.receives) for step in steps)
        self._sums = _Sums(runtime, count)
        self.sent = [self._of(runtime, step.sends) for step in steps]
        self.arrived = [self._of(runtime, step.receives) for step in steps]
        self._members = [[list(step.sends) for step in steps], [list(step.receives) for step in steps]]

    def _of(self, runtime: Runtime, windows: Mapping[int, Array]) -> list[Kernel]:
        return [byte_sums(runtime, content, self._sums.next()) for content in windows.values()]

    def read(self, tensors: dict[int, list[tuple[str, ...]]]) -> Checked:
        """Return all checksums; the host waits for the device."""
        found = iter(self._sums.read())
        checked = Checked(tensors=tensors)
        for side, members in zip((checked.sent, checked.arrived), self._members, strict=True):
            for member in (one for step in members for one in step):
                side.setdefault(member, []).append(next(found))
        return checked


class _Sums:
    """Rows of partial sums on the device, taken one after another and read all together."""

    def __init__(self, runtime: Runtime, count: int) -> None:
        self._backend = runtime.backend
        self._rows = runtime.backend.from_host(np.zeros((max(count, 1), BLOCKS), np.uint64), _HOLDER)
        self._taken = 0

    def next(self) -> Array:
        """Return the next row, all zeros."""
        self._taken += 1
        return self._rows[self._taken - 1]

    def read(self) -> list[int]:
        """Return the sum of each row, modulo 2^64."""
        rows: np.ndarray[Any, Any] = self._backend.to_host(self._rows)
        sums: list[int] = rows.sum(axis=1, dtype=np.uint64).tolist()
        return sums


def _width(pair: tuple[Array, Array]) -> int:
    width: int = pair[1].dtype.itemsize
    return width


def on_device(array: Array, backend: Backend, holder: str) -> Array:
    """Return an array on the device of a backend: itself, or a copy for ``holder`` where it is in the host's memory."""
    return backend.from_host(np.ascontiguousarray(array), holder) if isinstance(array, np.ndarray) else array


def _run(kernels: Sequence[Kernel]) -> None:
    for kernel in kernels:
        kernel()


def moves_on_devices(backend: Backend, options: ReshardOptions, communicator: Communicator) -> bool:
    """Return whether all ranks have their arrays on devices, and ask for no executor of the host's.

    All ranks call it together, and are told the same.
    """
    own = backend.links is not None and options.executor in ("auto", "packed")
    return not communicator.any_true(not own)
