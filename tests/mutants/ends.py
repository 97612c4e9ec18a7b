"""A plugin of pytest: each test that ends is written down, with its seconds of a processor; what is known is left out.

So a run that is ended goes on with the tests that it had not come to. The first case of each test comes first, then two
more of each, then four, and so on: cases of one test are much alike, so what comes first tells most.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

VARIABLE = "MPIPARALLEL_MUTANTS_ENDS"
"""The file of one test a line: its name, and its seconds, null for one that has failed."""
UNTIL = "MPIPARALLEL_MUTANTS_UNTIL"
"""When to end, in seconds of the clock since 1970: later tests are left for another run."""
_LATER = 3
"""Tests of real ranks are dear: their first cases come with the eighth of others."""
_KEY = "seconds of a processor"


def _now() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_configure(config: pytest.Config) -> None:
    path = Path(os.environ[VARIABLE])
    known = {json.loads(line)[0] for line in path.read_text().splitlines()} if path.exists() else set()
    config.pluginmanager.register(_Known(known))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Ends(path))


class _Known:
    def __init__(self, known: set[str]) -> None:
        self._known = known
        self._until = float(os.environ.get(UNTIL, "inf"))
        self._began = _now()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        before: Counter[str] = Counter()
        ranked = []
        for item in items:
            test = item.nodeid.split("[")[0]
            before[test] += 1
            if item.nodeid not in self._known:
                ranked.append((before[test].bit_length() + _LATER * (item.get_closest_marker("mpi") is not None), item))
        ordered = [item for _, item in sorted(ranked, key=lambda pair: pair[0])]
        # Each worker begins with a part of its own, one after the other.
        workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
        items[:] = [item for first in range(workers) for item in ordered[first::workers]]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        return True if time.time() > self._until else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _now()
        report.user_properties.append((_KEY, now - self._began))
        self._began = now
        return report


class _Ends:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._under_way: dict[str, tuple[float, bool]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds, has_failed = self._under_way.get(report.nodeid, (0.0, False))
        seconds += sum(one for name, one in report.user_properties[-1:] if name == _KEY)
        has_failed = has_failed or report.outcome == "failed"
        self._under_way[report.nodeid] = seconds, has_failed
        if report.when == "teardown":
            with self._path.open("a") as file:
                file.write(json.dumps([report.nodeid, None if has_failed else round(seconds, 3)]) + "\n")
