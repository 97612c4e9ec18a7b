"""The cases by this project: each operator's own kernel, and whole steps of a Model."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from elementwise_kernels import bound
from on_gpu.cases import Case
from on_gpu.clock import Stream, median_seconds, sets_beyond_caches, turns
from on_gpu.operators import DTYPES, OPERATORS
from train_step import parse
from training_step.workloads import WORKLOADS

from mpiparallel import context
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.protocol import Backend
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.ops import operations as P
from mpiparallel.train.amp import auto_mixed_precision

Call = Callable[[], object]
_LONG_CALLS = 20


class Ours:
    """Times cases on a backend, each ``count`` times; those of TF32 on ``with_tf32`` where that is given."""

    def __init__(self, backend: Backend, count: int, with_tf32: Backend | None = None) -> None:
        self._backend = backend
        self._runtime = Runtime(backend)
        self._with_tf32 = Runtime(with_tf32 or backend)
        self._count = count
        self._stream = None if isinstance(backend, NumpyBackend) else _stream(backend.array_module)

    def seconds(self, case: Case) -> float:
        """Return the median seconds of one call."""
        if case.kind.endswith("step"):
            return median_seconds(_step(case), min(self._count, _LONG_CALLS), self._stream, is_long=True)
        sets = 1 if case.operations else sets_beyond_caches(case.bytes, self._count)
        calls = [self._call(case) for _ in range(sets)]
        seconds = median_seconds(turns(calls), self._count, self._stream)
        calls.clear()
        gc.collect()
        return seconds

    def _call(self, case: Case) -> Call:
        if case.kind == "copy":
            source, target = (self._backend.from_host(np.ones(case.sizes, np.float32)) for _ in range(2))
            return partial(self._backend.array_module.copyto, target, source)
        if case.kind == "AdamWeightDecay":
            shapes = [*[case.sizes] * 3, *[()] * 5, case.sizes]
            held = [self._backend.from_host(np.full(shape, 0.5, DTYPES[case.dtype])) for shape in shapes]
            return P.AdamWeightDecay().kernel(self._runtime, held, [])
        runtime = self._with_tf32 if case.dtype == "TF32" else self._runtime
        with mock.patch.dict(os.environ, {"MPIPARALLEL_ATTENTION": case.library} if case.library else {}):
            return partial(_run_all, bound(runtime, *OPERATORS[case.kind](case)))


def _run_all(kernels: Sequence[Call]) -> None:
    for kernel in kernels:
        kernel()


def _stream(cupy: Any) -> Stream:
    large = [cupy.zeros(1 << 28, np.float32) for _ in range(2)]

    def keep_busy() -> None:
        for _ in range(8):
            cupy.copyto(*large)

    return Stream(cupy.cuda.Event, cupy.cuda.get_elapsed_time, keep_busy)


def _step(case: Case) -> Call:
    """Return a training step as a user makes it: batches come from the host's memory."""
    context.set_seed(1)
    in_tf32 = case.dtype == "TF32"
    context.set_context(gpu_config={"matmul_allow_tf32": in_tf32, "conv_allow_tf32": in_tf32})
    flags = parse(step_arguments(case))
    workload = WORKLOADS[flags.network]
    model, batch = workload.make_model(flags), workload.make_batch(flags, flags.batch_size)
    if case.dtype == "bfloat16":
        auto_mixed_precision(model.train_network, "O2", DTYPES[case.dtype])
    return partial(model.run_step, batch)


def step_arguments(case: Case) -> list[str]:
    """Return the flags of ``train_step.py`` that give the network of a step."""
    if case.kind == "ResNet-50 step":
        images, extent = case.sizes
        return f"--network resnet50 --batch_size {images} --image_size {extent}".split()
    batch, length, width, layers = case.sizes
    heads = max(width // 64, 1)
    told = f"--batch_size {batch} --src_len {length} --d_model {width} --ffn {4 * width} --num_heads {heads}"
    return f"--network encoder --encoder_layers {layers} {told}".split()
