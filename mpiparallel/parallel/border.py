"""What crosses from one group of ranks to another: sent, and received in the layout in which it is taken there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.protocol import Communicator, Message
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.execution.runtime import Runtime, do_nothing
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.plan import ReshardPlan, Transfer, plan_reshard


@dataclass(frozen=True)
class Border:
    """Where a value is before and after, on other ranks, and the ``tag`` by which its messages are known."""

    tag: int
    source: Layout
    target: Layout

    def plan(self, rank: int) -> ReshardPlan:
        """Return which boxes ``rank`` sends or receives."""
        return plan_reshard({"": (self.source, self.target)}, rank)


class BorderOperator(Operator):
    """One of the four parts of a crossing; which ranks it joins is known when both ends are laid out."""

    kind = "communication"
    follows = True
    keeps_layouts = True

    def __init__(self, border: Border | None = None) -> None:
        self._border = border

    def cost(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Cost:
        """Return the copy of what is sent; what comes is on its way meanwhile."""
        sent = sum(spec.byte_count for spec in inputs) if not outputs else 0
        return Cost(0, sent, sent)

    @property
    def border(self) -> Border:
        """Where it leads."""
        if self._border is None:
            raise ValueError(f"{self.scope}: both ends of a crossing are laid out before it is bound")
        return self._border


class Send(BorderOperator):
    """Starts to send a value, which must be left alone until ``EndSend`` has run."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        communicator, border = _world(runtime).labelled(runtime.label), self.border
        held = border.source.box(communicator.rank)
        pieces = []
        for one in border.plan(communicator.rank).sends:
            box = _part(inputs[0], one, held)
            host = box if _is_one_piece_of_host(box) else _slot(runtime, box)
            pieces.append(_Piece(communicator.message_to(host, one.target, border.tag), host, box))
        departure = runtime.departures[border.tag] = Departure(pieces)
        return partial(departure.start, runtime) if pieces else do_nothing


class EndSend(BorderOperator):
    """Waits until a value has been received that was sent; from there on its memory is used for others."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()

    def cost(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Cost:
        """Return no cost of its own: it waits."""
        return Cost(0)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        departure: Departure = runtime.departures[self.border.tag]
        for slot in departure.slots:
            runtime.copies.setdefault(slot.size, []).append(slot)
        return departure.end if departure.pieces else do_nothing


class Receive(BorderOperator):
    """Starts to receive a value; its output must be left alone until ``Arrive`` has run."""

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        communicator, border = _world(runtime).labelled(runtime.label), self.border
        pieces = []
        for one in border.plan(communicator.rank).receives:
            box = _part(outputs[0], one, border.target.box(communicator.rank))
            host = box if _is_one_piece_of_host(box) else runtime.backend.host_array(box.shape, box.dtype)
            pieces.append(_Piece(communicator.message_from(host, one.source, border.tag), host, box))
        arrival = runtime.arrivals[border.tag] = Arrival(pieces)
        return arrival.start


class Arrive(BorderOperator):
    """Waits for what ``Receive`` has started; its output is the value."""

    reuses = (0,)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        arrival, xp = runtime.arrivals[self.border.tag], runtime.array_module
        source, target = inputs[0], outputs[0]
        is_there = bool(xp.shares_memory(source, target)) if source.size else True

        def run() -> None:
            arrival.end(runtime)
            if not is_there:
                xp.copyto(target, source)

        return run


@dataclass(frozen=True)
class _Piece:
    """A ``box`` of an array that a message carries; the message sends or fills ``host``, the box itself if it can."""

    message: Message
    host: np.ndarray[Any, Any]
    box: Array

    @property
    def is_copied(self) -> bool:
        return self.host is not self.box


class Departure:
    """The messages that carry a value to other ranks, from where they are started to where its memory is used again."""

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self.pieces = pieces

    @property
    def slots(self) -> list[np.ndarray[Any, Any]]:
        """The memory that copies of boxes are sent from."""
        return [piece.host.reshape(-1).view(np.uint8) for piece in self.pieces if piece.is_copied]

    def start(self, runtime: Runtime) -> None:
        """Send what the array shows now."""
        for piece in self.pieces:
            if piece.is_copied:
                runtime.backend.copy_to_host(piece.box, piece.host)
            piece.message.start()

    def end(self) -> None:
        """Wait until all has been received."""
        for piece in self.pieces:
            piece.message.end()


class Arrival:
    """The messages that bring a value, from where they are started to where it is needed."""

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self._pieces = pieces

    def start(self) -> None:
        """Begin to receive."""
        for piece in self._pieces:
            piece.message.start()

    def end(self, runtime: Runtime) -> None:
        """Wait for all, and put what they have brought where it belongs."""
        for piece in self._pieces:
            piece.message.end()
            if piece.is_copied:
                runtime.backend.copy_from_host(piece.host, piece.box)


def _part(array: Array, transfer: Transfer, whole: Box) -> Array:
    """Return the box that is transferred of an array that holds ``whole``, as a view."""
    place = (*transfer.box.within(whole), ...)
    return array[place]


def _is_one_piece_of_host(box: Array) -> bool:
    return isinstance(box, np.ndarray) and box.flags.c_contiguous


def _slot(runtime: Runtime, box: Array) -> np.ndarray[Any, Any]:
    """Return memory of the host for a copy of a box: some that nothing uses at this point of the program, or new."""
    free = runtime.copies.get(box.nbytes)
    memory: np.ndarray[Any, Any] = free.pop() if free else runtime.backend.host_array((box.nbytes,), np.uint8)
    copied: np.ndarray[Any, Any] = memory.view(box.dtype).reshape(box.shape)
    return copied


def _world(runtime: Runtime) -> Communicator:
    """Return all ranks of the job: both ends of a border are among them."""
    if runtime.communicator is None:
        raise ValueError("a pipeline runs in a world")
    return runtime.communicator
