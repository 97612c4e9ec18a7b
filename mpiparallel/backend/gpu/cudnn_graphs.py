"""cuDNN's graphs of one device: each is planned once a shape, and run on the current stream."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import ml_dtypes
import numpy as np

from mpiparallel.backend.gpu.cudnn_library import find_cudnn
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError

Array = Any
Launch = Callable[[], object]
Scratch = Callable[[tuple[int, ...], Any, int], Any]

ELEMENTS: Final = {
    np.dtype(np.float32): "FLOAT",
    np.dtype(np.float16): "HALF",
    np.dtype(ml_dtypes.bfloat16): "BFLOAT16",
}
ALIGNED: Final = 16
"""Bytes that a plan expects each array to begin at a multiple of."""
_SLOT: Final = 61


@dataclass(frozen=True)
class PlannedGraph:
    """What has been planned for arrays of some shapes, and the bytes that it works in."""

    graph: Any
    workspace: int


class CudnnGraphs:
    """Describes, plans and runs graphs. ``uids`` number the arrays by name.

    ``address`` tells where an array is, ``stream`` the stream that is given work, as a number. ``setting`` is the
    variable by which a user does without cuDNN. ``find_library`` is asked when cuDNN is first wanted.
    """

    def __init__(
        self,
        address: Callable[[Array], int],
        stream: Callable[[], int],
        uids: Mapping[str, int],
        setting: str,
        find_library: Callable[[], Any] = find_cudnn,
    ) -> None:
        self.address = address
        self._stream = stream
        self._uids = uids
        self._setting = setting
        self._find_library = find_library
        self._plans: dict[Hashable, PlannedGraph | None] = {}

    @cached_property
    def library(self) -> Any:
        """cuDNN's frontend; None where it is not installed."""
        return self._find_library()

    @cached_property
    def _handle(self) -> Any:
        try:
            return self.library.create_handle()
        except RuntimeError as error:
            why = " ".join(str(error).split())
            raise ConfigurationError(
                f"cuDNN cannot be used: {why}; mpiparallel doctor says more, or set {self._setting}=own"
            ) from error

    def plan(self, shape: Hashable, describe: Callable[[], Any], refused: Sequence[str] = ()) -> PlannedGraph | None:
        """Return the plan of requests that have their shape in common; None where no engine takes them.

        ``describe`` makes the graph; ``refused`` are numerical notes that the plan must not have.
        """
        if shape not in self._plans:
            self._plans[shape] = self._planned(describe, refused)
        return self._plans[shape]

    def _planned(self, describe: Callable[[], Any], refused: Sequence[str]) -> PlannedGraph | None:
        library = self.library
        try:
            graph = describe()
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([library.heur_mode.A, library.heur_mode.FALLBACK])
            graph.deselect_numeric_notes([getattr(library.numerical_note, name) for name in refused])
            graph.check_support()
            graph.build_plans(library.build_plan_policy.HEURISTICS_CHOICE)
        except library.cudnnGraphNotSupportedError:
            return None
        return PlannedGraph(graph, graph.get_workspace_size())

    def empty(self, dtype: np.dtype[Any]) -> Any:
        """Return a graph of arrays of a dtype that computes in float32."""
        kinds = self.library.data_type
        return self.library.pygraph(
            io_data_type=self._element(dtype),
            intermediate_data_type=kinds.FLOAT,
            compute_data_type=kinds.FLOAT,
            handle=self._handle,
        )

    def given(self, graph: Any, name: str, array: Array) -> Any:
        """Return the tensor of a graph that is read from an array."""
        return graph.tensor(
            dim=_extents(array),
            stride=_steps(array),
            data_type=self._element(array.dtype),
            name=name,
            uid=self._uids[name],
        )

    def set_result(self, made: Any, name: str, array: Array) -> None:
        """Let a tensor that a graph makes be written to an array."""
        made.set_output(True).set_uid(self._uids[name]).set_data_type(self._element(array.dtype))
        made.set_dim(_extents(array)).set_stride(_steps(array))

    def launch(self, plan: PlannedGraph, arrays: Mapping[str, Array], scratch: Scratch) -> Launch:
        """Return what runs a plan on arrays each time it is called."""
        memory = scratch((max(plan.workspace, 1),), np.uint8, _SLOT)
        places = {self._uids[name]: self.address(one) for name, one in arrays.items()}
        workspace, held = self.address(memory), (dict(arrays), memory)
        library, handle, stream, execute = self.library, self._handle, self._stream, plan.graph.execute

        def run(kept: object = held) -> None:
            library.set_stream(handle=handle, stream=stream())
            execute(places, workspace, handle=handle)

        return run

    def _element(self, dtype: np.dtype[Any]) -> Any:
        return getattr(self.library.data_type, ELEMENTS[dtype])


def _extents(array: Array) -> list[int]:
    return list(array.shape)


def _steps(array: Array) -> list[int]:
    return [stride // array.dtype.itemsize for stride in array.strides]
