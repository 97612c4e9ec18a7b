"""The benchmark of GPUs, as far as it can be tried without one."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from on_gpu import cases
from on_gpu.cases import GROUPS, Case, chosen_cases
from on_gpu.ours import Ours
from on_gpu.report import Row, line, summary

from benchmarks import gpu
from mpiparallel.backend.gpu.diagnosis import gpu_problem
from mpiparallel.backend.numpy_backend import NumpyBackend

SMALL = {case.kind: case for case in reversed(chosen_cases(list(GROUPS), 4096)) if not case.kind.endswith("step")}


@pytest.fixture
def frozen() -> Iterator[None]:
    """Let the benchmark's collections walk over what it has made, and not over all that the tests have imported."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("kind", SMALL)
def test_every_kind_of_kernel_is_timed(kind) -> None:
    assert Ours(NumpyBackend(), 1).seconds(SMALL[kind]) > 0


def test_names_are_unique_and_full_sizes_have_their_work() -> None:
    cases = chosen_cases(list(GROUPS), 1)
    assert len({case.name for case in cases}) == len(cases)
    sizes = {case.name: (case.bytes, case.operations) for case in cases}
    assert sizes["product 8192x8192x8192 bfloat16"] == (3 * 2 * 8192**2, 2 * 8192**3)
    assert sizes["layer norm gradient 4096x1024 float32"] == (3 * 4 * 4096 * 1024, 0)
    assert sizes["AdamWeightDecay 67108864 float32"][0] == 28 * 2**26


def test_shares_are_those_of_peer_and_ceiling() -> None:
    copy = Row(Case("copy", (8,), "float32", 1000), 2.0, {"eager": 1.0})
    square = Row(Case("product", (8, 8, 8), "float32", 0, 900), 3.0, {"eager": 2.0})
    kernel = Row(Case("softmax", (8, 8), "float32", 500, 0, (("copy", 0.6),)), 1.0, {"eager": 3.0, "compiled": 2.0})
    failed = Row(Case("softmax", (9, 9), "float32", 500, 0, (("copy", 0.6),)), None, {})
    rows = [copy, square, kernel, failed]
    assert [kernel.share(against, rows) for against in ("peer", "eager", "copy")] == [2.0, 3.0, 0.5]
    assert square.share("product", rows) == pytest.approx(2 / 3)
    assert line(kernel, rows).endswith("MISSED: 0.50 of copy, 0.6 wanted")
    assert "FAILED" in line(failed, rows)
    assert summary(rows) == "0 of 1 wanted shares reached, 4 cases, of which 1 failed"


def test_more_is_wanted_of_resnet_where_cudnn_may_be_taken(monkeypatch) -> None:
    wanted = {}
    for found, setting in ((None, ""), ("there", ""), ("there", "own")):
        monkeypatch.setattr(cases, "find_spec", lambda name, found=found: found)
        monkeypatch.setenv("MPIPARALLEL_CONVOLUTIONS", setting)
        wanted[found, setting] = {case.wanted for case in chosen_cases(["steps"], 1) if case.kind == "ResNet-50 step"}
    without, with_cudnn = {(("eager", 0.6),)}, {(("eager", 1.0), ("compiled", 0.9))}
    assert wanted == {(None, ""): without, ("there", ""): with_cudnn, ("there", "own"): without}


def test_attention_by_cudnn_is_timed_where_that_is_installed(monkeypatch) -> None:
    for found in (None, "there"):
        monkeypatch.setattr(cases, "find_spec", lambda name, found=found: found)
        names = {case.name for case in chosen_cases(["attentions"], 1) if case.library}
        assert len(names) == (8 if found else 0)
    assert "causal attention gradient 4x16x4096x128 bfloat16 by cudnn" in names


def test_without_a_gpu_it_says_that_no_figure_is_taken(capsys) -> None:
    if gpu_problem() is None:
        pytest.skip("this machine has a GPU")
    gpu.main([])
    assert capsys.readouterr().out.startswith("no figure is taken: device_target='GPU'")
