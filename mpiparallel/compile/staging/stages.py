"""The pass that cuts a network into the graphs of its stages, each in the order of its schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mpiparallel.compile.staging.ends_of_sends import EndsOfSends
from mpiparallel.compile.staging.homes import find_homes
from mpiparallel.compile.staging.work import Work
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.parallel.border import Arrive, EndSend, Receive, Send
from mpiparallel.pipeline.action import Action, Kind
from mpiparallel.pipeline.rules import computed_together
from mpiparallel.pipeline.schedule import Schedule

# The first stage takes gradients for those of its weights alone.
_RECEIVES: Final = {
    Kind.FORWARD: Kind.RECEIVE_ACTIVATIONS,
    Kind.INPUT_GRADIENT: Kind.RECEIVE_GRADIENTS,
    Kind.WEIGHT_GRADIENT: Kind.RECEIVE_GRADIENTS,
}
_SENDS: Final = {Kind.FORWARD: Kind.SEND_ACTIVATIONS, Kind.INPUT_GRADIENT: Kind.SEND_GRADIENTS}


@dataclass(frozen=True, eq=False)
class Crossing:
    """A value that one stage computes and another uses: who makes it, sends it, ends that, begins to receive and waits.

    By its ``label`` a message is known where something hangs.
    """

    value: Value
    source: int
    target: int
    maker: Node
    send: Node
    end: Node
    receive: Node
    arrive: Node
    label: str


@dataclass(frozen=True, eq=False)
class Sharing:
    """Scalars that stages need of each other once their gradients are there: ``nodes`` exchange them, by stage."""

    crossings: tuple[Crossing, ...]
    nodes: Mapping[int, Node]


@dataclass(frozen=True)
class Stages:
    """The graph of each stage, and what crosses between them: values one by one, and scalars together."""

    graphs: tuple[Graph, ...]
    crossings: tuple[Crossing, ...]
    sharings: tuple[Sharing, ...]


def cut_into_stages(graph: Graph, works: Mapping[Node, Work], schedule: Schedule) -> Stages:
    """Return the graphs of the stages; they share nodes and values with the whole graph.

    A node without work is run by each stage that needs its result and can run it, as `find_homes` says. So masks and
    learning rates are computed wherever they are used. Of what depends on several stages, such as a norm of all
    gradients, only the inputs from those stages are sent. Outputs of the graph are needed on all stages. A parameter is
    updated wherever it is.

    Raises ConfigurationError where a micro-batch needs what is computed of a later one.
    """
    return _Cutter(graph, works, schedule).run()


class _Moment(NamedTuple):
    """When a stage does something: the number of its action, and the place among what is done then."""

    action: int
    phase: int
    place: float


_RECEIVING, _ARRIVING, _ENDING, _COMPUTING, _SENDING = range(5)


class _Cutter:
    def __init__(self, graph: Graph, works: Mapping[Node, Work], schedule: Schedule) -> None:
        self._graph = graph
        self._works = works
        self._schedule = schedule
        self._actions: list[dict[tuple[Kind, int, int], int]] = [
            {(one.kind, one.micro_batch, one.chunk): index for index, one in enumerate(actions)}
            for actions in schedule.actions
        ]
        self._together = [computed_together(schedule, stage) for stage in range(schedule.stages)]
        self._homes = find_homes(graph, works, schedule.placement)
        self._first_use: list[dict[Value, _Moment]] = [{} for _ in schedule.actions]
        self._done: list[dict[Node, _Moment]] = [{} for _ in schedule.actions]
        self._crossings: list[Crossing] = []

    def run(self) -> Stages:
        end = len(self._graph.nodes)
        for stage in range(self._schedule.stages):
            for value in self._graph.outputs:
                self._use(stage, value, self._last(stage, end))
        for place, node in reversed([*enumerate(self._graph.nodes)]):
            for stage in self._runners(node):
                moment = self._done[stage][node] = self._moment(stage, node, place)
                for value in node.inputs:
                    self._use(stage, value, moment)
        self._wait_for_terms()
        sharings = self._share_scalars()
        self._place_messages()
        self._place_ends()
        graphs = tuple(self._graph_of(stage) for stage in range(self._schedule.stages))
        return Stages(graphs, tuple(self._crossings), tuple(sharings))

    def _last(self, stage: int, place: int) -> _Moment:
        return _Moment(len(self._schedule.actions[stage]) - 1, _COMPUTING, place)

    def _runners(self, node: Node) -> frozenset[int]:
        """Return the stages that run a node; where others need what it gives, have that sent there."""
        homes = self._homes[node]
        takers = {stage for stage, used in enumerate(self._first_use) if any(one in used for one in node.outputs)}
        source, outside = min(homes), takers - homes
        for stage in sorted(outside):
            for value in node.outputs:
                if value in self._first_use[stage]:
                    self._cross(value, node, source, stage)
        if node.operator.updates or (takers and node.operator.meets_all):
            return homes
        return homes & takers | ({source} if outside else set())

    def _moment(self, stage: int, node: Node, place: int) -> _Moment:
        work = self._works.get(node)
        if work is not None:
            action = self._action_of(work)
            if action in self._together[stage]:
                # In the order of the graph, layer by layer: so each gradient is held for one layer alone.
                action = action._replace(kind=Kind.INPUT_GRADIENT)
            return _Moment(self._actions[stage][action[:3]], _COMPUTING, place)
        used = [self._first_use[stage][value].action for value in node.outputs if value in self._first_use[stage]]
        last = self._last(stage, place)
        return last if node.operator.updates else last._replace(action=min(used, default=last.action))

    def _action_of(self, work: Work) -> Action:
        return Action(work.kind, work.micro_batch, self._schedule.placement.chunks[work.part])

    def _use(self, stage: int, value: Value, moment: _Moment) -> None:
        known = self._first_use[stage].get(value)
        self._first_use[stage][value] = moment if known is None else min(known, moment)

    def _cross(self, value: Value, node: Node, source: int, target: int) -> None:
        notes, work = Notes(guards=node.notes.guards), self._works.get(node)
        what, label = value.name, value.name
        if work is not None:
            piece = f"of micro-batch {work.micro_batch}"
            what = f"{value.name} {piece}"
            label = f"the {'activations' if work.kind is Kind.FORWARD else 'gradients'} {piece}"
        coming = Value(value.spec, f"{value.name} on its way")
        send = Node(Send(), f"send {what} to stage {target}", (value,), (), notes)
        end = Node(EndSend(), f"end of send {what} to stage {target}", (value,), (), notes)
        receive = Node(Receive(), f"receive {what} from stage {source}", (), (coming,), notes)
        arrive = Node(Arrive(), f"arrival of {what} from stage {source}", (coming,), (value,), notes)
        coming.node = receive
        self._crossings.append(Crossing(value, source, target, node, send, end, receive, arrive, label))

    def _wait_for_terms(self) -> None:
        """Put a sum of gradients of a parameter behind the last of its terms.

        Its terms are in the order of the micro-batches, and a list of the user's own may have them in another.
        """
        for done in self._done:
            for node in self._graph.nodes:
                is_sum = node in done and node.notes.like is not None and node.notes.like.parameter is not None
                terms = [done[value.node] for value in node.inputs if value.node in done] if is_sum else []
                if terms:
                    done[node] = done[node]._replace(action=max(done[node].action, *(one.action for one in terms)))

    def _share_scalars(self) -> list[Sharing]:
        """Take values of one element that are needed after all gradients out of the crossings; they go together.

        They are there before the first of them is needed; those that become known after that are another message.
        """
        late = [one for one in self._crossings if one.value.spec.size == 1 and self._is_late(one)]
        groups: list[list[Crossing]] = []
        for one in sorted(late, key=self._known_at):
            last = groups[-1] if groups else []
            if last and one.send.notes == last[0].send.notes and self._known_at(one) < min(map(self._needed_at, last)):
                last.append(one)
            else:
                groups.append([one])
        # One alone, such as the loss, is sent: nobody but those that take it waits for it.
        shared = [self._shared(group) for group in groups if len({one.value for one in group}) > 1]
        taken = {one for sharing in shared for one in sharing.crossings}
        self._crossings = [one for one in self._crossings if one not in taken]
        return shared

    def _is_late(self, one: Crossing) -> bool:
        return self._first_use[one.target][one.value].action == self._last(one.target, 0).action

    def _known_at(self, one: Crossing) -> float:
        made = self._done[one.source][one.maker]
        return made.place if made.action == self._last(one.source, 0).action else -1.0

    def _needed_at(self, one: Crossing) -> float:
        return self._first_use[one.target][one.value].place

    def _shared(self, group: list[Crossing]) -> Sharing:
        """Return the exchange of scalars; all stages come to it between the same nodes of the whole graph."""
        place = max(map(self._known_at, group)) + 0.75
        name, nodes = f"{group[0].value.name} and other scalars of all stages", {}
        for stage in sorted({end for one in group for end in (one.source, one.target)}):
            given = tuple(dict.fromkeys(one.value for one in group if one.source == stage))
            taken = tuple(one.value for one in group if one.target == stage)
            nodes[stage] = Node(Operator(), name, given, taken, group[0].send.notes)
            self._done[stage][nodes[stage]] = self._last(stage, 0)._replace(place=place)
        return Sharing(tuple(group), nodes)

    def _place_messages(self) -> None:
        """Put each send where the schedule has it, or behind what it sends, and so with what is received."""
        for number, one in enumerate(self._crossings):
            made = self._done[one.source][one.maker]
            self._done[one.source][one.send] = self._sending(one.source, made, number)
            used = self._first_use[one.target][one.value]
            receiving, arriving = self._receiving(one.target, used, number)
            self._done[one.target].update({one.receive: receiving, one.arrive: arriving})

    def _place_ends(self) -> None:
        """Let each send end soon after it has been received, for its memory is needed; else with the step."""
        ends = EndsOfSends(self._schedule)
        for number, one in enumerate(self._crossings):
            moment = self._last(one.source, len(self._graph.nodes) + 1)
            taking = self._done[one.target][one.arrive].action
            if taking != self._last(one.target, 0).action:
                action = ends.before(one.source, one.target, taking)
                moment = moment if action is None else _Moment(action, _ENDING, number)
            self._done[one.source][one.end] = moment

    def _sending(self, stage: int, made: _Moment, number: int) -> _Moment:
        if made.action == self._last(stage, 0).action:
            return made._replace(place=made.place + 0.5)
        later = self._message(stage, made.action, _SENDS)
        return _Moment(made.action if later is None else max(made.action, later), _SENDING, number)

    def _receiving(self, stage: int, used: _Moment, number: int) -> tuple[_Moment, _Moment]:
        if used.action == self._last(stage, 0).action:
            return used._replace(place=used.place - 0.5), used._replace(place=used.place - 0.25)
        earlier = self._message(stage, used.action, _RECEIVES)
        start = used.action if earlier is None else min(used.action, earlier)
        return _Moment(start, _RECEIVING, number), _Moment(used.action, _ARRIVING, number)

    def _message(self, stage: int, action: int, kinds: Mapping[Kind, Kind]) -> int | None:
        """Return the number of the action that is the message to or from a computation; None where there is none."""
        kind, micro_batch, chunk, _ = self._schedule.actions[stage][action]
        return self._actions[stage].get((kinds[kind], micro_batch, chunk)) if kind in kinds else None

    def _graph_of(self, stage: int) -> Graph:
        whole, done = self._graph, self._done[stage]
        nodes = sorted(done, key=done.__getitem__)
        _check_order(nodes, stage)
        used = {value for node in nodes for value in node.inputs}
        parameters = {name: value for name, value in whole.parameters.items() if value in used}
        actions = self._told(stage, nodes)
        return Graph(whole.inputs, list(whole.outputs), nodes, parameters, whole.cotangents, whole.gradients, actions)

    def _told(self, stage: int, nodes: Sequence[Node]) -> dict[Node, Action]:
        """Return by which action each node is told; of gradients computed together, that of weights from the last."""
        schedule, done = self._schedule.actions[stage], self._done[stage]
        last: dict[int, tuple[int, Action]] = {}
        for place, node in enumerate(nodes):
            work = self._works.get(node)
            if work is not None and self._action_of(work) in self._together[stage]:
                last[done[node].action] = place, self._action_of(work)
        told: dict[Node, Action] = {}
        for place, node in enumerate(nodes):
            action = done[node].action
            begin, weights = last.get(action, (len(nodes), None))
            told[node] = weights if weights is not None and place >= begin else schedule[action]
        return told


def _check_order(nodes: list[Node], stage: int) -> None:
    there: set[Value] = set()
    for node in nodes:
        for value in node.inputs:
            if value.node is not None and value not in there:
                raise ConfigurationError(
                    f"{node.name}: stage {stage} of the pipeline needs {value.name} for it, which is computed of later "
                    "micro-batches; give nn.PipelineCell a network in which none depends on the others, with the loss "
                    "inside of it"
                )
        there.update(node.outputs)
