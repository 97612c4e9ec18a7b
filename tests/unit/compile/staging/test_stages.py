"""The graph of each stage in the order of its schedule, of two layers that are trained on two micro-batches."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.staging.stages import Stages, cut_into_stages
from mpiparallel.compile.staging.work import Work
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter
from mpiparallel.pipeline import make_schedule
from mpiparallel.pipeline.action import Kind

SPEC, NUMBER = (TensorSpec(shape, np.dtype(np.float32)) for shape in ((2, 2), ()))


class Update(Operator):
    """Changes its first input."""

    updates = (0,)


class Training(Graph):
    """What each micro-batch does in each of two stages, and an update of the weight of each."""

    def __init__(self, has_norm: bool = False) -> None:
        super().__init__()
        self.works: dict[Node, Work] = {}
        x = self.add_input("x", SPEC)
        weights = [
            self.add_parameter(Parameter(np.ones((2, 2), np.float32), f"weight {stage}"), SPEC) for stage in range(2)
        ]
        gradients: list[list[Value]] = [[], []]
        for number in range(2):
            first = self.add("first", Kind.FORWARD, number, 0, x, weights[0])
            second = self.add("second", Kind.FORWARD, number, 1, first, weights[1])
            cotangent = self.add("cotangent", Kind.INPUT_GRADIENT, number, 1, second, weights[1])
            gradients[1].append(self.add("gradient 1", Kind.WEIGHT_GRADIENT, number, 1, cotangent, first))
            gradients[0].append(self.add("gradient 0", Kind.WEIGHT_GRADIENT, number, 0, cotangent, x))
        norms = [self.number(f"norm {stage}", *gradients[stage]) for stage in range(2)] if has_norm else []
        scale = [self.number("scale", *norms)] if has_norm else []
        for stage in range(2):
            given = [weights[stage], *gradients[stage], *scale]
            self.add_node(Update(), f"update {stage}", given, [])

    def add(self, name: str, kind: Kind, micro_batch: int, part: int, *inputs: Value) -> Value:
        node = self.add_node(ops.Add(), f"{name} of {micro_batch}", inputs, [SPEC])
        self.works[node] = Work(kind, micro_batch, part)
        return node.outputs[0]

    def number(self, name: str, *inputs: Value) -> Value:
        return self.add_node(ops.Add(), name, inputs, [NUMBER], Notes()).outputs[0]

    def cut(self) -> Stages:
        return cut_into_stages(self, self.works, make_schedule("1f1b", stages=2, micro_batches=2))


def told(stages: Stages, stage: int) -> list[tuple[str, str]]:
    """Each node of a stage with the action by which it is told; of messages, what they are of."""
    graph = stages.graphs[stage]
    return [
        (re.sub(r":0( of micro-batch \d)? (to|from) stage \d$", "", node.name), str(graph.actions[node]))
        for node in graph.nodes
    ]


def test_the_first_stage_sends_on_what_it_has_computed_and_waits_for_gradients_where_it_needs_them() -> None:
    """Its schedule is F0 F0>1 F1 F1>1 I0<1 I0 W0 I1<1 I1 W1 R U; nobody wants input gradients of it."""
    assert told(Training().cut(), 0) == [
        ("first of 0", "F0"),
        ("send first of 0", "F0>1"),
        ("first of 1", "F1"),
        ("send first of 1", "F1>1"),
        ("receive cotangent of 0", "I0<1"),
        ("arrival of cotangent of 0", "W0"),
        ("end of send first of 0", "W0"),
        ("gradient 0 of 0", "W0"),
        ("receive cotangent of 1", "I1<1"),
        ("arrival of cotangent of 1", "W1"),
        ("end of send first of 1", "W1"),
        ("gradient 0 of 1", "W1"),
        ("update 0", "U"),
    ]


def test_the_last_stage_begins_to_receive_early_and_goes_on_while_it_sends() -> None:
    """Its schedule is F0<0 F1<0 F0 I0 I0>0 W0 F1 I1 I1>0 W1 R U."""
    assert told(Training().cut(), 1) == [
        ("receive first of 0", "F0<0"),
        ("receive first of 1", "F1<0"),
        ("arrival of first of 0", "F0"),
        ("second of 0", "F0"),
        ("cotangent of 0", "I0"),
        ("send cotangent of 0", "I0>0"),
        ("gradient 1 of 0", "W0"),
        ("arrival of first of 1", "F1"),
        ("second of 1", "F1"),
        ("end of send cotangent of 0", "I1"),
        ("cotangent of 1", "I1"),
        ("send cotangent of 1", "I1>0"),
        ("gradient 1 of 1", "W1"),
        ("update 1", "U"),
        ("end of send cotangent of 1", "U"),
    ]


def test_what_crosses_is_known_by_its_ends_and_a_label() -> None:
    stages = Training().cut()
    assert stages.sharings == ()
    assert {(one.maker.name, one.source, one.target, one.label) for one in stages.crossings} == {
        ("first of 0", 0, 1, "the activations of micro-batch 0"),
        ("first of 1", 0, 1, "the activations of micro-batch 1"),
        ("cotangent of 0", 1, 0, "the gradients of micro-batch 0"),
        ("cotangent of 1", 1, 0, "the gradients of micro-batch 1"),
    }
    one = next(one for one in stages.crossings if one.maker.name == "first of 1")
    assert [node.name for node in (one.send, one.end, one.receive, one.arrive)] == [
        "send first of 1:0 of micro-batch 1 to stage 1",
        "end of send first of 1:0 of micro-batch 1 to stage 1",
        "receive first of 1:0 of micro-batch 1 from stage 0",
        "arrival of first of 1:0 of micro-batch 1 from stage 0",
    ]
    # What arrives stands for the value itself.
    (coming,) = one.receive.outputs
    assert (one.arrive.inputs, one.arrive.outputs, coming.node) == ((coming,), (one.value,), one.receive)
    assert (one.send.inputs, one.end.inputs, coming.name) == ((one.value,),) * 2 + (f"{one.value.name} on its way",)
    assert [[*graph.parameters] for graph in stages.graphs] == [["weight 0"], ["weight 1"]]


def test_scalars_that_all_stages_need_at_the_end_go_together() -> None:
    stages = Training(has_norm=True).cut()
    (sharing,) = stages.sharings
    assert {(one.value.name, one.source, one.target) for one in sharing.crossings} == {
        ("norm 0:0", 0, 1),
        ("norm 1:0", 1, 0),
    }
    assert len(stages.crossings) == 4
    for stage, node in sharing.nodes.items():
        assert node.name.endswith(" and other scalars of all stages")
        assert [value.name for value in node.inputs] == [f"norm {stage}:0"]
        assert [value.name for value in node.outputs] == [f"norm {1 - stage}:0"]
        names = [one.name for one in stages.graphs[stage].nodes]
        assert names.index(f"norm {stage}") < names.index(node.name) < names.index("scale")
        assert names.index("scale") < names.index(f"update {stage}")


def test_what_an_earlier_micro_batch_needs_of_a_later_one_is_refused_by_name() -> None:
    training = Training()
    early = next(node for node in training.nodes if node.name == "gradient 0 of 0")
    late = next(node for node in training.nodes if node.name == "gradient 0 of 1")
    training.nodes.remove(early)
    early.inputs = (*early.inputs, late.outputs[0])
    training.nodes.insert(training.nodes.index(late) + 1, early)
    with pytest.raises(ConfigurationError) as raised:
        training.cut()
    assert str(raised.value) == (
        "gradient 0 of 0: stage 0 of the pipeline needs gradient 0 of 1:0 for it, which is computed of later "
        "micro-batches; give nn.PipelineCell a network in which none depends on the others, with the loss inside of it"
    )
