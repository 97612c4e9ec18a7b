"""A plugin of pytest: coverage.py writes down each line under the test that reached it, and we how each test ended.

The processes that a test starts are covered too, under what pytest calls the test in the environment: see setup.cfg.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

VARIABLE = "MPIPARALLEL_MUTANTS_TESTS"
"""The file that gets the seconds of each test that has passed; null for one that has not."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Ends(Path(os.environ[VARIABLE])))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        if running is not None:
            running.switch_context("")


class _Ends:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, Any] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self._seconds.get(report.nodeid, 0.0)
        has_failed = before is None or report.outcome == "failed"
        self._seconds[report.nodeid] = None if has_failed else before + report.duration

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(self._seconds))
