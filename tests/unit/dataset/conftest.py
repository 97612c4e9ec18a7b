from __future__ import annotations

from collections.abc import Iterator

import pytest

import mpiparallel.dataset as ds


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    before = ds.config.get_seed()
    yield
    ds.config.set_seed(before)
