"""The memory of a rank against what its program has taken."""

from __future__ import annotations

import numpy as np

from mpiparallel import Tensor, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.search.cost.memory import rank_memory
from tests.conformance.searched_networks import Transformer

SETTINGS = {"parallel_mode": "semi_auto_parallel", "full_batch": True, "enable_parallel_optimizer": True}


def test_weights_states_and_arena_are_those_of_the_program_of_a_rank() -> None:
    def job(communicator):
        context.reset_auto_parallel_context()
        context.set_auto_parallel_context(**SETTINGS, parallel_optimizer_config={"parallel_optimizer_threshold": 0})
        network = Transformer(1, batch=2, width=16, heads=2, inner=32)
        step = nn.TrainOneStepCell(network, nn.Adam(network.trainable_params(), 0.1)).set_train()
        x = Tensor(np.zeros((network.rows, network.width), np.float32))
        step.compile(x)
        (program,) = step.program.programs
        held = {True: 0, False: 0}
        for value in program.sharded.graph.parameters.values():
            held[value.parameter.requires_grad] += value.parameter.array.nbytes
        found = rank_memory(program.sharded)
        return (held[True], held[False], program.program.arena_bytes), (found.weights, found.states, found.arena)

    for taken, told in run_world(2, job):
        assert taken == told
        assert all(told)
