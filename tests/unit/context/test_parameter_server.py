"""There are no parameter servers: a program that wants one is told."""

from __future__ import annotations

import pytest

import mpiparallel as ms
from mpiparallel.errors import ConfigurationError


def test_what_asks_for_none_is_taken_and_the_rest_refused() -> None:
    ms.set_ps_context(enable_ps=False, enable_ssl=False)
    ms.reset_ps_context()
    assert ms.get_ps_context("enable_ps") is False
    with pytest.raises(ConfigurationError, match="enable_ps=True: there are no parameter servers here"):
        ms.set_ps_context(enable_ps=True)
    for wrong in (ms.set_ps_context, lambda **given: ms.get_ps_context(next(iter(given)))):
        with pytest.raises(ConfigurationError, match="'server_num' is not a parameter"):
            wrong(server_num=1)
