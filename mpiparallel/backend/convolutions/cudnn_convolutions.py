"""Convolutions by cuDNN, through its frontend: an optional extra. Plans are made once a shape."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from statistics import median
from typing import Any, Final

import numpy as np

from mpiparallel.backend.convolutions.request import Array, ConvolutionRequest, Direction, Launch, Scratch
from mpiparallel.backend.gpu.cudnn_graphs import ALIGNED, ELEMENTS, CudnnGraphs
from mpiparallel.backend.gpu.cudnn_library import find_cudnn

_UIDS: Final = {"images": 1, "weight": 2, "outputs": 3}
_RUNS: Final = 5
"""Timed runs of each way; the median counts."""


class CudnnConvolutions:
    """Convolutions of one device and one stream, by cuDNN where it is installed.

    ``address`` tells where an array is. ``stream`` tells, as a number, the stream that is given work. ``seconds`` tells
    how long the device takes for what a function gives it. ``find_library`` is asked when the first convolution is
    bound.
    """

    def __init__(
        self,
        address: Callable[[Array], int],
        stream: Callable[[], int],
        seconds: Callable[[Launch], float],
        find_library: Callable[[], Any] = find_cudnn,
    ) -> None:
        self._graphs = CudnnGraphs(address, stream, _UIDS, "MPIPARALLEL_CONVOLUTIONS", find_library)
        self._seconds = seconds
        self._choices: dict[Hashable, bool] = {}

    def bind(self, request: ConvolutionRequest, scratch: Scratch) -> Launch | None:
        """Return the launch of a convolution; None where cuDNN is not installed, or has none that repeats its bits."""
        graphs, arrays = self._graphs, request.arrays
        is_known = all(one.dtype == request.images.dtype and one.dtype in ELEMENTS for one in arrays.values())
        is_padded = min(*request.before, *request.after) >= 0
        is_aligned = not any(graphs.address(one) % ALIGNED for one in arrays.values())
        if not (is_known and is_padded and is_aligned) or not graphs.library:
            return None
        plan = graphs.plan(request.shape, lambda: self._described(request), _refused(request))
        return None if plan is None else graphs.launch(plan, arrays, scratch)

    def is_faster(self, request: ConvolutionRequest, theirs: Launch, ours: Launch) -> bool:
        """Return whether cuDNN takes less time than ours for requests of this shape, measured once in a process."""
        if request.shape not in self._choices:
            for one in (theirs, ours):
                one()
            times = [(self._seconds(theirs), self._seconds(ours)) for _ in range(_RUNS)]
            self._choices[request.shape] = median(one[0] for one in times) < median(one[1] for one in times)
        return self._choices[request.shape]

    def _described(self, request: ConvolutionRequest) -> Any:
        result = request.direction.value
        graph = self._graphs.empty(request.images.dtype)
        tensors = {name: self._graphs.given(graph, name, one) for name, one in request.arrays.items() if name != result}
        self._graphs.set_result(self._made(graph, request, tensors), result, request.arrays[result])
        return graph

    @staticmethod
    def _made(graph: Any, request: ConvolutionRequest, tensors: dict[str, Any]) -> Any:
        window = {
            "pre_padding": list(request.before),
            "post_padding": list(request.after),
            "stride": list(request.stride),
            "dilation": list(request.dilation),
        }
        if request.direction is Direction.FORWARD:
            return graph.conv_fprop(image=tensors["images"], weight=tensors["weight"], **window)
        if request.direction is Direction.INPUT_GRADIENT:
            return graph.conv_dgrad(loss=tensors["outputs"], filter=tensors["weight"], **window)
        return graph.conv_wgrad(image=tensors["images"], loss=tensors["outputs"], **window)


def _refused(request: ConvolutionRequest) -> list[str]:
    """Return which numerical notes a plan must not have: bits repeat, and float32 is rounded where that is allowed."""
    exact = request.images.dtype == np.float32 and not request.allows_tf32
    return [
        "NONDETERMINISTIC",
        "REDUCED_PRECISION_REDUCTION",
        *(["TENSOR_CORE", "DOWN_CONVERT_INPUTS"] if exact else []),
    ]
