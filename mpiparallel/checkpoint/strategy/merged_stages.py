"""Strategy files of pipeline stages, merged into one in which a parameter is called ``<stage>-<name>``.

Stage 0 is on the first ranks, stage 1 on those that follow, each on as many as the device matrices of its parameters
have. A parameter that several stages use is on each of them, cut as the stage says, with equal content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Final

from mpiparallel.checkpoint.strategy.message_file import path_of
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy, write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import MERGED_STAGE, LayoutItem, StrategyItem, StrategyRecord
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import StrategyFileError, about, reason
from mpiparallel.layout.layout import Layout

_STAGED_NAME: Final = re.compile(r"(0|[1-9][0-9]{0,8})-(.+)", re.DOTALL)
_SUFFIXES: Final = (".ckpt", ".json")


@dataclass(frozen=True)
class StageParameters:
    """The parameters of one pipeline stage, by their own names, and the ranks it is on."""

    items: Mapping[str, LayoutItem]
    ranks: range

    def layouts(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Layout]:
        """Return the layout of each parameter on the ranks of the stage.

        ``shapes`` gives the global shapes that the file does not say. Raises ``StrategyFileError`` that names the
        parameter.
        """
        return StrategyRecord(self.items, {}).resolve(shapes, self.ranks.start)


def merge_pipeline_strategys(src_strategy_dirs: str | Path, dst_strategy_file: str | Path) -> None:
    """Merge the strategy files of all stages into one file.

    As MindSpore's function of that name. Ranks of one stage may each have written a file; these must say the same. An
    operator that occurs in several stages has the strategy of the lowest of them.

    Parameters
    ----------
    src_strategy_dirs : str or Path
        A folder of files, all ``.ckpt`` or all ``.json``.
    dst_strategy_file : str or Path
        The file that is written.

    Raises
    ------
    StrategyFileError
        A ValueError. The folder has no strategy file, or both kinds; a stage below the highest is missing; or two files
        of one stage contradict each other.

    Examples
    --------
    >>> import tempfile
    >>> from mpiparallel.checkpoint.strategy.strategy_file import read_strategy, write_strategy
    >>> from mpiparallel.checkpoint.strategy.strategy_record import StrategyItem
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for stage, name in enumerate("ab"):
    ...         operators = {f"MatMul-{name}": StrategyItem(((1, 1), (1, 1)), stage)}
    ...         item = LayoutItem((1,), ((), ()))
    ...         write_strategy(f"{folder}/stage{stage}.ckpt", StrategyRecord({name: item}, operators))
    ...     merge_pipeline_strategys(folder, f"{folder}/merged.ckpt")
    ...     sorted(read_strategy(f"{folder}/merged.ckpt").layouts)
    ['0-a', '1-b']
    """
    folder = path_of(src_strategy_dirs, "src_strategy_dirs", "folder of strategy files")
    target = path_of(dst_strategy_file, "dst_strategy_file", "strategy file")
    write_strategy(target, merge_records({path: read_strategy(path) for path in _files(folder, target)}))


def merge_records(records: Mapping[Path, StrategyRecord]) -> StrategyRecord:
    """Return the merged record of the stages' records. Raises ``StrategyFileError`` that names the file."""
    stages: dict[int, tuple[Path, StrategyRecord]] = {}
    for path, record in records.items():
        with about(str(path)):
            stage = _stage_of(record)
            first, known = stages.setdefault(stage, (path, record))
            _check_alike(known, record, f"the file of stage {stage} that {first} is too")
    if sorted(stages) != list(range(len(stages))):
        missing = sorted(set(range(max(stages))) - stages.keys())
        raise StrategyFileError(
            f"{next(iter(records)).parent}: has no strategy file of stage {', '.join(map(str, missing))}, but one of "
            f"stage {max(stages)}; put a file of each stage there"
        )
    layouts: dict[str, LayoutItem] = {}
    strategies: dict[str, StrategyItem] = {}
    for stage in sorted(stages):
        record = stages[stage][1]
        layouts |= {f"{stage}-{name}": item for name, item in record.layouts.items()}
        strategies = {**record.strategies, **strategies}
    return StrategyRecord(layouts, strategies, MERGED_STAGE)


def stages_of(record: StrategyRecord) -> tuple[StageParameters, ...]:
    """Return the pipeline stages that a record tells of, each on its ranks; one where it is not merged.

    Only where ``current_stage`` says that a file is merged is a name split, at its first ``-``. Raises
    ``StrategyFileError`` if a stage is missing, or if parameters of one stage are on different numbers of devices.

    >>> merged = StrategyRecord({"0-a": LayoutItem((4,), ((0,),)), "1-b-c": LayoutItem((2,), ((0,),))}, {}, 1)
    >>> [(list(stage.items), stage.ranks) for stage in stages_of(merged)]
    [(['a'], range(0, 4)), (['b-c'], range(4, 6))]
    """
    stages: list[StageParameters] = []
    for number, items in enumerate(_by_stage(record)):
        with about(f"stage {number}"):
            first = stages[-1].ranks.stop if stages else 0
            stages.append(StageParameters(items, range(first, first + _device_count(items))))
    return tuple(stages)


def _by_stage(record: StrategyRecord) -> Iterator[Mapping[str, LayoutItem]]:
    matches = {name: _STAGED_NAME.fullmatch(name) for name in record.layouts}
    if record.current_stage != MERGED_STAGE or not any(matches.values()):
        yield record.layouts
        return
    found: dict[int, dict[str, LayoutItem]] = {}
    for name, match in matches.items():
        if match is None:
            raise StrategyFileError(
                f'parameter "{name}": belongs to no stage, though the file is merged; merge the files of the stages '
                "again"
            )
        found.setdefault(int(match[1]), {})[match[2]] = record.layouts[name]
    for stage in range(len(found)):
        if stage not in found:
            raise StrategyFileError(
                f"it has no parameter of stage {stage}, but of stage {max(found)}; merge the files of all stages"
            )
        yield found[stage]


def _device_count(items: Mapping[str, LayoutItem]) -> int:
    counts = {prod(item.device_matrix): name for name, item in items.items()}
    if len(counts) > 1:
        (one, first), (other, second) = sorted(counts.items())[:2]
        raise StrategyFileError(
            f'parameter "{first}" is on {one} devices, "{second}" on {other}; use the file of one network'
        )
    return next(iter(counts), 1)


def _stage_of(record: StrategyRecord) -> int:
    if len(stages_of(record)) > 1:
        raise StrategyFileError("it is merged already; give the folder of the files that training wrote")
    stages = {item.stage for item in record.strategies.values()}
    count = len(record.layouts)
    if not count or len(stages) != 1:
        told = f"its operators are of stages {sorted(stages)}" if stages else "no operator is in it"
        raise StrategyFileError(
            f"it has {count} parameter{'s' * (count != 1)} and {told}; give the file of a pipeline stage, which "
            "training writes"
        )
    return stages.pop()


def _check_alike(known: StrategyRecord, record: StrategyRecord, other: str) -> None:
    for name in sorted(known.layouts.keys() | record.layouts.keys()):
        if known.layouts.get(name) != record.layouts.get(name):
            raise StrategyFileError(f'parameter "{name}": contradicts {other}; keep the files of one training only')
    for name in known.strategies.keys() & record.strategies.keys():
        if known.strategies[name] != record.strategies[name]:
            raise StrategyFileError(f'operator "{name}": contradicts {other}; keep the files of one training only')


def _files(folder: Path, target: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES and not path.name.startswith("."))
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise StrategyFileError(f"{folder}: cannot be read ({reason(error)}); name one of strategy files") from error
    files = [path for path in found if path.resolve() != target.resolve()]
    kinds = {path.suffix for path in files}
    if len(kinds) != 1:
        told = "both .ckpt and .json files" if kinds else "no strategy file, .ckpt or .json"
        raise StrategyFileError(f"{folder}: has {told}; put the files of one training there, of one kind")
    return files
