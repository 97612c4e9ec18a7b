"""What a rank does when its script fails: tell how, whatever has become of its stderr and its disk, and leave."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import NoReturn

from mpiparallel.errors import action_of, origins_of
from mpiparallel.launch.job.rank_folder import Failure
from mpiparallel.launch.rank.exit_reporter import ExitReporter
from mpiparallel.launch.rank.traceback_report import report


def fail(reporter: ExitReporter, error: BaseException, code: int, debug: bool) -> NoReturn:
    """Tell by ``reporter`` that ``error`` has ended the script, and leave with exit code ``code``."""
    try:
        origin, action = _origin(error, reporter), action_of(error)
        first = Failure(reporter.folder.rank, time.time(), type(error).__name__, "", code, origin, action)
        reporter.begin_to_fail(first)
        told = report(error, debug)
        failure = replace(first, exception=told.line, traceback=told.shortened)
        reporter.fail(failure, _last_words(error, told.traceback))
    finally:
        # Whatever goes wrong with the words for it.
        os._exit(code)


def _origin(error: BaseException, reporter: ExitReporter) -> int | None:
    """Return the rank whose problem ``error`` reports, if many ranks raise it together."""
    origins = origins_of(error)
    if reporter.folder.rank in origins:
        return reporter.folder.rank
    return min(origins, default=None)


def _last_words(error: BaseException, traceback: str) -> str:
    """Return what Python would print at the end: the traceback, or what ``sys.exit`` was given if it is no number."""
    if not isinstance(error, SystemExit):
        return traceback
    return "" if isinstance(error.code, int) else f"{error.code}\n"
