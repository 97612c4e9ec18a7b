"""Strategy files: MindSpore's protobuf ``ParallelStrategyMap``, or its JSON twin where the name ends in ``.json``.

Only here is an uncut dim -1 and are axes counted from the right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mpiparallel.checkpoint.strategy import node_strategy, strategy_json
from mpiparallel.checkpoint.strategy.message_file import new_name, path_of, read_content, read_message, write_content
from mpiparallel.checkpoint.strategy.strategy_record import (
    MERGED_STAGE,
    LayoutItem,
    StrategyItem,
    StrategyRecord,
    from_right,
    to_right,
)
from mpiparallel.errors import StrategyFileError, about

_NOUN = "strategy file"
_SETTING = "strategy_ckpt_save_file"


def write_strategy(path: str | Path, record: StrategyRecord) -> None:
    """Write ``record`` to ``path``: as JSON when the name ends in ``.json``, else as protobuf, without the shapes.

    The file is replaced in one step. Raises ``StrategyFileError`` if it cannot be written.
    """
    target = Path(path)
    with about(str(target)):
        content = strategy_json.encode(record) if target.suffix == ".json" else _message(record).SerializeToString()
    write_content(target, content)


def read_strategy(path: str | Path) -> StrategyRecord:
    """Return what the strategy file ``path`` says. Raises ``StrategyFileError`` if it cannot be read or is damaged."""
    source = Path(path)
    if source.suffix == ".json":
        content = read_content(source, _NOUN, _SETTING)
        with about(str(source)):
            return strategy_json.decode(content)
    message = read_message(node_strategy.ParallelStrategyMap, source, _NOUN, _SETTING)
    with about(str(source)):
        return _record(message)


def build_searched_strategy(strategy_filename: str) -> dict[str, LayoutItem]:
    """Return how each parameter is cut, from a strategy file.

    As MindSpore's function of that name, with ``LayoutItem`` for its protobuf message.

    Parameters
    ----------
    strategy_filename : str
        The file, ``.ckpt`` or ``.json``.

    Returns
    -------
    dict of str to LayoutItem
        By the parameter's name.

    Raises
    ------
    StrategyFileError
        A ValueError, if it is not a path or not that of a strategy file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_strategy(f"{folder}/strategy.ckpt", StrategyRecord({"w": LayoutItem((2, 2), ((1,), ()))}, {}))
    ...     build_searched_strategy(f"{folder}/strategy.ckpt")["w"].device_matrix
    (2, 2)
    """
    return dict(read_strategy(path_of(strategy_filename, "strategy_filename", _NOUN)).layouts)


def _message(record: StrategyRecord) -> Any:
    message = node_strategy.ParallelStrategyMap(current_stage=record.current_stage)
    for name, strategy in record.strategies.items():
        entry = message.parallel_strategy_item.add(node_name=name)
        entry.parallel_strategys.stage = strategy.stage
        for dims in strategy.cuts:
            entry.parallel_strategys.parallel_strategy.add(dim=dims)
    for name, item in record.layouts.items():
        layouts = message.parallel_layout_item.add(param_name=name).parallel_layouts
        layouts.dev_matrix.add(dim=item.device_matrix)
        layouts.tensor_map.add(dim=to_right(item))
        layouts.param_split_shape.add(dim=item.param_split_shape)
        layouts.indices_offset.add(dim=item.indices_offset)
        layouts.field = item.field
        layouts.opt_weight_shard_step = item.opt_weight_shard_step
        layouts.opt_weight_shard_size = item.opt_weight_shard_size
    return message


def _record(message: Any) -> StrategyRecord:
    strategies: dict[str, StrategyItem] = {}
    for entry in message.parallel_strategy_item:
        if message.current_stage == MERGED_STAGE and entry.node_name in strategies:
            continue  # MindSpore lists the operators of each stage, whatever they are called
        name = new_name(entry.node_name, strategies)
        with about(f'operator "{name}"'):
            cuts = tuple(tuple(strategy.dim) for strategy in entry.parallel_strategys.parallel_strategy)
            strategies[name] = StrategyItem(cuts, entry.parallel_strategys.stage)
    layouts: dict[str, LayoutItem] = {}
    for entry in message.parallel_layout_item:
        name = new_name(entry.param_name, layouts)
        with about(f'parameter "{name}"'):
            layouts[name] = _layout_item(entry.parallel_layouts)
    return StrategyRecord(layouts, strategies, message.current_stage)


def _layout_item(message: Any) -> LayoutItem:
    device_matrix = _only(message.dev_matrix, "dev_matrix")
    return LayoutItem(
        device_matrix,
        from_right(_only(message.tensor_map, "tensor_map"), device_matrix),
        message.opt_weight_shard_step,
        message.opt_weight_shard_size,
        message.field,
        _only(message.param_split_shape, "param_split_shape"),
        _only(message.indices_offset, "indices_offset"),
    )


def _only(messages: Any, name: str) -> tuple[int, ...]:
    if len(messages) != 1:
        raise StrategyFileError(f"has {len(messages)} entries {name}, not one; only one axis for each dim can be read")
    return tuple(messages[0].dim)
