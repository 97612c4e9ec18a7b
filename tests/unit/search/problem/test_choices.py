"""Which operators are chosen for, and which of them together."""

from __future__ import annotations

from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Parameter, nn, ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.strategies import Strategies
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.search.problem.choices import Choice, choices_of, options_of, share_parameters


class Unruled(Operator):
    """It does not say how it may be cut."""


def node_of(operator: Operator) -> Node:
    value = Graph().add_input("x", TensorSpec((4, 8), np.dtype(np.float32)))
    return Node(operator, "one", (value,))


def test_a_collective_that_is_placed_by_hand_and_what_says_no_rule_have_no_options() -> None:
    assert options_of(node_of(ops.AllReduce()), 2) == ()
    assert options_of(node_of(Unruled()), 2) == ()
    (relu,) = nn.ReLU().sharded_graph(ms.Tensor(np.ones((4, 8), np.float32))).graph.nodes
    assert options_of(relu, 2) == (((1, 1),), ((1, 2),), ((2, 1),))


class Cast(nn.Cell):
    """Products with casts of two weights: the first is used twice, as it is and in 16 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.own = (Parameter(np.ones((8, 8), np.float32), name) for name in ("shared", "own"))
        self.products = [ops.MatMul() for _ in range(3)]

    def construct(self, x: ms.Tensor) -> Any:
        first, second, third = self.products
        half = first(ops.cast(x, ms.float16), ops.cast(self.shared, ms.float16))
        half = second(half, ops.cast(self.own, ms.float16))
        return third(ops.cast(half, ms.float32), self.shared)


def test_operators_that_use_one_parameter_or_a_cast_of_it_are_chosen_for_together_with_the_cast() -> None:
    graph = Cast().sharded_graph(ms.Tensor(np.ones((4, 8), np.float32))).graph
    choices = [one for one in choices_of(graph, Strategies.of(graph), 2) if one.node.operator.name == "MatMul"]
    together, alone = share_parameters(graph, choices)
    assert [value.name for value in together.parameters] == ["shared"]
    assert [value.name for value in alone.parameters] == ["own"]
    assert together.choices == (0, 2)
    assert alone.choices == (1,)
    assert together.chosen == (choices[0].node, choices[2].node)
    # The cast of the weight, and not that of the batch.
    assert [node.operator.name for node in together.nodes] == ["Cast", "MatMul", "MatMul"]
    assert together.nodes[0].inputs == together.parameters
    assert [node.operator.name for node in alone.nodes] == ["Cast", "MatMul"]


SPEC = TensorSpec((4, 6), np.dtype(np.float32))
AGAIN = Segment(recomputed=True)


def add(graph: Graph, operator: Operator, name: str, *inputs: Value, **notes: Any) -> Node:
    return graph.add_node(operator, name, inputs, [inputs[0].spec], Notes(**notes))


def test_what_the_network_computes_has_a_choice_and_what_follows_or_is_of_a_gradient_has_none() -> None:
    graph = Graph()
    x = graph.add_input("x", SPEC)
    plain = add(graph, ops.ReLU(), "plain", x)
    told = add(graph, ops.ReLU(), "told", x)
    add(graph, ops.ReLU(), "follows", x, follows=True)
    add(graph, ops.Reshape(), "shown", x)
    add(graph, ops.ReLU(), "gradient", x, origin=plain)
    add(graph, ops.ReLU(), "sum", x, like=x)
    add(graph, Unruled(), "unruled", x)
    twin, other = add(graph, ops.ReLU(), "twin", x), add(graph, ops.Sqrt(), "other", x)
    found = choices_of(graph, Strategies({told: ((2, 1),)}), 6)
    assert [choice.node for choice in found] == [plain, told, twin, other]
    assert [choice.is_free for choice in found] == [True, False, True, True]
    assert found[1].options == (((2, 1),),)
    # No dim is cut into more parts than it has elements, and the parts divide the six ranks.
    assert set(found[0].options) == {
        ((1, 1),),
        ((2, 1),),
        ((3, 1),),
        ((1, 2),),
        ((1, 3),),
        ((1, 6),),
        ((2, 3),),
        ((3, 2),),
    }
    # Options of operators that may be cut alike are one object.
    assert found[0].options is found[2].options


def test_what_is_computed_once_more_is_cut_as_the_first_time() -> None:
    graph = Graph()
    x = graph.add_input("x", SPEC)
    operator, fixed = ops.ReLU(), ops.Sqrt()
    nodes = [add(graph, operator, "layer", x, micro_batch=number) for number in range(2)]
    told = add(graph, fixed, "told", x)
    again = [add(graph, operator, "recomputed/layer", x, micro_batch=number, segment=AGAIN) for number in (1, 0, 0)]
    told_again = add(graph, fixed, "recomputed/told", x, segment=AGAIN)
    strange = add(graph, ops.ReLU(), "recomputed/layer", x, micro_batch=0, segment=AGAIN)
    first_time = add(graph, ops.ReLU(), "kept", x, segment=Segment())
    found = {choice.node: choice for choice in choices_of(graph, Strategies({told: ((1, 1),)}), 2)}
    assert found.keys() == {*nodes, told, strange, first_time}
    assert found[nodes[0]].again == (again[1], again[2])
    assert found[nodes[1]].again == (again[0],)
    assert (found[told].again, found[strange].again) == ((told_again,), ())


def test_a_choice_stands_in_places_of_which_the_first_computes_and_the_others_do_so_once_more() -> None:
    one, two, three, four = (node_of(ops.ReLU()) for _ in range(4))
    choice = Choice(one, (((1,),), ((2,),)), (two,), ((three, four),))
    assert choice.places == ((one, two), (three, four))
    assert choice.nodes == (one, two, three, four)
    assert choice.is_free
    assert not Choice(one, (((1,),),)).is_free
