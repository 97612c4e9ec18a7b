"""Attention in blocks in place of the nodes that make the matrix of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, Tensor, context, nn
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.context import reset_auto_parallel_context, set_auto_parallel_context
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import RandomState, Runtime
from mpiparallel.graph.graph import Graph
from mpiparallel.nn.transformer import MultiHeadAttention
from mpiparallel.ops import operations as P
from mpiparallel.train import Model
from mpiparallel.train.amp import auto_mixed_precision

BATCH, LENGTH, WIDTH, HEADS = 2, 5, 8, 2


class Attending(nn.Cell):
    """Attention, and a mean of what it gives."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        sizes = BATCH, LENGTH, LENGTH, WIDTH, HEADS
        self.attention = MultiHeadAttention(*sizes, attention_dropout_rate=dropout, param_init_type=np.float64)

    def construct(self, x: Any, mask: Any) -> Any:
        return (self.attention(x, x, x, mask)[0] ** 2).mean()


class ByHand(nn.Cell):
    """A user's own attention; ``reads``: weights are read once more; ``bias``: what is added to scores is trained."""

    def __init__(self, reads: bool = False, bias: bool = False) -> None:
        super().__init__()
        self.w = Parameter(np.random.default_rng(1).random((WIDTH, WIDTH)), "w")
        self.bias = Parameter(np.zeros((1, 1, LENGTH, LENGTH)), "bias", requires_grad=bias)
        self.reads = reads

    def construct(self, x: Any, mask: Any) -> Any:
        heads = P.MatMul()(x.reshape((-1, WIDTH)), self.w).reshape((BATCH, HEADS, LENGTH, WIDTH // HEADS))
        scores = P.BatchMatMul(transpose_b=True)(heads, heads) * 0.5
        weights = P.Softmax()(P.BatchMatMul(transpose_b=True)(heads, heads) + self.bias)
        y = P.BatchMatMul()(weights, heads)
        return (y**2).mean() + ((weights * scores).mean() if self.reads else 0.0)


class Primitives(nn.Cell):
    """Attention of primitives, whose scores are scaled; ``added`` to them is a constant, if anything is.

    ``cut`` is the strategy of the scores.
    """

    def __init__(
        self, added: np.ndarray | None = None, cut: tuple[int, ...] = (1, 1, 1, 1), dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.w = Parameter(np.random.default_rng(1).random((WIDTH, WIDTH)), "w")
        whole = (*cut[:2], 1, 1)
        self.scores = P.BatchMatMul(transpose_b=True).shard((cut, whole))
        self.scale = P.Mul().shard((cut, ()))
        self.softmax = P.Softmax().shard((cut,))
        self.dropout = nn.Dropout(p=dropout)
        self.dropout.dropout.shard((cut,))
        self.mix = P.BatchMatMul().shard((cut, whole))
        self.added = None if added is None else Tensor(added)
        self.add = P.Add().shard((cut, cut[4 - (0 if added is None else added.ndim) :]))

    def construct(self, x: Any, mask: Any) -> Any:
        heads = P.MatMul()(x.reshape((-1, WIDTH)), self.w).reshape((BATCH, HEADS, LENGTH, WIDTH // HEADS))
        scores = self.scale(self.scores(heads, heads), 0.5)
        scores = scores if self.added is None else self.add(scores, self.masking())
        return (self.mix(self.dropout(self.softmax(scores)), heads) ** 2).mean() + 0.0 * mask.mean()

    def masking(self) -> Any:
        return self.added


class FromTriangle(Primitives):
    """What is added is computed from a constant that is 1 where a query may look."""

    def masking(self) -> Any:
        return P.Mul()(P.Sub()(1.0, self.added), -10000.0)


def batch() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal((BATCH, LENGTH, WIDTH)), np.tril(np.ones((BATCH, LENGTH, LENGTH), np.float32))]


def graphs(network: nn.Cell) -> tuple[Graph, Graph]:
    """Return what one rank runs on a CPU, and on a device."""
    model = Model(network, optimizer=nn.SGD(network.trainable_params(), 0.1))
    sharded = model.shard(batch()).stages[0]
    return local_graph(sharded, 0), local_graph(sharded, 0, on_device=True)


def names(graph: Graph) -> list[str]:
    return [node.operator.name for node in graph.nodes]


def holds_scores(graph: Graph) -> bool:
    shape = (BATCH, HEADS, LENGTH, LENGTH)
    return any(value.spec.shape == shape for node in graph.nodes for value in node.outputs)


def trained(network: nn.Cell, on_device: bool) -> tuple[list[float], list[np.ndarray]]:
    """Return the losses of three steps on arrays of NumPy, and the parameters."""
    model = Model(network, optimizer=nn.SGD(network.trainable_params(), 0.1))
    sharded = model.shard(batch()).stages[0]
    for name, value in sharded.graph.parameters.items():
        value.parameter.place(sharded.stored[name], 0, Runtime().backend)
    runtime = Runtime(communicator=alone(), random=RandomState(3))
    program = Program(local_graph(sharded, 0, on_device=on_device), runtime)
    losses = []
    for draw in range(3):
        runtime.random.draw = draw
        losses.append(float(program.run(batch())[0]))
    return losses, [parameter.asnumpy() for parameter in network.trainable_params()]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("recomputed", [False, True])
def test_attention_in_blocks_trains_alike_and_drops_the_same(dropout: float, recomputed: bool) -> None:
    found = []
    for on_device in (False, True):
        context.set_seed(5)
        network = Attending(dropout)
        if recomputed:
            network.attention.recompute()
        found.append(trained(network, on_device))
    (wanted, weights), (losses, updated) = found
    np.testing.assert_allclose(losses, wanted, rtol=1e-12)
    for one, other in zip(updated, weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("recomputed", [False, True])
def test_no_matrix_of_scores_is_left(recomputed: bool) -> None:
    network = Attending()
    if recomputed:
        network.attention.recompute()
    on_host, on_device = graphs(network)
    assert holds_scores(on_host)
    assert not holds_scores(on_device)
    assert names(on_device).count("BlockedAttention") == 1 + recomputed
    assert names(on_device).count("BlockedAttentionGrad") == 1


def test_attention_in_mixed_precision_is_in_blocks() -> None:
    network = Attending()
    auto_mixed_precision(network, "O2", bfloat16)
    assert not holds_scores(graphs(network)[1])


def test_a_users_own_attention_is_in_blocks() -> None:
    on_device = graphs(ByHand())[1]
    assert not holds_scores(on_device)
    assert "BlockedAttentionGrad" in names(on_device)


@pytest.mark.parametrize("network", [ByHand(reads=True), ByHand(bias=True)], ids=["weights are read", "a bias trains"])
def test_weights_that_something_else_needs_are_computed(network: nn.Cell) -> None:
    on_device = graphs(network)[1]
    assert holds_scores(on_device)
    assert "BlockedAttention" not in names(on_device)


LATER = np.triu(np.full((LENGTH, LENGTH), -1e9), 1)
TRIANGLE = np.tril(np.ones((1, 1, LENGTH, LENGTH)))


def attention_of(network: nn.Cell) -> Any:
    (found,) = (node for node in graphs(network)[1].nodes if node.operator.name == "BlockedAttention")
    return found


@pytest.mark.parametrize("added", [None, np.zeros((LENGTH, LENGTH))], ids=["nothing", "zeros"])
def test_where_nothing_is_added_no_mask_is_read(added: np.ndarray | None) -> None:
    node = attention_of(Primitives(added))
    assert len(node.inputs) == 3
    assert (node.operator.is_causal, node.operator.scale) == (False, 0.5)


@pytest.mark.parametrize("network", [Primitives(LATER), FromTriangle(TRIANGLE)], ids=["added", "computed"])
def test_a_constant_that_hides_what_comes_later_is_not_read(network: nn.Cell) -> None:
    node = attention_of(network)
    assert len(node.inputs) == 3
    assert node.operator.is_causal
    on_device = graphs(network)[1]
    given = [value for one in on_device.nodes for value in one.inputs]
    assert not any(value.constant is not None and value.spec.shape[-2:] == (LENGTH, LENGTH) for value in given)


@pytest.mark.parametrize(
    "added",
    [
        np.triu(np.full((LENGTH, LENGTH), -1e9), 2)[::-1].copy(),
        LATER / 1e9,
        LATER + 1e-3,
        LATER.T,
        np.roll(LATER, 1, 1),
    ],
    ids=["turned", "little", "more is added", "hides what came before", "another diagonal"],
)
def test_any_other_constant_is_read(added: np.ndarray) -> None:
    node = attention_of(Primitives(added))
    assert len(node.inputs) == 4
    assert not node.operator.is_causal


def test_a_mask_that_is_given_is_read() -> None:
    node = attention_of(Attending())
    assert len(node.inputs) == 4
    assert not node.operator.is_causal


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("kind", [Primitives, FromTriangle])
@pytest.mark.parametrize("added", [None, LATER, LATER.T, TRIANGLE], ids=["nothing", "later", "earlier", "triangle"])
def test_attention_of_primitives_trains_alike(kind: Any, added: np.ndarray | None, dropout: float) -> None:
    found = []
    for on_device in (False, True):
        context.set_seed(5)
        found.append(
            trained(kind(added, dropout=dropout) if added is not None else Primitives(dropout=dropout), on_device)
        )
    (wanted, weights), (losses, updated) = found
    np.testing.assert_allclose(losses, wanted, rtol=1e-12)
    np.testing.assert_allclose(updated[0], weights[0], rtol=1e-11)


def test_scores_from_which_something_is_taken_away_are_no_scores_to_which_it_is_added() -> None:
    found = []
    for on_device in (False, True):
        network = Primitives(-LATER)
        network.add = P.Sub()
        found.append(trained(network, on_device)[0])
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_queries_that_are_cut_see_what_they_see_in_the_whole(dropout: float) -> None:
    context.set_seed(5)
    wanted, _ = trained(Primitives(LATER, dropout=dropout), on_device=False)
    context.set_seed(5)
    network = Primitives(LATER, (1, 1, 2, 1), dropout)
    set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=2, full_batch=True)
    try:
        model = Model(network, optimizer=nn.SGD(network.trainable_params(), 0.1))
        sharded = model.shard(batch()).stages[0]
    finally:
        reset_auto_parallel_context()

    def losses_of(communicator: Any) -> tuple[int, list[float]]:
        for name, value in sharded.graph.parameters.items():
            value.parameter.place(sharded.stored[name], communicator.rank, Runtime().backend)
        graph = local_graph(sharded, communicator.rank, on_device=True)
        (node,) = (one for one in graph.nodes if one.operator.name == "BlockedAttention")
        assert node.operator.is_causal
        runtime = Runtime(communicator=communicator, random=RandomState(3))
        program = Program(graph, runtime)
        return node.operator.part.box.start[2], [float(program.run(batch())[0])]

    found = run_world(2, losses_of)
    assert [first for first, _ in found] == [0, 3]
    for _, losses in found:
        np.testing.assert_allclose(losses, wanted[:1], rtol=1e-12)
