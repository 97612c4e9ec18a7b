"""Slices of a checkpoint that know the whole that they are of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.checkpoint.transform.file_owner import FileOwner
from mpiparallel.errors import CheckpointError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.box import Box


class SliceOfRank(Parameter):
    """The slice that a converted file has for its ``owner``, as a parameter."""

    def __init__(self, values: NDArray[Any], name: str, owner: FileOwner) -> None:
        super().__init__(values, name, requires_grad=False)
        self._origin: FileOwner | None = owner

    def set_data(self, data: Any, slice_shape: bool = False) -> Parameter:
        """Overwrite the values, which then are of no file any more."""
        self._origin = None
        return super().set_data(data, slice_shape)

    def check_rank(self, target: Parameter) -> None:
        """Raise CheckpointError where as many ranks hold ``target``, and the file is of one that holds another part."""
        if self._origin is None or target.layout is None:
            return
        rank, ranks = self._origin
        has_same_ranks = ranks == target.layout.devices.size and rank in target.layout.devices
        if has_same_ranks and target.layout.box(rank) != target.box:
            raise CheckpointError(
                f"parameter {target.name!r}: the file is of rank {rank}, which holds another part than rank "
                f"{target.rank}; give each rank the file of its own number"
            )


class SavedSlice(Parameter):
    """The slice of a tensor that ``rank`` has saved, as a parameter.

    ``manifest``, of that ``folder``, names the files of the tensor of ``whole_shape``. As long as nobody has
    overwritten the slice, any other part of the tensor can be read from them.
    """

    def __init__(self, values: NDArray[Any], name: str, folder: Path, manifest: Manifest, rank: int) -> None:
        super().__init__(values, name, requires_grad=False)
        layout = manifest.tensors[name].layout
        self.whole_shape = layout.global_shape
        self._held = layout.box(rank)
        self._saved_name = name
        self._saved: tuple[Path, Manifest] | None = (folder, manifest)

    def set_data(self, data: Any, slice_shape: bool = False) -> Parameter:
        """Overwrite the values, which then are no slice of what was saved any more."""
        self._saved = None
        return super().set_data(data, slice_shape)

    def part(self, box: Box) -> NDArray[Any] | None:
        """Return the elements of ``box`` of the whole tensor; None where it is no slice of that any more.

        Raises CheckpointError where files that hold them are lost.
        """
        if self._saved is None:
            return None
        if box == self._held:
            return np.asarray(self.asnumpy())
        with StoredState.of_manifest(*self._saved) as state:
            return state.read_box(self._saved_name, box)
