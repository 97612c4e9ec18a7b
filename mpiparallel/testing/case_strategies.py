"""A case of an operator under strategies, on ranks that are threads or of MPI, against the same on one rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from math import prod
from random import Random

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.compile.bind import bind
from mpiparallel.compile.differentiate import differentiate
from mpiparallel.compile.place import place
from mpiparallel.compile.policy import operands_of
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.random_stream import drawing_at
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Strategy
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.layout.box import Box
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.legal_strategies import legal_strategies
from mpiparallel.parallel.operator_placement import read_strategy
from mpiparallel.testing.operator_case import OperatorCase

RANK_COUNTS = (1, 2, 3, 4, 6, 8)
_MOST_TOGETHER = 16
Arrays = list[Array]


@dataclass
class Application:
    """One use of a case's operator in a graph: under one strategy, on inputs of its own.

    ``seeds`` are the gradients of outputs among the inputs; ``outputs`` are the operator's, then the gradients of its
    inputs.
    """

    node: Node
    inputs: list[Value]
    parameters: list[Parameter]
    seeds: dict[int, Value]
    outputs: list[Value]


@dataclass
class TracedCase:
    """The graph of one case, with one application for each strategy; ``fed`` are the arrays of all inputs."""

    graph: Graph
    applications: list[Application]
    fed: list[Array]


def trace_case(case: OperatorCase, strategies: Sequence[Strategy | None] = (None,)) -> TracedCase:
    """Return the graph that has ``sum(output * weights)`` and its gradients for one case under each strategy."""
    trace = Trace()
    traced = TracedCase(trace.graph, [], [])
    for index, strategy in enumerate(strategies):
        application = _apply(trace, traced.fed, case, strategy, f"s{index}")
        traced.applications.append(application)
        trace.graph.outputs.extend(application.outputs)
    return traced


def _apply(trace: Trace, fed: list[Array], case: OperatorCase, strategy: Strategy | None, name: str) -> Application:
    operator = case.build().configured(strategy=strategy)
    tensors: list[Tensor] = []
    inputs: list[Value] = []
    seeds: dict[int, Value] = {}

    def add_input(label: str, array: Array) -> Value:
        inputs.append(trace.graph.add_input(f"{name}.{label}", TensorSpec(array.shape, array.dtype)))
        fed.append(array)
        return inputs[-1]

    for index, array in enumerate(case.inputs):
        if index in operator.updates:
            tensors.append(Parameter(array, name=f"{name}.p{index}", requires_grad=False))
        else:
            tensors.append(Tensor.of_value(add_input(f"x{index}", array)))
    with recording(trace):
        outputs = [trace.value_of(one) for one in case.apply(operator, tensors) if isinstance(one, Tensor)]
        node = next(one for one in reversed(trace.graph.nodes) if one.operator.name == operator.name)
        if case.differentiable:
            roots = [outputs[index] for index in case.outputs]
            for index, root in zip(case.outputs, roots, strict=True):
                seeds[index] = add_input(f"seed{index}", _weights(root.spec.shape).astype(root.spec.dtype))
            wanted = [trace.value_of(tensors[index]) for index in case.differentiable]
            outputs += differentiate(trace, roots, list(seeds.values()), wanted)
    return Application(node, inputs, [one for one in tensors if isinstance(one, Parameter)], seeds, outputs)


@cache
def _weights(shape: tuple[int, ...]) -> Array:
    # Multiples of 1/64 are exact in every type of floats.
    return np.random.default_rng([7, *shape]).integers(32, 96, shape) / 64


def strategies_of(case: OperatorCase, ranks: int) -> Iterator[Strategy]:
    """Yield every legal strategy of the case's operator.

    Images have very many dims to cut. So, on more than 4 ranks, only the strategies that leave no repeated calculation
    are taken of operators that read over the cuts.
    """
    node = trace_case(case).applications[0].node
    for strategy in legal_strategies(node.equation, ranks):
        parts = prod(read_strategy(operands_of(node), strategy).values())
        if parts == ranks or ranks <= 4 or not node.operator.reads_beyond:
            yield strategy


@dataclass
class LaidOutCase:
    """A case under some strategies, with a layout for every value.

    It is the same on all ranks, so threads share it; but not its parameters, of which each rank has its own.
    """

    traced: TracedCase
    sharded: ShardedGraph

    @classmethod
    def of(cls, case: OperatorCase, strategies: Sequence[Strategy | None], ranks: int) -> LaidOutCase:
        """Trace the case and lay it out.

        The inputs are whole on every rank. Those of an operator that reads over the cuts are where it is placed, so
        that it must exchange.
        """
        traced = trace_case(case, strategies)
        sharded = place(traced.graph, _configuration(ranks, 0))
        for application in traced.applications:
            if application.node.operator.reads_beyond:
                _place_inputs(application, sharded)
        return cls(traced, sharded)

    def fed(self, rank: int) -> list[Array]:
        """Return the part of each input that ``rank`` is given."""
        boxes = [self.sharded.layouts[value].box(rank) for value in self.traced.graph.inputs]
        pairs = zip(self.traced.fed, boxes, strict=True)
        return [array[(..., *box.within(Box.whole(array.shape)))] for array, box in pairs]

    def run(self, communicator: Communicator) -> list[list[Array]]:
        """Return for each strategy the outputs and gradients, whole, and what updated parameters hold after."""
        rank = communicator.rank
        local = local_graph(self.sharded, rank, communicator.overlaps)
        compiled = bind(StagedGraph((self.sharded,)), local, _configuration(communicator.size, rank), communicator)
        with drawing_at(0):
            arrays = iter([np.array(array) for array in compiled.run(self.fed(communicator.rank))])
        return [
            [
                *islice(arrays, len(application.outputs)),
                *(_gathered(parameter, communicator) for parameter in application.parameters),
            ]
            for application in self.traced.applications
        ]


def _configuration(ranks: int, rank: int) -> ParallelConfiguration:
    return ParallelConfiguration(mode=ParallelMode.SEMI_AUTO_PARALLEL, device_num=ranks, rank=rank, seed=3)


def _place_inputs(application: Application, sharded: ShardedGraph) -> None:
    placement = sharded.placements[application.node]
    sharded.layouts.update(zip(application.node.inputs, placement.inputs, strict=True))
    sharded.layouts.update((seed, placement.outputs[index].reduced()) for index, seed in application.seeds.items())


def _gathered(parameter: Parameter, communicator: Communicator) -> Array:
    whole = np.zeros(parameter.shape, parameter.dtype)
    replica = 0 if parameter.layout is None else parameter.layout.replica(communicator.rank)
    if replica == 0:
        whole[parameter.box.within(Box.whole(parameter.shape))] = parameter.asnumpy()
    communicator.all_reduce(whole)
    return whole


def run_case(communicator: Communicator, case: OperatorCase, strategy: Strategy | None) -> list[Array]:
    """Return the outputs and gradients, whole, and what updated parameters hold after, gathered over the ranks."""
    return LaidOutCase.of(case, [strategy], communicator.size).run(communicator)[0]


def batches(case: OperatorCase, strategies: Sequence[Strategy]) -> Iterator[Sequence[Strategy]]:
    """Yield the strategies some at a time: one program runs each under all of a batch.

    What an operator draws follows from its place in the network, so one that draws is alone in its program.
    """
    together = 1 if case.build().is_random else _MOST_TOGETHER
    for start in range(0, len(strategies), together):
        yield strategies[start : start + together]


def check_strategies_of(
    case: OperatorCase, rank_counts: Sequence[int], rtol: float, atol: float, most: int | None = None
) -> None:
    """Raise AssertionError where a strategy gives other outputs or gradients than one rank does, on any rank.

    Where there are more than ``most`` on a number of ranks, so many of them are drawn, by the case's name.
    """
    expected = run_case(alone(), case, None)
    for ranks in rank_counts:
        for strategy, results in results_by_strategy(case, ranks, most):
            for index, (found, wanted) in enumerate(zip(results, expected, strict=True)):
                everywhere = np.broadcast_to(wanted, (ranks, *wanted.shape))
                message = f"{case.name}: result {index} of {strategy}, by rank"
                np.testing.assert_allclose(found, everywhere, rtol, atol, err_msg=message)


def results_by_strategy(case: OperatorCase, ranks: int, most: int | None = None) -> Iterator[tuple[Strategy, Arrays]]:
    """Yield legal strategies with what the case gives under each: the outputs and gradients, each stacked by rank.

    Where there are more than ``most``, so many of them are drawn, by the case's name.
    """
    strategies = list(strategies_of(case, ranks))
    if not strategies:
        raise AssertionError(f"{case.name}: no strategy is legal on {ranks} ranks")
    if most is not None and len(strategies) > most:
        strategies = Random(f"{case.name} on {ranks}").sample(strategies, most)
    # What has parameters is not for several ranks: each places its own.
    shared = None if case.build().updates else list(_laid_out(case, strategies, ranks))
    of_ranks = run_world(ranks, _run_all, case, strategies, shared)
    for strategy, results in zip(strategies, zip(*of_ranks, strict=True), strict=True):
        yield strategy, [np.stack(found) for found in zip(*results, strict=True)]


def _laid_out(case: OperatorCase, strategies: Sequence[Strategy], ranks: int) -> Iterator[LaidOutCase]:
    return (LaidOutCase.of(case, batch, ranks) for batch in batches(case, strategies))


def _run_all(
    communicator: Communicator,
    case: OperatorCase,
    strategies: Sequence[Strategy],
    shared: Sequence[LaidOutCase] | None,
) -> list[Arrays]:
    laid_out = shared or _laid_out(case, strategies, communicator.size)
    return [results for one in laid_out for results in one.run(communicator)]
