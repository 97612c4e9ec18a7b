"""Attention by cuDNN: on a strict stand-in, and its calls on the wheel where that is installed."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

from mpiparallel import context, nn
from mpiparallel.backend.attention.cudnn_attention import CudnnAttention
from mpiparallel.backend.attention.request import SETTING, AttentionRequest
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.tensor_spec import Part
from mpiparallel.communication.threads import alone
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.attention.blocked_attention import BlockedAttention, BlockedAttentionGrad
from mpiparallel.graph.attention.library_attention import library_attention, library_gradients
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.written_kernels.attention import AttentionSettings
from mpiparallel.nn.transformer import MultiHeadAttention
from mpiparallel.train import Model
from mpiparallel.train.amp import auto_mixed_precision
from tests.conformance.hidden_arrays.cudnn import FakeCudnn

TOLERANCES = {np.float16: 2e-3, bfloat16: 2e-2}
BOTH = ["sdpa", "sdpa_backward"]
MASKS = {"none": (), "of all": (1, 1), "of each batch": (2, 1), "of each head": (2, 3)}


class Device(NumpyBackend):
    """NumPy's arrays beside a stand-in for cuDNN."""

    def __init__(self, library: FakeCudnn | None) -> None:
        address = library.address if library else lambda one: 0
        self.attention = CudnnAttention(address, lambda: 7, lambda: library)


@pytest.fixture(autouse=True)
def asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "cudnn")


def empty(*shape: int, dtype: Any) -> Any:
    made = NumpyBackend().empty(int(np.prod(shape)) * np.dtype(dtype).itemsize).view(dtype).reshape(shape)
    made[...] = np.nan
    return made


def numbers(*shape: int, dtype: Any, seed: int = 0) -> Any:
    made = empty(*shape, dtype=dtype)
    made[...] = np.random.default_rng((*shape, seed)).normal(size=shape)
    return made


class Attending(nn.Cell):
    """Attention of two heads of depth 8, and a mean of what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(2, 5, 5, 16, 2, attention_dropout_rate=0.0)

    def construct(self, x: Any, mask: Any) -> Any:
        return (self.attention(x, x, x, mask)[0] ** 2).mean()


class Heads:
    """Arrays of heads, which with ``are_views`` lie in rows of all heads, and what is right for them."""

    def __init__(self, dtype: Any, leading: tuple[int, ...] = (1, 1), depth: int = 16, are_views: bool = False) -> None:
        def place(length: int, make: Any = numbers, **told: Any) -> Any:
            shape = (2, length, 3, depth) if are_views else (2, 3, length, depth)
            made = make(*shape, dtype=dtype, **told)
            return made.swapaxes(1, 2) if are_views else made

        self.query, self.key, self.value, self.dy = (place(size, seed=size) for size in (6, 5, 5, 6))
        self.value[...] = self.value[..., ::-1].copy()
        self.y, self.sums = place(6, empty), empty(2, 3, 6, dtype=np.float32)
        self.dsums = numbers(2, 3, 6, dtype=np.float32)
        self.gradients = [place(size, empty) for size in (6, 5, 5)]
        self.drawn = np.zeros((2, 3, 6), np.uint64)
        self.masks = [numbers(*leading, 6, 5, dtype=dtype)] if leading else []

    @property
    def given(self) -> tuple[Any, ...]:
        return self.query, self.key, self.value, *self.masks

    def truth(self, scale: float, masked: float, dsums: Any = 0.0, is_causal: bool = False) -> list[Any]:
        """Return the output, the sums and the three gradients, in float64."""
        query, key, value, dy = (one.astype(np.float64) for one in (self.query, self.key, self.value, self.dy))
        scores = scale * query @ key.swapaxes(2, 3)
        for mask in self.masks:
            scores = scores + (1 - mask.astype(np.float64)) * masked
        if is_causal:
            scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
        total = np.exp(scores).sum(-1, keepdims=True)
        weights = np.exp(scores) / total
        of_weights = dy @ value.swapaxes(2, 3)
        slopes = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True) + dsums) * scale
        gradients = slopes @ key, slopes.swapaxes(2, 3) @ query, weights.swapaxes(2, 3) @ dy
        return [weights @ value, np.log(total)[..., 0], *gradients]

    def check(self, truth: list[Any]) -> None:
        tolerance = {np.dtype(one): most for one, most in TOLERANCES.items()}[self.query.dtype]
        for found, wanted in zip((self.y, self.sums, *self.gradients), truth, strict=True):
            np.testing.assert_allclose(found.astype(np.float64), wanted, tolerance, tolerance)


def settings(masked: float, keep_prob: float = 1.0) -> AttentionSettings:
    return AttentionSettings(0.3, masked, keep_prob, Part.whole((2, 3, 6, 5)))


def run_operators(device: NumpyBackend, heads: Heads, told: tuple[float, ...], *, sums_are_read: bool = False) -> None:
    runtime, forward = Runtime(device), BlockedAttention(*told).configured(part=Part.whole((2, 3, 6, 5)))
    backward = BlockedAttentionGrad(*told).configured(part=forward.part, sums_are_read=sums_are_read)
    attended = heads.y, heads.sums, heads.drawn
    forward.kernel(runtime, heads.given, attended)()
    dsums = heads.dsums if sums_are_read else np.zeros_like(heads.dsums)
    backward.kernel(runtime, (*heads.given, *attended, heads.dy, dsums), heads.gradients)()


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("are_views", [False, True])
@pytest.mark.parametrize("masked", [-1.0, -3.0])
@pytest.mark.parametrize("mask", MASKS)
def test_each_gives_what_numpy_does(mask: str, masked: float, are_views: bool, dtype: Any) -> None:
    library, heads = FakeCudnn(), Heads(dtype, MASKS[mask], are_views=are_views)
    runtime, given = Runtime(Device(library)), (*heads.given, heads.drawn)
    forward = library_attention(runtime, settings(masked), given, heads.y, heads.sums)
    attended = heads.y, heads.sums
    backward = library_gradients(runtime, settings(masked), given, attended, heads.dy, heads.gradients)
    assert forward
    assert backward
    for _ in range(2):
        forward()
        backward()
    assert library.executed == [(name, 7) for name in BOTH * 2]
    heads.check(heads.truth(0.3, masked))


@pytest.mark.parametrize("mask", ["none", "of all"])
def test_keys_behind_a_query_are_hidden(mask: str) -> None:
    library, heads = FakeCudnn(), Heads(np.float16, MASKS[mask])
    attention, scratch = CudnnAttention(library.address, lambda: 7, lambda: library), Runtime().scratch
    bias = heads.masks[0] - np.float16(1) if heads.masks else None
    known = heads.query, heads.key, heads.value, bias, heads.y, heads.sums, 0.3
    for more in ((), (heads.dy, tuple(heads.gradients))):
        launch = attention.bind(AttentionRequest(*known, *more, is_causal=True), scratch)
        assert launch
        launch()
    heads.check(heads.truth(0.3, -1.0, is_causal=True))


def test_the_operators_take_it_and_plan_once_a_shape() -> None:
    library = FakeCudnn()
    device = Device(library)
    for _ in range(2):
        heads = Heads(np.float16)
        run_operators(device, heads, (1.0, 0.3, -1.0))
        heads.check(heads.truth(0.3, -1.0))
    assert [one for one, _ in library.executed] == BOTH * 2
    assert len(library.built) == 2


def test_its_sums_are_ours_so_that_our_gradient_can_follow() -> None:
    library, heads = FakeCudnn(), Heads(np.float16)
    run_operators(Device(library), heads, (1.0, 0.3, -1.0), sums_are_read=True)
    assert [one for one, _ in library.executed] == ["sdpa"]
    heads.check(heads.truth(0.3, -1.0, heads.dsums[..., None].astype(np.float64)))


def test_a_row_whose_keys_are_all_hidden_has_numbers() -> None:
    heads = Heads(np.float16)
    heads.masks[0][...] = 0
    run_operators(Device(FakeCudnn()), heads, (1.0, 0.3, -1e9))
    assert all(np.isfinite(one).all() for one in (heads.y, heads.sums, *heads.gradients))


@pytest.mark.parametrize("kind", ["own", "not set", "nothing takes it", "odd depth", "odd address", "no library"])
def test_ours_computes_what_is_not_asked_for_or_not_taken(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind in ("own", "not set"):
        monkeypatch.setenv(SETTING, "own" if kind == "own" else "")
    library, heads = FakeCudnn(takes_nothing=kind == "nothing takes it"), Heads(np.float16)
    if kind == "odd depth":
        heads = Heads(np.float16, depth=12)
    if kind == "odd address":
        heads.query = numbers(2 * 3 * 6 * 16 + 1, dtype=np.float16)[1:].reshape(heads.query.shape)
    run_operators(NumpyBackend() if kind == "no library" else Device(library), heads, (1.0, 0.3, -1.0))
    assert not library.executed
    heads.check(heads.truth(0.3, -1.0))


@pytest.mark.parametrize(("dtype", "keep_prob"), [(np.float32, 1.0), (np.float64, 1.0), (np.float16, 0.7)])
def test_it_is_not_asked_for_wide_floats_nor_for_our_dropout(dtype: Any, keep_prob: float) -> None:
    library, heads = FakeCudnn(), Heads(dtype)
    told = settings(-1.0, keep_prob)
    assert library_attention(Runtime(Device(library)), told, (*heads.given, heads.drawn), heads.y, heads.sums) is None
    assert not library.built


def test_another_value_and_a_missing_library_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = (1.0, 0.3, -1.0)
    wanted = r"cuDNN is not installed: pip install 'mpiparallel\[cudnn12x\]' \(or cudnn13x\), or set MPIPARALLEL_ATT"
    with pytest.raises(ConfigurationError, match=wanted):
        run_operators(Device(None), Heads(np.float16), told)
    monkeypatch.setenv(SETTING, "best")
    with pytest.raises(ConfigurationError, match="MPIPARALLEL_ATTENTION=best must be 'own' or 'cudnn'"):
        run_operators(Device(FakeCudnn()), Heads(np.float16), told)


def test_a_network_trains_by_it_as_by_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {}
    for wanted in ("cudnn", "own"):
        monkeypatch.setenv(SETTING, wanted)
        context.set_seed(3)
        network, library = Attending(), FakeCudnn()
        auto_mixed_precision(network, "O2", bfloat16)
        model = Model(network, optimizer=nn.SGD(network.trainable_params(), 0.5))
        random = np.random.default_rng(0)
        batch = [random.standard_normal((2, 5, 16), np.float32), np.tril(np.ones((2, 5, 5), np.float32))]
        sharded, runtime = model.shard(batch).stages[0], Runtime(Device(library), communicator=alone())
        for name, value in sharded.graph.parameters.items():
            value.parameter.place(sharded.stored[name], 0, runtime.backend)
        program = Program(local_graph(sharded, 0, on_device=True), runtime)
        losses[wanted] = [float(program.run(batch)[0]) for _ in range(4)]
        assert [one for one, _ in library.executed] == (BOTH * 4 if wanted == "cudnn" else [])
    np.testing.assert_allclose(losses["cudnn"], losses["own"], 2e-2)
    assert losses["own"][-1] < 0.99 * losses["own"][0]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_the_wheel_takes_our_graphs(mask: str, backward: bool, is_causal: bool) -> None:
    cudnn = pytest.importorskip(
        "cudnn", reason="cuDNN's frontend is not installed: pip install 'mpiparallel[cudnn12x]'"
    )
    heads = Heads(bfloat16, MASKS[mask], are_views=True)
    bias = heads.masks[0] if heads.masks else None
    more = (heads.dy, tuple(heads.gradients)) if backward else ()
    known = heads.query, heads.key, heads.value, bias, heads.y, heads.sums, 0.3
    request = AttentionRequest(*known, *more, is_causal=is_causal)
    # The wheel describes and checks graphs without a driver, but makes no handle.
    with mock.patch.object(cudnn, "create_handle", return_value=cudnn.Handle(0)):
        graph = CudnnAttention(lambda one: 0, lambda: 0, lambda: cudnn)._described(request)
    graph.validate()
    graph.build_operation_graph()
