"""What each operator on images must compute, written in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def _places(window: Any, image: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Return each (place in the output, place in the window, place in the image) that is not padding."""
    counts, before = [], []
    for dim, extent in enumerate(image):
        reach = (window.kernel[dim] - 1) * window.dilation[dim] + 1
        if window.pad_mode == "same":
            counts.append(int(np.ceil(extent / window.stride[dim])))
            before.append(max((counts[dim] - 1) * window.stride[dim] + reach - extent, 0) // 2)
        else:
            before.append(window.pad[2 * dim])
            counts.append((extent + sum(window.pad[2 * dim : 2 * dim + 2]) - reach) // window.stride[dim] + 1)
    found = []
    for output in np.ndindex(*counts):
        for tap in np.ndindex(*window.kernel):
            place = tuple(output[d] * window.stride[d] + tap[d] * window.dilation[d] - before[d] for d in (0, 1))
            if all(0 <= place[d] < image[d] for d in (0, 1)):
                found.append((output, tap, place))
    return found


def _connections(operator: Any, weight: Array) -> list[tuple[int, int, int]]:
    """Return each (output channel, input channel of the weight, input channel) that a convolution connects."""
    outputs, inputs = len(weight) // operator.group, weight.shape[1]
    return [(o, i, o // outputs * inputs + i) for o in range(len(weight)) for i in range(inputs)]


def _convolution(operator: Any, x: Array, weight: Array) -> Array:
    places = _places(operator.window, x.shape[2:])
    result = np.zeros((len(x), len(weight), *(max(output[d] for output, _, _ in places) + 1 for d in (0, 1))))
    for o, i, c in _connections(operator, weight):
        for output, tap, place in places:
            result[(slice(None), o, *output)] += weight[(o, i, *tap)] * x[(slice(None), c, *place)]
    return result


def _convolution_input(operator: Any, dy: Array, weight: Array, x: Array) -> Array:
    result = np.zeros_like(x)
    for o, i, c in _connections(operator, weight):
        for output, tap, place in _places(operator.window, x.shape[2:]):
            result[(slice(None), c, *place)] += weight[(o, i, *tap)] * dy[(slice(None), o, *output)]
    return result


def _convolution_filter(operator: Any, dy: Array, x: Array, weight: Array) -> Array:
    result = np.zeros_like(weight)
    for o, i, c in _connections(operator, weight):
        for output, tap, place in _places(operator.window, x.shape[2:]):
            result[(o, i, *tap)] += (dy[(slice(None), o, *output)] * x[(slice(None), c, *place)]).sum()
    return result


def _in_windows(operator: Any, image: tuple[int, ...]) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """Return, for each place in the output, the places in its window that are not padding."""
    windows: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for output, _, place in _places(operator.window, image):
        windows.setdefault(output, []).append(place)
    return windows


def _pool(operator: Any, x: Array) -> Array:
    windows = _in_windows(operator, x.shape[2:])
    function = np.max if operator.name == "MaxPool" else np.mean
    pooled = [function([x[(..., *place)] for place in places], 0) for places in windows.values()]
    return np.stack(pooled, -1).reshape(*x.shape[:2], *np.add(max(windows), 1))


def _max_pool_grad(operator: Any, x: Array, y: Array, dy: Array) -> Array:
    result = np.zeros_like(x)
    for image in np.ndindex(x.shape[:2]):
        for output, places in _in_windows(operator, x.shape[2:]).items():
            first = max(places, key=lambda place: x[(*image, *place)])
            result[(*image, *first)] += dy[(*image, *output)]
    return result


def _avg_pool_grad(operator: Any, x: Array, dy: Array) -> Array:
    result = np.zeros_like(x)
    for output, places in _in_windows(operator, x.shape[2:]).items():
        for place in places:
            result[(..., *place)] += dy[(..., *output)] / len(places)
    return result


def _by_channel(x: Array, vector: Array) -> Array:
    return vector.reshape(-1, *(1,) * (x.ndim - 2))


def _channel_sums(x: Array) -> Array:
    return np.stack([x[:, channel].sum() for channel in range(x.shape[1])])


def _deviation(operator: Any, x: Array, variance: Array) -> Array:
    return np.sqrt(_by_channel(x, variance) + operator.epsilon)


def _batch_norm(operator: Any, x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
    normal = (x - _by_channel(x, mean)) / _deviation(operator, x, variance)
    return normal * _by_channel(x, scale) + _by_channel(x, offset)


def _batch_norm_vectors(operator: Any, dy: Array, x: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    normal = (x - _by_channel(x, mean)) / _deviation(operator, x, variance)
    return _channel_sums(dy * normal), _channel_sums(dy)


def _batch_norm_grad(operator: Any, dy: Array, x: Array, dscale: Array, doffset: Array, *rest: Array) -> Array:
    scale, mean, variance = rest
    deviation = _deviation(operator, x, variance)
    normal, count = (x - _by_channel(x, mean)) / deviation, x[:, 0].size
    inner = dy - _by_channel(x, doffset) / count - normal * _by_channel(x, dscale) / count
    return _by_channel(x, scale) / deviation * inner


IMAGE_FORMULAS: dict[str, Callable[..., Any]] = {
    "BNTrainingReduce": lambda operator, x: (_channel_sums(x), _channel_sums(x * x)),
    "BNTrainingReduceInputGrad": lambda operator, x, one, two: _by_channel(x, one) + 2 * x * _by_channel(x, two),
    "BNMoments": lambda operator, total, square: (
        total / operator.count,
        square / operator.count - (total / operator.count) ** 2,
    ),
    "BNInfer": _batch_norm,
    "BNInferGrad": lambda operator, dy, scale, variance: (
        dy * _by_channel(dy, scale) / _deviation(operator, dy, variance)
    ),
    "BNTrainingUpdate": _batch_norm,
    "BNTrainingUpdateGrad": _batch_norm_vectors,
    "BNTrainingReduceGrad": _batch_norm_grad,
    "AssignMovingAverage": lambda operator, variable, value: (
        operator.momentum * variable + (1 - operator.momentum) * operator.correction * value
    ),
    "MaxPool": _pool,
    "AvgPool": _pool,
    "MaxPoolGrad": _max_pool_grad,
    "AvgPoolGrad": _avg_pool_grad,
    "Conv2D": _convolution,
    "Conv2DBackpropInput": _convolution_input,
    "Conv2DBackpropFilter": _convolution_filter,
}
"""By the operator's name: its outputs from the operator and its inputs."""
