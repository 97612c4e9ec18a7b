"""What a stage holds in memory is what the checker of its schedule says."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.context.settings import all_settings, take_settings
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.pipeline import SCHEDULES, check, make_schedule

STAGES, MICRO_BATCHES, BLOCKS, ROWS, WIDTH = 3, 6, 6, 40, 32


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = all_settings()
    yield
    take_settings(before)


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Dense(WIDTH, WIDTH), nn.Dense(WIDTH, WIDTH)

    def construct(self, x):
        return x + self.out(ops.relu(self.into(x)))


def program_of(communicator, name: str):
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        pipeline_stages=STAGES,
        pipeline_config={"pipeline_scheduler": name},
    )
    family = SCHEDULES[name]
    places = family.place(STAGES, family.chunks or 2).stages
    network = nn.SequentialCell([Block() for _ in range(BLOCKS)])
    for number, block in enumerate(network):
        block.pipeline_stage = places[number * len(places) // BLOCKS]
    trained = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), MICRO_BATCHES)
    step = nn.TrainOneStepCell(trained, nn.SGD(network.trainable_params(), 0.1)).set_train()
    rows = Tensor(np.ones((ROWS * MICRO_BATCHES, WIDTH), np.float32))
    step.compile(rows, rows)
    (compiled,) = step.program.programs
    return compiled.local


def most_held(graph: Graph, is_counted: Callable[[Node], bool]) -> int:
    """Return of how many values, made by nodes that are counted, there are most at once."""
    last = {value: place for place, node in enumerate(graph.nodes) for value in node.inputs}
    held: set[object] = set()
    most = 0
    for place, node in enumerate(graph.nodes):
        if is_counted(node):
            held.update(node.outputs)
        most = max(most, len(held))
        held -= {value for value in node.inputs if last[value] == place}
    return most


def is_activation(node: Node) -> bool:
    return "ReLU" in node.operator.name.split("+")


def is_weight_gradient(node: Node) -> bool:
    return node.operator.name == "MatMul" and node.outputs[0].spec.shape == (WIDTH, WIDTH)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_stage_holds_the_activations_of_as_many_micro_batches_as_the_checker_says(name: str) -> None:
    peaks = check(make_schedule(name, STAGES, MICRO_BATCHES)).peaks
    held = [most_held(graph, is_activation) * STAGES / BLOCKS for graph in run_world(STAGES, program_of, name)]
    np.testing.assert_allclose(held, peaks, rtol=0.05)


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_of_weight_gradients_only_the_sum_and_the_newest_are_held(name: str) -> None:
    weights = 2 * BLOCKS // STAGES
    for graph in run_world(STAGES, program_of, name):
        assert sum(map(is_weight_gradient, graph.nodes)) == weights * MICRO_BATCHES
        assert most_held(graph, is_weight_gradient) <= 2 * weights
