"""The cross entropy of logits with labels, or its gradient: one launch, each row of logits read once from memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.written_kernels.written_text import element_type, index_name, written_kernel

_SHORT: Final = 1024
"""Classes up to which a warp takes a row; a longer one is a block's."""

_TEXT: Final = r"""
$element
template <typename F> __device__ __forceinline__ Wide over_team(Wide x, Wide none) { return $over; }

KERNEL(
    const Stored* __restrict__ logits, const $index* __restrict__ labels, Stored* __restrict__ gradient,
    double* __restrict__ losses, long long rows, long long classes, double share) {
    const int lane = threadIdx.x % $lanes;
    const long long row = (long long)blockIdx.x * ($threads / $lanes) + threadIdx.x / $lanes;
    if (row >= rows) return;
    const Stored* x = logits + row * classes;
    const Wide lowest = -(Wide)__int_as_float(0x7f800000);
    Wide largest = lowest, total = 0;
    for (long long k = lane; k < classes; k += $lanes) {
        const Wide value = from_Stored(x[k]);
        const Wide next = maximum(largest, value);
        total = total * (largest == next ? 1 : exp(largest - next)) + (value == next ? 1 : exp(value - next));
        largest = next;
    }
    const Wide above = over_team<Max>(largest, lowest);
    total = over_team<Sum>(total == 0 ? 0 : total * exp(largest - above), 0);
    const long long label = labels[row];
    if ($gives_loss) {
        if (lane == 0) losses[row] = log(total) + above - from_Stored(x[label]);
        return;
    }
    const Wide factor = share / total;
    for (long long k = lane; k < classes; k += $lanes)
        gradient[row * classes + k] =
            to_Stored(exp(from_Stored(x[k]) - above) * factor - (k == label ? (Wide)share : 0));
}
"""


def row_losses(runtime: Runtime, logits: Array, labels: Array, losses: Array) -> Kernel:
    """Return what sets ``losses``, float64, to the cross entropy of each row."""
    return _launch(runtime, logits, labels, logits, losses, 0.0, gives_loss=True)


def logits_gradient(runtime: Runtime, logits: Array, labels: Array, gradient: Array, share: float) -> Kernel:
    """Return what sets ``gradient`` to the gradient of the rows' cross entropies, times ``share``."""
    losses = runtime.scratch((1,), np.float64)
    return _launch(runtime, logits, labels, gradient, losses, share, gives_loss=False)


def _launch(
    runtime: Runtime, logits: Array, labels: Array, gradient: Array, losses: Array, share: float, *, gives_loss: bool
) -> Kernel:
    rows, classes = logits.shape
    lanes, threads = (32, 128) if classes <= _SHORT else (256, 256)
    over = "over_warp<F>(x)" if lanes == 32 else f"over_block<F, {lanes}, Wide>(x, none)"
    places: dict[str, Any] = {
        "element": element_type(logits.dtype),
        "index": index_name(labels.dtype),
        "lanes": lanes,
        "over": over,
        "gives_loss": int(gives_loss),
    }
    blocks = -(-rows // (threads // lanes))
    numbers = np.int64(rows), np.int64(classes), np.float64(share)
    return written_kernel(runtime, _TEXT, places, blocks, threads, logits, labels, gradient, losses, *numbers)
