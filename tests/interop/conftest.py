"""The figures that these tests measure, shown after the last one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return the function that takes a line for the end of the report."""
    lines = request.config.stash.setdefault(_FIGURES, [])
    return lines.append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the figures."""
    lines = config.stash.get(_FIGURES, [])
    if lines:
        terminalreporter.section("compared with PyTorch")
        terminalreporter.write_line("\n".join(lines))
