"""Cross entropy of logits with labels, its gradient, or both: one launch, and each row is read once from memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import operand, reduce
from mpiparallel.graph.written_kernels.written_text import element_type, index_name, run_after, written_kernel

_SHORT: Final = 1024
"""Classes up to which a warp takes a row; a longer one is a block's."""

_SLOT: Final = 8
"""Scratch memory that no kernel of terms uses."""

_TEXT: Final = r"""
$elements
template <typename F> __device__ __forceinline__ Wide over_team(Wide x, Wide none) { return $over; }

KERNEL(
    const Stored* __restrict__ logits, const $index* __restrict__ labels, Given* __restrict__ gradient,
    double* __restrict__ losses, const Factor* __restrict__ factors, long long rows, long long classes, double share) {
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
    if ($gives_loss && lane == 0) losses[row] = log(total) + above - from_Stored(x[label]);
    if (!$gives_gradient) return;
    const Wide part = share / total, factor = $factor;
    for (long long k = lane; k < classes; k += $lanes)
        gradient[row * classes + k] =
            to_Given((exp(from_Stored(x[k]) - above) * part - (k == label ? (Wide)share : 0)) * factor);
}
"""


def mean_loss(
    runtime: Runtime,
    logits: Array,
    labels: Array,
    target: Array,
    count: int,
    gradient: Array | None = None,
    factor: Array | None = None,
) -> Kernel:
    """Return what sets ``target`` to the sum of the rows' cross entropies divided by ``count``.

    In the same launch it sets ``gradient`` to the gradient for the logits, times a number on the device, ``factor``.
    """
    losses = runtime.scratch((len(labels),), np.float64, _SLOT)
    mean = reduce("sum", operand(0, losses.shape, losses.dtype), (0,)) * (1.0 / count)
    sum_up = expression_kernel(runtime, [mean.astype(target.dtype)], [losses], [target])
    return run_after([row_losses(runtime, logits, labels, losses, gradient, factor, 1.0 / count)], sum_up)


def row_losses(
    runtime: Runtime,
    logits: Array,
    labels: Array,
    losses: Array | None,
    gradient: Array | None = None,
    factor: Array | None = None,
    share: float = 1.0,
) -> Kernel:
    """Return what sets ``losses``, float64, to the cross entropy of each row, and ``gradient`` to their gradients.

    The gradients are multiplied by ``share``, and by the number that ``factor`` holds. Either output may be missing.
    """
    rows, classes = logits.shape
    lanes, threads = (32, 128) if classes <= _SHORT else (256, 256)
    given = logits if gradient is None else gradient
    elements = [
        element_type(logits.dtype),
        element_type(given.dtype, "Given", "OfGiven"),
        element_type(given.dtype if factor is None else factor.dtype, "Factor", "OfFactor"),
    ]
    places: dict[str, Any] = {
        "elements": "".join(elements),
        "index": index_name(labels.dtype),
        "lanes": lanes,
        "over": "over_warp<F>(x)" if lanes == 32 else f"over_block<F, {lanes}, Wide>(x, none)",
        "gives_loss": int(losses is not None),
        "gives_gradient": int(gradient is not None),
        "factor": "1" if factor is None else "from_Factor(factors[0])",
    }
    nothing = runtime.scratch((1,), np.float64)
    arrays = [nothing if one is None else one for one in (gradient, losses, factor)]
    numbers = np.int64(rows), np.int64(classes), np.float64(share)
    blocks = -(-rows // (threads // lanes))
    return written_kernel(runtime, _TEXT, places, blocks, threads, logits, labels, *arrays, *numbers)
