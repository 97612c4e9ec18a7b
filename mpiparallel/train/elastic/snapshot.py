"""A copy of what a rank holds of a training between two steps, to go back to when the step cannot be ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.layout import Layout


class Snapshot:
    """Copies of the slices of parameters after ``step`` steps; -1 where there is none.

    They lie in memory that is kept from one to the next, as much as the parameters. Each costs as much as writing that
    memory once.
    """

    def __init__(self) -> None:
        self.step = -1
        self.position: dict[str, Any] = {}
        self._buffers: dict[str, NDArray[Any]] = {}
        self._layouts: dict[str, Layout] = {}

    def take(self, parameters: Mapping[str, Parameter], step: int, position: dict[str, Any]) -> None:
        """Copy what this rank holds; ``position`` is where the training stands."""
        for name, parameter in parameters.items():
            if parameter.layout is None or parameter.is_elsewhere:
                continue
            array = parameter.asnumpy()
            buffer = self._buffers.get(name)
            if buffer is None or buffer.shape != array.shape or buffer.dtype != array.dtype:
                buffer = self._buffers[name] = np.empty(array.shape, array.dtype)
            np.copyto(buffer, array)
            self._layouts[name] = parameter.layout
        self.step, self.position = step, position

    def fits(self, parameters: Mapping[str, Parameter]) -> bool:
        """Return whether the parameters are still laid out as they were, so that they could be put back."""
        return all(parameters[name].layout == layout for name, layout in self._layouts.items())

    def is_held(self, parameters: Mapping[str, Parameter]) -> bool:
        """Return whether this rank holds slices, of whatever cut, of all that it held then."""
        held = (parameters[name] for name in self._layouts)
        return all(one.layout is not None and not one.is_elsewhere for one in held)

    def put_back(self, parameters: Mapping[str, Parameter]) -> None:
        """Let the parameters have again what they had."""
        for name, buffer in self._buffers.items():
            parameters[name].set_data(buffer, slice_shape=True)

    def drop(self) -> None:
        """Forget what was copied, for the parameters are cut otherwise now."""
        self.step = -1
        self._buffers.clear()
        self._layouts.clear()
