"""What a stage holds in memory is what the checker of its schedule says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.recomputation import RECOMPUTED
from mpiparallel.graph.execution.buffer_plan import plan_buffers
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.pipeline import SCHEDULES, Kind, check, make_schedule

STAGES, MICRO_BATCHES, BLOCKS, ROWS, WIDTH = 3, 6, 6, 40, 32
MESSAGE = ROWS * WIDTH * 4


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Dense(WIDTH, WIDTH), nn.Dense(WIDTH, WIDTH)

    def construct(self, x):
        return x + self.out(ops.relu(self.into(x)))


def program_of(communicator, name: str, recomputes: bool = False, blocks: int = BLOCKS):
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        pipeline_stages=STAGES,
        pipeline_config={"pipeline_scheduler": name},
    )
    family = SCHEDULES[name]
    places = family.place(STAGES, family.chunks or 2).stages
    network = nn.SequentialCell([Block() for _ in range(blocks)])
    for number, block in enumerate(network):
        block.pipeline_stage = places[number * len(places) // blocks]
        if recomputes:
            block.recompute()
    trained = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), MICRO_BATCHES)
    step = nn.TrainOneStepCell(trained, nn.SGD(network.trainable_params(), 0.1)).set_train()
    rows = Tensor(np.ones((ROWS * MICRO_BATCHES, WIDTH), np.float32))
    step.compile(rows, rows)
    (compiled,) = step.program.programs
    return compiled.local


def most_held(graph: Graph, counted: Callable[[Node], Iterable[Value]]) -> int:
    """Return of how many values there are most at once, from the node that is said to begin with them to the last."""
    last = {value: place for place, node in enumerate(graph.nodes) for value in node.inputs}
    held: set[object] = set()
    most = 0
    for place, node in enumerate(graph.nodes):
        held.update(counted(node))
        most = max(most, len(held))
        held -= {value for value in node.inputs if last[value] == place}
    return most


def activations(node: Node) -> Iterable[Value]:
    return node.outputs if "ReLU" in node.operator.name.split("+") else ()


def activations_and_gradients(node: Node) -> Iterable[Value]:
    found = {"ReLU", "ReluGrad"} & set(node.operator.name.split("+"))
    return [value for value in node.outputs if value.spec.shape == (ROWS, WIDTH)] if found else ()


def recomputed_activations(node: Node) -> Iterable[Value]:
    return [value for value in activations(node) if value.name.startswith(RECOMPUTED)]


def block_inputs(node: Node) -> Iterable[Value]:
    return node.inputs[:1] if node.name.endswith("/into/MatMul") and not node.name.startswith(RECOMPUTED) else ()


def weight_gradients(node: Node) -> Iterable[Value]:
    is_one = node.operator.name == "MatMul" and node.outputs[0].spec.shape == (WIDTH, WIDTH)
    return node.outputs if is_one else ()


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_stage_holds_the_activations_of_as_many_micro_batches_as_the_checker_says(name: str) -> None:
    peaks = check(make_schedule(name, STAGES, MICRO_BATCHES)).peaks
    held = [most_held(graph, activations) * STAGES / BLOCKS for graph in run_world(STAGES, program_of, name)]
    np.testing.assert_allclose(held, peaks, rtol=0.05)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_stage_of_products_holds_as_many_gradients_beside_as_the_checker_says(name: str) -> None:
    most = check(make_schedule(name, STAGES, MICRO_BATCHES)).with_gradients
    held = [
        most_held(graph, activations_and_gradients) * STAGES / BLOCKS for graph in run_world(STAGES, program_of, name)
    ]
    # In the first part of the network, and where a V turns, the gradient of one layer is there at a time.
    turns = name in ("zb_v", "zb_v_lean", "v_half")
    for stage in range(STAGES):
        layer = STAGES / BLOCKS if stage == 0 or (turns and stage == STAGES - 1) else 0.0
        assert 0.95 * most[stage] <= held[stage] <= 1.05 * most[stage] + layer


def test_lean_zb_v_takes_the_memory_of_1f1b_and_no_more_than_two_messages_beside_where_zb_v_takes_far_more() -> None:
    most = {
        name: max(plan_buffers(graph).byte_count for graph in run_world(STAGES, program_of, name, False, 4 * BLOCKS))
        for name in ("1f1b", "zb_v_lean", "zb_v")
    }
    assert most["zb_v_lean"] <= most["1f1b"] + 2 * MESSAGE
    assert most["zb_v"] > 1.3 * most["1f1b"]


def owed(name: str, stage: int) -> float:
    """Return of how many micro-batches through a stage, at most, the weight gradient follows the input gradient."""
    schedule = make_schedule(name, STAGES, MICRO_BATCHES)
    open_now = most = 0
    for action in schedule.actions[stage]:
        open_now += {Kind.INPUT_GRADIENT: 1, Kind.WEIGHT_GRADIENT: -1}.get(action.kind, 0)
        most = max(most, open_now)
    return most / len(schedule.placement.parts[stage])


@pytest.mark.parametrize("name", SCHEDULES)
def test_recomputed_blocks_are_computed_twice_and_keep_their_inputs_and_what_weight_gradients_read(name: str) -> None:
    peaks = check(make_schedule(name, STAGES, MICRO_BATCHES)).peaks
    for stage, graph in enumerate(run_world(STAGES, program_of, name, True)):
        products = Counter(node.name for node in graph.nodes if node.operator.name == "MatMul")
        first = {name for name in products if name.startswith("network/") and name.endswith("/into/MatMul")}
        # No gradient reads what the last product of a block gives, so that is not computed again.
        assert {name for name in products if name.startswith(RECOMPUTED)} == {RECOMPUTED + name for name in first}
        assert {products[prefix + name] for name in first for prefix in ("", RECOMPUTED)} == {MICRO_BATCHES}
        assert len(first) == BLOCKS // STAGES
        np.testing.assert_allclose(most_held(graph, block_inputs) / len(first), peaks[stage], rtol=0.05)
        assert most_held(graph, recomputed_activations) / len(first) <= owed(name, stage)


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_of_weight_gradients_only_the_sum_and_the_newest_are_held(name: str) -> None:
    weights = 2 * BLOCKS // STAGES
    for graph in run_world(STAGES, program_of, name):
        assert sum(bool(weight_gradients(node)) for node in graph.nodes) == weights * MICRO_BATCHES
        assert most_held(graph, weight_gradients) <= 2 * weights
