"""What crosses from one group of ranks to another: sent, and received in the layout in which it is taken there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.protocol import Communicator, Message
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
    """One of the three parts of a crossing; which ranks it joins is known when both ends are laid out."""

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
    """Starts to send a value. What it sends are copies, so that its input may be overwritten at once."""

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        communicator, border = _world(runtime).labelled(runtime.label), self.border
        held = border.source.box(communicator.rank)
        boxes = [(one.target, _part(inputs[0], one, held)) for one in border.plan(communicator.rank).sends]
        sends = [partial(runtime.outbox.send, communicator, runtime.backend, box, to, border.tag) for to, box in boxes]

        def run() -> None:
            for send in sends:
                send()

        return run if sends else do_nothing


class Receive(BorderOperator):
    """Starts to receive a value; its output must be left alone until ``Arrive`` has run."""

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        communicator, border, array = _world(runtime).labelled(runtime.label), self.border, outputs[0]
        pieces = [
            (one.source, _landing(runtime, array, one, border.target.box(communicator.rank)))
            for one in border.plan(communicator.rank).receives
        ]
        arrival = runtime.arrivals[border.tag] = Arrival([piece for _, piece in pieces])

        def run() -> None:
            arrival.messages = [communicator.start_receive(piece.host, source, border.tag) for source, piece in pieces]

        return run


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
class Landing:
    """A box of an array that is received: ``host`` is what the message fills, the box itself where it can be."""

    host: np.ndarray[Any, Any]
    box: Array | None


class Arrival:
    """The messages of a value, from where they are started to where it is needed."""

    def __init__(self, pieces: Sequence[Landing]) -> None:
        self._pieces = pieces
        self.messages: list[Message] = []

    def end(self, runtime: Runtime) -> None:
        """Wait for all, and put what they have brought where it belongs."""
        for message, piece in zip(self.messages, self._pieces, strict=True):
            message.end()
            if piece.box is not None:
                runtime.backend.copy_from_host(piece.host, piece.box)
        self.messages = []


def _part(array: Array, transfer: Transfer, whole: Box) -> Array:
    """Return the box that is transferred of an array that holds ``whole``, as a view."""
    place = (*transfer.box.within(whole), ...)
    return array[place]


def _landing(runtime: Runtime, array: Array, transfer: Transfer, whole: Box) -> Landing:
    """Return where a box of an array is received: in the array, if that is one piece of the host's memory."""
    box = _part(array, transfer, whole)
    if isinstance(box, np.ndarray) and box.flags.c_contiguous:
        return Landing(box, None)
    return Landing(runtime.backend.host_array(box.shape, box.dtype), box)


def _world(runtime: Runtime) -> Communicator:
    """Return all ranks of the job: both ends of a border are among them."""
    if runtime.communicator is None:
        raise ValueError("a pipeline runs in a world")
    return runtime.communicator


class EndSends(Operator):
    """Waits until all that was sent has been received."""

    kind = "communication"
    follows = True
    keeps_layouts = True

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()

    def cost(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Cost:
        """Return no cost of its own: it waits."""
        return Cost(0)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return runtime.outbox.end
