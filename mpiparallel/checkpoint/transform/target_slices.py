"""What each target rank gets of the parameters that are converted."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import NamedArrays
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.checkpoint.strategy.merged_stages import StageParameters, stages_of
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.checkpoint.transform.source_state import SourceState, holders
from mpiparallel.checkpoint.transform.stored_layout import stored_layout
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError, ConfigurationError, StrategyFileError, TransformError, about
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout

Missing = Literal["refuse", "replicated", "omitted"]
WHOLE: Final = (StageParameters({}, range(1)),)

_MISSING: Final = ("refuse", "replicated", "omitted")
_MOST_RANKS: Final = 1 << 20
_SHOWN: Final = 4
_RANKS_SHOWN: Final = 8
_SMALL_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Target:
    """The ranks that are converted to, and what becomes of a parameter that their strategy does not name."""

    stages: Sequence[StageParameters]
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        if self.missing not in _MISSING:
            raise ConfigurationError(f"missing is {self.missing!r}; give one of {', '.join(map(repr, _MISSING))}")

    @property
    def rank_count(self) -> int:
        """How many ranks there are."""
        return self.stages[-1].ranks.stop

    def boxes(self, rank: int, layouts: Mapping[str, Layout], own: Container[str] = ()) -> dict[str, Box]:
        """Return the box that ``rank`` gets of each parameter that it gets something of, given its source layout.

        A parameter that no strategy of the target names goes whole to every rank if its source is not cut or it has one
        element. Else ``missing`` decides. Of those in ``own``, of which each source rank has one, a rank gets that of
        the source rank of its number, counted round. Raises ``StrategyFileError`` that names a parameter that does not
        fit.
        """
        stage = next(stage for stage in self.stages if rank in stage.ranks)
        found: dict[str, Box] = {}
        for name, layout in layouts.items():
            if name in stage.items:
                with about(f'parameter "{name}"'):
                    found[name] = stored_layout(stage.items[name], layout.global_shape, stage.ranks.start).box(rank)
            elif name in own and not self._names(name):
                found[name] = layout.box(layout.devices.members[rank % layout.devices.size])
            elif not self._names(name) and self._takes_whole(layout):
                found[name] = Box.whole(layout.global_shape)
        return found

    def check(self, layouts: Mapping[str, Layout]) -> None:
        """Raise ``TransformError`` where ``missing`` refuses a parameter."""
        if self.missing == "refuse":
            lacking = [name for name in layouts if self._lacks(name) and not _whole_anyway(layouts[name])]
            if lacking:
                names = [f'"{name}"' for name in lacking]
                raise TransformError(
                    f"parameter {_few(names, ', ')}: the source strategy cuts it, the target strategy has it not; "
                    'give the dst_strategy_file of the network that has it, or missing="replicated" to give it whole '
                    'to every rank, or missing="omitted" to leave it out'
                )

    def omitted(self, layouts: Mapping[str, Layout]) -> tuple[str, ...]:
        """Return the parameters that no target rank gets."""
        if self.missing != "omitted":
            return ()
        return tuple(name for name in layouts if self._lacks(name) and not _whole_anyway(layouts[name]))

    def _lacks(self, name: str) -> bool:
        return self.stages is not WHOLE and not self._names(name)

    def _names(self, name: str) -> bool:
        return any(name in stage.items for stage in self.stages)

    def _takes_whole(self, layout: Layout) -> bool:
        return self.stages is WHOLE or self.missing != "omitted" or _whole_anyway(layout)


def strategy_stages(strategy_file: Any) -> Sequence[StageParameters]:
    """Return the pipeline stages of a strategy file; of None the one of a single device, which has all whole.

    Raises ``StrategyFileError`` if the file cannot be read, or tells of more ranks than can be.
    """
    if strategy_file is None:
        return WHOLE
    stages = stages_of(read_strategy(strategy_file))
    if stages[-1].ranks.stop > _MOST_RANKS:
        raise StrategyFileError(
            f"{strategy_file}: tells of {stages[-1].ranks.stop} ranks, more than {_MOST_RANKS}; it is damaged: write "
            "it again"
        )
    return stages


def replacements(rank: int, boxes: Mapping[str, Box], source: SourceState) -> dict[int, str]:
    """Return, for each source rank whose file is missing or damaged and that ``rank`` needs, why and who stands in.

    Raises ``TransformError`` that names the parameters and the source ranks where nobody can.
    """
    replaced: dict[int, str] = {}
    lost: list[tuple[str, list[int]]] = []
    for name, box in boxes.items():
        layout = source.tensors[name].layout
        for parts in layout.parts_over(box):
            present = source.present(name, parts)
            if not present:
                lost.append((name, holders(layout, parts)))
            elif source.problems:
                without = [other for other in holders(layout, parts) if other in source.problems]
                replaced |= {other: f"{source.problems[other]} (read from rank {present[0]})" for other in without}
    if lost:
        raise TransformError(_lost(rank, lost, source.problems))
    return replaced


def _lost(rank: int, lost: Sequence[tuple[str, list[int]]], problems: Mapping[int, str]) -> str:
    named: dict[str, list[str]] = {}
    for name, ranks in lost:
        named.setdefault(name, []).append(f"rank {' or '.join(map(str, ranks[:_RANKS_SHOWN]))}")
    shown = [f'"{name}": {_few(slices, ", ")}' for name, slices in named.items()]
    needed = {other for _, ranks in lost for other in ranks}
    reasons = [f"rank {other}: {text}" for other, text in problems.items() if other in needed]
    told = f" ({_few(reasons, '; ')})" if reasons else ""
    return (
        f"rank {rank}'s checkpoint cannot be made: what it needs is missing, {_few(shown, '; ')}; give the file of one "
        f"rank of each{told}"
    )


def infos_of_boxes(state: StoredState, boxes: Mapping[str, Box]) -> dict[str, TensorSpec]:
    """Return shape and dtype of the slice of each parameter."""
    return {name: TensorSpec(box.shape, state.tensors[name].dtype) for name, box in boxes.items()}


def read_slices(state: StoredState, boxes: Mapping[str, Box]) -> NamedArrays:
    """Yield the slices, each to be used before the next one is taken: large ones lie in the same memory.

    Raises ``CheckpointError`` where that memory is not there, or a slice cannot be read.
    """
    infos = infos_of_boxes(state, boxes)
    most = max((info.byte_count for info in infos.values()), default=0)
    try:
        room = np.empty(most, np.uint8)
    except MemoryError as error:
        raise CheckpointError(
            f"the largest slice has {most} bytes, for which there is no memory; cut it more"
        ) from error
    for name, info in infos.items():
        target = np.empty(info.shape, info.dtype) if info.byte_count < _SMALL_BYTES else _view(room, info)
        state.fill_box(name, boxes[name], target)
        yield name, target


def _few(texts: Sequence[str], separator: str) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return separator.join(texts[:_SHOWN]) + more


def _view(room: NDArray[np.uint8], info: TensorSpec) -> NDArray[Any]:
    return room[: info.byte_count].view(info.dtype).reshape(info.shape)


def _whole_anyway(layout: Layout) -> bool:
    return prod(layout.cuts) == 1 or prod(layout.global_shape) == 1
