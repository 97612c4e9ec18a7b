"""``mpiparallel ranktable check``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from mpiparallel.cluster.device_rules import device_warnings, placeholders
from mpiparallel.cluster.file_problems import MalformedFileError
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import RankTableError
from mpiparallel.launch.ckpt.output import answer, several


@dataclass(frozen=True)
class Verdict:
    """What a check found: a line for each problem and for each warning, and in words what table it is, if it is one."""

    file: str
    ok: bool
    faults: tuple[str, ...]
    fault_count: int
    warnings: tuple[str, ...]
    table: str | None


def execute(arguments: argparse.Namespace) -> int:
    """Tell all problems of the tables that ``arguments`` name; return 1 where there are any."""
    verdicts = [_checked(path, arguments.strict) for path in arguments.tables]
    answer([asdict(verdict) for verdict in verdicts], _lines(verdicts, arguments.strict), arguments.json)
    return 0 if all(verdict.ok for verdict in verdicts) else 1


def _checked(path: Path, strict: bool) -> Verdict:
    try:
        table = RankTable.load(path)
    except MalformedFileError as error:
        return Verdict(str(path), False, error.lines, error.count, (), None)
    except RankTableError as error:
        return Verdict(str(path), False, (str(error),), 1, (), None)
    warnings = tuple(f"{path}: {warning}" for warning in device_warnings(table))
    if strict:
        warnings += tuple(f"{path}: {placeholder}" for placeholder in placeholders(table))
        return Verdict(str(path), not warnings, warnings, len(warnings), (), table.summary)
    return Verdict(str(path), True, (), 0, warnings, table.summary)


def _lines(verdicts: Sequence[Verdict], strict: bool) -> Iterator[str]:
    for verdict in verdicts:
        if verdict.ok:
            yield f"{verdict.file}: OK: {verdict.table}"
        else:
            yield f"{verdict.file}: {several(verdict.fault_count, 'problem')}"
        yield from verdict.faults
        if verdict.fault_count > len(verdict.faults):
            yield f"and {verdict.fault_count - len(verdict.faults):,} more"
        yield from (f"warning: {warning}" for warning in verdict.warnings)
