"""Cases of benchmarks/kernels.py that are bound by memory: fused element-wise operators, rows, sums, optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import Part
from mpiparallel.compile.elementwise_fusion import fuse_elementwise
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.ops import operations as P
from mpiparallel.ops.elementwise import GeluGrad, ReluGrad
from mpiparallel.ops.losses.softmax_and_log import SoftmaxGrad
from mpiparallel.ops.normalization.batch_norm_steps import BNTrainingReduceGrad, BNTrainingUpdate, BNTrainingUpdateGrad
from mpiparallel.ops.normalization.batch_statistics import BNTrainingReduce
from mpiparallel.ops.normalization.layer_normalization import LayerNormGrad

Shape = tuple[int, ...]
MemoryCase = tuple[str, int, Callable[[Runtime], Kernel]]
"""A name, the bytes that must be read and written at least, and what binds the kernel."""


def _numbers(shape: Shape) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).random(shape, np.float32) + 0.5


def bound(runtime: Runtime, function: Callable[..., Any], arrays: Sequence[np.ndarray[Any, Any]]) -> list[Kernel]:
    """Return the kernels that a function of tensors becomes, bound to copies of host arrays on the device."""
    trace, backend = Trace(), runtime.backend
    inputs = [trace.graph.add_input(f"x{place}", Tensor(array).spec) for place, array in enumerate(arrays)]
    with recording(trace):
        made = function(*map(Tensor.of_value, inputs))
    results = made if isinstance(made, tuple) else (made,)
    trace.graph.outputs = [one.value for one in results if one.value is not None]
    for node in trace.graph.nodes:
        parts = ([Part.whole(value.spec.shape) for value in values] for values in (node.inputs, node.outputs))
        node.operator = node.operator.local(*parts)
    fuse_elementwise(trace.graph)
    held = {value: backend.from_host(array) for value, array in zip(inputs, arrays, strict=True)}
    kernels = []
    for node in trace.graph.nodes:
        for value in node.outputs:
            held[value] = backend.from_host(np.zeros(value.spec.shape, value.spec.dtype))
        given, outputs = ([held[value] for value in values] for values in (node.inputs, node.outputs))
        kernels.append(node.operator.kernel(runtime, given, outputs))
    return kernels


def _fused(function: Callable[..., Any], shapes: Sequence[Shape]) -> Callable[[Runtime], Kernel]:
    """Return what binds the one kernel that a function of tensors becomes."""

    def bind(runtime: Runtime) -> Kernel:
        (kernel,) = bound(runtime, function, [_numbers(shape) for shape in shapes])
        return kernel

    return bind


def _update(operator: Operator, shapes: Sequence[Shape]) -> Callable[[Runtime], Kernel]:
    return lambda runtime: operator.kernel(runtime, [_numbers(shape) for shape in shapes], [])


def _batch_norm(n: int, c: int, field: int) -> list[MemoryCase]:
    shape, vector = (n, c, field, field), (c,)
    size, name = 4 * prod(shape), f"{n},{c},{field}"

    def backward(dy: Any, y: Any, x: Any, mean: Any, variance: Any) -> Any:
        slope = ReluGrad()(dy, y)
        return slope, *BNTrainingUpdateGrad()(slope, x, mean, variance)

    def residual(x: Any, y: Any, *vectors: Any) -> Any:
        return P.ReLU()(P.Add()(BNTrainingUpdate()(x, *vectors), y))

    return [
        (f"batch norm sums {name}", size, _fused(BNTrainingReduce(), [shape])),
        (
            f"batch norm + relu {name}",
            2 * size,
            _fused(lambda *inputs: P.ReLU()(BNTrainingUpdate()(*inputs)), [shape, *[vector] * 4]),
        ),
        (f"batch norm + residual + relu {name}", 3 * size, _fused(residual, [shape, shape, *[vector] * 4])),
        (f"relu gradient + batch norm sums {name}", 4 * size, _fused(backward, [shape] * 3 + [vector] * 2)),
        (f"batch norm gradient {name}", 3 * size, _fused(BNTrainingReduceGrad(), [shape] * 2 + [vector] * 5)),
    ]


def _rows(n: int, length: int) -> list[MemoryCase]:
    shape, size, name = (n, length), 4 * n * length, f"{n},{length}"
    return [
        (f"softmax {name}", 2 * size, _fused(P.Softmax(), [shape])),
        (f"softmax gradient {name}", 3 * size, _fused(SoftmaxGrad(), [shape] * 2)),
        (f"cross entropy {name}", 3 * size, _fused(P.SoftmaxCrossEntropyWithLogits(), [shape] * 2)),
    ]


def _layer_norm(n: int, width: int) -> list[MemoryCase]:
    shape, size, name = (n, width), 4 * n * width, f"{n},{width}"
    norm, gradient = P.LayerNorm(), LayerNormGrad()
    return [
        (f"layer norm {name}", 2 * size, _fused(norm, [shape, (width,), (width,)])),
        (
            f"residual + layer norm {name}",
            4 * size,
            _fused(lambda x, y, *others: ((total := x + y), norm(total, *others)[0]), [shape, shape, *[(width,)] * 2]),
        ),
        (f"layer norm gradient {name}", 3 * size, _fused(gradient, [shape, shape, (n, 1), (n, 1), (width,)])),
    ]


def _activations(n: int, width: int) -> list[MemoryCase]:
    shape, size, name = (n, width), 4 * n * width, f"{n},{width}"
    return [
        (f"bias + gelu {name}", 2 * size, _fused(lambda x, bias: P.GeLU()(x + bias), [shape, (width,)])),
        (
            f"gelu gradient + bias gradient {name}",
            3 * size,
            _fused(lambda dy, x: ((dx := GeluGrad()(dy, x)), P.ReduceSum()(dx, 0)), [shape, shape]),
        ),
    ]


def _optimizers(count: int) -> list[MemoryCase]:
    shape, size = (count,), 4 * count
    return [
        (f"AdamWeightDecay {count}", 7 * size, _update(P.AdamWeightDecay(), [*[shape] * 3, *[()] * 5, shape])),
        (f"Adam {count}", 7 * size, _update(P.Adam(), [*[shape] * 3, *[()] * 6, shape])),
        (f"ApplyMomentum {count}", 5 * size, _update(P.ApplyMomentum(), [shape, shape, (), shape, ()])),
    ]


CASES: list[MemoryCase] = [
    *_batch_norm(8, 64, 112),
    *_batch_norm(8, 256, 56),
    *_batch_norm(32, 1024, 14),
    *_batch_norm(32, 256, 8),
    *_rows(65536, 128),
    *_rows(512, 20000),
    *_layer_norm(16384, 512),
    *_activations(8192, 2048),
    *_optimizers(1 << 23),
]
