"""Convolutions by cuDNN, through its frontend: an optional extra. Plans are made once a shape."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, Final

import ml_dtypes
import numpy as np

from mpiparallel.backend.convolutions.request import Array, ConvolutionRequest, Direction, Launch, Scratch
from mpiparallel.backend.gpu.cudnn_library import find_cudnn
from mpiparallel.errors import ConfigurationError

_ELEMENTS: Final = {
    np.dtype(np.float32): "FLOAT",
    np.dtype(np.float16): "HALF",
    np.dtype(ml_dtypes.bfloat16): "BFLOAT16",
}
_UIDS: Final = {"images": 1, "weight": 2, "outputs": 3}
_ALIGNED: Final = 16
"""Bytes that a plan expects each array to begin at a multiple of."""
_SLOT: Final = 61
_RUNS: Final = 5
"""Timed runs of each way; the median counts."""


@dataclass(frozen=True)
class _Plan:
    graph: Any
    workspace: int


class CudnnConvolutions:
    """Convolutions of one device and one stream, by cuDNN where it is installed.

    ``address`` tells where an array is, ``stream`` the stream that is given work, as a number, ``seconds`` how long
    the device takes for what a function gives it. ``find_library`` is asked when the first convolution is bound.
    """

    def __init__(
        self,
        address: Callable[[Array], int],
        stream: Callable[[], int],
        seconds: Callable[[Launch], float],
        find_library: Callable[[], Any] = find_cudnn,
    ) -> None:
        self._address = address
        self._stream = stream
        self._seconds = seconds
        self._find_library = find_library
        self._plans: dict[Hashable, _Plan | None] = {}
        self._choices: dict[Hashable, bool] = {}

    @cached_property
    def _library(self) -> Any:
        return self._find_library()

    @cached_property
    def _handle(self) -> Any:
        try:
            return self._library.create_handle()
        except RuntimeError as error:
            why = " ".join(str(error).split())
            raise ConfigurationError(
                f"cuDNN cannot be used: {why}; mpiparallel doctor says more, or set MPIPARALLEL_CONVOLUTIONS=own"
            ) from error

    def bind(self, request: ConvolutionRequest, scratch: Scratch) -> Launch | None:
        """Return the launch of a convolution; None where cuDNN is not installed, or has none that repeats its bits."""
        places = {name: self._address(one) for name, one in request.arrays.items()}
        is_known = all(one.dtype == request.images.dtype and one.dtype in _ELEMENTS for one in request.arrays.values())
        is_padded = min(*request.before, *request.after) >= 0
        if not is_known or not is_padded or any(place % _ALIGNED for place in places.values()) or not self._library:
            return None
        if request.shape not in self._plans:
            self._plans[request.shape] = self._plan(request)
        plan = self._plans[request.shape]
        if plan is None:
            return None
        memory = scratch((max(plan.workspace, 1),), np.uint8, _SLOT)
        given = {_UIDS[name]: place for name, place in places.items()}
        workspace, held = self._address(memory), (request, memory)
        library, handle, stream, execute = self._library, self._handle, self._stream, plan.graph.execute

        def run(kept: object = held) -> None:
            library.set_stream(handle=handle, stream=stream())
            execute(given, workspace, handle=handle)

        return run

    def is_faster(self, request: ConvolutionRequest, theirs: Launch, ours: Launch) -> bool:
        """Return whether cuDNN takes less time than ours for requests of this shape, measured once in a process."""
        if request.shape not in self._choices:
            for one in (theirs, ours):
                one()
            times = [(self._seconds(theirs), self._seconds(ours)) for _ in range(_RUNS)]
            self._choices[request.shape] = median(one[0] for one in times) < median(one[1] for one in times)
        return self._choices[request.shape]

    def _plan(self, request: ConvolutionRequest) -> _Plan | None:
        library = self._library
        try:
            graph = self._described(request)
            graph.build_operation_graph()
            graph.create_execution_plans([library.heur_mode.A, library.heur_mode.FALLBACK])
            graph.deselect_numeric_notes([getattr(library.numerical_note, name) for name in _refused(request)])
            graph.check_support()
            graph.build_plans(library.build_plan_policy.HEURISTICS_CHOICE)
        except library.cudnnGraphNotSupportedError:
            return None
        return _Plan(graph, graph.get_workspace_size())

    def _described(self, request: ConvolutionRequest) -> Any:
        kinds = self._library.data_type
        element = getattr(kinds, _ELEMENTS[request.images.dtype])
        graph = self._library.pygraph(
            io_data_type=element,
            intermediate_data_type=kinds.FLOAT,
            compute_data_type=kinds.FLOAT,
            handle=self._handle,
        )
        tensors = {
            name: graph.tensor(dim=_extents(one), stride=_steps(one), data_type=element, name=name, uid=_UIDS[name])
            for name, one in request.arrays.items()
            if name != request.direction.value
        }
        made = self._made(graph, request, tensors)
        result = request.arrays[request.direction.value]
        made.set_output(True).set_uid(_UIDS[request.direction.value]).set_data_type(element)
        made.set_dim(_extents(result)).set_stride(_steps(result))
        graph.validate()
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


def _extents(array: Array) -> list[int]:
    return list(array.shape)


def _steps(array: Array) -> list[int]:
    return [stride // array.dtype.itemsize for stride in array.strides]
