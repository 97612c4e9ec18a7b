"""What crosses between stages: values of any kind, in any number, straight into the layout in which they are taken."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.threads.communicator import ThreadCommunicator
from mpiparallel.parallel.border import Send
from tests.unit.train.staged_networks import same_as, weight

LENGTH, WIDTH, WORDS, MICRO_BATCHES = 3, 8, 12, 4
ROWS, STEPS = 16, 5
DRAW = np.random.default_rng(2)
BATCHES = [
    (DRAW.integers(0, WORDS, (ROWS, LENGTH)).astype(np.int32), DRAW.normal(size=(ROWS, WIDTH))) for _ in range(STEPS)
]


class First(nn.Cell):
    """Gives vectors in two shapes, the number of the largest element of each, and which of them to leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.weight = weight(1, WORDS, WIDTH), weight(2, WIDTH, WIDTH)
        self.gather = ops.Gather()

    def construct(self, words):
        x = self.gather(self.table, words, 0)
        y = ops.tanh(ops.matmul(x, self.weight))
        return x.reshape(-1, WIDTH), y, y.argmax(-1), y.sum(-1) > 0


class Second(nn.Cell):
    """Begins with a Reshape, takes integers as indices and a mask as it came."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.weight = weight(3, WIDTH, WIDTH), weight(4, WIDTH, WIDTH)
        self.gather = ops.Gather()

    def construct(self, flat, y, largest, mask):
        x = flat.reshape(y.shape)
        chosen = ops.select(mask.reshape(-1, LENGTH, 1).broadcast_to(x.shape), x, self.gather(self.table, largest, 0))
        return ops.matmul((chosen + y).mean(1), self.weight)


class Both(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = First(), Second()
        self.first.pipeline_stage, self.second.pipeline_stage = 0, 1

    def construct(self, words):
        return self.second(*self.first(words))


def trained(communicator, schedule: str):
    if communicator.size > 1:
        context.set_auto_parallel_context(
            parallel_mode="semi_auto_parallel",
            full_batch=True,
            pipeline_stages=2,
            pipeline_config={"pipeline_scheduler": schedule},
        )
    network = Both()
    with_loss = nn.WithLossCell(network, nn.MSELoss())
    pieces = nn.PipelineCell(with_loss, MICRO_BATCHES) if communicator.size > 1 else with_loss
    step = nn.TrainOneStepCell(pieces, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    losses = [float(step(*map(Tensor, batch))) for batch in BATCHES]
    held = {one.name: (one.box, one.asnumpy().copy()) for one in network.get_parameters() if not one.is_elsewhere}
    kinds = {
        str(node.inputs[0].spec.dtype)
        for one in step.program.programs
        for node in one.local.nodes
        if isinstance(node.operator, Send) and node.inputs[0].spec.shape
    }
    return losses, held, kinds


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
def test_several_tensors_integers_and_masks_cross_a_border_at_which_shapes_change(ranks: int, schedule: str) -> None:
    ((losses, wanted, _),) = run_world(1, trained, "")
    found = run_world(ranks, trained, schedule)
    for of_rank, _, _ in found:
        np.testing.assert_allclose(of_rank, losses, rtol=0, atol=1e-9)
    same_as(wanted, [held for _, held, _ in found])
    assert found[0][2] == {"float64", "int64", "bool"}
    assert found[-1][2] == {"float64"}


def test_what_comes_lands_in_the_same_memory_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    landed: dict[tuple[int, int], int] = {}
    prepare, starts = ThreadCommunicator.message_from, []

    def noted(self, array, source, tag=0):
        assert (self.rank, tag) not in landed
        landed[self.rank, tag] = array.ctypes.data
        message = prepare(self, array, source, tag)
        start = message.start
        message.start = lambda: (starts.append(tag), start())
        return message

    monkeypatch.setattr(ThreadCommunicator, "message_from", noted)
    run_world(2, trained, "zb_h1")
    # Of four tensors and their two gradients, each of four micro-batches, and the loss.
    assert len(landed) == MICRO_BATCHES * (4 + 2) + 1
    assert len(starts) == STEPS * len(landed)


class Product(nn.Cell):
    def __init__(self, seed: int, strategy) -> None:
        super().__init__()
        self.weight, self.matmul = weight(seed, WIDTH, WIDTH), ops.MatMul().shard(strategy)

    def construct(self, x):
        return self.matmul(x, self.weight)


# The ranks of both stages, their strategies, and how many ranks of the second take each element of what comes.
CUTS = {
    "dp2 x mp4 to dp4 x mp1": ([8, 4], ((2, 1), (1, 4)), ((4, 1), (1, 1)), 1),
    "dp4 x mp1 to dp2 x mp4": ([4, 8], ((4, 1), (1, 1)), ((2, 1), (1, 4)), 4),
    "dp2 x mp2 to mp3": ([4, 3], ((2, 1), (1, 2)), ((1, 1), (1, 3)), 3),
}


def moved(communicator, cut: str):
    ranks, *strategies, _ = CUTS[cut]
    if communicator.size == 1:
        strategies = [((1, 1), (1, 1))] * 2
    else:
        context.set_auto_parallel_context(
            parallel_mode="semi_auto_parallel", full_batch=True, pipeline_stages=ranks, device_num=sum(ranks)
        )
    network = nn.SequentialCell([Product(seed, strategy) for seed, strategy in enumerate(strategies, 1)])
    network[0].pipeline_stage, network[1].pipeline_stage = 0, 1
    pieces = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), 2)
    step = nn.TrainOneStepCell(pieces, nn.SGD(network.trainable_params(), 0.1)).set_train()
    x = Tensor(np.random.default_rng(3).normal(size=(ROWS, WIDTH)))
    losses = [float(step(x, x)) for _ in range(2)]
    names = [node.operator.name for one in step.program.programs for node in one.local.nodes]
    return losses, [name for name in names if "Gather" in name]


@pytest.mark.parametrize("cut", CUTS)
def test_between_stages_that_are_cut_otherwise_only_what_each_rank_takes_is_sent_and_nothing_is_gathered(
    cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((wanted, _),) = run_world(1, moved, cut)
    sent: list[int] = []
    prepare = ThreadCommunicator.message_to

    def counted(self, array, target, tag=0):
        message = prepare(self, array, target, tag)
        start = message.start
        message.start = lambda: (sent.append(array.nbytes if array.ndim else 0), start())
        return message

    monkeypatch.setattr(ThreadCommunicator, "message_to", counted)
    found = run_world(sum(CUTS[cut][0]), moved, cut)
    for losses, gathered in found:
        np.testing.assert_allclose(losses, wanted, rtol=0, atol=1e-12)
        assert not gathered
    batch, copies = ROWS * WIDTH * 8, CUTS[cut][-1]
    # Each element of a gradient goes to one rank: of the first product each rank has a part of its own.
    assert sum(sent) == 2 * (copies + 1) * batch
