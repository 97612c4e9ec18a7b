"""What is joined to a cross entropy, on graphs of a few operators that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.device_fusion.cross_entropy_fusion import fuse_cross_entropy
from mpiparallel.graph.graph import Graph, Notes, Value
from mpiparallel.graph.operator import Operator

SINGLE, HALF = np.dtype(np.float32), np.dtype(np.float16)
LOSS, MUL = "SparseSoftmaxCrossEntropyWithLogits", "Mul"


class Losses(Graph):
    """Logits and labels, their loss, and what becomes of its gradient."""

    def __init__(self, dtype: Any = SINGLE) -> None:
        super().__init__()
        self.given = self.add_input("logits", TensorSpec((6, 5), np.dtype(dtype)))
        self.labels = self.add_input("labels", TensorSpec((6,), np.dtype(np.int32)))
        self.logits = self.given

    def add(
        self, operator: Operator, *inputs: Value, shape: tuple[int, ...], dtype: Any = SINGLE, **notes: Any
    ) -> Value:
        node = self.add_node(operator, operator.name, inputs, [TensorSpec(shape, np.dtype(dtype))], Notes(**notes))
        return node.outputs[0]

    def number(self, name: str = "number") -> Value:
        return self.add_input(name, TensorSpec((), SINGLE))

    def loss(self) -> Value:
        return self.add(ops.SparseSoftmaxCrossEntropyWithLogits(), self.logits, self.labels, shape=())

    def gradient(self, **notes: Any) -> Value:
        operator = ops.SparseSoftmaxCrossEntropyWithLogits(is_grad=True)
        return self.add(operator, self.logits, self.labels, shape=(6, 5), **notes)


def members(graph: Graph, *outputs: Value) -> list[list[str]]:
    """The operators of each node of a graph whose losses are joined."""
    graph.outputs = [*outputs]
    fuse_cross_entropy(graph)
    return [[one.operator.name for one in node.members] or [node.operator.name] for node in graph.nodes]


def test_a_loss_comes_with_its_gradient() -> None:
    graph = Losses()
    loss, gradient = graph.loss(), graph.gradient()
    assert members(graph, loss, gradient) == [[LOSS, LOSS]]
    (node,) = graph.nodes
    assert (node.inputs, node.outputs) == ((graph.logits, graph.labels), (loss, gradient))
    assert [(value.node, value.index) for value in node.outputs] == [(node, 0), (node, 1)]


@pytest.mark.parametrize("alone", [True, False])
def test_a_loss_alone_and_a_gradient_before_it_stay_as_they_are(alone: bool) -> None:
    graph = Losses()
    gradient = [] if alone else [graph.gradient()]
    assert len(members(graph, graph.loss(), *gradient)) == 2 - alone


@pytest.mark.parametrize("notes", [{"micro_batch": 1}, {"guards": (Value(TensorSpec((), SINGLE), "flag"),)}])
def test_a_gradient_that_runs_under_other_conditions_stays_apart(notes: dict[str, Any]) -> None:
    graph = Losses()
    assert members(graph, graph.loss(), graph.gradient(**notes)) == [[LOSS], [LOSS]]


class Overwrite(Operator):
    """Changes its first input."""

    updates = (0,)


@pytest.mark.parametrize("changes_logits", [True, False])
def test_a_gradient_of_logits_that_are_overwritten_before_stays_apart(changes_logits: bool) -> None:
    graph = Losses()
    other = graph.add_input("other", graph.logits.spec)
    loss = graph.loss()
    graph.add_node(Overwrite(), "Overwrite", [graph.logits if changes_logits else other, other], [])
    found = members(graph, loss, graph.gradient())
    assert found == ([[LOSS], ["Overwrite"], [LOSS]] if changes_logits else [[LOSS, LOSS], ["Overwrite"]])


@pytest.mark.parametrize("is_first", [True, False])
def test_a_number_by_which_the_gradient_is_multiplied_comes_with_it(is_first: bool) -> None:
    graph = Losses()
    loss, gradient, number = graph.loss(), graph.gradient(), graph.number()
    pair = [gradient, number] if is_first else [number, gradient]
    scaled = graph.add(ops.Mul(), *pair, shape=(6, 5))
    assert members(graph, loss, scaled) == [[LOSS, LOSS, MUL]]
    assert graph.nodes[0].outputs == (loss, scaled)
    assert graph.nodes[0].inputs == (graph.logits, graph.labels, number)


def test_a_factor_that_is_no_number_or_a_gradient_that_others_read_is_not_joined() -> None:
    graph = Losses()
    loss, gradient = graph.loss(), graph.gradient()
    weights = graph.add_input("weights", TensorSpec((6, 1), SINGLE))
    assert members(graph, loss, graph.add(ops.Mul(), gradient, weights, shape=(6, 5))) == [[LOSS, LOSS], [MUL]]
    graph = Losses()
    loss, gradient = graph.loss(), graph.gradient()
    scaled = graph.add(ops.Mul(), gradient, graph.number(), shape=(6, 5))
    assert members(graph, loss, scaled, gradient) == [[LOSS, LOSS], [MUL]]
    graph = Losses()
    loss, gradient = graph.loss(), graph.gradient()
    assert members(graph, loss, graph.add(ops.Mul(), gradient, gradient, shape=(6, 5))) == [[LOSS, LOSS], [MUL]]


@pytest.mark.parametrize("of_loss", [True, False])
def test_what_makes_the_number_runs_first_unless_it_needs_the_loss(of_loss: bool) -> None:
    graph = Losses()
    loss = graph.loss()
    gradient = graph.gradient()
    made = graph.add(ops.Sqrt(), graph.add(ops.Neg(), loss if of_loss else graph.number(), shape=()), shape=())
    scaled = graph.add(ops.Mul(), gradient, made, shape=(6, 5))
    together, apart = [["Neg"], ["Sqrt"], [LOSS, LOSS, MUL]], [[LOSS, LOSS], ["Neg"], ["Sqrt"], [MUL]]
    assert members(graph, loss, scaled) == (apart if of_loss else together)


@pytest.mark.parametrize(
    ("dtype", "narrowed", "wanted"),
    [
        (HALF, True, [["Cast", LOSS, LOSS, "Cast"]]),
        (HALF, False, [["Cast", LOSS, LOSS]]),
        (SINGLE, True, [["Cast"], [LOSS, LOSS, "Cast"]]),
        (np.float64, False, [["Cast"], [LOSS, LOSS]]),
    ],
)
def test_logits_of_16_bits_are_widened_and_their_gradient_narrowed_with_the_loss(
    dtype: Any, narrowed: bool, wanted: list[list[str]]
) -> None:
    graph = Losses(dtype)
    graph.logits = graph.add(ops.Cast(), graph.given, shape=(6, 5))
    loss, gradient = graph.loss(), graph.gradient()
    if narrowed:
        gradient = graph.add(ops.Cast(), gradient, shape=(6, 5), dtype=HALF)
    assert members(graph, loss, gradient) == wanted


def test_logits_that_are_read_elsewhere_are_widened_for_all() -> None:
    graph = Losses(HALF)
    graph.logits = graph.add(ops.Cast(), graph.given, shape=(6, 5))
    loss, gradient = graph.loss(), graph.gradient()
    other = graph.add(ops.ReLU(), graph.logits, shape=(6, 5))
    assert members(graph, loss, gradient, other) == [["Cast"], [LOSS, LOSS], ["ReLU"]]


class Other(Operator):
    """Reads what a loss reads."""


class Drawn(Operator):
    """A random number."""

    is_random = True


class Exchanged(Operator):
    """A number of all ranks."""

    kind = "communication"


class Counted(Overwrite):
    """Changes a number, and gives it."""


def test_only_a_gradient_of_the_same_logits_and_labels_comes_with_a_loss() -> None:
    graph = Losses()
    loss = graph.loss()
    other = graph.add(Other(), graph.logits, graph.labels, shape=(6, 5))
    assert members(graph, loss, other) == [[LOSS], ["Other"]]
    graph = Losses()
    loss = graph.loss()
    graph.labels = graph.add_input("others", graph.labels.spec)
    assert members(graph, loss, graph.gradient()) == [[LOSS], [LOSS]]


def test_a_gradient_of_logits_that_are_overwritten_where_they_are_shown_stays_apart() -> None:
    graph = Losses()
    line = graph.add_input("line", TensorSpec((30,), SINGLE))
    graph.logits = graph.add(ops.Reshape(), line, shape=(6, 5))
    loss = graph.loss()
    graph.add_node(Overwrite(), "Overwrite", [line, line], [])
    assert members(graph, loss, graph.gradient())[1:] == [[LOSS], ["Overwrite"], [LOSS]]


@pytest.mark.parametrize("dtype", [np.float64, HALF])
def test_a_factor_of_another_dtype_is_not_joined(dtype: Any) -> None:
    graph = Losses()
    loss, gradient = graph.loss(), graph.gradient()
    number = graph.add_input("number", TensorSpec((), np.dtype(dtype)))
    assert members(graph, loss, graph.add(ops.Mul(), gradient, number, shape=(6, 5))) == [[LOSS, LOSS], [MUL]]


def made_before(graph: Losses, early: Value) -> Value:
    return graph.add(ops.Sqrt(), early, shape=())


def made_of_two(graph: Losses, early: Value) -> Value:
    return graph.add(ops.Add(), graph.add(ops.Sqrt(), early, shape=()), graph.number("other"), shape=())


def made_twice(graph: Losses, early: Value) -> Value:
    root = graph.add(ops.Sqrt(), early, shape=())
    return graph.add(ops.Add(), root, graph.add(ops.Exp(), root, shape=()), shape=())


@pytest.mark.parametrize(
    ("make", "makers"),
    [(made_before, ["Sqrt"]), (made_of_two, ["Sqrt", "Add"]), (made_twice, ["Sqrt", "Exp", "Add"])],
)
def test_all_that_makes_the_number_after_the_loss_runs_before_it(make: Any, makers: list[str]) -> None:
    graph = Losses()
    early = graph.add(ops.Neg(), graph.number(), shape=())
    loss, gradient = graph.loss(), graph.gradient()
    scaled = graph.add(ops.Mul(), gradient, make(graph, early), shape=(6, 5))
    assert members(graph, loss, scaled) == [["Neg"], *([one] for one in makers), [LOSS, LOSS, MUL]]


@pytest.mark.parametrize("operator", [Drawn, Exchanged, Counted])
def test_what_is_drawn_exchanged_or_counted_stays_where_it_is(operator: type[Operator]) -> None:
    graph = Losses()
    loss, gradient = graph.loss(), graph.gradient()
    made = graph.add(operator(), graph.number(), shape=())
    scaled = graph.add(ops.Mul(), gradient, made, shape=(6, 5))
    assert members(graph, loss, scaled) == [[LOSS, LOSS], [operator.__name__], [MUL]]


@pytest.mark.parametrize("of_matrix", [True, False])
def test_a_number_that_is_made_of_a_matrix_or_under_other_conditions_is_made_where_it_was(of_matrix: bool) -> None:
    graph = Losses()
    loss, gradient = graph.loss(), graph.gradient()
    given = graph.add_input("matrix", TensorSpec((2, 2), SINGLE)) if of_matrix else graph.number()
    made = graph.add(Other(), given, shape=(), micro_batch=None if of_matrix else 1)
    scaled = graph.add(ops.Mul(), gradient, made, shape=(6, 5))
    assert members(graph, loss, scaled) == [[LOSS, LOSS], ["Other"], [MUL]]


@pytest.mark.parametrize("case", ["another operator", "other conditions", "overwritten"])
def test_logits_are_widened_apart_where_that_cannot_be_done_with_the_loss(case: str) -> None:
    graph = Losses(HALF)
    operator = ops.Abs() if case == "another operator" else ops.Cast()
    graph.logits = graph.add(operator, graph.given, shape=(6, 5), micro_batch=1 if case == "other conditions" else None)
    if case == "overwritten":
        graph.add_node(Overwrite(), "Overwrite", [graph.given, graph.given], [])
    found = members(graph, graph.loss(), graph.gradient())
    assert (found[0], found[-1]) == ([operator.name], [LOSS, LOSS])
