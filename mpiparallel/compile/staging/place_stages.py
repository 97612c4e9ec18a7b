"""The pass that lays out each stage of a pipeline on its own ranks, and what crosses between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd

from mpiparallel.compile.place import place
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.compile.staging.stages import Crossing, Sharing, cut_into_stages
from mpiparallel.compile.staging.work import micro_batches, stages_in_order, works_of
from mpiparallel.compile.strategies import Strategies
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph, Value
from mpiparallel.layout.copies import restricted
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.border import Arrive, Border, EndSend, Receive, Send
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.operator_placement import OperatorPlacement
from mpiparallel.parallel.shared_scalars import ShareScalars
from mpiparallel.pipeline.action import Action, Kind
from mpiparallel.pipeline.messages import with_messages
from mpiparallel.pipeline.placement import Placement
from mpiparallel.pipeline.registry import SCHEDULES, make_schedule
from mpiparallel.pipeline.report import check
from mpiparallel.pipeline.schedule import Schedule

_MOST_CROSSINGS = 1 << 14
"""Each has a tag of its own, and MPI promises 32,767 of them."""


def place_stages(
    graph: Graph,
    configuration: ParallelConfiguration,
    strategies: Sequence[Strategies] | None,
    held: Mapping[str, Layout],
) -> StagedGraph:
    """Return the graph of each stage with its layouts; one graph on all ranks where there are no stages.

    A graph that has neither stages nor parameters, such as a metric's, is on all ranks too. ``held`` are the layouts in
    which ranks hold parameters already. ``strategies`` has for each stage those of all nodes or of its own; None means
    those that the program and the loaded file give. Raises ConfigurationError for stages that cannot be, ScheduleError
    for a schedule that cannot.
    """
    count = configuration.pipeline_stages
    if count == 1 or not (stages_in_order(graph) or graph.parameters):
        return StagedGraph((place(graph, configuration, strategies[0] if strategies else None, held),), held=held)
    _check_configuration(configuration)
    schedule = _schedule_of(graph, configuration)
    stages = cut_into_stages(graph, works_of(graph, schedule.placement), schedule)
    if len(stages.crossings) > _MOST_CROSSINGS:
        raise ConfigurationError(
            f"pipeline_stages: {len(stages.crossings)} values cross between stages in a step, more than "
            f"{_MOST_CROSSINGS}; take fewer micro-batches"
        )
    for sharing in stages.sharings:
        _bind_sharing(sharing, configuration.ranks_of_stages)
    placed: list[ShardedGraph] = []
    in_common = _ranks_in_common(stages.graphs, configuration.ranks_of_stages)
    for stage, (ranks, one) in enumerate(zip(configuration.ranks_of_stages, stages.graphs, strict=True)):
        devices = DeviceMatrix((len(ranks),) if len(ranks) > 1 else (), ranks=tuple(ranks))
        own = replace(
            configuration, device_num=len(ranks), pipeline_stages=1, stage_ranks=(), ranks_in_common=in_common
        )
        arriving = {
            crossing.receive: _moved(crossing, placed, devices)
            for crossing in stages.crossings
            if crossing.target == stage
        }
        shared = (crossing for sharing in stages.sharings for crossing in sharing.crossings)
        leaving = frozenset(one.value for one in (*stages.crossings, *shared) if one.source == stage)
        restricted_to = ((name, restricted(layout, devices.members)) for name, layout in held.items())
        of_stage = {name: layout for name, layout in restricted_to if layout is not None}
        chosen = None if strategies is None else strategies[stage]
        placed.append(place(one, own, chosen, of_stage, devices, arriving, leaving))
    _check_shared(placed)
    taken = [_taken(sharded, stages.crossings) for sharded in placed]
    for tag, crossing in enumerate(stages.crossings):
        _join(tag, crossing, placed[crossing.source], placed[crossing.target], taken[crossing.target][crossing.value])
    return StagedGraph(tuple(placed), schedule, held)


def _check_configuration(configuration: ParallelConfiguration) -> None:
    count, devices = configuration.pipeline_stages, configuration.device_num
    listed = sum(map(len, configuration.stage_ranks))
    if configuration.stage_ranks and listed != devices:
        raise ConfigurationError(
            f"pipeline_stages: the {count} stages have {listed} ranks together, and there are {devices}; start "
            f"{listed}, or give each rank a stage"
        )
    if not configuration.stage_ranks and devices % count:
        raise ConfigurationError(
            f"pipeline_stages {count}: {devices} devices cannot be shared out evenly; start a multiple of {count} "
            "ranks, or say how many each stage has, like [1, 2]"
        )
    if not configuration.full_batch and len({len(ranks) for ranks in configuration.ranks_of_stages}) > 1:
        raise ConfigurationError(
            f"pipeline_stages {count}: stages of unequal size take unequal pieces of a batch; set full_batch=True and "
            "feed all ranks the same batch"
        )
    if configuration.mode not in ParallelMode.ONE_BATCH:
        raise ConfigurationError(
            f"pipeline_stages {count}: parallel_mode {configuration.mode!r} has no stages; take 'semi_auto_parallel', "
            "in which operators without a strategy are batch parallel, or 'auto_parallel', in which one is found"
        )


def _ranks_in_common(graphs: Sequence[Graph], ranks: Sequence[Sequence[int]]) -> tuple[tuple[str, int], ...]:
    """Return, of each parameter that stages of unequal size use, the largest number that divides all their sizes."""
    sizes: dict[str, set[int]] = {}
    for graph, of_stage in zip(graphs, ranks, strict=True):
        for name in graph.parameters:
            sizes.setdefault(name, set()).add(len(of_stage))
    return tuple((name, gcd(*those)) for name, those in sizes.items() if len(those) > 1)


def _check_shared(placed: Sequence[ShardedGraph]) -> None:
    """Raise ConfigurationError where stages that use one parameter cut it differently: it is saved in one way."""
    first: dict[str, int] = {}
    for stage, sharded in enumerate(placed):
        for name in sharded.used:
            other = first.setdefault(name, stage)
            cuts = [placed[one].used[name].cuts for one in (other, stage)]
            if cuts[0] != cuts[1]:
                users = [_user(placed[one], name) for one in (other, stage)]
                raise ConfigurationError(
                    f"{users[1]}: stage {stage} cuts the parameter {name!r} into {cuts[1]} parts, and {users[0]} in "
                    f"stage {other} into {cuts[0]}; give both strategies that cut it alike"
                )


def _user(sharded: ShardedGraph, name: str) -> str:
    value = sharded.graph.parameters[name]
    return next(node.name for node in sharded.graph.nodes if value in node.inputs)


def _schedule_of(graph: Graph, configuration: ParallelConfiguration) -> Schedule:
    """Return the schedule for a graph: the one that was asked for, forward alone where there is no gradient."""
    count, number, order = configuration.pipeline_stages, micro_batches(graph), stages_in_order(graph)
    if set(order) != set(range(count)):
        said = f"the cells of the network are in stages {_with_operators(graph, order)}"
        raise ConfigurationError(
            f"pipeline_stages {count}: {said if order else 'no cell of the network is in a stage'}; set pipeline_stage "
            f"of its cells, or stages of nn.PipelineCell or Model.reshard, so that each from 0 to {count - 1} has one"
        )
    asked = configuration.pipeline_schedule
    if isinstance(asked, Schedule):
        return _of_user(asked, count, number, bool(graph.cotangents))
    is_v = count > 1 and order == [*range(count), *reversed(range(count - 1))]
    name = asked or ("zb_v" if is_v else "zb_h1")
    chunks = SCHEDULES[name].chunks or 1 + sum(later < earlier for earlier, later in pairwise(order))
    if not graph.cotangents:
        return _forward(SCHEDULES[name].place(count, chunks), number)
    chosen = make_schedule(name, count, number, chunks)
    check(chosen)
    return chosen


def _with_operators(graph: Graph, stages: Sequence[int]) -> str:
    """Return stages in words, each with the operator that it begins with."""
    found = {stage: next(node.name for node in graph.nodes if node.notes.stage == stage) for stage in stages}
    return ", ".join(f"{stage} (from {name} on)" for stage, name in found.items())


def _of_user(schedule: Schedule, stages: int, micro_batches: int, trains: bool) -> Schedule:
    """Return a schedule that the user has written, if it fits the network and passes all checks."""
    check(schedule)
    must_have_stages(schedule, stages)
    if not trains:
        return _forward(schedule.placement, micro_batches)
    _must_have(schedule, "micro-batches", schedule.micro_batches, micro_batches)
    return schedule


def must_have_stages(schedule: Schedule, stages: int) -> None:
    """Raise ConfigurationError for a schedule that the user has written for another number of stages."""
    _must_have(schedule, "stages", schedule.stages, stages)


def _must_have(schedule: Schedule, what: str, has: int, there: int) -> None:
    if has != there:
        raise ConfigurationError(
            f'pipeline_scheduler: schedule "{schedule.name}" is for {has} {what}, and there are {there}; write it '
            f"for {there}, or change pipeline_stages and micro_size"
        )


def _forward(placement: Placement, micro_batches: int) -> Schedule:
    """Return the schedule of a network that is not differentiated."""
    orders = [
        [Action(Kind.FORWARD, micro_batch, chunk) for micro_batch in range(micro_batches) for chunk in range(len(held))]
        for held in placement.parts
    ]
    return Schedule("forward", micro_batches, placement, with_messages("forward", micro_batches, placement, orders))


def _moved(crossing: Crossing, placed: list[ShardedGraph], devices: DeviceMatrix) -> Layout:
    """Return the layout that a value would have if it stayed as its stage has it; whole where that is not known."""
    if crossing.source < len(placed):
        source = placed[crossing.source].layouts[crossing.value]
        if source.devices.size == devices.size:
            return source.on_ranks(devices.members)
        if source.tensor_map and source.tensor_map[0] and devices.size > 1:
            return Layout(source.global_shape, devices, ((0,), *((),) * (len(source.tensor_map) - 1)))
    return Layout.replicated(crossing.value.spec.shape, devices)


def _bind_sharing(sharing: Sharing, ranks: Sequence[Sequence[int]]) -> None:
    """Let the nodes of an exchange know who takes part, and where each scalar is in the common message."""
    values = list(dict.fromkeys(crossing.value for crossing in sharing.crossings))
    places = {value: place for place, value in enumerate(values)}
    together = tuple(sorted(rank for stage in sharing.nodes for rank in ranks[stage]))
    givers = tuple(ranks[stage][0] for stage in sharing.nodes)
    for node in sharing.nodes.values():
        given, taken = ([places[one] for one in ends] for ends in (node.inputs, node.outputs))
        dims = [len(value.spec.shape) for value in node.outputs]
        operator = ShareScalars(len(values), given, taken, dims, together, givers)
        node.operator = operator.configured(scope=node.name)


def _taken(sharded: ShardedGraph, crossings: Sequence[Crossing]) -> dict[Value, list[Layout]]:
    """Return the distinct layouts in which stages take each value that crosses between any of them."""
    found: dict[Value, dict[Layout, Layout]] = {crossing.value: {} for crossing in crossings}
    for node in sharded.graph.nodes:
        for value, layout in zip(node.inputs, sharded.placements[node].inputs, strict=True):
            if value in found:
                found[value][layout.canonical] = layout
    return {value: list(layouts.values()) for value, layouts in found.items()}


def _join(tag: int, crossing: Crossing, source: ShardedGraph, target: ShardedGraph, taken: Sequence[Layout]) -> None:
    """Let a value arrive in the layout in which it is taken, if that is one, and tell both ends the way."""
    value = crossing.value
    if len(taken) == 1:
        (layout,) = taken
        (coming,) = crossing.receive.outputs
        target.placements[crossing.receive] = OperatorPlacement((), (layout,))
        target.placements[crossing.arrive] = OperatorPlacement((layout,), (layout,))
        target.layouts[coming] = target.layouts[value] = layout
    border = Border(tag, source.layouts[value], target.layouts[value])
    label = f"{crossing.label} from stage {crossing.source}"
    leaving = f"{crossing.label} to stage {crossing.target}"
    crossing.send.operator = Send(border).configured(scope=leaving)
    crossing.end.operator = EndSend(border).configured(scope=leaving)
    crossing.receive.operator = Receive(border).configured(scope=label)
    crossing.arrive.operator = Arrive(border).configured(scope=label)
