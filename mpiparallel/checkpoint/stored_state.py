"""A state in files: which file has which slice of which tensor, and which replicas replace lost files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.files.array_file import ArrayFile, fill_box
from mpiparallel.checkpoint.files.digested_file import open_committed
from mpiparallel.checkpoint.files.regular_file import check_folder
from mpiparallel.checkpoint.formats.registry import open_file
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.manifest_entries import ShardEntry
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout

Parts = tuple[int, ...]

_MOST_OPEN: Final = 64
_REASONS_SHOWN: Final = 8


@dataclass(frozen=True)
class StoredTensor:
    """How a tensor was cut over the ranks that wrote it, and its dtype."""

    layout: Layout
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class SliceFile:
    """The file of one rank: where it is, how it is opened, and which tensors it should hold; None: those it does."""

    path: Path
    open: Callable[[], ArrayFile]
    tensors: Container[str] | None = None


class StoredState:
    """The slices of a state in the files of the ranks that wrote it.

    A slice that several ranks have written is read from the first of them that has it whole. For each rank whose file
    was passed over, ``replaced`` says why. It keeps up to 64 files open; close it, or use it in a ``with``.
    """

    def __init__(self, tensors: Mapping[str, StoredTensor], files: Mapping[int, SliceFile]) -> None:
        self.tensors = dict(tensors)
        self.replaced: dict[int, str] = {}
        self._files = dict(files)
        self._open: OrderedDict[int, ArrayFile] = OrderedDict()
        self._ranks: dict[tuple[Layout, Parts], list[int]] = {}

    @classmethod
    def of_manifest(cls, folder: str | Path, manifest: Manifest) -> StoredState:
        """Return the state of a checkpoint; files that are not those that were committed count as lost."""
        root = Path(folder)
        distinct = {id(entry): entry for entry in manifest.tensors.values()}
        known = {key: StoredTensor(entry.layout, np.dtype(entry.dtype)) for key, entry in distinct.items()}
        tensors = {name: known[id(entry)] for name, entry in manifest.tensors.items()}
        files = {
            rank: SliceFile(root / shard.file, partial(_open_committed, root, shard), shard.arrays)
            for rank, shard in enumerate(manifest.shards)
            if shard is not None
        }
        return cls(tensors, files)

    @classmethod
    def of_files(cls, files: Mapping[int, Path], tensors: Mapping[str, StoredTensor]) -> StoredState:
        """Return the state in the files of the ranks named, of any format; ranks may be missing."""
        return cls(tensors, {rank: SliceFile(path, partial(open_file, path)) for rank, path in files.items()})

    def holders(self, name: str, parts: Parts) -> list[int]:
        """Return the ranks whose files should have these parts of a tensor, by replica."""
        return [rank for rank in self._ranks_with(name, parts) if rank in self._files and self._should_have(rank, name)]

    def _ranks_with(self, name: str, parts: Parts) -> list[int]:
        layout = self.tensors[name].layout
        ranks = self._ranks.get((layout, parts))
        if ranks is None:
            ranks = [layout.rank_at(parts, replica) for replica in range(layout.replica_count)]
            self._ranks[layout, parts] = ranks
        return ranks

    def fill(self, name: str, parts: Parts, first: int, target: NDArray[Any]) -> None:
        """Fill ``target``, 1-D and contiguous, with elements of a slice from its element ``first`` on, in C order.

        Raises ``CheckpointError`` that names each holder and why it was of no use.
        """
        self._from_some_holder(name, parts, lambda file: file.fill(name, first, target))

    def fill_box(self, name: str, box: Box, target: NDArray[Any]) -> None:
        """Fill ``target``, of any strides, with the elements of ``box`` of the global tensor, whoever holds them."""
        layout = self.tensors[name].layout
        for parts in layout.parts_over(box):
            held = layout.box_of_parts(parts)
            shared = held.intersection(box)
            if shared is None:
                continue
            within = Box(*_ends(shared.within(held)))
            index: tuple[Any, ...] = (*shared.within(box), ...)
            view = target[index]
            self._from_some_holder(name, parts, partial(_fill_from, name, held.shape, within, view))

    def read_box(self, name: str, box: Box) -> NDArray[Any]:
        """Return the elements of ``box`` of the global tensor."""
        target = np.empty(box.shape, self.tensors[name].dtype)
        self.fill_box(name, box, target)
        return target

    def close(self) -> None:
        """Close the files."""
        while self._open:
            self._open.popitem()[1].close()

    def __enter__(self) -> StoredState:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _should_have(self, rank: int, name: str) -> bool:
        tensors = self._files[rank].tensors
        return tensors is None or name in tensors

    def _from_some_holder(self, name: str, parts: Parts, read: Callable[[ArrayFile], None]) -> None:
        problems: dict[int, str] = {}
        for rank in self.holders(name, parts):
            try:
                read(self._file(rank, name))
            except (CheckpointError, OSError) as error:
                problems[rank] = str(error)
                continue
            for lost, problem in problems.items():
                self.replaced.setdefault(lost, f"{problem} (read from rank {rank})")
            return
        raise CheckpointError(self._lost(name, parts, problems))

    def _lost(self, name: str, parts: Parts, problems: Mapping[int, str]) -> str:
        layout, ranks = self.tensors[name].layout, self._ranks_with(name, parts)
        reasons = [f"rank {rank}: {problems.get(rank, 'there is no file of it')}" for rank in ranks[:_REASONS_SHOWN]]
        box = layout.box_of_parts(parts)
        return (
            f'tensor "{name}" {layout.global_shape}: the slice {box.start} to {box.stop} is lost, as no rank that held '
            f"it has a sound file; restore one of {_listed(ranks)}, or load an older checkpoint: {'; '.join(reasons)}"
        )

    def _file(self, rank: int, name: str) -> ArrayFile:
        if rank in self._open:
            self._open.move_to_end(rank)
        else:
            if len(self._open) >= _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            self._open[rank] = self._files[rank].open()
        file, tensor = self._open[rank], self.tensors[name]
        shape = tensor.layout.local_shape(rank)
        found = file.arrays.get(name)
        if found is None or found.shape != shape or found.dtype != tensor.dtype:
            shown = "no such array" if found is None else f"{found.dtype} of shape {found.shape}"
            raise CheckpointError(
                f'{file.path}: array "{name}" should be {tensor.dtype} of shape {shape}, the file has '
                f"{shown}; it is of another step, rank or strategy"
            )
        return file


def _open_committed(root: Path, shard: ShardEntry) -> ArrayFile:
    path = root / shard.file
    check_folder(path.parent)
    return open_committed(path, shard.digest)


def _fill_from(name: str, shape: tuple[int, ...], box: Box, target: NDArray[Any], file: ArrayFile) -> None:
    fill_box(file, name, shape, box, target)


def _ends(slices: Sequence[slice]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(part.start for part in slices), tuple(part.stop for part in slices)


def _listed(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
