"""A program that pytest runs: its errors do not come up to the interpreter, so pytest must say that the rank fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mpiparallel.communication.abort_hook import let_last_words_through

_NAME = "mpiparallel end after failed tests"


class _EndAfterFailedTests:
    """A plugin that ends the job when pytest has reported that tests of this rank failed: the others wait for it."""

    def __init__(self, end: Callable[[int, str], Any]) -> None:
        self._end = end
        self._code = 0

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Remember how pytest ends."""
        self._code = int(exitstatus)

    def pytest_unconfigure(self) -> None:
        """End the job where tests failed: all of the report has been written."""
        if self._code:
            let_last_words_through()
            self._end(self._code, f"pytest ended with exit code {self._code}")


def end_after_failed_tests(end: Callable[[int, str], Any]) -> None:
    """Where pytest runs the caller, let it call ``end`` with its exit code and some words if it does not end well."""
    config = _running_pytest()
    if config is not None and not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(_EndAfterFailedTests(end), _NAME)


def _running_pytest() -> Any:
    """Return the configuration of the pytest that has called this function, None where none has."""
    pytest = sys.modules.get("pytest")
    frame = sys._getframe() if pytest else None
    while frame is not None:
        found = next((value for value in frame.f_locals.values() if isinstance(value, pytest.Config)), None)  # type: ignore[union-attr]
        if found is not None:
            return found
        frame = frame.f_back
    return None
