"""Kernels that run one after another, on a device given in as few calls as can be: recorded once, then replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Final

from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.transport.in_flight import GraphCall, InFlight
from mpiparallel.communication.transport.protocol import Transport
from mpiparallel.compatibility.remark import remark
from mpiparallel.graph.execution.runtime import Kernel, do_nothing
from mpiparallel.graph.graph import Node
from mpiparallel.pipeline.action import Action

Step = tuple[Node, Kernel]
Ways = Sequence[Transport]
Transports = Mapping[Node, Ways]
"""By which ways the collectives of a program travel."""
_MADE_READY: Final = 2
"""The run that records: the one before it loads kernels and finds scratch memory."""
_FEWEST: Final = 2
"""Kernels from which on one call for all is less than a call for each."""


class Stretch:
    """Steps that run only while all flags are other than 0; each flag is read only where those before it hold.

    They belong to one ``action`` of a pipeline's stage, or to none; ``begin`` tells that the rank begins it. On an
    asynchronous device the first run prepares everything, such as scratch memory. The second run records what can be
    recorded, and later runs replay it. Between the graphs the host runs what it has a part in. Graphs with collectives
    in them are only proposed: they are replayed when all ranks have agreed (``agreed_graphs``).
    """

    def __init__(
        self,
        backend: Backend,
        flags: list[Array],
        steps: list[Step],
        action: Action | None,
        transports: Transports | None = None,
    ) -> None:
        self._backend = backend
        self._flags = flags
        self.steps = steps
        self.action = action
        self.begin: Kernel = do_nothing
        self._runs_to_record = _MADE_READY if backend.is_asynchronous else 0
        self._calls: list[Kernel] = [kernel for _, kernel in steps]
        self._transports = transports or {}
        self._refused = {node for node, _ in steps if not node.operator.replays and not _communicates(node)}
        self._collectives: dict[Node, Ways] = {}
        self._choose_collectives()
        self._proposed: list[Kernel] = []
        self.proposed_calls: list[GraphCall] = []

    @property
    def proposes(self) -> bool:
        """Whether there are graphs with collectives in them that nobody has agreed on yet."""
        return bool(self._proposed)

    @property
    def groups(self) -> list[Communicator]:
        """The groups of all collectives that might be in graphs, whether or not this rank can record them."""
        nodes = (node for node, _ in self.steps if self._may_replay(node))
        return [one.communicator for node in nodes for one in self._transports[node]]

    def take(self) -> None:
        """Replay what was proposed from now on."""
        self._calls, self._proposed = self._proposed, []

    def give_up(self) -> None:
        """Record anew in the next run, without collectives."""
        self._proposed, self.proposed_calls = [], []
        self._refused |= self._collectives.keys()
        self._collectives = {}
        self._runs_to_record = 1

    def holds(self) -> bool:
        """Return whether the steps run now."""
        return all(bool(self._backend.to_host(flag)) for flag in self._flags)

    def run(self) -> None:
        """Run the steps."""
        if self._runs_to_record:
            self._runs_to_record -= 1
            if not self._runs_to_record:
                self._record()
                return
        for call in self._calls:
            call()

    def _record(self) -> None:
        """Run the steps, and have graphs of those that can be recorded from then on."""
        if self._collectives:
            self._propose()
        if self._collectives:
            for call in self._calls:
                call()
            return
        self._say_who_waits()
        calls: list[Kernel] = []
        rest = self.steps
        while rest:
            count, call = self._first_of(rest)
            call()
            calls.append(call)
            rest = rest[count:]
        self._calls = calls

    def _propose(self) -> None:
        """Have graphs with collectives in them, as many as can be; nothing is run."""
        while self._collectives:
            calls, recorded = list[Kernel](), set[Node]()
            self.proposed_calls = []
            rest = self.steps
            while rest:
                count, call = self._first_of(rest)
                calls.append(call)
                recorded.update(node for node, _ in rest[: count if count >= _FEWEST else 0])
                rest = rest[count:]
            if recorded.issuperset(self._collectives):
                self._say_who_waits()
                self._proposed = calls
                return
            lost = self._collectives.keys() - recorded
            if lost.isdisjoint(self._choose_collectives()):
                self._refused |= lost
                self._choose_collectives()

    def _choose_collectives(self) -> set[Node]:
        """Take those that can be in graphs, between the steps that the host has a part in; return those left out."""
        before = {*self._collectives}
        nodes = [node for node, _ in self.steps]
        self._refused |= {node for node in nodes if _communicates(node) and not self._may_replay(node)}
        self._collectives = _collectives_for_graphs(nodes, self._refused, self._transports)
        self._refused |= {node for node in nodes if _communicates(node)} - self._collectives.keys()
        return before - self._collectives.keys()

    def _may_replay(self, node: Node) -> bool:
        ways = self._transports.get(node, ())
        return bool(ways) and all(one.graph_calls() is not None for one in ways)

    def _say_who_waits(self) -> None:
        """Say which collective the host has a part in, of the first one."""
        for node, _ in self.steps:
            ways = [one.name for one in self._transports.get(node, ())]
            if ways and node in self._refused:
                who = f"{node.operator.name} travels by {ways[0]}"
                remark(f"a step is not one CUDA graph, for {who}; the host gives it by itself")
                return

    def _first_of(self, steps: Sequence[Step]) -> tuple[int, Kernel]:
        """Return how many steps can be done by one call, and the call."""
        count = next((place for place, (node, _) in enumerate(steps) if node in self._refused), len(steps))
        while count >= _FEWEST:
            recording = _Recording(steps[:count])
            try:
                return count, self._recorded_call(recording)
            except Exception as error:
                # Whatever a kernel cannot do while it is recorded, it can do when it is run.
                count = self._stops_at(recording, error)
        return 1, steps[0][1]

    def _recorded_call(self, recording: _Recording) -> Kernel:
        """Return what replays the steps, and announces the collectives among them."""
        nodes = [node for node, _ in recording.steps]
        in_flight = next((self._in_flight(node) for node in nodes if node in self._collectives), None)
        if in_flight is None:
            return self._backend.capture(recording.run)
        with in_flight.recording() as calls:
            launch = self._backend.capture(recording.run)
        self.proposed_calls += calls
        return partial(in_flight.replay, calls, launch, self._backend.compute.record)

    def _in_flight(self, node: Node) -> InFlight | None:
        return self._collectives[node][0].graph_calls()

    def _stops_at(self, recording: _Recording, error: Exception) -> int:
        """Return how many steps may still be recorded together."""
        if recording.done == len(recording.steps):
            return recording.done // 2
        node, _ = recording.steps[recording.done]
        self._refused.add(node)
        remark(f"a step is not one CUDA graph, for {node.operator.name} {error}; the host gives it by itself")
        return recording.done


class _Recording:
    """Steps, and how many of them have been given."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.done = 0

    def run(self) -> None:
        """Give all."""
        for _, kernel in self.steps:
            kernel()
            self.done += 1


def _communicates(node: Node) -> bool:
    """Return whether Python writes a call down in each run, unless that is part of a graph."""
    return node.operator.kind == "communication"


def _collectives_for_graphs(nodes: Sequence[Node], refused: Set[Node], transports: Transports) -> dict[Node, Ways]:
    """Return the collectives that can be part of a graph, none of which is ``refused``.

    What begins and what ends one of them must be in the same graph, and a graph has two steps at least.
    """
    found = {node: transports[node] for node in nodes if _communicates(node) and node not in refused}
    while True:
        divided = _divided(nodes, refused, found, transports)
        if not divided:
            return found
        found = {node: ways for node, ways in found.items() if node not in divided}


def _divided(nodes: Sequence[Node], refused: Set[Node], found: Transports, transports: Transports) -> set[Node]:
    """Return the collectives that would be alone in a graph, or whose other half would be in another one."""
    pieces: list[list[Node]] = [[]]
    for node in nodes:
        if node in refused or (_communicates(node) and node not in found):
            pieces.append([])
        else:
            pieces[-1].append(node)
    alone = {node for piece in pieces if len(piece) < _FEWEST for node in piece if node in found}
    home = {node: number for number, piece in enumerate(pieces) for node in piece}
    homes: dict[int, set[int | None]] = {}
    for node, ways in transports.items():
        for one in ways:
            homes.setdefault(id(one), set()).add(home.get(node))
    return alone | {node for node, ways in found.items() if any(len(homes[id(one)]) > 1 for one in ways)}
