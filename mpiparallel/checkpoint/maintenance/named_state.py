"""The state that somebody names: a checkpoint, or one file of arrays."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from mpiparallel.checkpoint.catalogue import find
from mpiparallel.checkpoint.files.array_file import Attribute
from mpiparallel.checkpoint.formats.registry import open_file
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.checkpoint.stored_state import Parts, StoredState, StoredTensor
from mpiparallel.dataclass import dataclass
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout


@dataclass(frozen=True)
class NamedState:
    """A state and what tells of it: a ``manifest`` for a checkpoint in ``path``, ``attributes`` for a file.

    Close it, or use it in a ``with``.
    """

    path: Path
    state: StoredState
    manifest: Manifest | None
    attributes: dict[str, Attribute]

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return str(self.path) if self.manifest is None else str(self.path / self.manifest.name)

    def digest(self, tensor: str, parts: Parts) -> str | None:
        """Return the digest of a slice as it was committed; None where that is not known."""
        for rank in self.state.holders(tensor, parts):
            shard = None if self.manifest is None else self.manifest.shards[rank]
            if shard is not None:
                return shard.arrays[tensor]
        return None

    def close(self) -> None:
        """Close its files."""
        self.state.close()

    def __enter__(self) -> NamedState:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_named(named: str | Path) -> NamedState:
    """Return the state that ``named`` means: a file of arrays, or a checkpoint as ``catalogue.find`` finds it.

    Raises ``CheckpointError`` if there is none.
    """
    path = Path(named)
    if path.is_file() and not path.name.endswith(MANIFEST_SUFFIX):
        return _of_file(path)
    folder, manifest = find(path)
    return NamedState(folder, StoredState.of_manifest(folder, manifest), manifest, {})


def _of_file(path: Path) -> NamedState:
    devices = DeviceMatrix((1,))
    with open_file(path) as file:
        tensors = {
            name: StoredTensor(Layout.replicated(info.shape, devices), info.dtype) for name, info in file.arrays.items()
        }
        attributes = dict(file.attributes)
    return NamedState(path, StoredState.of_files({0: path}, tensors), None, attributes)
