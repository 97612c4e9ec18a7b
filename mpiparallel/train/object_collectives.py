"""JSON values that ranks broadcast and gather, and the ranks of the program."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mpiparallel.communication import world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone


def world_or_alone() -> Communicator:
    """Return the ranks of the current world; this process alone where there is none."""
    return world.current() if world.initialised() else alone()


def all_gather_object(said: Any, communicator: Communicator) -> list[Any]:
    """Return on every member the JSON value of each of them; all call it together.

    >>> all_gather_object({"step": 3}, alone())
    [{'step': 3}]
    """
    content = np.frombuffer(json.dumps(said).encode(), np.uint8)
    lengths = np.zeros(communicator.size, np.int64)
    communicator.all_gather(np.array([content.size], np.int64), lengths)
    own = np.zeros(lengths.max(), np.uint8)
    own[: content.size] = content
    rows = np.zeros((communicator.size, own.size), np.uint8)
    communicator.all_gather(own, rows)
    return [json.loads(row[:length].tobytes()) for row, length in zip(rows, lengths, strict=True)]


def broadcast_object(said: Any, communicator: Communicator) -> Any:
    """Return on every member the JSON value of the first one; all call it together.

    >>> broadcast_object({"steps": [1, 2]}, alone())
    {'steps': [1, 2]}
    """
    content = json.dumps(said if communicator.rank == 0 else None).encode()
    length = np.array(len(content), np.int64)
    communicator.broadcast(length, 0)
    words = np.zeros(int(length), np.uint8)
    if communicator.rank == 0:
        words[:] = np.frombuffer(content, np.uint8)
    communicator.broadcast(words, 0)
    return json.loads(words.tobytes())
