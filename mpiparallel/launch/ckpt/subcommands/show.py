"""``mpiparallel ckpt show``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mpiparallel.checkpoint.files.regular_file import check_folder
from mpiparallel.checkpoint.maintenance.named_state import NamedState, open_named
from mpiparallel.checkpoint.maintenance.shard_check import reason
from mpiparallel.checkpoint.maintenance.verification import SliceHolders
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.launch.ckpt.arguments import wanted
from mpiparallel.launch.ckpt.held_tensor import HeldSlice, HeldTensor
from mpiparallel.launch.ckpt.output import answer, moment, several
from mpiparallel.launch.ckpt.picture import draw
from mpiparallel.launch.ckpt.subcommands.strategy_view import view
from mpiparallel.launch.ckpt.tree import tree
from mpiparallel.launch.plan.report import amount

_SLICES_SHOWN: Final = 8
_RANKS_SHOWN: Final = 8
_PROBLEMS_SHOWN: Final = 8
_TEXT_SHOWN: Final = 60


def execute(arguments: argparse.Namespace) -> int:
    """Show the tensors of a state, how they are cut and who holds what, or what a strategy file says; return 0."""
    svg: Path | None = arguments.svg
    if svg is not None and svg.suffix != ".svg":
        raise ConfigurationError(f"--svg {svg}: give a name that ends in .svg")
    seen = view(arguments.state, arguments.only)
    if seen is not None:
        if svg is not None:
            raise ConfigurationError(
                f"--svg {svg}: {arguments.state} does not say which rank holds what; give a checkpoint"
            )
        answer(seen.told, seen.lines, arguments.json)
        return 0
    with open_named(arguments.state) as source:
        problems = {} if source.manifest is None else _problems(source.path, source.manifest)
        names = [name for name in source.state.tensors if wanted(name, arguments.only)]
        if names or not source.state.tensors:
            held = _held(source, names, frozenset(problems))
        else:
            raise CheckpointError(f"{source.name}: has no tensor that --only names; leave it out to see all")
    if svg is not None:
        draw(svg, source.name, held, 1 if source.manifest is None else source.manifest.rank_count, problems)
    told = _told(source, held, problems)
    answer(told, _lines(source, held, problems, svg), arguments.json)
    return 0


def _problems(folder: Path, manifest: Manifest) -> dict[int, str]:
    """Return why the shard of a rank is of no use, as far as that shows without reading its arrays."""
    found = {}
    for rank, shard in enumerate(manifest.shards):
        if shard is None:
            continue
        path = folder / shard.file
        try:
            check_folder(path.parent)
            open_shard(path, shard.digest).close()
        except (CheckpointError, OSError) as error:
            found[rank] = f"{shard.file}: {reason(error, path) if path.exists() else 'is missing'}"
    return found


def _held(source: NamedState, names: list[str], damaged: frozenset[int]) -> list[HeldTensor]:
    holders = SliceHolders()
    found = []
    for name in names:
        tensor = source.state.tensors[name]
        slices = []
        for parts, ranks in holders.of(tensor.layout).items():
            box = tensor.layout.box_of_parts(parts)
            files = tuple(source.state.holders(name, parts))
            slices.append(HeldSlice(parts, box.start, box.stop, ranks, files, tuple(damaged.intersection(files))))
        found.append(
            HeldTensor(
                name,
                tensor.dtype.name,
                tensor.dtype.itemsize,
                tensor.layout.global_shape,
                tensor.layout.cuts,
                str(tensor.layout),
                tuple(slices),
            )
        )
    return found


def _told(source: NamedState, held: list[HeldTensor], problems: Mapping[int, str]) -> dict[str, Any]:
    manifest = source.manifest
    told: dict[str, Any] = {"state": source.name, "is_checkpoint": manifest is not None}
    if manifest is None:
        told |= {"attributes": source.attributes}
    else:
        told |= {
            "folder": str(source.path),
            "name": manifest.name,
            "prefix": manifest.prefix,
            "epoch": manifest.epoch,
            "step": manifest.step,
            "saved": manifest.saved,
            "ranks": manifest.rank_count,
            "training": dict(manifest.training),
            "files": list(manifest.files),
            "shards": [
                {"rank": rank, "file": shard.file, "bytes": shard.size, "problem": problems.get(rank)}
                for rank, shard in enumerate(manifest.shards)
                if shard is not None
            ],
        }
    told["tensors"] = [
        {
            "name": tensor.name,
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "bytes": tensor.nbytes,
            "layout": tensor.layout,
            "slices": [
                {
                    "start": list(part.start),
                    "stop": list(part.stop),
                    "ranks": list(part.ranks),
                    "files": list(part.files),
                }
                for part in tensor.slices
            ],
        }
        for tensor in held
    ]
    return told


def _lines(source: NamedState, held: list[HeldTensor], problems: Mapping[int, str], svg: Path | None) -> Iterator[str]:
    size = amount(sum(tensor.nbytes for tensor in held))
    if source.manifest is None:
        yield f"{source.name}: {several(len(held), 'tensor')}, {size}"
        yield from _pairs("attributes", source.attributes)
        yield from tree({tensor.name: [tensor.dtype, str(list(tensor.shape))] for tensor in held})
        return
    yield from _head(source.name, source.manifest, len(held), size)
    for problem in list(problems.values())[:_PROBLEMS_SHOWN]:
        yield f"! {problem}"
    if len(problems) > _PROBLEMS_SHOWN:
        yield f"! and {len(problems) - _PROBLEMS_SHOWN} ranks more"
    yield from _pairs("training", source.manifest.training)
    yield from tree({tensor.name: [tensor.dtype, tensor.layout, _who(tensor)] for tensor in held})
    yield "ranks that have it in their file, slice by slice" + (", ! where that is missing or damaged" * bool(problems))
    if svg is not None:
        yield f"picture: {svg}"


def _head(name: str, manifest: Manifest, tensors: int, size: str) -> Iterator[str]:
    shards = [shard for shard in manifest.shards if shard is not None]
    yield f"{name}: epoch {manifest.epoch}, step {manifest.step}, saved {moment(manifest.saved)}"
    yield (
        f"{several(manifest.rank_count, 'rank')}, {several(tensors, 'tensor')}, {size}; "
        f"{several(len(shards), 'shard')}, {amount(sum(shard.size for shard in shards))} on disk"
    )
    if manifest.files:
        yield f"with {', '.join(manifest.files)}"


def _pairs(title: str, told: Mapping[str, Any]) -> Iterator[str]:
    if told:
        yield f"{title}: " + ", ".join(f"{name} {_shortened(value)}" for name, value in told.items())


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}..."


def _who(tensor: HeldTensor) -> str:
    """Return the ranks that have each slice, like ``0,4 | 1,5``."""
    shown = [_ranks(part) for part in tensor.slices[:_SLICES_SHOWN]]
    more = [f"... {len(tensor.slices)} slices"] if len(tensor.slices) > _SLICES_SHOWN else []
    return " | ".join(shown + more)


def _ranks(part: HeldSlice) -> str:
    shown = ",".join(f"{rank}{'!' * (rank in part.lost)}" for rank in part.files[:_RANKS_SHOWN])
    return f"{shown},... {len(part.files)} ranks" if len(part.files) > _RANKS_SHOWN else shown or "nobody"
