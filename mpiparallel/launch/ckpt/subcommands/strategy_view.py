"""Strategy and group files as ``mpiparallel ckpt show`` tells them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple

from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX
from mpiparallel.checkpoint.strategy.group_file import read_group_info
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyRecord, to_right
from mpiparallel.errors import CheckpointError
from mpiparallel.launch.ckpt.arguments import wanted
from mpiparallel.launch.ckpt.output import several, table
from mpiparallel.launch.ckpt.tree import tree

# How each message begins: a strategy file with the number current_stage, a group file with a group or with the list of
# ranks. A .ckpt of arrays begins as a group file does, but group files have other names.
_STRATEGY_KEY: Final = b"\x08"
_GROUP_KEYS: Final = (b"\x0a", b"\x12")
_ARRAY_SUFFIXES: Final = (".h5", ".ckpt", ".safetensors", ".npz")


class StrategyView(NamedTuple):
    """What a file says: for programs, and as lines for a person."""

    told: dict[str, Any]
    lines: Sequence[str]


def view(named: str, patterns: list[str]) -> StrategyView | None:
    """Return what the strategy or group file ``named`` says, of parameters only those that ``patterns`` choose.

    None for anything else. Raises StrategyFileError for a damaged one, CheckpointError where nothing is chosen.
    """
    path = Path(named)
    if not path.is_file() or path.name.endswith(MANIFEST_SUFFIX):
        return None
    if path.suffix == ".json":
        return _strategy(path, patterns)
    with path.open("rb") as stream:
        key = stream.read(1)
    if key == _STRATEGY_KEY and path.suffix in ("", ".ckpt", ".pb"):
        return _strategy(path, patterns)
    if key in _GROUP_KEYS and path.suffix not in _ARRAY_SUFFIXES:
        return _groups(path)
    return None


def _strategy(path: Path, patterns: list[str]) -> StrategyView:
    record = read_strategy(path)
    chosen = {name: item for name, item in record.layouts.items() if wanted(name, patterns)}
    if record.layouts and not chosen:
        raise CheckpointError(f"{path}: has no parameter that --only names; leave it out to see all")
    told = {
        "state": str(path),
        "kind": "strategy file",
        "current_stage": record.current_stage,
        "parameters": [_parameter(name, item) for name, item in chosen.items()],
        "operators": [
            {"name": name, "strategy": [list(cuts) for cuts in item.cuts], "stage": item.stage}
            for name, item in record.strategies.items()
        ],
    }
    return StrategyView(told, list(_strategy_lines(path, record, chosen)))


def _parameter(name: str, item: LayoutItem) -> dict[str, Any]:
    return {
        "name": name,
        "shape": None if item.tensor_shape is None else list(item.tensor_shape),
        "parts": _parts(item),
        "device_matrix": list(item.device_matrix),
        "tensor_map": list(to_right(item)),
        "opt_weight_shard_size": item.opt_weight_shard_size,
    }


def _parts(item: LayoutItem) -> list[int]:
    """Return into how many parts each dim is cut."""
    return [prod(item.device_matrix[axis] for axis in axes) for axes in item.tensor_map]


def _strategy_lines(path: Path, record: StrategyRecord, chosen: dict[str, LayoutItem]) -> Iterator[str]:
    ranks = max((prod(item.device_matrix) for item in record.layouts.values()), default=0)
    yield (
        f"{path}: strategy file, {several(ranks, 'rank')} a stage, {several(len(record.layouts), 'parameter')}, "
        f"{several(len(record.strategies), 'operator')}"
    )
    if chosen:
        yield "parameters: into how many parts each dim is cut, on which device matrix"
        yield from tree({name: _columns(item) for name, item in chosen.items()})
    if record.strategies:
        rows = [(name, str(item.cuts), str(item.stage)) for name, item in record.strategies.items()]
        yield from table(("operator", "strategy", "stage"), rows, "llr")


def _columns(item: LayoutItem) -> list[str]:
    shape = "" if item.tensor_shape is None else f"shape {list(item.tensor_shape)}"
    parts = _parts(item)
    replicas = prod(item.device_matrix) // prod(parts)
    shards = {0: "", -1: ", cut once more by the optimizer"}.get(
        item.opt_weight_shard_size, f", cut once more by the optimizer into {item.opt_weight_shard_size}"
    )
    who = f"{several(replicas, 'rank')} a part{shards}"
    return [shape, f"parts {parts}", f"on {list(item.device_matrix)}", who]


def _groups(path: Path) -> StrategyView:
    record = read_group_info(path)
    groups = [{"name": name, "ranks": list(ranks)} for name, ranks in record.groups.items()]
    told = {"state": str(path), "kind": "group file", "groups": groups, "restore_ranks": list(record.restore_ranks)}
    lines = [f"{path}: group file, {several(len(groups), 'group')}"]
    if groups:
        lines += table(("group", "ranks"), [(name, _listed(ranks)) for name, ranks in record.groups.items()], "ll")
    lines.append(f"ranks with the same state, whose checkpoints replace each other: {_listed(record.restore_ranks)}")
    return StrategyView(told, lines)


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks)) or "none"
