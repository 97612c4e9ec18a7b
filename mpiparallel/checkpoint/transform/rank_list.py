"""Whose files a target rank is made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import lcm
from pathlib import Path

from mpiparallel.checkpoint.strategy.merged_stages import StageParameters
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem
from mpiparallel.checkpoint.transform.source_state import holders
from mpiparallel.checkpoint.transform.stored_layout import cuts_of, stored_layout
from mpiparallel.checkpoint.transform.target_slices import WHOLE, Missing, Target, strategy_stages
from mpiparallel.errors import ConfigurationError, StrategyFileError, about
from mpiparallel.layout.layout import Layout


def rank_list_for_transform(
    rank_id: int,
    src_strategy_file: str | Path | None = None,
    dst_strategy_file: str | Path | None = None,
    *,
    missing: Missing = "refuse",
) -> list[int]:
    """Return the source ranks from whose files that of a target rank can be made.

    As MindSpore's function of that name. Where a slice is on several ranks, one of them is named, so the list is short.
    Each pipeline stage of the source has a rank in it. Protobuf files do not say how long dims are: there they are
    taken to be cut evenly; ``.json`` files say it.

    Parameters
    ----------
    rank_id : int
        The target rank.
    src_strategy_file, dst_strategy_file : str or Path, optional
        None for a single device that has all whole.
    missing
        As for ``transform_checkpoints``.

    Returns
    -------
    list of int
        Descending.

    Raises
    ------
    StrategyFileError, ConfigurationError
        ValueErrors both, for a file that cannot be read, and for a rank that is not in the target.

    Examples
    --------
    >>> import tempfile
    >>> from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
    >>> from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyRecord
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_strategy(f"{folder}/strategy.ckpt", StrategyRecord({"w": LayoutItem((2,), ((0,), ()))}, {}))
    ...     rank_list_for_transform(0, f"{folder}/strategy.ckpt")
    [1, 0]
    """
    source, target = strategy_stages(src_strategy_file), Target(strategy_stages(dst_strategy_file), missing)
    check_rank(rank_id, target)
    if source is WHOLE:
        return [0]
    layouts = dict(_layouts(source, target))
    target.check(layouts)
    own = rank_id % source[-1].ranks.stop
    wanted = [
        holders(layouts[name], parts)
        for name, box in target.boxes(rank_id, layouts).items()
        for parts in layouts[name].parts_over(box)
    ]
    wanted += [list(stage.ranks) for stage in source]
    chosen: set[int] = set()
    for ranks in sorted(wanted, key=len):
        if chosen.isdisjoint(ranks):
            chosen.add(own if own in ranks else ranks[0])
    return sorted(chosen, reverse=True)


def check_rank(rank_id: int, target: Target) -> None:
    """Raise ``ConfigurationError`` where the target has no such rank."""
    if type(rank_id) is not int or not 0 <= rank_id < target.rank_count:
        raise ConfigurationError(f"rank_id is {rank_id!r}; the target strategy has ranks 0 to {target.rank_count - 1}")


def _layouts(source: Sequence[StageParameters], target: Target) -> Iterator[tuple[str, Layout]]:
    seen = set()
    for stage in source:
        for name, item in stage.items.items():
            if name in seen:
                continue
            seen.add(name)
            others = [other.items[name] for other in target.stages if name in other.items]
            with about(f'parameter "{name}"'):
                yield name, stored_layout(item, _shape([item, *others]), stage.ranks.start)


def _shape(items: Sequence[LayoutItem]) -> tuple[int, ...]:
    """Return the global shape of a parameter, or where no file says it, one that every cut divides."""
    for item in items:
        if item.tensor_shape is not None:
            return item.tensor_shape
    if len({len(item.tensor_map) for item in items}) > 1:
        raise StrategyFileError("the two strategies give it different numbers of dims; use files of one network")
    rows = next((sum(item.param_split_shape) for item in items if item.param_split_shape), None)
    shape = tuple(lcm(*extents) for extents in zip(*map(cuts_of, items), strict=True))
    return shape if rows is None else (rows, *shape[1:])
