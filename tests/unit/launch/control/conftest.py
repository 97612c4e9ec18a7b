"""A job of four ranks that has begun."""

from __future__ import annotations

import pytest

from mpiparallel.launch.control.rank_registry import RankRegistry


@pytest.fixture
def registry() -> RankRegistry:
    return RankRegistry(4)
