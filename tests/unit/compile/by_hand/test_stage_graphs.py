"""What a stage of a pipeline runs, sends and waits for, of two layers that are trained on two micro-batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.staging.stages import Stages, cut_into_stages
from mpiparallel.compile.staging.work import Work
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter
from mpiparallel.pipeline import make_schedule
from mpiparallel.pipeline.action import Kind
from mpiparallel.pipeline.schedule import Schedule

MATRIX, NUMBER = (TensorSpec(shape, np.dtype(np.float32)) for shape in ((2, 2), ()))


class Update(Operator):
    """Changes its first input."""

    updates = (0,)


class Everywhere(Operator):
    """All ranks meet in it."""

    meets_all = True


class Training(Graph):
    """What each micro-batch does in each of two stages; ``finish`` adds the updates."""

    def __init__(self, crossing: TensorSpec = MATRIX, mask: bool = False) -> None:
        super().__init__()
        self.works: dict[Node, Work] = {}
        self.x = self.add_input("x", MATRIX)
        self.weights = [
            self.add_parameter(Parameter(np.ones((2, 2), np.float32), f"weight {stage}"), MATRIX) for stage in range(2)
        ]
        given = self.make("mask", self.x) if mask else self.x
        self.terms: list[list[Value]] = [[], []]
        for number in range(2):
            self.first = self.work("first", Kind.FORWARD, number, 0, given, self.weights[0], spec=crossing)
            self.second = self.work("second", Kind.FORWARD, number, 1, self.first, self.weights[1])
            cotangent = self.work("cotangent", Kind.INPUT_GRADIENT, number, 1, self.second, self.weights[1])
            self.terms[1].append(self.work("gradient 1", Kind.WEIGHT_GRADIENT, number, 1, cotangent, self.first))
            self.terms[0].append(self.work("gradient 0", Kind.WEIGHT_GRADIENT, number, 0, cotangent, self.x))

    def work(
        self, name: str, kind: Kind, micro_batch: int, part: int, *inputs: Value, spec: TensorSpec = MATRIX
    ) -> Value:
        node = self.add_node(ops.Add(), f"{name} of {micro_batch}", inputs, [spec])
        self.works[node] = Work(kind, micro_batch, part)
        return node.outputs[0]

    def make(
        self,
        name: str,
        *inputs: Value,
        spec: TensorSpec = MATRIX,
        operator: Operator | None = None,
        like: Value | None = None,
    ) -> Value:
        return self.add_node(operator or ops.Add(), name, inputs, [spec], Notes(like=like)).outputs[0]

    def finish(self, *given: Value, stages: tuple[int, ...] = (0, 1)) -> None:
        for stage in range(2):
            extra = given if stage in stages else ()
            self.add_node(Update(), f"update {stage}", [self.weights[stage], *self.terms[stage], *extra], [])

    def cut(self, schedule: Schedule | None = None) -> Stages:
        return cut_into_stages(self, self.works, schedule or make_schedule("1f1b", stages=2, micro_batches=2))


def told(stages: Stages, stage: int) -> dict[str, str]:
    """The action by which each node of a stage is told, in the order in which they run."""
    graph = stages.graphs[stage]
    return {node.name: str(graph.actions[node]) for node in graph.nodes}


def crossed(stages: Stages) -> set[tuple[str, int, int]]:
    return {(one.maker.name, one.source, one.target) for one in stages.crossings}


BETWEEN = {
    (f"{name} of {number}", *ends) for name, ends in (("first", (0, 1)), ("cotangent", (1, 0))) for number in (0, 1)
}


def test_what_the_step_returns_is_sent_to_all_stages_at_its_end() -> None:
    graph = Training()
    graph.finish()
    graph.outputs = [graph.second]
    stages = graph.cut()
    assert crossed(stages) == BETWEEN | {("second of 1", 1, 0)}
    actions = told(stages, 0)
    name = "second of 1:0 of micro-batch 1 from stage 1"
    assert [*actions][-2:] == [f"receive {name}", f"arrival of {name}"]
    assert actions[f"arrival of {name}"] == "U"


def test_what_inputs_make_is_made_before_it_is_first_used_where_it_is_used() -> None:
    graph = Training(mask=True)
    graph.finish()
    stages = graph.cut()
    assert next(iter(told(stages, 0).items())) == ("mask", "F0")
    assert "mask" not in told(stages, 1)
    assert crossed(stages) == BETWEEN


@pytest.mark.parametrize(("operator", "runs"), [(ops.Add(), False), (Everywhere(), True)])
def test_a_stage_runs_what_it_does_not_use_only_where_all_ranks_meet_in_it(operator: Operator, runs: bool) -> None:
    graph = Training()
    graph.finish(graph.make("rate", graph.x, operator=operator), stages=(0,))
    stages = graph.cut()
    assert "rate" in told(stages, 0)
    assert ("rate" in told(stages, 1)) is runs


def test_what_nobody_uses_is_not_run() -> None:
    graph = Training()
    graph.make("unused", graph.x)
    graph.make("unused by all", graph.x, operator=Everywhere())
    graph.finish()
    assert not any(name.startswith("unused") for stage in range(2) for name in told(graph.cut(), stage))


def test_matrices_that_are_needed_at_the_end_are_sent_one_by_one() -> None:
    graph = Training()
    norms = [graph.make(f"norm {stage}", *graph.terms[stage]) for stage in range(2)]
    graph.finish(graph.make("scale", *norms))
    stages = graph.cut()
    assert stages.sharings == ()
    assert crossed(stages) == BETWEEN | {("norm 0", 0, 1), ("norm 1", 1, 0)}
    for stage in range(2):
        names = [*told(stages, stage)]
        sent, come = (f"{what} norm {of}:0" for what, of in (("send", stage), ("arrival of", 1 - stage)))
        places = [next(i for i, name in enumerate(names) if name.startswith(one)) for one in (sent, come)]
        assert names.index(f"norm {stage}") == places[0] - 1
        assert places[1] == names.index("scale") - 1


def test_scalars_that_are_needed_early_and_one_alone_are_sent_one_by_one() -> None:
    graph = Training(crossing=NUMBER)
    graph.finish()
    stages = graph.cut()
    assert (stages.sharings, crossed(stages)) == ((), BETWEEN)
    graph = Training()
    graph.finish(graph.make("norm", *graph.terms[1], spec=NUMBER))
    stages = graph.cut()
    assert (stages.sharings, crossed(stages)) == ((), BETWEEN | {("norm", 1, 0)})


def test_scalars_that_depend_on_shared_ones_are_a_message_of_their_own() -> None:
    graph = Training()
    norms = [graph.make(f"norm {stage}", *graph.terms[stage], spec=NUMBER) for stage in range(2)]
    scale = graph.make("scale", *norms, spec=NUMBER)
    again = [graph.make(f"again {stage}", scale, graph.weights[stage], spec=NUMBER) for stage in range(2)]
    graph.finish(graph.make("last", *again, spec=NUMBER))
    stages = graph.cut()
    assert [{one.value.name for one in sharing.crossings} for sharing in stages.sharings] == [
        {"norm 0:0", "norm 1:0"},
        {"again 0:0", "again 1:0"},
    ]
    assert [node.name for node in stages.sharings[0].nodes.values()] == ["norm 0:0 and other scalars of all stages"] * 2
    for stage in range(2):
        names = [name for name in told(stages, stage) if name.split()[0] in ("norm", "scale", "again", "last")]
        shared = [f"{name} 0:0 and other scalars of all stages" for name in ("norm", "again")]
        assert names == [f"norm {stage}", shared[0], "scale", f"again {stage}", shared[1], "last"]


def with_weights_last(schedule: Schedule) -> Schedule:
    """Let the first stage compute the gradient of its weight of the first micro-batch after that of the second."""
    actions = list(schedule.actions[0])
    early = next(one for one in actions if str(one) == "W0")
    actions.remove(early)
    actions.insert([str(one) for one in actions].index("W1") + 1, early)
    return replace(schedule, actions=(tuple(actions), *schedule.actions[1:]))


def test_a_sum_of_gradients_waits_for_the_last_term_of_a_schedule_of_the_users_own() -> None:
    graph = Training()
    total = graph.make("total", *graph.terms[0], like=graph.weights[0])
    assert total.node is not None
    graph.works[total.node] = Work(Kind.WEIGHT_GRADIENT, 1, 0)
    graph.terms[0] = [total]
    graph.finish()
    schedule = make_schedule("1f1b", stages=2, micro_batches=2)
    names = [name for name in told(graph.cut(with_weights_last(schedule)), 0) if name[:5] in ("gradi", "total")]
    assert names == ["gradient 0 of 1", "gradient 0 of 0", "total"]


def test_gradients_that_are_computed_together_are_told_as_those_of_weights_from_the_last_of_these_on() -> None:
    graph = Training()
    graph.finish()
    schedule = make_schedule("1f1b", stages=2, micro_batches=2)
    # Sent after both, the gradients of the last stage are computed layer by layer.
    actions = [str(one) for one in schedule.actions[1]]
    order = list(schedule.actions[1])
    for number in range(2):
        sent = order[actions.index(f"I{number}>0")]
        order.remove(sent)
        order.insert([str(one) for one in order].index(f"W{number}") + 1, sent)
    found = told(graph.cut(replace(schedule, actions=(schedule.actions[0], tuple(order)))), 1)
    assert {name: found[name] for name in found if " of " in name and name.startswith(("cot", "gra"))} == {
        "cotangent of 0": "I0",
        "gradient 1 of 0": "W0",
        "cotangent of 1": "I1",
        "gradient 1 of 1": "W1",
    }
