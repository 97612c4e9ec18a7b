"""A Python function of tensors, traced and compiled once for each kind of input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mpiparallel.communication import world
from mpiparallel.context.settings import PYNATIVE_MODE, current_configuration, get_context
from mpiparallel.context.structure import Options, Structure, flatten, rebuild
from mpiparallel.graph.apply import value_in
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.program import Profile
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.graph.trace import Condition, Trace, active_trace, recording
from mpiparallel.parallel.compile import CompiledGraph, bind, lay_out
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.sharded_graph import ShardedGraph

Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Feed:
    """What a function was compiled for: global shapes and dtypes, and how its arguments are made of them."""

    specs: tuple[TensorSpec, ...]
    structure: Structure

    def arguments(self, configuration: ParallelConfiguration) -> tuple[Any, ...]:
        """Return what one rank would feed under a configuration: arrays that take up no memory."""
        pieces = 1 if global_specs(self.specs, configuration) == list(self.specs) else configuration.device_num
        arrays = []
        for spec in self.specs:
            shape = (spec.shape[0] // pieces, *spec.shape[1:]) if spec.shape else ()
            arrays.append(np.broadcast_to(np.zeros((), spec.dtype), shape))
        return tuple(rebuild(self.structure, arrays))


@dataclass
class Traced:
    """A function's graph, how its outputs make up what the function returns, and on what it depends besides."""

    graph: Graph
    structure: Structure
    conditions: dict[Condition, object]


@dataclass
class Variant:
    """A compiled program, for as long as its conditions are as they were."""

    compiled: CompiledGraph
    structure: Structure
    conditions: dict[Condition, object]

    @property
    def holds(self) -> bool:
        """Whether all conditions are as they were."""
        return all(condition() == value for condition, value in self.conditions.items())


def trace_function(function: Callable[..., Any], specs: Sequence[TensorSpec], inputs: Structure) -> Traced:
    """Return the graph of ``function`` on inputs of these global shapes; no data, MPI or devices are needed.

    ``inputs`` is the structure of its arguments, whose leaves are of ``specs``.
    """
    trace = Trace()
    given = [trace.graph.add_input(f"input{index}", spec) for index, spec in enumerate(specs)]
    with recording(trace):
        result = _called(function, rebuild(inputs, [Tensor.of_value(value) for value in given]))
        leaves: list[Any] = []
        structure = flatten(result, leaves)
        trace.graph.outputs = [value_in(trace, leaf if isinstance(leaf, Tensor) else Tensor(leaf)) for leaf in leaves]
    return Traced(trace.graph, structure, trace.conditions)


def _called(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Return what a function returns for arguments, the last of which may be those by name."""
    if arguments and isinstance(arguments[-1], Options):
        return function(*arguments[:-1], **arguments[-1])
    return function(*arguments)


class CompiledFunction:
    """A function of tensors that is compiled when it is first called on inputs of new shapes, and run from then on.

    ``function`` is traced in graph mode, and called on the tensors themselves in PyNative mode. A program is used for
    as long as what the cells in it depend on is as it was, such as whether they are in training. Inputs may be nested
    tuples, with Options as the last; what is no tensor and no array is a constant of the program, one program for each.
    ``whole_inputs`` says that they are no batch, of which each rank might be fed its own piece.
    """

    def __init__(self, function: Callable[..., Any], whole_inputs: bool = False) -> None:
        self._function = function
        self._whole_inputs = whole_inputs
        self._compiled: dict[object, list[Variant]] = {}
        self.feed: Feed | None = None

    def shard(self, inputs: Sequence[Any], configuration: ParallelConfiguration | None = None) -> ShardedGraph:
        """Return the function's graph with its layouts, made without data, MPI or devices."""
        configuration = configuration or self._configuration()
        arrays, structure = _take_apart(inputs)
        return lay_out(self._trace(_specs(arrays), structure, configuration).graph, configuration)

    def compile(self, inputs: Sequence[Any]) -> None:
        """Compile the function for inputs of these shapes, so that the first call finds it ready."""
        arrays, structure = _take_apart(inputs)
        self._program(_specs(arrays), structure)

    def _configuration(self) -> ParallelConfiguration:
        configuration = current_configuration()
        return replace(configuration, full_batch=True) if self._whole_inputs else configuration

    def _trace(self, specs: Sequence[TensorSpec], inputs: Structure, configuration: ParallelConfiguration) -> Traced:
        return trace_function(self._function, global_specs(specs, configuration), inputs)

    def _program(self, specs: tuple[TensorSpec, ...], inputs: Structure) -> Variant:
        configuration = self._configuration()
        known = self._compiled.setdefault((specs, inputs, configuration), [])
        found = next((variant for variant in known if variant.holds), None)
        if found is None:
            traced = self._trace(specs, inputs, configuration)
            communicator = world.current() if world.initialised() else None
            compiled = bind(lay_out(traced.graph, configuration), configuration, communicator)
            found = Variant(compiled, traced.structure, traced.conditions)
            known.append(found)
            self.feed = Feed(tuple(global_specs(specs, configuration)), inputs)
        return found

    def forget(self) -> None:
        """Drop all compiled programs, because parameters have moved."""
        self._compiled.clear()

    def __call__(self, *inputs: Any, profile: Profile | None = None) -> Any:
        """Return what the function returns on these tensors; whole on every rank."""
        if active_trace() is not None or get_context("mode") == PYNATIVE_MODE:
            return _called(self._function, inputs)
        return self.traced_call(*inputs, profile=profile)

    def traced_call(self, *inputs: Any, profile: Profile | None = None) -> Any:
        """Return what the function returns, traced whatever the mode."""
        arrays, structure = _take_apart(inputs)
        program = self._program(_specs(arrays), structure)
        return rebuild(program.structure, [Tensor(array.copy()) for array in program.compiled.run(arrays, profile)])


def _take_apart(inputs: Sequence[Any]) -> tuple[Arrays, Structure]:
    leaves: list[Any] = []
    structure = tuple(flatten(item, leaves) for item in inputs)
    return [leaf.asnumpy() if isinstance(leaf, Tensor) else np.asarray(leaf) for leaf in leaves], structure


def _specs(arrays: Arrays) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(array.shape, array.dtype) for array in arrays)


def global_specs(specs: Sequence[TensorSpec], configuration: ParallelConfiguration) -> list[TensorSpec]:
    """Return the shapes of the global batch: those given, or where each rank is fed a piece, as many times larger."""
    if configuration.full_batch or configuration.mode != ParallelMode.SEMI_AUTO_PARALLEL:
        return list(specs)
    count = configuration.device_num
    return [replace(spec, shape=(spec.shape[0] * count, *spec.shape[1:])) if spec.shape else spec for spec in specs]
