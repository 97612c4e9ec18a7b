"""A graph bound to memory: a flat list of kernels, run once a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.communication.transport.protocol import Transport
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ShapeError, name_action
from mpiparallel.graph.execution.agreed_graphs import AgreedGraphs
from mpiparallel.graph.execution.buffer_plan import plan_buffers
from mpiparallel.graph.execution.input_feed import input_feed
from mpiparallel.graph.execution.runtime import FedArray, Kernel, Runtime, do_nothing
from mpiparallel.graph.execution.stretch import Step, Stretch
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.pipeline.action import Action


@dataclass
class Profile:
    """Seconds spent in kernels, by operator and by kind (``gemm``, ``kernel``, ``communication``), and in all.

    ``nodes`` are those of the last step, in order, each with its own. ``clock`` is what tells seconds.
    """

    clock: Callable[[], float] = time.perf_counter
    steps: int = 0
    total: float = 0.0
    operators: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, float] = field(default_factory=dict)
    nodes: list[tuple[Node, float]] = field(default_factory=list)


class Program:
    """One rank's graph of local shapes, with every buffer allocated and every kernel bound.

    Parameters are read and updated where they are. Running it with arrays for the inputs returns the outputs, in
    memory that the next run overwrites.
    """

    def __init__(self, graph: Graph, runtime: Runtime) -> None:
        self._runtime = runtime
        self._graph = graph
        self._plan = plan_buffers(graph)
        self._arena = runtime.backend.empty(max(self._plan.byte_count, 1), "what a step computes")
        self._arrays: dict[Value, Array] = {}
        used = {value for node in graph.nodes for value in node.inputs}.union(graph.outputs)
        for value in graph.inputs:
            if value in used:
                self._arrays[value] = self._new(value)
        for value in graph.parameters.values():
            if value.parameter is not None:
                self._arrays[value] = value.parameter.array
        self._fed = [value for value in graph.inputs if value in self._arrays]
        runtime.fed = [FedArray(self._arrays[value]) for value in self._fed]
        self._bring = input_feed(runtime.backend, [one.array for one in runtime.fed])
        self._steps: list[Step] = []
        self._transports: dict[Node, list[Transport]] = {}
        for node in graph.nodes:
            self._bind(node)
        self._stretches = [
            Stretch(runtime.backend, flags, steps, action, self._transports) for flags, steps, action in self._parts()
        ]
        meets = runtime.communicator if runtime.meets and runtime.backend.is_asynchronous else None
        self._agreed = AgreedGraphs(meets if meets is not None and meets.size > 1 else None, self._stretches)
        self._end_actions = self._bind_actions()
        self._outputs = [self._array(value) for value in graph.outputs]

    @property
    def arena_bytes(self) -> int:
        """Bytes of memory for what the nodes compute."""
        return self._plan.byte_count

    def _new(self, value: Value) -> Array:
        memory = self._runtime.backend.empty(value.spec.byte_count, f"input {value.name}")
        return memory.view(value.spec.dtype).reshape(value.spec.shape)

    def _array(self, value: Value) -> Array:
        if value not in self._arrays:
            if value.constant is not None:
                self._arrays[value] = self._runtime.backend.from_host(value.constant)
            else:
                start = self._plan.offsets[value]
                memory = self._arena[start : start + value.spec.byte_count]
                self._arrays[value] = self._shaped(memory, value)
        return self._arrays[value]

    def _shaped(self, memory: Array, value: Value) -> Array:
        flat = memory.view(value.spec.dtype)
        if value not in self._graph.channels_last:
            return flat.reshape(value.spec.shape)
        images, channels, height, width = value.spec.shape
        return flat.reshape(images, height, width, channels).transpose(0, 3, 1, 2)

    def _bind(self, node: Node) -> None:
        inputs = [self._array(value) for value in node.inputs]
        if node in self._plan.views:
            self._arrays[node.outputs[0]] = node.operator.view(inputs[0])
            return
        outputs = [self._array(value) for value in node.outputs]
        if node.operator.is_view and not node.operator.needs_order:
            copied = partial(self._runtime.array_module.copyto, outputs[0], node.operator.view(inputs[0]))
            self._steps.append((node, copied))
            return
        self._runtime.label = node.operator.scope or node.name
        self._runtime.opened = []
        self._steps.append((node, node.operator.kernel(self._runtime, inputs, outputs)))
        if self._runtime.opened and self._runtime.meets:
            self._transports[node] = self._runtime.opened

    def _parts(self) -> Iterator[tuple[list[Array], list[Step], Action | None]]:
        """Yield the steps in order, in stretches of equal guards and one action; what has none goes with the last."""
        last: Action | None = None
        for (guards, action), steps in groupby(self._steps, lambda step: (step[0].notes.guards, step[0].notes.action)):
            last = action or last
            yield [self._array(flag) for flag in guards], list(steps), last

    def _bind_actions(self) -> Kernel:
        """Let stretches tell which action of a stage they begin; return what tells that the step has ended."""
        communicator, stage = self._runtime.communicator, self._runtime.stage
        last: Action | None = None
        if communicator is None:
            return do_nothing
        for stretch in self._stretches:
            if stretch.action != last:
                last = stretch.action
                stretch.begin = communicator.beginning(stage, last)
        return do_nothing if last is None else communicator.beginning(stage, None)

    def _name_action(self, error: Exception, stretch: Stretch | None) -> None:
        if stretch is not None and stretch.action is not None:
            name_action(error, stretch.action.words_in(self._runtime.stage))

    def _feed(self, inputs: Sequence[np.ndarray[Any, Any]]) -> None:
        if len(inputs) != len(self._graph.inputs):
            raise ShapeError(f"the network takes {len(self._graph.inputs)} inputs and was given {len(inputs)}")
        for value, array in zip(self._graph.inputs, inputs, strict=True):
            if tuple(array.shape) != value.spec.shape:
                raise ShapeError(
                    f"input {value.name!r} has shape {array.shape}; the network was compiled for {value.spec.shape}"
                )
        by_value = dict(zip(self._graph.inputs, inputs, strict=True))
        fed = [by_value[value] for value in self._fed]
        for array, place in zip(fed, self._runtime.fed, strict=True):
            for check in place.checks:
                check(array)
        self._bring(fed)
        self._runtime.numbers.bring()

    def run(self, inputs: Sequence[np.ndarray[Any, Any]]) -> list[Array]:
        """Run once and return the outputs; as on a device, what becomes inf or NaN does so without a warning."""
        self._feed(inputs)
        stretch = None
        try:
            with np.errstate(all="ignore"):
                for stretch in self._stretches:
                    if stretch.holds():
                        stretch.begin()
                        stretch.run()
            self._end_actions()
            self._agreed.count_run()
        except Exception as error:
            self._name_action(error, stretch)
            raise
        return self._outputs

    def run_profiled(self, inputs: Sequence[np.ndarray[Any, Any]], profile: Profile) -> list[Array]:
        """Run once, adding to ``profile`` what each kernel took.

        The difference to ``total`` is Python between kernels.
        """
        clock = profile.clock
        synchronize = self._runtime.backend.synchronize
        begin = clock()
        self._feed(inputs)
        spent = []
        with np.errstate(all="ignore"):
            for stretch in self._stretches:
                if stretch.holds():
                    stretch.begin()
                    for node, kernel in stretch.steps:
                        start = clock()
                        kernel()
                        synchronize()
                        spent.append((node, clock() - start))
        self._end_actions()
        self._agreed.count_run()
        profile.total += clock() - begin
        profile.steps += 1
        profile.nodes = spent
        for node, seconds in spent:
            name, kind = node.operator.name, node.operator.kind
            profile.operators[name] = profile.operators.get(name, 0.0) + seconds
            profile.kinds[kind] = profile.kinds.get(kind, 0.0) + seconds
        return self._outputs
