"""Cuts, modes, overlap, fusion, recomputation, accumulation, shards: whatever is combined trains as one rank does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import ThreadCommunicator, run_world
from mpiparallel.compile import elementwise_fusion, schedule_collectives
from mpiparallel.ops import operations as P
from tests.reliability.counts import count

RANKS, STEPS = 4, 4
SIZES = [(8, 8), (6, 12), (3, 8), (5, 4)]
"""Rows and width; some are cut unevenly, and some ranks have no rows."""
CUTS = [None, (4, 1), (2, 2), (1, 4), (2, 1), (1, 2), (1, 1)]
PRODUCT_CUTS = [None, (4, 1, 1), (2, 2, 1), (1, 2, 2), (2, 1, 2), (1, 4, 1), (1, 1, 4), (1, 2, 1), (1, 1, 1)]
BLOCKS = ["product", "tied", "tied turned", "norm", "gelu", "bias", "residual", "turned", "softmax"]
BLOCKS += ["conv", "batch norm", "dropout"]
TIED = ("tied", "tied turned")
OWN_BATCH_BLOCKS = [block for block in BLOCKS if block not in ("batch norm", "dropout")]
"""Where each rank has statistics and masks of its own, it does not train as one rank does."""


@dataclass(frozen=True)
class Choice:
    """A network, how it is cut, and all that should change nothing."""

    size: tuple[int, int]
    blocks: tuple[tuple[str, Any, Any], ...]
    recomputed: frozenset[int]
    nested: bool
    regathers: bool
    mode: str
    overlaps: bool
    smallest_fused: int
    largest_joined: int
    accumulation: int
    optimizer: str
    shards: int
    checked: bool


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    mode = draw(st.sampled_from(["semi_auto_parallel", "data_parallel"]))
    semi = mode == "semi_auto_parallel"
    kinds = st.sampled_from(BLOCKS if semi else OWN_BATCH_BLOCKS)
    cuts = st.sampled_from(CUTS) if semi else st.none()
    products = st.sampled_from(PRODUCT_CUTS) if semi else st.none()
    tied_cut = draw(products)
    drawn = draw(st.lists(st.tuples(kinds, cuts, products), min_size=1, max_size=5))
    blocks = tuple((kind, cut, _like(tied_cut, product) if kind in TIED else product) for kind, cut, product in drawn)
    return Choice(
        draw(st.sampled_from(SIZES)) if semi else SIZES[0],
        blocks,
        draw(st.frozensets(st.integers(0, len(blocks) - 1))),
        draw(st.booleans()),
        draw(st.booleans()),
        mode,
        draw(st.booleans()),
        draw(st.sampled_from([0, 1 << 30])),
        draw(st.sampled_from([0, 1 << 16])),
        draw(st.sampled_from([1, 2])),
        draw(st.sampled_from(["momentum", "adam", "clipped"])),
        draw(st.sampled_from([1, 2, 3, 4, -1])),
        draw(st.booleans()),
    )


def _like(tied: Any, own: Any) -> Any:
    """Return a cut that leaves the tied weight in as many parts as ``tied``, and its other input in its own where it
    can, so that the weight would be cut by other axes."""
    rows = own[0] if tied and own else 0
    return (rows, *tied[1:]) if rows and RANKS % (rows * tied[1] * tied[2]) == 0 else tied


class Block(nn.Cell):
    """One step of the network, with a cut of its own."""

    def __init__(self, kind: str, cut: Any, product_cut: Any, index: int, tied: ms.Parameter) -> None:
        super().__init__()
        width = tied.shape[0]
        self.kind, self.cut, self.product_cut = kind, cut, product_cut
        random = np.random.default_rng(index)
        self.tied = tied
        name = f"b{index}"
        if kind in ("product", "residual"):
            self.weight = ms.Parameter(random.normal(size=(width, width)) * 0.5, name=f"{name}.weight")
        if kind in ("bias", "norm", "batch norm"):
            self.bias = ms.Parameter(random.normal(size=width), name=f"{name}.bias")
        if kind in ("norm", "batch norm"):
            self.scale = ms.Parameter(1 + random.normal(size=width) * 0.2, name=f"{name}.scale")
        if kind == "batch norm":
            self.mean = ms.Parameter(np.zeros(width), name=f"{name}.mean", requires_grad=False)
            self.variance = ms.Parameter(np.ones(width), name=f"{name}.variance", requires_grad=False)
        if kind == "conv":
            self.kernel = ms.Parameter(random.normal(size=(width // 4, width // 4, 3, 3)) * 0.3, name=f"{name}.kernel")

    def construct(self, x: Any) -> Any:
        cut = self.cut
        if self.kind in ("product", "residual", *TIED):
            turned = self.kind == "tied turned"
            operator = P.MatMul(transpose_b=turned)
            if self.product_cut:
                a, b, c = self.product_cut
                operator.shard(((a, c if turned else b), (b, c)))
            y = operator(x, self.tied if self.kind in TIED else self.weight)
            return ops.tanh(y) + x if self.kind == "residual" else y
        if self.kind == "bias":
            return self._cut(P.Add(), cut and (cut, cut[1:]))(x, self.bias)
        if self.kind == "gelu":
            return self._cut(P.GeLU(), cut and (cut,))(x) * 1.5
        if self.kind == "norm":
            operator = P.LayerNorm(begin_norm_axis=1, begin_params_axis=1)
            return self._cut(operator, cut and ((cut[0], 1), (1,), (1,)))(x, self.scale, self.bias)[0]
        if self.kind == "batch norm":
            operator = P.BatchNorm(is_training=True)
            vector = cut and cut[1:]
            self._cut(operator, cut and (cut, vector, vector, vector, vector))
            return operator(x, self.scale, self.bias, self.mean, self.variance)[0]
        if self.kind == "softmax":
            return self._cut(P.Softmax(), cut and ((cut[0], 1),))(x) + 0.5 * x
        if self.kind == "conv":
            image = P.Reshape()(x, (x.shape[0], x.shape[1] // 4, 2, 2))
            operator = P.Conv2D(x.shape[1] // 4, 3, pad_mode="same")
            self._cut(operator, cut and ((cut[0], 1, 1, min(cut[1], 2)), (1, 1, 1, 1)))
            return P.Reshape()(operator(image, self.kernel), x.shape)
        if self.kind == "dropout":
            return self._cut(P.Dropout(keep_prob=0.8), cut and (cut,))(x)[0]
        turned = self._cut(P.Transpose(), cut and (cut,))(x, (1, 0))
        return P.Transpose()(P.Sin()(turned), (1, 0)) + x

    @staticmethod
    def _cut(operator: Any, strategy: Any) -> Any:
        return operator.shard(strategy) if strategy else operator


class Network(nn.Cell):
    def __init__(self, choice: Choice, plain: bool) -> None:
        super().__init__()
        width = choice.size[1]
        tied = ms.Parameter(np.random.default_rng(99).normal(size=(width, width)) * 0.4, name="tied")
        self.blocks = nn.SequentialCell(
            [Block(kind, cut, product, index, tied) for index, (kind, cut, product) in enumerate(choice.blocks)]
        )
        self.first = ms.Parameter(np.random.default_rng(98).normal(size=(width, width)) * 0.4, name="first")
        if not plain:
            options = {"parallel_optimizer_comm_recompute": choice.regathers}
            for index in choice.recomputed:
                self.blocks[index].recompute(**options)
            if choice.nested:
                self.blocks.recompute(**options)

    def construct(self, x: Any, y: Any) -> Any:
        x = self.blocks(ops.tanh(P.MatMul()(x, self.first)))
        return P.ReduceMean()(P.Square()(x - y), (0, 1))


class ClippedMomentum(nn.Momentum):
    def construct(self, gradients: Any) -> Any:
        return super().construct(ops.clip_by_global_norm(gradients, 0.5))


OPTIMIZERS = {
    "momentum": lambda weights: nn.Momentum(weights, 0.05, 0.9, weight_decay=0.1),
    "adam": lambda weights: nn.AdamWeightDecay(weights, 0.01, weight_decay=0.1),
    "clipped": lambda weights: ClippedMomentum(weights, 0.05, 0.9),
}


def trained(communicator: Any, choice: Choice, plain: bool) -> Any:
    """Return the losses of a rank, and its parts of the weights with where they are."""
    ms.reset_auto_parallel_context()
    ms.set_seed(7)
    if not plain:
        ms.set_auto_parallel_context(
            parallel_mode=choice.mode,
            gradients_mean=True,
            full_batch=choice.mode == "semi_auto_parallel",
            enable_parallel_optimizer=choice.shards != 1,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
            optimizer_weight_shard_size=choice.shards if choice.shards != 1 else -1,
        )
    network = Network(choice, plain)
    step = nn.TrainOneStepCell(
        network, OPTIMIZERS[choice.optimizer](network.trainable_params()), accumulation_steps=choice.accumulation
    ).set_train()
    if choice.checked and not plain:
        step.check_finite(skip=True)
    random = np.random.default_rng(5)
    losses = []
    for _ in range(STEPS):
        x, y = random.normal(size=(2, *choice.size))
        if choice.mode == "data_parallel":
            x, y = (np.split(one, communicator.size)[communicator.rank] for one in (x, y))
        losses.append(float(step(ms.Tensor(x), ms.Tensor(y))))
    weights = {}
    for one in step.get_parameters():
        if not one.transient:
            box = None if one.layout is None else one.layout.box(communicator.rank)
            weights[one.name] = (box, one.array.copy())
    return losses, weights


def watch_what_is_under_way(patch: pytest.MonkeyPatch) -> None:
    """Let started collectives spoil what they write until they end, and see that nobody touches their arrays before."""

    def watched(name: str) -> Any:
        def start(self: Any, *arguments: Any) -> Any:
            *sources, target = [one for one in arguments if isinstance(one, np.ndarray)]
            result, given = target.copy(), [one.tobytes() for one in sources]
            ordered = (result if one is target else one for one in arguments)
            getattr(ThreadCommunicator, name)(self, *ordered)
            target.fill(np.nan)

            def end() -> None:
                assert np.isnan(target).all(), "written while a collective was under way"
                assert [one.tobytes() for one in sources] == given, "changed while a collective was under way"
                np.copyto(target, result)

            return end

        return start

    for name in ("all_reduce", "all_gather", "reduce_scatter"):
        patch.setattr(ThreadCommunicator, f"start_{name}", watched(name))


def check(choice: Choice) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPIPARALLEL_JIT", "0")
        patch.setattr(elementwise_fusion, "_SMALLEST", 1 << 30)
        ((wanted_losses, wanted),) = run_world(1, trained, choice, True)
        patch.setattr(elementwise_fusion, "_SMALLEST", choice.smallest_fused)
        patch.setattr(schedule_collectives, "_LARGEST", choice.largest_joined)
        watch_what_is_under_way(patch)
        found = run_world(RANKS, trained, choice, False, overlaps=choice.overlaps)
    losses = np.array([losses for losses, _ in found])
    np.testing.assert_allclose(losses.mean(0), wanted_losses, rtol=1e-9)
    if choice.mode == "semi_auto_parallel":
        np.testing.assert_array_equal(losses, losses[:1].repeat(RANKS, 0))
    for _, weights in found:
        for name, (box, part) in weights.items():
            whole = wanted[name][1]
            own = () if box is None or not box.shape else tuple(map(slice, box.start, box.stop))
            np.testing.assert_allclose(part, whole[own], rtol=1e-8, atol=1e-11, err_msg=name)


@given(choices())
@settings(
    max_examples=count(600, 40),
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_any_combination_trains_to_the_weights_of_one_rank(choice: Choice) -> None:
    check(choice)
