"""Sums that compiled loops make of float32: as exact for long rows as for short ones."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.compile.elementwise_fusion import fuse_elementwise
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression import loop_kernel
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.ops import operations as P


@pytest.fixture(autouse=True)
def compiling(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "numba"))
    monkeypatch.delenv("MPIPARALLEL_JIT", raising=False)
    monkeypatch.setattr(loop_kernel, "_SMALLEST", 0)


@pytest.mark.parametrize("length", [1 << 10, (1 << 15) + 1, 1 << 20])
def test_the_sum_of_a_long_row_is_exact_to_a_few_units_in_the_last_place(length: int) -> None:
    """A sum of float32 made one element after another is off by more the longer the row is."""
    x = np.random.default_rng(length).random((2, length), np.float32)
    made = Trace()
    with recording(made):
        value = Tensor.of_value(made.graph.add_input("x", Tensor(x).spec))
        made.graph.outputs = [P.ReduceSum(keep_dims=True)(value * value, -1).value]
    fuse_elementwise(made.graph, 0)
    assert len(made.graph.nodes) == 1
    (found,) = Program(made.graph, Runtime()).run([x])
    exact = np.sum((x * x).astype(np.float64), axis=-1, keepdims=True)
    assert (np.abs(found - exact) / np.spacing(exact.astype(np.float32))).max() <= 4
