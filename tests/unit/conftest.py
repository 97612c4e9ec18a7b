"""Random layouts for property tests; settings that last for one test, and its folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

import pytest
from hypothesis import strategies as st

from mpiparallel.context import settings
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.memory_folder import tmp_path as tmp_path

DEVICE_SHAPES = [shape for length in range(4) for shape in product(range(1, 9), repeat=length)]


@st.composite
def any_shape(draw: st.DrawFn) -> tuple[int, ...]:
    """Draw the shape of a tensor: 0-d to 3-d, with empty dims and dims shorter than their cuts."""
    return tuple(draw(st.lists(st.integers(0, 11), max_size=3)))


@cache
def _matrices(max_devices: int) -> list[DeviceMatrix]:
    """Return the device matrices of up to so many devices: drawn from ten thousand times, they are made once."""
    return [matrix for matrix in map(DeviceMatrix, DEVICE_SHAPES) if matrix.size <= max_devices]


@st.composite
def any_layout(
    draw: st.DrawFn,
    global_shape: tuple[int, ...] | None = None,
    max_devices: int = 8,
    last_rank: int = 7,
    partial: bool = False,
) -> Layout:
    """Draw a layout over 1 to ``max_devices`` ranks, none above ``last_rank``; axes of a dim in any order."""
    shape = draw(any_shape()) if global_shape is None else global_shape
    devices = draw(st.sampled_from(_matrices(max_devices)))
    first_rank = draw(st.integers(0, last_rank + 1 - devices.size))
    roles: dict[object, list[int]] = {role: [] for role in (*range(len(shape)), "replica", "optimizer", "partial")}
    allowed = [role for role in roles if (role != "optimizer" or shape) and (role != "partial" or partial)]
    for axis in draw(st.permutations(range(len(devices.shape)))):
        roles[draw(st.sampled_from(allowed))].append(axis)
    return Layout(
        shape,
        DeviceMatrix(devices.shape, first_rank),
        tuple(tuple(roles[dim]) for dim in range(len(shape))),
        partial=tuple(roles["partial"]),
        reduction=draw(st.sampled_from(["sum", "max", "min"])) if roles["partial"] else "sum",
        optimizer_axes=tuple(roles["optimizer"]),
    )


@pytest.fixture(scope="session")
def layouts() -> Callable[..., st.SearchStrategy[Layout]]:
    """The strategy ``any_layout``, for tests that draw."""
    return any_layout


@pytest.fixture(scope="session")
def shapes() -> Callable[..., st.SearchStrategy[tuple[int, ...]]]:
    """The strategy ``any_shape``, for tests that draw."""
    return any_shape


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Let no test see the seed, mode or strategies that another has set, nor what it has drawn."""
    settings.take_settings(settings.Settings())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Leave nothing to what runs between tests. A fixture for each of 30,000 tests would take seconds."""
    settings.take_settings(settings.Settings())
