"""How a checkpoint is cut when it is written anew: as a strategy file says, or in one of two simple ways."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path

from mpiparallel.checkpoint.strategy.merged_stages import StageParameters, stages_of
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.errors import StrategyFileError, about
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

Shape = tuple[int, ...]


def rows_over(shapes: Mapping[str, Shape], ranks: int) -> dict[str, Layout]:
    """Return the layouts that cut dim 0 over all ``ranks``, and replicate what has fewer rows than there are ranks.

    >>> found = rows_over({"w": (8, 6), "step": ()}, 4)
    >>> found["w"].box(1), found["step"].replica_count
    (Box(start=(2, 0), stop=(4, 6)), 4)
    """
    devices = DeviceMatrix((ranks,))
    found = {}
    for name, shape in shapes.items():
        rows: tuple[tuple[int, ...], ...] = ((0,),) if shape and shape[0] >= ranks else ((),) * len(shape[:1])
        found[name] = Layout(shape, devices, (*rows, *(() for _ in shape[1:])))
    return found


def whole_on(shapes: Mapping[str, Shape], ranks: int) -> dict[str, Layout]:
    """Return the layouts that give every one of ``ranks`` the whole of each tensor.

    >>> whole_on({"w": (8, 6)}, 2)["w"].box(1)
    Box(start=(0, 0), stop=(8, 6))
    """
    return {name: Layout.replicated(shape, DeviceMatrix((ranks,))) for name, shape in shapes.items()}


def as_strategy_says(
    path: str | Path, held: Mapping[str, Layout], replicate_missing: bool = False
) -> dict[str, Layout]:
    """Return the layouts of a strategy file for the tensors of a checkpoint, which tells their shapes.

    ``held`` are the layouts that they are stored with. A merged file puts each pipeline stage on its ranks. A tensor
    that the file does not name goes whole to every rank if it is whole in the checkpoint or has one element. With
    ``replicate_missing`` any such tensor does. Else it is refused. Raises ``StrategyFileError``.
    """
    with about(str(path)):
        stages = stages_of(read_strategy(path))
        found: dict[str, Layout] = {}
        for stage in stages:
            _add_stage(found, stage, held)
        everywhere = DeviceMatrix((stages[-1].ranks.stop,))
        for name, layout in held.items():
            if name in found:
                continue
            if not replicate_missing and prod(layout.global_shape) != 1 and prod(layout.cuts) != 1:
                raise StrategyFileError(
                    f'parameter "{name}" is not in it, though it is cut in the checkpoint; use the strategy file of '
                    "this network, or ask for missing ones to be replicated"
                )
            found[name] = Layout.replicated(layout.global_shape, everywhere)
    return found


def _add_stage(found: dict[str, Layout], stage: StageParameters, held: Mapping[str, Layout]) -> None:
    for name, item in stage.items.items():
        if name not in held:
            continue
        if name in found:
            raise StrategyFileError(
                f'parameter "{name}" is in several stages; one checkpoint has each tensor once: convert it with '
                "transform_checkpoints"
            )
        with about(f'parameter "{name}"'):
            found[name] = item.layout(held[name].global_shape, stage.ranks.start)
