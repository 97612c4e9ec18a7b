"""Updates of small parameters that run as one compute, to the bit, what each alone computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mpiparallel as ms
from mpiparallel import Parameter, nn
from mpiparallel.compile import joined_updates
from mpiparallel.compile.joined_updates import JoinedUpdates, join_updates
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.ops import operations as P

SHAPES = [(), (1,), (5,), (3, 4), (64,), (5000,)]
RULES = ["momentum", "sgd", "adam", "adam_decay", "nesterov"]
rates = st.sampled_from([0.5, 0.25])
Step = tuple[Any, ...]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.sampled_from(RULES), st.integers(0, 5), rates),
        st.tuples(st.just("read"), st.just(""), st.integers(0, 5), st.none()),
        st.tuples(st.just("assign"), st.just(""), st.integers(0, 5), st.none()),
        st.tuples(st.just("halve the rate"), st.just(""), st.just(0), st.none()),
    ),
    min_size=2,
    max_size=14,
)


class Case:
    """Six parameters of different shapes with their moments, their gradients, and a few steps over them."""

    def __init__(self, dtype: Any, seed: int) -> None:
        random = np.random.default_rng(seed)

        def parameter(name: str, shape: tuple[int, ...], kind: Any) -> Parameter:
            return Parameter(random.uniform(0.1, 1.0, shape).astype(kind), name)

        wide = np.float32 if dtype == np.float16 else dtype
        self.rows = [
            [parameter(f"w{row}", shape, dtype), *(parameter(f"{m}{row}", shape, wide) for m in "abc")]
            for row, shape in enumerate(SHAPES)
        ]
        self.gradients = [random.normal(size=shape[::-1]).astype(wide) for shape in SHAPES]
        self.rate = Parameter(np.float32(0.125), "rate")

    def graph(self, chosen: list[Step]) -> Graph:
        made = Trace()
        with recording(made):
            given = [
                Tensor.of_value(made.graph.add_input(f"g{row}", Tensor(one).spec))
                for row, one in enumerate(self.gradients)
            ]
            turned = [P.Transpose()(one, (1, 0)) if len(one.shape) == 2 else one for one in given]
            read = [self.step(*step, turned) for step in chosen]
            made.graph.outputs = [one.value for one in read if one is not None and one.value is not None]
        return made.graph

    def step(self, kind: str, rule: str, row: int, beta: float | None, gradients: list[Tensor]) -> Tensor | None:
        weight, first, second, third = self.rows[row]
        gradient = gradients[row]
        if kind == "read":
            return weight + first
        if kind == "assign":
            P.Assign()(second, gradient)
        elif kind == "halve the rate":
            P.Assign()(self.rate, self.rate * 0.5)
        elif rule == "adam":
            P.Adam()(weight, first, second, beta, beta, self.rate, beta, beta, 1e-8, gradient)
        elif rule == "adam_decay":
            P.AdamWeightDecay()(weight, first, second, self.rate, beta, beta, 1e-8, 0.01, gradient)
        elif rule == "sgd":
            P.SGD(weight_decay=0.1)(weight, gradient, self.rate, first, beta, third)
        else:
            P.ApplyMomentum(use_nesterov=rule == "nesterov")(weight, first, self.rate, gradient, beta)
        return None

    def run(self, chosen: list[Step], joins: bool) -> tuple[list[bytes], Graph]:
        graph = self.graph(chosen)
        if joins:
            join_updates(graph)
        program = Program(graph, Runtime())
        bits = []
        for _ in range(2):
            bits += [np.array(one).tobytes() for one in program.run(self.gradients)]
        held = (one.asnumpy().tobytes() for row in self.rows for one in row)
        return [*bits, *held], graph


@settings(max_examples=60, deadline=None)
@given(
    steps, st.sampled_from([np.float32, np.float64, np.float16]), st.integers(0, 99), st.sampled_from([100, 1 << 16])
)
def test_any_order_of_updates_reads_and_assignments_gives_the_same_bits_joined_or_not(
    chosen: list[Step], dtype: Any, seed: int, full: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined_updates, "_FULL", full)
        assert Case(dtype, seed).run(chosen, joins=True)[0] == Case(dtype, seed).run(chosen, joins=False)[0]


def counts(graph: Graph) -> list[int]:
    return [len(node.operator.updates) for node in graph.nodes if isinstance(node.operator, JoinedUpdates)]


def test_updates_by_one_rule_with_equal_scalars_run_as_one_and_others_apart() -> None:
    three = [("update", "adam", row, 0.5) for row in (1, 2, 4)]
    other = [("update", "adam", 3, 0.25), ("update", "nesterov", 5, 0.5), ("update", "momentum", 0, 0.5)]
    _, graph = Case(np.float32, 0).run([three[0], *other, *three[1:]], joins=True)
    assert counts(graph) == [9]
    assert len([node for node in graph.nodes if node.operator.updates]) == 4


def test_an_update_waits_for_no_other_where_what_it_updates_is_read() -> None:
    first, second = (("update", "adam", row, 0.5) for row in (1, 2))
    _, graph = Case(np.float32, 0).run([first, ("read", "", 1, None), second], joins=True)
    assert counts(graph) == []


def test_an_update_by_a_rate_runs_before_that_is_overwritten() -> None:
    first, second = (("update", "adam", row, 0.5) for row in (1, 2))
    chosen = [first, ("halve the rate", "", 0, None), second, ("update", "adam", 3, 0.5)]
    found, graph = Case(np.float32, 0).run(chosen, joins=True)
    assert found == Case(np.float32, 0).run(chosen, joins=False)[0]
    assert [len(node.operator.updates) for node in graph.nodes if node.operator.updates] == [3, 1, 6]


@pytest.mark.parametrize(
    ("full", "of_any_size", "joined"),
    [(81, False, [9]), (80, False, [6]), (17, False, [6]), (16, False, []), (16, True, [9])],
)
def test_updates_wait_for_others_until_they_have_as_many_elements_as_the_cache_holds(
    full: int, of_any_size: bool, joined: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of 64, 12 and 5 elements.
    monkeypatch.setattr(joined_updates, "_FULL", full)
    graph = Case(np.float32, 0).graph([("update", "adam", row, 0.5) for row in (4, 3, 2)])
    join_updates(graph, of_any_size)
    assert counts(graph) == joined


class Sum(nn.Cell):
    """The sum of its input and of many small weights."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = ms.ParameterTuple([Parameter(np.full(3, 0.5, np.float32), f"w{one}") for one in range(count)])

    def construct(self, x: Tensor) -> Tensor:
        for weight in self.weights:
            x = x + weight
        return x


def test_kernels_of_a_step_do_not_grow_with_the_small_parameters_that_it_updates() -> None:
    kernels = []
    for count in (3, 9):
        network = Sum(count)
        model = ms.Model(network, nn.MSELoss(), nn.Adam(network.trainable_params()))
        batch = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)
        model.train_network.set_train().compile(*batch)
        (program,) = model.train_network.program.programs
        kernels.append(sum(node.operator.name == "Adam" for node, _ in program.program._steps))
    assert kernels == [1, 1]
