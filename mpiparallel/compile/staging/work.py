"""What each node of a network in stages belongs to: which computation, of which micro-batch, in which part."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import NamedTuple

from mpiparallel.compile.recomputation import RECOMPUTED
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.pipeline.action import Kind
from mpiparallel.pipeline.placement import Placement


class Work(NamedTuple):
    """A computation: forward, input gradient or weight gradient of a micro-batch, through a part of the network."""

    kind: Kind
    micro_batch: int
    part: int


def stages_in_order(graph: Graph) -> list[int]:
    """Return the stages that the network passes, in order; one that it comes back to stands there again."""
    found: list[int] = []
    for node in graph.nodes:
        stage = node.notes.stage
        is_passed = _is_of_network(node) and not _is_recomputed(node) and node.notes.micro_batch in (None, 0)
        if stage is not None and is_passed and [stage] != found[-1:]:
            found.append(stage)
    return found


def micro_batches(graph: Graph) -> int:
    """Return how many micro-batches a graph works on; raise ConfigurationError for a training on a whole batch."""
    numbers = {node.notes.micro_batch for node in graph.nodes} - {None}
    if not numbers and graph.cotangents:
        raise ConfigurationError(
            "pipeline_stages: the network takes the batch as a whole; wrap it as nn.PipelineCell(network, micro_size), "
            "so that stages can work on pieces of it at the same time"
        )
    return len(numbers) or 1


def works_of(graph: Graph, placement: Placement) -> dict[Node, Work]:
    """Return the work of each node that has one.

    A node is where the user has put its cell, else where its last input is. A stage with two parts in a row, as the
    last of a V, has half of its computing in each. Nodes without work are made of inputs, constants and parameters
    alone, or of all micro-batches together, as the update is.

    Raises ConfigurationError for a stage that is used before one that comes earlier, and for a trained parameter
    that is used in no stage.
    """
    return _WorkFinder(graph, placement).run()


def _is_of_network(node: Node) -> bool:
    return node.notes.origin is None and node.notes.like is None


def _is_recomputed(node: Node) -> bool:
    return node.notes.segment is not None and node.notes.segment.recomputed


def _operations(node: Node) -> int:
    cost = node.operator.cost([value.spec for value in node.inputs], [value.spec for value in node.outputs])
    return cost.operations


_Name = tuple[str, int | None]


def _name(node: Node) -> _Name:
    """Return what a node and the one that computes the same once more have in common: the name in a micro-batch."""
    return node.name.removeprefix(RECOMPUTED), node.notes.micro_batch


class _WorkFinder:
    def __init__(self, graph: Graph, placement: Placement) -> None:
        self._graph = graph
        self._placement = placement
        self._works: dict[Node, Work] = {}
        self._readers: dict[Value, set[int]] = {}
        self._is_whole = all(node.notes.micro_batch is None for node in graph.nodes)
        self._trained = set(graph.gradients.values())
        self._second_halves = self._find_second_halves()

    def run(self) -> dict[Node, Work]:
        for node in self._graph.nodes:
            work = self._work(node)
            if work is not None:
                self._works[node] = work
                for value in node.inputs:
                    self._readers.setdefault(value, set()).add(work.part)
        self._bring_forward()
        for node in _for_other_parts(self._graph, self._works):
            self._works[node] = self._works[node]._replace(kind=Kind.INPUT_GRADIENT)
        return self._works

    def _work(self, node: Node) -> Work | None:
        notes = node.notes
        before = [self._works[value.node] for value in node.inputs if value.node in self._works]
        if notes.like is not None:
            found = self._sum_of_gradients(node, before)
            if found is not None or notes.like.parameter is not None:
                return found
        number = 0 if self._is_whole and _is_of_network(node) else notes.micro_batch
        if number is None:
            return None
        source = notes.origin or (notes.like.node if notes.like is not None else None)
        if source is not None:
            if source not in self._works:
                return None
            number = max([number, *(work.micro_batch for work in before)])
            return Work(Kind.WEIGHT_GRADIENT, number, self._works[source].part)
        part = self._part(node, before)
        if part is None:
            return None
        return Work(Kind.WEIGHT_GRADIENT if _is_recomputed(node) else Kind.FORWARD, number, part)

    def _bring_forward(self) -> None:
        """Put what depends on inputs alone, such as a mask, into the part of its stage that wants it first, and twins.

        They are otherwise in the first part of their stage. What the network computes is wanted by the first part that
        takes it, what is computed once more by the last.
        """
        stages = self._placement.stages
        if len(set(stages)) == len(stages):
            return
        wanted: dict[Node, int] = {}
        free = self._of_inputs_alone()
        for node in reversed(self._graph.nodes):
            work = self._works.get(node)
            if work is None:
                continue
            part = wanted.get(node, work.part)
            if part > work.part and stages[part] == stages[work.part]:
                work = self._works[node] = work._replace(part=part)
            for value in node.inputs:
                if value.node is not None and (value.node in free or _is_recomputed(value.node)):
                    first = max if _is_recomputed(value.node) else min
                    wanted[value.node] = first(work.part, wanted.get(value.node, work.part))

    def _of_inputs_alone(self) -> set[Node]:
        found: set[Node] = set()
        for node in self._graph.nodes:
            if _is_of_network(node) and all(
                value.parameter is None if value.node is None else value.node in found for value in node.inputs
            ):
                found.add(node)
        return found

    def _find_second_halves(self) -> set[_Name]:
        """Return the later nodes of each stage that has two parts in a row: from half of what it computes on.

        What is computed once more is in the half in which it was computed first, so nodes are told by their names.
        """
        stages = self._placement.stages
        turning = {stage for stage, following in pairwise(stages) if stage == following}
        passes: dict[tuple[int, int | None], list[Node]] = {}
        for node in self._graph.nodes if turning else ():
            if node.notes.stage in turning and _is_of_network(node) and not _is_recomputed(node):
                passes.setdefault((node.notes.stage, node.notes.micro_batch), []).append(node)
        found: set[_Name] = set()
        for nodes in passes.values():
            ends = list(accumulate(map(_operations, nodes)))
            found.update(_name(node) for node, end in zip(nodes, ends, strict=True) if end > ends[-1] / 2)
        return found

    def _sum_of_gradients(self, node: Node, before: list[Work]) -> Work | None:
        """Return the work of what adds gradients where all of them are: those of a value, or of a parameter so far.

        That of a value is where the first part has given its term, if it reads the others anyway. So a residual crosses
        once, as part of the sum.
        """
        parts = {work.part for work in before}
        if not parts or len(before) != len(node.inputs):
            return None
        first = min(parts)
        if len(parts) > 1:
            others = [value for value in node.inputs if value.node and self._works[value.node].part != first]
            is_of_value = node.notes.like is not None and node.notes.like.parameter is None
            if not is_of_value or any(first not in self._readers.get(value, ()) for value in others):
                return None
        return Work(Kind.WEIGHT_GRADIENT, max(work.micro_batch for work in before), first)

    def _part(self, node: Node, before: list[Work]) -> int | None:
        stage, latest = node.notes.stage, max((work.part for work in before), default=None)
        if stage is None:
            if latest is None:
                self._refuse_trained(node)
            return latest
        stages = self._placement.stages
        found = next((part for part in range(latest or 0, len(stages)) if stages[part] == stage), None)
        if found is None:
            last = next(v for v in node.inputs if v.node in self._works and self._works[v.node].part == latest)
            raise ConfigurationError(
                f"{node.name}: it is in pipeline_stage {stage}, but takes {last.name} of stage {stages[latest or 0]}, "
                "which comes later; number the stages in the order in which the network runs, or ask for "
                'pipeline_config={"pipeline_scheduler": "1f1b", "pipeline_interleave": True} to pass them several times'
            )
        is_turning = stages[found + 1 :][:1] == (stage,)
        return found + 1 if is_turning and _name(node) in self._second_halves else found

    def _refuse_trained(self, node: Node) -> None:
        for value in node.inputs:
            if value in self._trained:
                raise ConfigurationError(
                    f"{node.name}: it uses the trained parameter {value.name!r}, but is in no stage of the pipeline; "
                    "set pipeline_stage of its cell"
                )


def _for_other_parts(graph: Graph, works: Mapping[Node, Work]) -> list[Node]:
    """Return the nodes of gradients that other parts wait for; the others give gradients of weights alone."""
    awaited: set[Value] = set()
    found = []
    for node in reversed(graph.nodes):
        work = works.get(node)
        if work is None or work.kind is Kind.FORWARD:
            continue
        is_awaited = any(value in awaited for value in node.outputs)
        if is_awaited:
            found.append(node)
        for value in node.inputs:
            source = None if value.node is None else works.get(value.node)
            if source is not None and (is_awaited or source.part != work.part):
                awaited.add(value)
    return found
