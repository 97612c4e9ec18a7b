"""What decides on where a node is that has no choice: its inputs, its origin, or who takes what it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.search.problem.deciding import Deciding
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.symbol import Symbol, made_symbol
from mpiparallel.search.problem.views import whole_view

SPEC = TensorSpec((4, 4), np.dtype(np.float32))
RANKS = DeviceMatrix((2,))
WHOLE, ROWS = Layout((4, 4), RANKS, ((), ())), Layout((4, 4), RANKS, ((0,), ()))
TERM, LARGEST = (Layout((4, 4), RANKS, ((), ()), (0,), kind) for kind in ("sum", "max"))


class Plain(Operator):
    """Computes each element from one."""

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.parse(f"{','.join(['ab'] * len(inputs))}->ab")


class Linear(Plain):
    linear = True


class Kept(Plain):
    keeps_layouts = True


class Spread(Operator):
    """Makes a dim that none of its inputs has."""

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.parse("a->ab")


class Update(Plain):
    updates = (0,)


class UpdateAlike(Update):
    laid_out_as = 2


class Accumulate(Update):
    keeps_partial = True


class World:
    """A graph of which all is known but what is taken out of ``values``."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.values: dict[Value, Symbol[Any]] = {}
        self.used: dict[str, Symbol[Any]] = {}
        self.nodes: dict[Node, Symbol[Any]] = {}
        self.takers: dict[Value, Node] = {}
        self.homes: dict[Value, Node] = {}
        self.reached: list[Node] = []

    def value(self, name: str) -> Value:
        found = self.graph.add_input(name, SPEC)
        self.values[found] = Symbol.always(WHOLE)
        return found

    def weight(self, name: str) -> Value:
        found = self.graph.add_parameter(Parameter(np.ones((4, 4), np.float32), name), SPEC)
        self.values[found] = self.used[name] = Symbol.always(WHOLE)
        return found

    def node(self, operator: Operator, name: str, *inputs: Value, **notes: Any) -> Node:
        made = self.graph.add_node(operator, name, inputs, [SPEC], Notes(**notes))
        self.values[made.outputs[0]] = Symbol.always(WHOLE)
        self.nodes[made] = Symbol.always("placed")
        return made

    def deciding(self) -> Deciding:
        known = self.nodes, self.values, self.used, self.takers, self.homes
        return Deciding(self.graph, *known, self.reached.append, Repeats())

    def on(self, node: Node) -> list[str]:
        return [f"{part} {getattr(key, 'name', key)}" for part, key, _ in self.deciding().on(node)]


@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        (Update(), ["layout w", "used w"]),
        (UpdateAlike(), ["layout w", "used w", "layout y"]),
        (Accumulate(), ["layout w", "used w", "layout x", "layout y"]),
    ],
)
def test_an_update_is_where_its_parameter_is_unless_it_keeps_terms_of_a_sum(
    operator: Operator, wanted: list[str]
) -> None:
    world = World()
    weight, x, y = world.weight("w"), world.value("x"), world.value("y")
    assert world.on(world.node(operator, "update", weight, x, y)) == wanted


def test_what_computes_a_finished_gradient_looks_at_the_parameter_that_it_is_of() -> None:
    world = World()
    weight, x, y = world.weight("w"), world.value("x"), world.value("y")
    world.graph.gradients = {x: weight}
    assert world.on(world.node(Plain(), "plain", x, y)) == ["layout x", "layout w", "used w", "layout y"]
    like = world.node(Plain(), "sum", x, y, like=world.value("z"))
    assert world.on(like) == ["layout x", "layout w", "used w", "layout y", "layout z"]


def test_a_value_is_read_where_it_is_known_and_its_maker_is_asked_for_otherwise() -> None:
    world = World()
    x, y, maker = world.value("x"), world.value("y"), world.node(Plain(), "maker")
    for one in (x, y):
        del world.values[one]
    world.homes = {y: maker}
    node = world.node(Plain(), "plain", x, y, maker.outputs[0])
    assert world.on(node) == [f"layout {maker.outputs[0].name}"]
    assert world.reached == [maker]
    assert world.deciding().is_known(maker.outputs[0])
    assert not world.deciding().is_known(x)


def test_a_name_of_a_parameter_tells_nothing_of_a_value_that_is_none() -> None:
    world = World()
    world.weight("w")
    assert world.on(world.node(Plain(), "plain", world.value("w"))) == ["layout w"]


@pytest.mark.parametrize(
    ("layouts", "told"),
    [
        # Where a term is added to others it matters only that it is one, and which.
        ((ROWS, WHOLE, TERM), (ROWS, ROWS, TERM)),
        ((TERM, LARGEST, WHOLE), (TERM, LARGEST, LARGEST)),
        ((TERM, TERM, TERM), (TERM, TERM, TERM)),
    ],
)
def test_what_is_added_to_others_counts_by_whether_it_is_a_term_of_a_sum(
    layouts: tuple[Layout, ...], told: tuple[Layout, ...]
) -> None:
    world = World()
    x = world.value("x")
    world.values[x] = made_symbol((whole_view(0, 3),), np.arange(3), layouts)
    node = world.node(Plain(), "sum", x, like=world.value("y"))
    ((_, _, of_x), (_, _, of_like)) = world.deciding().on(node)
    assert tuple(of_x.at([option]) for option in range(3)) == told
    assert of_like.items == (WHOLE,)


def of_gradient(operator: Operator) -> list[str]:
    """What decides on a part of a gradient that takes all that there is."""
    world = World()
    x, cotangent, own = world.value("x"), world.value("dy"), world.value("own")
    constant = world.graph.add_constant(np.ones((4, 4), np.float32))
    world.values[constant] = Symbol.always(WHOLE)
    origin = world.node(Plain(), "origin", x)
    world.graph.cotangents = {origin: (cotangent,)}
    node = world.node(operator, "part", x, *origin.outputs, cotangent, own, constant, origin=origin)
    found = world.on(node)
    assert world.reached == [origin]
    return [one.replace(origin.outputs[0].name, "y").replace(constant.name, "one") for one in found]


def test_a_part_of_a_gradient_follows_its_origin_and_what_only_the_gradient_has() -> None:
    assert of_gradient(Plain()) == ["origin origin", "layout own"]
    everything = ["layout x", "layout y", "layout dy", "layout own", "layout one"]
    assert of_gradient(Linear()) == ["origin origin", *everything]


def no_taker(world: World, value: Value, origin: Node) -> None:
    """Nobody takes it."""


def a_view(world: World, value: Value, origin: Node) -> None:
    world.takers[value] = world.node(Kept(), "view", value, origin=origin)


def a_parameter(world: World, value: Value, origin: Node) -> None:
    world.takers[value] = world.node(Plain(), "unasked", value, like=world.value("unread"))
    world.graph.gradients = {value: world.weight("w")}


def a_sum(world: World, value: Value, origin: Node) -> None:
    world.takers[value] = world.node(Plain(), "sum", value, like=world.value("z"))


def an_update(world: World, value: Value, origin: Node) -> None:
    world.takers[value] = world.node(Update(), "update", world.weight("w"), value)


def another_gradient(world: World, value: Value, origin: Node) -> None:
    """It is the gradient of what another node of the network makes."""
    other = world.node(Plain(), "other", world.value("read"))
    world.graph.cotangents = {other: (value,)}
    world.takers[value] = world.node(Plain(), "taker", value, world.value("unread"), origin=other)


def a_part(world: World, value: Value, origin: Node) -> None:
    """What takes it goes on with something that was made, and with something of its own."""
    other = world.node(Plain(), "other", world.value("given"))
    made = world.node(Plain(), "made", world.value("before"))
    taker = world.node(Plain(), "taker", value, other.inputs[0], *made.outputs, world.value("own"), origin=other)
    world.takers[value] = taker
    world.graph.gradients = {taker.outputs[0]: world.weight("w")}


@pytest.mark.parametrize(
    ("taken", "wanted"),
    [
        (no_taker, []),
        (a_view, []),
        (an_update, []),
        (a_parameter, ["layout w", "used w"]),
        (a_sum, ["layout z"]),
        (another_gradient, ["origin other"]),
        (a_part, ["origin other", "layout part:0", "layout made:0", "layout own", "layout w", "used w"]),
    ],
)
def test_a_dim_that_a_gradient_gets_anew_is_cut_as_the_next_takes_it(
    taken: Callable[[World, Value, Node], None], wanted: list[str]
) -> None:
    for operator, told in ((Spread(), wanted), (Plain(), [])):
        world = World()
        x = world.value("x")
        origin = world.node(Plain(), "origin", x)
        node = world.node(operator, "part", x, origin=origin)
        taken(world, node.outputs[0], origin)
        assert world.on(node) == ["origin origin", *told]
