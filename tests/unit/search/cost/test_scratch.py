"""What kernels are said to take of scratch memory, against what a program takes that is bound and run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.backend import jit
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.search.cost.scratch import kernel_memory, nodes_with_scratch


@dataclass
class Counting(NumpyBackend):
    """Counts the bytes that a program asks for."""

    taken: int = 0

    def empty(self, byte_count: int, holder: str = "") -> np.ndarray[Any, Any]:
        self.taken += byte_count
        return super().empty(byte_count)


class Images(nn.Cell):
    """Convolutions of the kinds that take scratch memory: growing, grouped, strided, with one window."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, pad_mode="same"), nn.Conv2d(8, 16, 3, pad_mode="same", group=2)
        self.last, self.norm = nn.Conv2d(16, 4, 8, pad_mode="valid"), nn.BatchNorm2d(8)

    def construct(self, x: Tensor) -> Tensor:
        return self.last(self.second(ops.relu(self.norm(self.first(x))))).mean()


class Narrow(nn.Cell):
    """Products in bfloat16, the second larger than the first."""

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        one = ops.matmul(x, y)
        return ops.matmul(one.swapaxes(0, 1), one)


def _images() -> tuple[nn.Cell, list[Tensor]]:
    network = Images()
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    return step, [Tensor(np.ones((6, 3, 16, 16), np.float32))]


def _narrow() -> tuple[nn.Cell, list[Tensor]]:
    return Narrow(), [Tensor(np.ones(shape, ml_dtypes.bfloat16)) for shape in ((24, 16), (16, 300))]


@pytest.mark.parametrize("compiles", ["1", "0"], ids=["compiled", "by-the-array-library"])
@pytest.mark.parametrize("make", [_images, _narrow], ids=["images", "bfloat16"])
def test_scratch_memory_is_what_a_program_takes_beside_its_arena_and_its_inputs(make, compiles, monkeypatch) -> None:
    monkeypatch.setenv("MPIPARALLEL_JIT", compiles)
    network, inputs = make()
    graph = local_graph(network.sharded_graph(*inputs), 0)
    told = kernel_memory(graph).scratch
    backend = Counting()
    program = Program(graph, Runtime(backend))
    beside = program.arena_bytes + sum(value.spec.byte_count for value in graph.inputs)
    assert told == backend.taken - beside
    program.run([tensor.asnumpy() for tensor in inputs])
    assert told == backend.taken - beside > 0


def test_as_many_loops_are_told_as_binding_compiles(monkeypatch) -> None:
    network, inputs = _images()
    graph = local_graph(network.sharded_graph(*inputs), 0)
    compiled = set()

    class Compiler:
        def converts(self, dtype):
            return True

        def bind(self, source, arguments):
            compiled.add(source)
            return lambda: None

    told = kernel_memory(graph).loops
    monkeypatch.setattr(jit, "compiler", Compiler)
    Program(graph, Runtime())
    assert told == len(compiled) > 0


def test_nodes_whose_kernels_take_scratch_memory_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPIPARALLEL_JIT", "0")
    network, inputs = _narrow()
    graph = local_graph(network.sharded_graph(*inputs), 0)
    # By the array library products of 16 bits are made of copies in 32; to turn a matrix shows it in place.
    assert [node.operator.name for node in nodes_with_scratch(graph)] == ["MatMul", "MatMul"]
    wide = [Tensor(tensor.asnumpy().astype(np.float32)) for tensor in inputs]
    assert nodes_with_scratch(local_graph(network.sharded_graph(*wide), 0)) == []
