"""An operator under a strategy on ranks, against the same operator on one rank: for thread ranks and for MPI ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from mpiparallel.communication.protocol import Communicator
from mpiparallel.graph.differentiate import differentiate
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Strategy
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.random_stream import drawing_at
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.layout.box import Box
from mpiparallel.parallel.compile import bind
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.sharded_graph import ShardedGraph, shard
from tests.conformance.operator_cases import OperatorCase

RANK_COUNTS = (1, 2, 3, 4, 6, 8)


@dataclass
class TracedCase:
    """The graph of one case: the operator's outputs, then the gradients of its inputs; parameters where it updates.

    ``fed`` are the arrays of its inputs, ``seeds`` the gradients of outputs among them.
    """

    graph: Graph
    node: Node
    parameters: dict[int, Parameter]
    fed: list[np.ndarray[Any, Any]]
    seeds: dict[int, Value]


def trace_case(case: OperatorCase, strategy: Strategy | None = None) -> TracedCase:
    """Return the graph of ``sum(output * weights)`` and its gradients for one case."""
    trace = Trace()
    operator = case.build().configured(strategy=strategy)
    parameters, fed, tensors, seeds = {}, [], [], {}
    for index, array in enumerate(case.inputs):
        if index in operator.updates:
            parameters[index] = Parameter(array, name=f"p{index}", requires_grad=False)
            tensors.append(parameters[index])
        else:
            spec = TensorSpec(array.shape, array.dtype)
            tensors.append(Tensor.of_value(trace.graph.add_input(f"x{index}", spec)))
            fed.append(array)
    with recording(trace):
        outputs = [output.value for output in case.apply(operator, tensors) if isinstance(output, Tensor)]
        node = next(one for one in reversed(trace.graph.nodes) if one.operator.name == operator.name)
        if case.differentiable:
            roots = [outputs[index] for index in case.outputs]
            for index, root in zip(case.outputs, roots, strict=True):
                seeds[index] = trace.graph.add_input(f"seed{index}", root.spec)
                fed.append(_weights(root.spec.shape))
            wanted = [tensors[index].value for index in case.differentiable]
            outputs += differentiate(trace, roots, list(seeds.values()), wanted)
    trace.graph.outputs = outputs

    return TracedCase(trace.graph, node, parameters, fed, seeds)


def _weights(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng([7, *shape]).uniform(0.5, 1.5, shape)


def legal_strategies(case: OperatorCase, ranks: int) -> Iterator[Strategy]:
    """Yield every strategy of the case's operator whose cuts divide the ranks among them.

    Images have so many dims to cut that, on more than 4 ranks, only the strategies that leave no repeated calculation
    are taken of operators that read over the cuts.
    """
    node = trace_case(case).node
    equation = node.operator.equation(*(value.spec for value in node.inputs))
    factors = [factor for factor in range(1, ranks + 1) if ranks % factor == 0]
    options = [[factor for factor in factors if equation.allows(label, factor)] for label in equation.labels]
    for cuts in product(*options):
        parts = prod(cuts)
        if ranks % parts == 0 and (parts == ranks or ranks <= 4 or not node.operator.reads_beyond):
            cut = dict(zip(equation.labels, cuts, strict=True))
            spoken = equation.strategy_inputs
            yield tuple(tuple(cut.get(label, 1) if label else 1 for label in labels) for labels in spoken)


def run_case(communicator: Communicator, case: OperatorCase, strategy: Strategy | None) -> list[np.ndarray[Any, Any]]:
    """Return the outputs and gradients, whole, and what updated parameters hold after, gathered over the ranks.

    The inputs are given whole; to an operator that reads over the cuts as they are cut, so it must exchange.
    """
    traced = trace_case(case, strategy)
    configuration = ParallelConfiguration(
        mode=ParallelMode.SEMI_AUTO_PARALLEL, device_num=communicator.size, rank=communicator.rank, seed=3
    )
    sharded = shard(traced.graph, configuration)
    fed = cut_inputs(traced, sharded, communicator.rank) if traced.node.operator.reads_beyond else traced.fed
    compiled = bind(sharded, configuration, communicator)
    with drawing_at(0):
        results = [np.array(array) for array in compiled.run(fed)]
    for parameter in traced.parameters.values():
        whole = np.zeros(parameter.shape, parameter.dtype)
        assert parameter.layout is not None
        whole[parameter.box.within(type(parameter.box).whole(parameter.shape))] = parameter.asnumpy()
        owned = parameter.layout.replica(communicator.rank) == 0
        whole = whole if owned else np.zeros_like(whole)
        communicator.all_reduce(whole)
        results.append(whole)
    return results


def cut_inputs(traced: TracedCase, sharded: ShardedGraph, rank: int) -> list[np.ndarray[Any, Any]]:
    """Let the inputs be where the operator is placed, and return the part of each that ``rank`` is given."""
    placement = sharded.placements[traced.node]
    sharded.layouts.update(zip(traced.node.inputs, placement.inputs, strict=True))
    sharded.layouts.update((seed, placement.outputs[index].reduced()) for index, seed in traced.seeds.items())
    boxes = [sharded.layouts[value].box(rank) for value in traced.graph.inputs]
    return [array[box.within(Box.whole(array.shape))] for array, box in zip(traced.fed, boxes, strict=True)]
