"""Arrays of the host travel by their communicator: each call with its own arguments, at once or begun early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport.opening import open_transport
from mpiparallel.communication.transport.staged import PinnedSlots

PARTS = (np.array([1.0, 7.0]), np.array([5.0, 3.0]))


def called(communicator: Communicator, method: str, arguments: tuple[Any, ...], starts: bool) -> list[Any]:
    """Return what a call leaves in its last array; "source" stands for the own part, "target" for the other array."""
    transport: Any = open_transport(communicator, communicator, NumpyBackend(), PinnedSlots())
    assert (transport.name, transport.communicator, transport.graph_calls()) == ("host", communicator, None)
    source = PARTS[communicator.rank].copy()
    target = np.zeros({"all_gather": 4, "reduce_scatter": 1}.get(method, 2))
    given = [{"source": source, "target": target}.get(one, one) for one in arguments]
    call = getattr(transport, method)(*given)
    if starts:
        call.start()()
    else:
        call.run()
    return list((target if "target" in arguments else source).tolist())


@pytest.mark.parametrize(
    ("method", "arguments", "wanted"),
    [
        ("all_reduce", ("source",), [[6, 10], [6, 10]]),
        ("all_reduce", ("source", "max"), [[5, 7], [5, 7]]),
        ("all_gather", ("source", "target"), [[1, 7, 5, 3], [1, 7, 5, 3]]),
        ("reduce_scatter", ("source", "target"), [[6], [10]]),
        ("reduce_scatter", ("source", "target", "min"), [[1], [3]]),
        ("all_to_all", ("source", "target"), [[1, 5], [7, 3]]),
        ("broadcast", ("source", 1), [[5, 3], [5, 3]]),
        ("broadcast", ("source", 0), [[1, 7], [1, 7]]),
        ("reduce", ("source", 1), [[1, 7], [6, 10]]),
        ("reduce", ("source", 0, "prod"), [[5, 21], [5, 3]]),
    ],
)
def test_arrays_of_the_host_are_reduced_and_moved_by_the_communicator(
    method: str, arguments: tuple[Any, ...], wanted: list[list[float]]
) -> None:
    assert run_world(2, called, method, arguments, False) == wanted
    if method in ("all_reduce", "all_gather", "reduce_scatter"):
        assert run_world(2, called, method, arguments, True) == wanted
