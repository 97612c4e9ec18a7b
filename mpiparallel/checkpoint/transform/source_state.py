"""The state that is converted: what its files hold, and how it was cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import ArrayFile, Attribute
from mpiparallel.checkpoint.files.digested_file import open_committed
from mpiparallel.checkpoint.formats.registry import open_file
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.stored_state import Parts, StoredState, StoredTensor
from mpiparallel.checkpoint.strategy.merged_stages import StageParameters
from mpiparallel.checkpoint.transform.checkpoint_files import check_one_format
from mpiparallel.checkpoint.transform.file_headers import (
    Headers,
    Opener,
    manifest_of,
    read_headers,
    slices_in,
    told_beside,
)
from mpiparallel.checkpoint.transform.stored_layout import global_shape, stored_layout
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import TransformError, about
from mpiparallel.layout.copies import includes
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

SlicesByRank = Mapping[int, TensorSpec]

_PROBLEMS_SHOWN: Final = 4


@dataclass
class SourceState:
    """Slices of a state in the files of ranks, with the layout of each parameter over all ranks that should have it.

    ``others`` are further copies: where a parameter is on several pipeline stages, its layouts on those it is not read
    from. ``unnamed`` are the parameters that no strategy of the source names. ``own`` are those of which each rank has
    one, such as moving averages in data parallel mode; one tensor holds them all, rank after rank. ``problems`` says
    why a rank's file is of no use, ``openers`` opens it, ``suffix`` is that of all files, ``rank_count`` how many ranks
    there were.
    """

    state: StoredState
    headers: Headers
    openers: Mapping[int, Opener]
    suffix: str
    rank_count: int
    others: Mapping[str, Sequence[Layout]] = field(default_factory=dict)
    unnamed: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    problems: Mapping[int, str] = field(default_factory=dict)

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """Layout and dtype of each parameter, in the order of the files."""
        return self.state.tensors

    def present(self, name: str, parts: Parts) -> list[int]:
        """Return the ranks, by replica, whose files have these parts of a parameter."""
        return [rank for rank in holders(self.tensors[name].layout, parts) if self.has(rank, name)]

    def has(self, rank: int, name: str) -> bool:
        """Return whether there is a sound file of ``rank`` with a slice of a parameter."""
        return rank in self.headers and name in self.headers[rank].arrays

    def __enter__(self) -> SourceState:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.state.close()

    def open(self, rank: int) -> ArrayFile:
        """Return the open file of ``rank``."""
        return self.openers[rank]()

    def attributes(self, rank: int) -> dict[str, Attribute]:
        """Return what all files tell alike, for a file of ``rank`` made from them."""
        told = [header.attributes for header in self.headers.values()]
        alike = {name: value for name, value in told[0].items() if all(other.get(name) == value for other in told)}
        return {**alike, **({"rank": rank} if any("rank" in other for other in told) else {})}


def holders(layout: Layout, parts: Parts) -> list[int]:
    """Return the ranks that hold these parts of a tensor, by replica."""
    return [layout.rank_at(parts, replica) for replica in range(layout.replica_count)]


def open_source(
    files: Mapping[int, Path], stages: Sequence[StageParameters], folder: Path | None = None
) -> SourceState:
    """Return the state in the files of ranks, cut as the pipeline stages of a strategy say.

    With ``folder`` they should be all: a rank without one has a problem. Where a manifest in ``folder`` names them, it
    says how they are cut, and what the strategy says must agree. Raises ``TransformError``, a ``ValueError``, where
    files do not fit the strategy, and where none can be read.
    """
    if not files:
        raise TransformError("there is no checkpoint file to convert; give those of the ranks that have the slices")
    check_one_format(list(files.values()))
    if folder is None:
        return _cut_by(stages, files, *told_beside(files))
    manifest = manifest_of(folder, next(iter(files.values())))
    if manifest is not None:
        return _committed(folder, manifest, stages)
    source = _cut_by(stages, files, {}, {})
    lacking = {rank: "there is no file of it" for rank in range(source.rank_count) if rank not in files}
    return replace(source, problems={**source.problems, **lacking})


def _cut_by(
    stages: Sequence[StageParameters], files: Mapping[int, Path], shapes: Mapping[str, tuple[int, ...]], beside: Headers
) -> SourceState:
    """Return the state as ``stages`` cut it; ``shapes`` and the headers ``beside`` tell more of how long dims are."""
    rank_count = stages[-1].ranks.stop
    foreign = sorted(rank for rank in files if not 0 <= rank < rank_count)
    if foreign:
        raise TransformError(
            f"{files[foreign[0]]}: is of rank {foreign[0]}, but the source strategy is one of {rank_count} ranks; give "
            "the src_strategy_file of this training"
        )
    openers = {rank: partial(open_file, path) for rank, path in files.items()}
    headers, problems = read_headers(openers)
    _check_some(headers, problems)
    tensors: dict[str, StoredTensor] = {}
    others: dict[str, Sequence[Layout]] = {}
    named = {name for stage in stages for name in stage.items}
    for name in dict.fromkeys(name for header in headers.values() for name in header.arrays):
        infos = slices_in(headers, name)
        with about(f'parameter "{name}"'):
            dtype = _dtype(infos)
            known = {**slices_in(beside, name), **infos}
            layouts = _layouts(name, infos, known, stages, shapes.get(name)) if name in named else [_replicated(infos)]
            tensors[name] = StoredTensor(layouts[0], dtype)
            others[name] = layouts[1:]
    state = StoredState.of_files({rank: files[rank] for rank in headers}, tensors)
    suffix = next(iter(files.values())).suffix
    unnamed = frozenset(tensors.keys() - named)
    return SourceState(state, headers, openers, suffix, rank_count, others, unnamed, problems=problems)


def _own(manifest: Manifest) -> frozenset[str]:
    listed = manifest.training.get("own")
    known = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return frozenset(known)


def _check_some(headers: Headers, problems: Mapping[int, str]) -> None:
    if not headers:
        raise TransformError(f"no file can be read: {'; '.join(list(problems.values())[:_PROBLEMS_SHOWN])}")


def _committed(folder: Path, manifest: Manifest, stages: Sequence[StageParameters]) -> SourceState:
    openers = {
        rank: partial(open_committed, folder / shard.file, shard.digest)
        for rank, shard in enumerate(manifest.shards)
        if shard is not None
    }
    headers, problems = read_headers(openers)
    _check_some(headers, problems)
    state = StoredState.of_manifest(folder, manifest)
    for stage in stages:
        for name, item in stage.items.items():
            if name not in state.tensors:
                continue
            layout = state.tensors[name].layout
            with about(f'parameter "{name}"'):
                told = stored_layout(item, layout.global_shape, stage.ranks.start)
                if not includes(layout, told):
                    raise TransformError(
                        f"was saved as {layout}, the source strategy has it as {told}; give the src_strategy_file of "
                        "this training, or none"
                    )
    suffix = next(Path(shard.file).suffix for shard in manifest.shards if shard is not None)
    return SourceState(state, headers, openers, suffix, manifest.rank_count, own=_own(manifest), problems=problems)


def _dtype(infos: SlicesByRank) -> np.dtype[Any]:
    (first_rank, first), *rest = infos.items()
    for rank, info in rest:
        if info.dtype != first.dtype:
            raise TransformError(
                f"is {first.dtype} on rank {first_rank}, {info.dtype} on rank {rank}; give the files of one training"
            )
    return first.dtype


def _replicated(infos: SlicesByRank) -> Layout:
    (first_rank, first), *rest = infos.items()
    for rank, info in rest:
        if info.shape != first.shape:
            raise TransformError(
                f"is in no source strategy and has shape {first.shape} on rank {first_rank}, {info.shape} on rank "
                f"{rank}, so how it is cut is not known; give the src_strategy_file that names it"
            )
    return Layout.replicated(first.shape, DeviceMatrix((len(infos),), ranks=tuple(infos)))


def _layouts(
    name: str,
    infos: SlicesByRank,
    known: SlicesByRank,
    stages: Sequence[StageParameters],
    shape: tuple[int, ...] | None,
) -> list[Layout]:
    """Return the layouts of a parameter on its stages, that of which the most is there first.

    ``infos`` are its slices in the files, ``known`` those of further ranks too; they tell the shape unless it is given.
    """
    found: list[tuple[float, Layout]] = []
    for stage in stages:
        shapes = {rank: info.shape for rank, info in infos.items() if rank in stage.ranks}
        if name not in stage.items or not shapes:
            continue
        told = {rank: info.shape for rank, info in known.items() if rank in stage.ranks}
        item, first = stage.items[name], stage.ranks.start
        layout = stored_layout(item, global_shape(item, told, first) if shape is None else shape, first)
        _check_slices(layout, told)
        there = len({layout.parts(rank) for rank in shapes}) / prod(layout.cuts)
        found.append((there, layout))
    if not found:
        raise TransformError(
            f"is on ranks {', '.join(map(str, infos))}, but the source strategy has it on another pipeline stage; give "
            "the src_strategy_file of this training"
        )
    shapes_found = {layout.global_shape for _, layout in found}
    if len(shapes_found) > 1:
        raise TransformError(
            f"has the shapes {sorted(shapes_found)} on its pipeline stages; give the files of one step"
        )
    return [layout for _, layout in sorted(found, key=lambda entry: -entry[0])]


def _check_slices(layout: Layout, shapes: Mapping[int, tuple[int, ...]]) -> None:
    for rank, shape in shapes.items():
        if layout.local_shape(rank) != shape:
            raise TransformError(
                f"has shape {shape} on rank {rank}, where the strategy makes it {layout.local_shape(rank)} of "
                f"{layout.global_shape}; give the src_strategy_file of this training, and files of one step"
            )
