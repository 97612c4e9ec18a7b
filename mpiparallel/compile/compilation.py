"""What has been made of one function: each of its graphs is traced once, and placed once by the same strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import Any, Final

from mpiparallel.backend.collector_pause import collector_paused
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.protocol import Communicator
from mpiparallel.compile.bind import CompiledGraph, bind, check_world
from mpiparallel.compile.place import held_layouts
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.compile.staging.one_micro_batch import held_in_stages, repeated
from mpiparallel.compile.staging.place_stages import place_stages
from mpiparallel.compile.staging.work import micro_batches
from mpiparallel.compile.strategies import Strategies
from mpiparallel.compile.structure import Structure
from mpiparallel.compile.trace_function import Traced, trace_function
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.fed_pieces import global_shapes
from mpiparallel.parallel.observed_configuration import ObservedConfiguration

Specs = tuple[TensorSpec, ...]
Found = Callable[[Graph, ParallelConfiguration, int, Mapping[str, Layout]], Strategies]
"""Strategies for a graph in auto parallel on so many ranks, which hold parameters in these layouts."""

_OF_FILES: Final[Mapping[str, Any]] = {
    "strategy_save_file": "",
    "group_info_file": "",
    "save_graphs": 0,
    "save_graphs_path": ".",
}


@dataclass(frozen=True)
class Variant:
    """A compiled program, for as long as the conditions of its trace are as they were."""

    compiled: CompiledGraph
    traced: Traced


@dataclass(frozen=True)
class _Placed:
    """A placement with what ranks run of it, and the layouts in which they held parameters, where these counted."""

    configuration: ParallelConfiguration
    held: Mapping[str, Layout]
    staged: StagedGraph
    locals: dict[tuple[int, bool, bool], Graph] = field(default_factory=dict)

    def fits(self, configuration: ParallelConfiguration, held: Mapping[str, Layout]) -> bool:
        """Return whether it would be made again: parameters are held where it stores them, or are not held at all."""
        stored = self.staged.known_to(configuration.rank)
        return (
            self.configuration == _as_placed(configuration)
            and held.keys() >= self.held.keys()
            and all(stored.get(name) == layout for name, layout in held.items())
        )

    def local(self, rank: int, overlaps: bool, on_device: bool) -> Graph:
        """Return the graph that ``rank`` runs, in the order in which it runs it; programs share it."""
        key = rank, overlaps, on_device
        if key not in self.locals:
            sharded, in_tf32 = self.staged.of_rank(rank), self.configuration.convolves_in_tf32
            self.locals[key] = local_graph(sharded, rank, overlaps, on_device=on_device, in_tf32=in_tf32)
        return self.locals[key]


@dataclass
class _Trace:
    """A trace, what it has read of the configuration that it was made for, and its placements."""

    traced: Traced
    reads: Mapping[str, object]
    placed: list[_Placed] = field(default_factory=list)

    def fits(self, configuration: ParallelConfiguration) -> bool:
        """Return whether it would be the same for a configuration."""
        seen = _as_traced(configuration)
        return self.traced.holds and all(getattr(seen, name) == value for name, value in self.reads.items())


class Compilation:
    """The graphs and programs of ``function``, by what it is called on and by the configuration.

    It is traced ``within`` a context for the configuration, so it sees this one. A trace serves all configurations that
    agree in the settings that it has read, such as those for other ranks. In auto parallel its strategies are
    ``found``. With stages they are those of one micro-batch through all of the network, on as many ranks as a stage
    has.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        within: Callable[[ObservedConfiguration], AbstractContextManager[None]],
        found: Found,
    ) -> None:
        self._function = function
        self._within = within
        self._found = found
        self._traces: dict[object, list[_Trace]] = {}
        self._variants: dict[object, list[Variant]] = {}

    @property
    def programs(self) -> tuple[CompiledGraph, ...]:
        """All programs, in the order in which they were made for each kind of input."""
        return tuple(variant.compiled for variants in self._variants.values() for variant in variants)

    def forget_programs(self) -> None:
        """Drop the programs, because parameters have moved; graphs do not depend on where these are."""
        self._variants.clear()

    def shard(self, specs: Specs, inputs: Structure, configuration: ParallelConfiguration) -> StagedGraph:
        """Return the graphs of the function with their layouts, where each rank is fed inputs of ``specs``."""
        return self.staged(specs, inputs, configuration)[1]

    @collector_paused()
    def staged(
        self, specs: Specs, inputs: Structure, configuration: ParallelConfiguration
    ) -> tuple[Graph, StagedGraph]:
        """Return the graph of the function on whole tensors, and that of each stage with its layouts."""
        trace = self._traced(specs, inputs, configuration)
        return trace.traced.graph, self._placed(trace, specs, inputs, configuration).staged

    @collector_paused()
    def of_micro_batch(self, specs: Specs, inputs: Structure, configuration: ParallelConfiguration) -> Graph:
        """Return the graph of the function on one micro-batch: on the whole batch where it is in one piece."""
        whole = self._traced(specs, inputs, configuration).traced.graph
        count = micro_batches(whole) if configuration.pipeline_stages > 1 else 1
        return self.piece(specs, inputs, configuration, count) if count > 1 else whole

    def piece(self, specs: Specs, inputs: Structure, configuration: ParallelConfiguration, count: int) -> Graph:
        """Return the graph of the function on one of ``count`` micro-batches."""
        whole = global_specs(specs, configuration)
        pieces = tuple(
            replace(one, shape=(one.shape[0] // count, *one.shape[1:])) if one.shape else one for one in whole
        )
        return self._trace_of(pieces, inputs, configuration, of_micro_batch=True).traced.graph

    def variant(
        self,
        specs: Specs,
        inputs: Structure,
        configuration: ParallelConfiguration,
        communicator: Communicator | None,
    ) -> Variant:
        """Return the program of this rank, which is fed inputs of ``specs``."""
        known = self._variants.setdefault((specs, inputs, configuration), [])
        found = next((variant for variant in known if variant.traced.holds), None)
        if found is None:
            with collector_paused():
                trace = self._traced(specs, inputs, configuration)
                placed = self._placed(trace, specs, inputs, configuration)
                check_world(placed.staged, configuration, communicator)
                overlaps = communicator is not None and communicator.overlaps
                local = placed.local(configuration.rank, overlaps, configuration.device_target == "GPU")
                compiled = bind(placed.staged, local, configuration, communicator)
            found = Variant(compiled, trace.traced)
            known.append(found)
        return found

    def _traced(self, specs: Specs, inputs: Structure, configuration: ParallelConfiguration) -> _Trace:
        return self._trace_of(global_specs(specs, configuration), inputs, configuration)

    def _trace_of(
        self, whole: Specs, inputs: Structure, configuration: ParallelConfiguration, of_micro_batch: bool = False
    ) -> _Trace:
        known = self._traces.setdefault((whole, inputs, of_micro_batch), [])
        known[:] = [trace for trace in known if not trace.traced.holds or trace.traced.is_current]
        found = next((trace for trace in known if trace.fits(configuration)), None)
        if found is None:
            observed = ObservedConfiguration.of(configuration)
            with self._within(observed):
                traced = trace_function(self._function, whole, inputs, of_micro_batch)
            found = _Trace(traced, {name: getattr(_as_traced(configuration), name) for name in observed.read})
            known.append(found)
        return found

    def _placed(self, trace: _Trace, specs: Specs, inputs: Structure, configuration: ParallelConfiguration) -> _Placed:
        held = held_layouts(trace.traced.graph, configuration)
        found = next((one for one in trace.placed if one.fits(configuration, held)), None)
        if found is None:
            searches = configuration.mode == ParallelMode.AUTO_PARALLEL and configuration.device_num > 1
            strategies = self._strategies(trace, specs, inputs, configuration, held) if searches else None
            staged = place_stages(trace.traced.graph, configuration, strategies, held)
            found = _Placed(_as_placed(configuration), held, staged)
            trace.placed.append(found)
        return found

    def _strategies(
        self,
        trace: _Trace,
        specs: Specs,
        inputs: Structure,
        configuration: ParallelConfiguration,
        held: Mapping[str, Layout],
    ) -> list[Strategies]:
        """Return the strategies that are found for each stage; all micro-batches are cut alike."""
        graph = trace.traced.graph
        if configuration.pipeline_stages == 1:
            return [self._found(graph, configuration, configuration.device_num, held)]
        piece = self.of_micro_batch(specs, inputs, configuration)
        given = Strategies.of(graph, dict(configuration.loaded_strategies))
        found: dict[int, Strategies] = {}
        for ranks in configuration.ranks_of_stages:
            if len(ranks) not in found:
                own = held_in_stages(held, configuration, len(ranks))
                of_piece = self._found(piece, configuration, len(ranks), own)
                found[len(ranks)] = given.with_inputs(repeated(of_piece, graph))
        return [found[len(ranks)] for ranks in configuration.ranks_of_stages]


def global_specs(specs: Specs, configuration: ParallelConfiguration) -> Specs:
    """Return what the whole batch is where each rank is fed these."""
    shapes = global_shapes([spec.shape for spec in specs], configuration)
    return tuple(replace(spec, shape=shape) for spec, shape in zip(specs, shapes, strict=True))


def _for_all_ranks(configuration: ParallelConfiguration) -> ParallelConfiguration:
    """Return the configuration without what a rank alone is told."""
    rank = configuration.rank if configuration.mode in ParallelMode.OWN_BATCH else 0
    return replace(configuration, **_OF_FILES, device_id=None, rank=rank)


def _as_placed(configuration: ParallelConfiguration) -> ParallelConfiguration:
    """Return the configuration without what layouts do not depend on, but by what is held."""
    return replace(_for_all_ranks(configuration), laid_out_anew=False)


def _as_traced(configuration: ParallelConfiguration) -> ParallelConfiguration:
    """Return the configuration without what a function on whole tensors cannot depend on."""
    return replace(_for_all_ranks(configuration), loaded_strategies=(), strategy_load_file="", laid_out_anew=False)
