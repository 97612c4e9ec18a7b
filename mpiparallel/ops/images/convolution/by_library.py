"""Convolutions by a library of the device where it has one and that is faster than ours."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

import numpy as np

from mpiparallel.backend.convolutions.request import ConvolutionRequest, Convolutions, Direction
from mpiparallel.backend.protocol import Array
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.ops.images.convolution.channels_last import is_channels_last
from mpiparallel.ops.images.convolution.columns import run_all
from mpiparallel.ops.images.window import WindowsOfImage

SETTING: Final = "MPIPARALLEL_CONVOLUTIONS"
_VALUES: Final = ("", "own", "cudnn")
_SLOT: Final = 10
"""Scratch memory that holds weights with their channels last."""


def faster(
    runtime: Runtime,
    direction: Direction,
    windows: WindowsOfImage,
    arrays: tuple[Array, Array, Array],
    ours: Kernel,
) -> Kernel:
    """Return the library's kernel for images, weights and outputs where it is faster than ours, which else is returned.

    On a rank alone both are timed in the first run of each shape. Several ranks may each compute one thing, and must
    have one result: they take the library's wherever it has one. ``MPIPARALLEL_CONVOLUTIONS`` says which without being
    measured. Raises ConfigurationError for another value of it.
    """
    wanted = os.environ.get(SETTING, "")
    if wanted not in _VALUES:
        raise ConfigurationError(f"{SETTING}={wanted} must be 'own' or 'cudnn', or not be set")
    library = runtime.backend.convolutions
    if library is None or wanted == "own" or any(one.size == 0 for one in arrays):
        return ours
    images, weight, outputs = arrays
    held = weight
    before: list[Kernel] = []
    after: list[Kernel] = []
    if is_channels_last(images) and is_channels_last(outputs):
        held, copies = _turned(runtime, direction, weight)
        before, after = ([], copies) if direction is Direction.WEIGHT_GRADIENT else (copies, [])
    request = ConvolutionRequest(
        direction,
        images,
        held,
        outputs,
        windows.window.stride,
        windows.window.dilation,
        windows.before,
        windows.after,
        runtime.backend.convolves_in_tf32,
    )
    bound = library.bind(request, runtime.scratch)
    if bound is None:
        return ours
    theirs = partial(run_all, [*before, bound, *after]) if before or after else bound
    is_alone = runtime.communicator is None or runtime.communicator.size == 1
    return _FasterKernel(library, request, theirs, ours) if is_alone and not wanted else theirs


class _FasterKernel:
    """The faster of two kernels, which the first run finds out."""

    def __init__(self, library: Convolutions, request: ConvolutionRequest, theirs: Kernel, ours: Kernel) -> None:
        self._library = library
        self._request = request
        self._theirs = theirs
        self._ours = ours
        self._chosen: Kernel | None = None

    def __call__(self) -> None:
        if self._chosen is None:
            is_theirs = self._library.is_faster(self._request, self._theirs, self._ours)
            self._chosen = self._theirs if is_theirs else self._ours
        self._chosen()


def _turned(runtime: Runtime, direction: Direction, weight: Array) -> tuple[Array, list[Kernel]]:
    """Return a copy of weights with their channels last in memory, and what copies them there, or back."""
    outputs, depth, down, across = weight.shape
    memory = runtime.scratch((outputs, down, across, depth), np.dtype(weight.dtype), _SLOT)
    held = memory.transpose(0, 3, 1, 2)
    pair = (weight, held) if direction is Direction.WEIGHT_GRADIENT else (held, weight)
    return held, [partial(runtime.array_module.copyto, *pair)]
