"""Scalars that stages need of each other after their gradients cross in one message, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import run_world
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime, do_nothing
from mpiparallel.parallel.border import Send
from mpiparallel.parallel.shared_scalars import ShareScalars
from mpiparallel.train.loss_scale_manager import DynamicLossScaleManager
from tests.unit.train.staged_networks import Case, make_model, rows


def scalar_messages(communicator, case: Case, options: dict[str, object]) -> tuple[int, int]:
    """Return how many scalars a rank sends by themselves in a step, and in how many messages all others."""
    model, _ = make_model(case, **options)
    model.train(1, rows(8 * case.accumulation), dataset_sink_mode=False)
    operators = [
        (node.operator, node.inputs) for one in model.train_network.program.programs for node in one.local.nodes
    ]
    alone = sum(isinstance(operator, Send) and inputs[0].spec.size == 1 for operator, inputs in operators)
    return alone, sum(isinstance(operator, ShareScalars) for operator, _ in operators)


@pytest.mark.parametrize(
    ("ranks", "case", "options"),
    [
        (2, Case(clip=0.5), {}),
        (3, Case(clip=0.5, stages=(0, 0, 1, 1, 2, 2)), {}),
        (4, Case(clip=0.5, tied=True, cut=2), {}),
        (3, Case(stages=(0, 0, 1, 1, 2, 2)), {"loss_scale_manager": DynamicLossScaleManager()}),
    ],
)
def test_what_a_norm_or_a_loss_scale_of_all_stages_needs_is_one_message_of_each_rank(
    ranks: int, case: Case, options: dict[str, object]
) -> None:
    assert run_world(ranks, scalar_messages, case, options) == [(0, 1)] * ranks


VALUES = (
    np.float64(-0.0),
    np.array([np.nan], np.float32),
    np.float64(np.inf),
    np.array([[-1 + 2j]]),
    np.bool_(True),
    np.int8(-3),
)


def shared(communicator) -> list[bytes]:
    # Ranks 0 and 1 are a stage, rank 2 is another; each has every other value.
    stage = communicator.rank // 2
    given, taken = (list(range(first, len(VALUES), 2)) for first in (stage, 1 - stage))
    inputs = [np.array(VALUES[place]) for place in given]
    outputs = [np.empty_like(np.array(VALUES[place])) for place in taken]
    operator = ShareScalars(len(VALUES), given, taken, [one.ndim for one in outputs], (0, 1, 2), (0, 2))
    run = operator.kernel(Runtime(communicator=communicator), inputs, outputs)
    for _ in range(2):
        run()
    found = dict(zip((*given, *taken), (*inputs, *outputs), strict=True))
    return [found[place].tobytes() for place in range(len(VALUES))]


def test_sharing_costs_the_copies_of_16_bytes_for_each_scalar_and_nothing_where_one_rank_has_all() -> None:
    operator = ShareScalars(len(VALUES), [0, 1], [], [], (0,), (0,))
    assert operator.cost([], []) == Cost(0, 16 * len(VALUES), 16 * len(VALUES))
    assert operator.equation(TensorSpec((), np.dtype(np.float32))) == Equation(((),), ())

    def alone(communicator) -> bool:
        return operator.kernel(Runtime(communicator=communicator), [np.float64(1), np.int8(2)], []) is do_nothing

    assert run_world(1, alone) == [True]


def test_scalars_of_every_kind_arrive_to_the_bit() -> None:
    assert run_world(3, shared) == [[value.tobytes() for value in VALUES]] * 3
