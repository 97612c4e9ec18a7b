"""The forecast of a network on its ranks: what a step takes and what bounds it, memory, communication, and reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from mpiparallel.communication.occupancy import overlaps as overlaps_on
from mpiparallel.compile.rank_graph import rank_graph
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.timed_nodes import TimedNode, scheduled_nodes
from mpiparallel.search.forecast.memory import MemoryForecast, memory_of
from mpiparallel.search.forecast.move import Collectives, Move, Owners, collectives_of, moves_of
from mpiparallel.search.forecast.operators import OperatorForecast, operators_of
from mpiparallel.search.forecast.parameters import ParameterForecast, parameters_of
from mpiparallel.search.forecast.timeline import StageTime, bubble, stage_times
from mpiparallel.search.machine.machine import Machine


@dataclass(frozen=True)
class StageForecast:
    """What the first rank of a stage does in a step, and what it holds.

    ``parts`` are the seconds of matrix products, of other operators, and of communication within and between hosts. Of
    these, ``recomputing`` are the seconds that compute once more what was not kept.
    """

    ranks: str
    rank_count: int
    time: StageTime
    parts: Mapping[str, float]
    recomputing: float
    memory: MemoryForecast
    collectives: tuple[Collectives, ...]
    moves: tuple[Move, ...]
    operators: tuple[OperatorForecast, ...]
    parameters: tuple[ParameterForecast, ...]


@dataclass(frozen=True)
class Forecast:
    """A step of a network on ``ranks`` ranks of a machine: ``samples`` in all, where that is known."""

    ranks: int
    machine: Machine
    mode: str
    trains: bool
    samples: int
    schedule: str
    stages: tuple[StageForecast, ...]

    @property
    def hosts(self) -> int:
        """How many hosts the ranks need."""
        return -(-self.ranks // self.machine.ranks_per_host)

    @cached_property
    def seconds(self) -> float:
        """When the last stage has done all."""
        return max(stage.time.end for stage in self.stages)

    @property
    def bubble(self) -> float:
        """Which part of a step the stages are idle."""
        return bubble([stage.time for stage in self.stages])

    @property
    def fullest(self) -> StageForecast:
        """The stage whose ranks need the most memory."""
        return max(self.stages, key=lambda stage: stage.memory.total)

    @property
    def slowest(self) -> StageForecast:
        """The stage that works the longest."""
        return max(self.stages, key=lambda stage: stage.time.busy)

    @property
    def missing_memory(self) -> float:
        """The bytes that a rank lacks; 0 or less where it fits, or where the machine does not say what a rank has."""
        return self.fullest.memory.total - self.machine.memory

    @property
    def bound(self) -> tuple[str, float]:
        """What takes most of a step, and which part of it."""
        slowest = self.slowest
        parts = {**slowest.parts, "waiting for other stages": self.seconds - slowest.time.busy}
        name = max(parts, key=lambda one: parts[one])
        return name, parts[name] / self.seconds if self.seconds else 0.0


def make_forecast(staged: StagedGraph, configuration: ParallelConfiguration, prices: Prices) -> Forecast:
    """Return what a network will do, by the cost model; nothing is made of its parameters."""
    machine = prices.machine
    overlaps = overlaps_on(staged.rank_count > machine.ranks_per_host)
    on_device = configuration.device_target == "GPU"
    in_tf32 = configuration.convolves_in_tf32
    local = [
        rank_graph(stage, stage.devices.first_rank, overlaps, on_device=on_device, in_tf32=in_tf32)
        for stage in staged.stages
    ]
    timed = [scheduled_nodes(graph, prices) for graph in local]
    times = stage_times(timed, machine)
    stages = tuple(
        _stage(number, stage, local[number].graph, timed[number], times[number], configuration, machine)
        for number, stage in enumerate(staged.stages)
    )
    first = staged.stages[0].graph
    trains = any(node.operator.updates for stage in staged.stages for node in stage.graph.nodes)
    return Forecast(
        staged.rank_count,
        machine,
        configuration.mode,
        trains,
        _samples([value.spec.shape for value in first.inputs], configuration),
        "" if staged.schedule is None else staged.schedule.name,
        stages,
    )


def _samples(shapes: Sequence[tuple[int, ...]], configuration: ParallelConfiguration) -> int:
    """Return the rows of the first input of all ranks, which are taken to be samples."""
    rows = next((shape[0] for shape in shapes if shape), 0)
    return rows * (configuration.device_num if configuration.mode in ParallelMode.OWN_BATCH else 1)


def _stage(
    number: int,
    sharded: ShardedGraph,
    local: Graph,
    timed: Sequence[TimedNode],
    time: StageTime,
    configuration: ParallelConfiguration,
    machine: Machine,
) -> StageForecast:
    moves = tuple(moves_of(timed, Owners(sharded), machine, sharded.devices.first_rank))
    return StageForecast(
        sharded.devices.ranks_text,
        sharded.devices.size,
        time,
        _parts(timed, moves, time.hidden),
        _recomputing(sharded, timed),
        memory_of(sharded, local, machine.libraries),
        collectives_of(moves),
        moves,
        operators_of(number, sharded, configuration, timed, moves),
        parameters_of(number, sharded),
    )


def _recomputing(sharded: ShardedGraph, timed: Sequence[TimedNode]) -> float:
    """Return the seconds of a stage's work that are spent on what it has computed before."""
    segments = ((node.name, node.notes.segment) for node in sharded.graph.nodes)
    again = {name for name, segment in segments if segment is not None and segment.recomputed}
    return sum(one.seconds for one in timed if one.step is None and one.node.name in again)


def _parts(timed: Sequence[TimedNode], moves: Sequence[Move], hidden: float) -> dict[str, float]:
    """Return the seconds of a stage's work by what it is, without those of communication that are ``hidden``."""
    found = {"matrix products": 0.0, "other operators": 0.0, "communication within hosts": 0.0}
    found["communication between hosts"] = 0.0
    for one in timed:
        if one.step is None:
            found["matrix products" if one.node.operator.kind == "gemm" else "other operators"] += one.seconds
    for move in moves:
        # A message is on its way while its stage goes on.
        if move.kind != "Send":
            found[f"communication {'within' if move.group.hosts == 1 else 'between'} hosts"] += move.seconds
    # What is started early is mostly what hosts have to tell each other.
    for name in ("communication between hosts", "communication within hosts"):
        taken = min(hidden, found[name])
        found[name] -= taken
        hidden -= taken
    return found
