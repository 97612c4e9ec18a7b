"""The JSON twin of MindSpore's strategy files, which alone says the shapes of parameters."""

from __future__ import annotations

import json
from typing import Any

from mpiparallel.checkpoint.strategy.strategy_record import (
    LayoutItem,
    StrategyItem,
    StrategyRecord,
    from_right,
    to_right,
)
from mpiparallel.errors import StrategyFileError, about

_LAYOUT_KEYS = ("dev_matrix", "field", "opt_weight_shard_size", "opt_weight_shard_step", "tensor_map", "tensor_shape")
_BOUNDS_KEYS = ("param_split_shape", "indices_offset")


def encode(record: StrategyRecord) -> bytes:
    """Return ``record`` as JSON, keys sorted. Raises ``StrategyFileError`` where a shape is unknown."""
    layouts = {}
    for name, item in record.layouts.items():
        if item.tensor_shape is None:
            raise StrategyFileError(f'parameter "{name}" has no tensor_shape, which JSON needs; write protobuf instead')
        layouts[name] = {
            "dev_matrix": item.device_matrix,
            "field": item.field,
            "opt_weight_shard_size": item.opt_weight_shard_size,
            "opt_weight_shard_step": item.opt_weight_shard_step,
            "tensor_map": to_right(item),
            "tensor_shape": item.tensor_shape,
        }
        bounds = {"param_split_shape": item.param_split_shape, "indices_offset": item.indices_offset}
        layouts[name].update({key: values for key, values in bounds.items() if values})
    content: dict[str, Any] = {
        "current_stage": record.current_stage,
        "parallel_layout_item": layouts,
        "parallel_strategy_item": {
            name: {"parallel_strategy": item.cuts, "stage": item.stage} for name, item in record.strategies.items()
        },
    }
    if record.plan:
        content["plan"] = dict(record.plan)
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode(text: bytes) -> StrategyRecord:
    """Return the record that JSON ``text`` stands for. Raises ``StrategyFileError`` that names the entry."""
    try:
        content = json.loads(text, object_pairs_hook=_distinct)
    except StrategyFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise StrategyFileError(f"is no JSON strategy file ({error}); write it again") from error
    _check_keys(content, ("current_stage", "parallel_layout_item", "parallel_strategy_item"), ("plan",))
    layouts, strategies = {}, {}
    for name, entry in _object(content["parallel_layout_item"], "parallel_layout_item").items():
        with about(f'parameter "{name}"'):
            layouts[name] = _layout_item(entry)
    for name, entry in _object(content["parallel_strategy_item"], "parallel_strategy_item").items():
        with about(f'operator "{name}"'):
            _check_keys(entry, ("parallel_strategy", "stage"))
            cuts = _list(entry["parallel_strategy"], "parallel_strategy")
            strategies[name] = StrategyItem(
                tuple(_integers(dims, "parallel_strategy") for dims in cuts), _integer(entry["stage"], "stage")
            )
    plan = _object(content.get("plan", {}), "plan")
    return StrategyRecord(layouts, strategies, _integer(content["current_stage"], "current_stage"), plan)


def _layout_item(entry: Any) -> LayoutItem:
    _check_keys(entry, _LAYOUT_KEYS, _BOUNDS_KEYS)
    device_matrix = _integers(entry["dev_matrix"], "dev_matrix")
    return LayoutItem(
        device_matrix,
        from_right(_integers(entry["tensor_map"], "tensor_map"), device_matrix),
        _integer(entry["opt_weight_shard_step"], "opt_weight_shard_step"),
        _integer(entry["opt_weight_shard_size"], "opt_weight_shard_size"),
        _integer(entry["field"], "field"),
        _integers(entry.get("param_split_shape", []), "param_split_shape"),
        _integers(entry.get("indices_offset", []), "indices_offset"),
        _integers(entry["tensor_shape"], "tensor_shape"),
    )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise StrategyFileError(f"an object has a key twice among {[key for key, _ in pairs]}; write the file again")
    return content


def _check_keys(entry: Any, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    keys = set(_object(entry, "entry"))
    if keys - set(optional) != set(required):
        raise StrategyFileError(f"has the keys {sorted(keys)}, not {sorted(required)}; write the strategy file again")


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise StrategyFileError(f"{name} is {type(value).__name__}, not an object; write the strategy file again")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise StrategyFileError(f"{name} is {value!r}, not a list; write the strategy file again")
    return value


def _integers(value: Any, name: str) -> tuple[int, ...]:
    return tuple(_integer(number, name) for number in _list(value, name))


def _integer(value: Any, name: str) -> int:
    if type(value) is not int:
        raise StrategyFileError(f"{name} holds {value!r}, not an integer; write the strategy file again")
    return value
