"""A Python function of tensors, traced and compiled once for each kind of input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication import world
from mpiparallel.compile.bind import CompiledGraph
from mpiparallel.compile.compilation import Compilation, Variant, global_specs
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.compile.structure import Structure, flatten, rebuild
from mpiparallel.compile.trace_function import called
from mpiparallel.context.default_values import PYNATIVE_MODE
from mpiparallel.context.own_method import OwnMethod
from mpiparallel.context.settings import current_configuration, get_context, tracing_for
from mpiparallel.context.simulation import CompiledNetwork, current_simulation, end_simulation
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.program import Profile
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import active_trace
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.fed_pieces import fed_shapes

Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class InputSignature:
    """What a function was compiled for: global shapes and dtypes, and how its arguments are made of them."""

    specs: tuple[TensorSpec, ...]
    structure: Structure

    def arguments(self, configuration: ParallelConfiguration) -> tuple[Any, ...]:
        """Return what one rank would feed under a configuration: arrays that take up no memory."""
        shapes = fed_shapes([spec.shape for spec in self.specs], configuration)
        arrays = [
            np.broadcast_to(np.zeros((), spec.dtype), shape) for spec, shape in zip(self.specs, shapes, strict=True)
        ]
        return tuple(rebuild(self.structure, arrays))


@dataclass(frozen=True)
class TriedFunction:
    """A function on inputs of some shapes, laid out by other configurations to see what comes of it."""

    compilation: Compilation
    specs: tuple[TensorSpec, ...]
    structure: Structure

    def staged(self, configuration: ParallelConfiguration) -> StagedGraph:
        """Return its graphs, laid out by a configuration."""
        return self.compilation.shard(self.specs, self.structure, configuration)

    def piece(self, configuration: ParallelConfiguration, count: int) -> Graph:
        """Return its graph on one of ``count`` micro-batches."""
        return self.compilation.piece(self.specs, self.structure, configuration, count)


class CompiledFunction:
    """A function of tensors that is compiled when it is first called on inputs of new shapes, and run from then on.

    ``function`` is traced in graph mode, and called on the tensors themselves in PyNative mode. A program is used for
    as long as what its cells depend on is as it was, such as whether they are in training. Inputs may be nested tuples,
    with Options as the last. What is no tensor and no array is a constant of the program. There is one program for
    each. ``whole_inputs`` says that they are no batch, of which each rank might be fed its own piece.
    """

    def __init__(self, function: Callable[..., Any], whole_inputs: bool = False) -> None:
        self._function = function
        self._whole_inputs = whole_inputs
        self._compilation = Compilation(function, tracing_for, _found_strategies)
        self._last: Variant | None = None
        self.signature: InputSignature | None = None

    def shard(self, inputs: Sequence[Any], configuration: ParallelConfiguration | None = None) -> StagedGraph:
        """Return the function's graphs with their layouts, made without data, MPI or devices."""
        arrays, structure = _take_apart(inputs)
        configuration = configuration or self._configuration()
        self._end_simulation(_specs(arrays), structure, configuration)
        return self._compilation.shard(_specs(arrays), structure, configuration)

    def tried(self, inputs: Sequence[Any]) -> TriedFunction:
        """Return the function as it would be compiled for these inputs, apart from what has been compiled."""
        arrays, structure = _take_apart(inputs)
        return TriedFunction(Compilation(self._function, tracing_for, _found_strategies), _specs(arrays), structure)

    def compile(self, inputs: Sequence[Any]) -> None:
        """Compile the function for inputs of these shapes, so that the first call finds it ready."""
        arrays, structure = _take_apart(inputs)
        self._program(_specs(arrays), structure)

    def _configuration(self) -> ParallelConfiguration:
        configuration = current_configuration()
        return replace(configuration, full_batch=True, input_cuts=()) if self._whole_inputs else configuration

    def _program(self, specs: tuple[TensorSpec, ...], inputs: Structure) -> Variant:
        configuration = self._configuration()
        self._end_simulation(specs, inputs, configuration)
        communicator = world.current() if world.initialised() else None
        before = self._last
        self._last = self._compilation.variant(specs, inputs, configuration, communicator)
        if self._last is not before:
            self.signature = InputSignature(global_specs(specs, configuration), inputs)
        return self._last

    def _end_simulation(
        self, specs: tuple[TensorSpec, ...], inputs: Structure, configuration: ParallelConfiguration
    ) -> None:
        """Hand the network over where the program is only simulated: nothing is written or bound then."""
        if current_simulation() is not None:
            found = self._compilation.staged(specs, inputs, configuration)
            # The program's settings and its simulated world go with it, for whoever lays it out once more.
            around = copy_context()

            def lay_out(other: ParallelConfiguration) -> tuple[Graph, StagedGraph]:
                return around.run(self._compilation.staged, specs, inputs, other)

            kept = self._function.bound() if isinstance(self._function, OwnMethod) else self._function
            end_simulation(CompiledNetwork(*found, configuration, lay_out, kept))

    @property
    def programs(self) -> tuple[CompiledGraph, ...]:
        """The programs that have been compiled."""
        return self._compilation.programs

    def forget(self) -> None:
        """Drop all compiled programs, because parameters have moved."""
        self._compilation.forget_programs()
        self._last = None

    def __call__(self, *inputs: Any, profile: Profile | None = None) -> Any:
        """Return what the function returns on these tensors; whole on every rank."""
        if active_trace() is not None or get_context("mode") == PYNATIVE_MODE:
            return called(self._function, inputs)
        return self.traced_call(*inputs, profile=profile)

    def traced_call(self, *inputs: Any, profile: Profile | None = None) -> Any:
        """Return what the function returns, traced whatever the mode."""
        arrays, structure = _take_apart(inputs)
        program = self._program(_specs(arrays), structure)
        # Copies: the next run overwrites what this one returns.
        results = [array.copy() for array in program.compiled.run(arrays, profile)]
        late = program.compiled.runtime.late
        return rebuild(program.traced.structure, [Tensor.arriving(one, late.fetched(one)) for one in results])


def _found_strategies(*given: Any) -> Strategies:
    # A program without automatic cuts does not load the search.
    from mpiparallel.search.found_strategies import find_strategies

    return find_strategies(*given)


def _take_apart(inputs: Sequence[Any]) -> tuple[Arrays, Structure]:
    leaves: list[Any] = []
    structure = tuple(flatten(item, leaves) for item in inputs)
    return [leaf.asnumpy() if isinstance(leaf, Tensor) else np.asarray(leaf) for leaf in leaves], structure


def _specs(arrays: Arrays) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(array.shape, array.dtype) for array in arrays)
