"""A short measurement of the executors, made once for each MPI library and kept in the user's cache folder."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.cache_folder import cache_folder, keep
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import memory
from mpiparallel.reshard.bound_plan import bind
from mpiparallel.reshard.executors.executor import EXECUTORS, executors_for
from mpiparallel.reshard.executors.traffic_shape import TrafficShape, agree_on_shape
from mpiparallel.reshard.planning.plan import LayoutPair, plan_reshard

_FILE: Final = "reshard_executors.json"
_LARGE_PIECE: Final = 64 << 10
_LARGE_BYTES_A_RANK: Final = 4 << 20
_SMALL_TENSORS: Final = 200
_SMALL_BYTES: Final = 4096
_TIMES: Final = 3


@dataclass(frozen=True)
class Calibration:
    """The quickest executor for traffic of large pieces, and of small ones.

    >>> Calibration("shared", "packed").best(TrafficShape(1.0, 1 << 24, 1 << 22, dense=True))
    'shared'
    """

    large: str
    small: str

    def best(self, shape: TrafficShape) -> str:
        """Return the executor for this traffic."""
        return self.large if shape.mean_piece >= _LARGE_PIECE else self.small


_KNOWN: Final[Mapping[str, Calibration]] = {"threads": Calibration("datatypes", "datatypes")}
"""Threads read each other's arrays: nothing is quicker than one copy."""


def calibration_of(communicator: Communicator) -> Calibration:
    """Return the calibration for the library of this world; all ranks call it together.

    What rank 0 has kept from an earlier measurement holds for all. Otherwise it is made now, in some tenths of a
    second, and kept by rank 0. A folder that cannot be written to is no error.
    """
    if communicator.library in _KNOWN:
        return _KNOWN[communicator.library]
    # What was measured where memory could be seen may not work here.
    names = executors_for(communicator)
    key = _key(communicator)
    kept = _read(cache_folder() / _FILE).get(key, ()) if communicator.rank == 0 else ()
    codes = np.array([names.index(name) for name in kept] if _is_one(kept, names) else [-1, -1])
    communicator.broadcast(codes, 0)
    if codes[0] < 0:
        measured = measure(communicator)
        if communicator.rank == 0:
            path = cache_folder() / _FILE
            content = _read(path) | {key: [measured.large, measured.small]}
            keep(path, json.dumps(content, indent=1, sort_keys=True).encode())
        return measured
    return Calibration(names[codes[0]], names[codes[1]])


def measure(communicator: Communicator) -> Calibration:
    """Run every executor on a large tensor and on many small ones, and return the quickest of each."""
    devices = DeviceMatrix((communicator.size,), ranks=communicator.ranks)
    side = communicator.size * int((_LARGE_BYTES_A_RANK / communicator.size / 4) ** 0.5)
    rows = _SMALL_BYTES // 4 // communicator.size
    # What is quick where rows are cut may be slow where whole arrays go from rank to rank.
    large = {"turned": _turned((side, side), devices), "passed on": _passed_on((side, side), devices)}
    turned = _turned((communicator.size, communicator.size * rows), devices)
    small = {f"small{index}": turned for index in range(_SMALL_TENSORS)}
    return Calibration(_quickest(large, communicator), _quickest(small, communicator))


def _turned(shape: tuple[int, int], devices: DeviceMatrix) -> LayoutPair:
    return Layout(shape, devices, ((0,), ())), Layout(shape, devices, ((), (0,)))


def _passed_on(shape: tuple[int, int], devices: DeviceMatrix) -> LayoutPair:
    source = Layout(shape, devices, ((0,), ()))
    return source, source.on_ranks((*devices.members[1:], devices.members[0]))


def _quickest(pairs: Mapping[str, LayoutPair], communicator: Communicator) -> str:
    rank = communicator.ranks[communicator.rank]
    with failing_together(communicator, ReshardError):
        arrays = {tensor: np.zeros(source.local_shape(rank), np.float32) for tensor, (source, _) in pairs.items()}
    names = executors_for(communicator)
    seconds = np.empty((len(names), _TIMES))
    for turn in range(_TIMES):
        for index, name in enumerate(names):
            seconds[index, turn] = _seconds(name, pairs, arrays, communicator)
    communicator.all_reduce(seconds, "max")
    return names[int(seconds.min(axis=1).argmin())]


def _seconds(
    name: str, pairs: Mapping[str, LayoutPair], arrays: Mapping[str, NDArray[Any]], communicator: Communicator
) -> float:
    """Return what it takes from nothing to filled targets, as a movement does it; infinity if it lacks memory."""
    rank = communicator.ranks[communicator.rank]
    plan = plan_reshard(pairs, rank)
    layouts = {tensor: target for tensor, (_, target) in pairs.items()}
    dtypes = {tensor: array.dtype for tensor, array in arrays.items()}
    communicator.barrier()
    started = time.perf_counter()
    if name == "shared":
        try:
            targets = memory.shared_targets(layouts, dtypes, (), communicator)
        except MemoryError:
            return inf
    else:
        with failing_together(communicator, ReshardError):
            targets = memory.private_targets(layouts, dtypes, rank)
    bound = bind(plan, pairs, arrays, targets.arrays, communicator)
    shape = agree_on_shape(bound.piece_bytes, communicator, None)
    executor = EXECUTORS[name](bound, communicator, shape, targets, None)
    executor.connect()
    executor.run()
    executor.free()
    return time.perf_counter() - started


def _key(communicator: Communicator) -> str:
    hosts = "one host" if len(set(communicator.hosts)) == 1 else "several hosts"
    return f"{communicator.library}, {hosts}"


def _is_one(kept: Any, names: Sequence[str]) -> bool:
    return isinstance(kept, list) and len(kept) == 2 and all(name in names for name in kept)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
