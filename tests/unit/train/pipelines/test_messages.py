"""What is on its way between stages stays as it was sent, by messages that are prepared once."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.threads.communicator import ThreadCommunicator
from mpiparallel.parallel.border import EndSend, Send
from mpiparallel.pipeline import SCHEDULES, Schedule, check, make_schedule, parse
from mpiparallel.search.forecast.communication_buffers import communication_buffers
from tests.unit.train.pipelines.test_borders import ROWS, WIDTH, Product

MICRO_BATCHES, STEPS = 4, 3
# The second stage begins to receive the first micro-batch only after it has computed the last.
OTHER_ORDER = parse("""
schedule other_order
micro-batches 4
parts 0 1
stage 0: F0 F0>1 F1 F1>1 F2 F2>1 F3 F3>1 I0<1 I0 W0 I1<1 I1 W1 I2<1 I2 W2 I3<1 I3 W3 R U
stage 1: F3<0 F3 F2<0 F2 F1<0 F1 F0<0 F0 I0 I0>0 W0 I1 I1>0 W1 I2 I2>0 W2 I3 I3>0 W3 R U
""")


def trained(communicator, schedule: Schedule, ranks: list[int]):
    """Train products; ranks of a stage of two have half of the columns each, not one piece of what the other has."""
    parts = schedule.placement.stages
    cuts = [ranks[stage] for stage in parts] if communicator.size > 1 else [1] * len(parts)
    network = nn.SequentialCell([Product(seed, ((1, 1), (1, cut))) for seed, cut in enumerate(cuts, 1)])
    pieces = with_loss = nn.WithLossCell(network, nn.MSELoss())
    if communicator.size > 1:
        context.set_auto_parallel_context(
            parallel_mode="semi_auto_parallel",
            full_batch=True,
            pipeline_stages=ranks,
            device_num=sum(ranks),
            pipeline_config={"pipeline_scheduler": schedule},
        )
        for cell, stage in zip(network, parts, strict=True):
            cell.pipeline_stage = stage
        pieces = nn.PipelineCell(with_loss, MICRO_BATCHES)
    step = nn.TrainOneStepCell(pieces, nn.SGD(network.trainable_params(), 0.1)).set_train()
    draw = np.random.default_rng(4)
    batches = [Tensor(draw.normal(size=(ROWS, WIDTH))) for _ in range(STEPS)]
    losses = [float(step(batch, batch)) for batch in batches]
    return losses, [node for one in step.program.programs for node in one.local.nodes]


CASES = {name: (make_schedule(name, 2, MICRO_BATCHES), [2, 1]) for name in SCHEDULES}
CASES["three stages"] = (make_schedule("zb_h1", 3, MICRO_BATCHES), [1, 1, 1])
CASES["other order"] = (OTHER_ORDER, [2, 1])


@pytest.mark.parametrize("case", CASES)
def test_what_was_sent_is_overwritten_only_after_the_send_has_ended(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, ranks = CASES[case]
    check(schedule)
    changed, memory = [], set()
    prepare = ThreadCommunicator.message_to

    def watched(self, array, target, tag=0):
        message, sent = prepare(self, array, target, tag), []
        start, end = message.start, message.end
        message.start = lambda: (sent.append(array.copy()), start())
        message.end = lambda: (end(), changed.append(not np.array_equal(sent.pop(), array)))
        memory.add((self.rank, array.ctypes.data))
        return message

    ((losses, _),) = run_world(1, trained, schedule, ranks)
    monkeypatch.setattr(ThreadCommunicator, "message_to", watched)
    found = run_world(sum(ranks), trained, schedule, ranks)
    for of_rank, _ in found:
        np.testing.assert_allclose(of_rank, losses, rtol=0, atol=1e-12)
    assert len(changed) > 2 * MICRO_BATCHES * STEPS
    assert not any(changed)
    # It is used again: there are more messages in a step than places they are sent from.
    assert len(memory) < len(changed) // STEPS


@pytest.mark.parametrize("case", ["gpipe", "other order"])
def test_two_micro_batches_are_on_their_way_where_they_are_taken_in_the_order_in_which_they_come(case: str) -> None:
    schedule, ranks = CASES[case]
    _, nodes = run_world(sum(ranks), trained, schedule, ranks)[0]
    under_way = np.cumsum([{Send: 1, EndSend: -1}.get(type(node.operator), 0) for node in nodes])
    assert under_way[-1] == 0
    assert under_way.max() == (2 if case == "gpipe" else MICRO_BATCHES)


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_copies_of_what_is_sent_take_what_a_forecast_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: Counter[str] = Counter()

    def counted(self, shape, dtype):
        array = np.empty(shape, dtype)
        taken[threading.current_thread().name] += array.nbytes
        return array

    def job(communicator):
        _, nodes = trained(communicator, *CASES[name])
        return threading.current_thread().name, communication_buffers(nodes, communicator.rank)

    monkeypatch.setattr(NumpyBackend, "host_array", counted)
    # The second stage sends halves of the columns of its gradients, and receives halves of what it takes.
    *_, (thread, told) = run_world(3, job)
    assert taken[thread] == told > 0
