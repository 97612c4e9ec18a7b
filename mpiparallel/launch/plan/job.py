"""The work of ``mpiparallel plan``: the traffic of the whole reshard, and how long this machine's memory would take."""

from __future__ import annotations

import argparse
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.plan.forecast import MoveForecast, Relabeled, Seconds, Spread, TensorBytes
from mpiparallel.launch.plan.state import PlannedState, read_state
from mpiparallel.reshard.forecast.part_overlaps import Integers
from mpiparallel.reshard.forecast.peak import bounded_peak
from mpiparallel.reshard.forecast.traffic import Traffic, traffic
from mpiparallel.reshard.relabeling.relabel import find_relabeling

_ITEMSIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_MIB = 1 << 20
_LINK_RATE = 12.5e9
_THRESHOLD = 0.1
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?", re.ASCII)
_CELLS = 64
_LARGEST = 5
_COPY_BYTES = 64 * _MIB
# A byte that moves inside a host is read and written twice: into a window and out of it.
_PASSES = 2


def make_forecast(arguments: argparse.Namespace) -> MoveForecast:
    """Return what the reshard of ``arguments`` takes. Raises MpiParallelError for files that do not tell."""
    target = _target(arguments)
    state = read_state(arguments.source, target, arguments.shapes, _ITEMSIZES[arguments.dtype])
    state = state.with_moments(arguments.moments)
    hosts = Hosts.uniform(arguments.ranks_per_host)
    relabeled = None
    if arguments.relabel:
        state, relabeled = _relabel(state)
    found = traffic(state.layouts, hosts, state.itemsizes)
    scratch = arguments.scratch * _MIB
    bounded = bounded_peak(state.layouts, state.itemsizes, arguments.wave * _MIB)
    between = found.between_hosts(hosts)
    ranks = found.ranks.size
    block_of = np.arange(ranks) * min(_CELLS, ranks) // ranks
    starts = found.ranks[np.flatnonzero(np.diff(block_of, prepend=-1))]
    return MoveForecast(
        source=arguments.source,
        target=str(target) + " ranks" if isinstance(target, int) else target,
        source_ranks=_rank_count(state, 0),
        target_ranks=_rank_count(state, 1),
        hosts=np.unique(found.ranks // arguments.ranks_per_host).size,
        ranks_per_host=arguments.ranks_per_host,
        tensors=len(state.layouts),
        state=_state_bytes(state),
        scratch=scratch,
        per_rank={
            "holds_before": _spread(found.before),
            "holds_after": _spread(found.after),
            "keeps_as_it_is": _spread(found.kept),
            "copies_inside": _spread(found.copied),
            "sends": _spread(found.sent),
            "receives": _spread(found.received),
            "sends_to_ranks": _spread(found.messages_sent),
            "receives_from_ranks": _spread(found.messages_received),
            "safe_peak": _spread(found.safe_peak + scratch),
            "bounded_peak": _spread(bounded + scratch),
        },
        stays=found.bytes_kept,
        moved=found.bytes_moved,
        within_hosts=found.bytes_moved - between,
        between_hosts=between,
        messages=found.givers.size,
        largest=_largest(found, state),
        still=sum(moved == 0 for moved in found.moved.values()),
        seconds=_seconds(found, arguments.ranks_per_host, arguments.bandwidth),
        relabeled=relabeled,
        block_starts=tuple(starts.tolist()),
        matrix=tuple(map(tuple, found.matrix(_CELLS).tolist())),
    )


def _target(arguments: argparse.Namespace) -> str | int:
    """Return the file of the target, or how many ranks it has."""
    if arguments.ranks is not None:
        return int(arguments.ranks)
    target: str = arguments.target
    if not _NUMBER.fullmatch(target) or Path(target).exists():
        return target
    if not (target.isdigit() and len(target) < 10 and int(target)):
        raise ConfigurationError(f"plan: DST {target} is no number of ranks: give a whole number from 1, or a file")
    return int(target)


def _relabel(state: PlannedState) -> tuple[PlannedState, Relabeled]:
    found = find_relabeling(state.layouts, state.itemsizes, threshold=_THRESHOLD)
    if found.ranks == found.places:
        return state, Relabeled((), found.total - found.kept_before, _THRESHOLD)
    layouts = {tensor: (source, found.apply(target)) for tensor, (source, target) in state.layouts.items()}
    return PlannedState(layouts, state.itemsizes), Relabeled(found.ranks, found.total - found.kept_before, _THRESHOLD)


def _rank_count(state: PlannedState, side: int) -> int:
    devices = {pair[side].devices for pair in state.layouts.values()}
    return len({rank for matrix in devices for rank in matrix.members})


def _state_bytes(state: PlannedState) -> int:
    total = 0
    for tensor, (layout, _) in state.layouts.items():
        size = state.itemsizes[tensor]
        for extent in layout.global_shape:
            size *= extent
        total += size
    return total


def _spread(values: Integers) -> Spread:
    ordered = np.sort(values)
    return Spread(int(ordered[0]), int(ordered[ordered.size // 2]), int(ordered[-1]))


def _largest(found: Traffic, state: PlannedState) -> tuple[TensorBytes, ...]:
    moving = sorted((-moved, tensor) for tensor, moved in found.moved.items() if moved)
    return tuple(
        TensorBytes(tensor, -moved, str(state.layouts[tensor][0]), str(state.layouts[tensor][1]))
        for moved, tensor in moving[:_LARGEST]
    )


def _seconds(found: Traffic, ranks_per_host: int, bandwidth: float | None) -> Seconds:
    """Return what the busiest host needs: its memory for what arrives from its own ranks, its link for the rest."""
    giving, taking = found.givers // ranks_per_host, found.takers // ranks_per_host
    apart = giving != taking
    hosts = int(found.ranks[-1]) // ranks_per_host + 1
    inside, leaving, entering = (np.zeros(hosts, np.int64) for _ in range(3))
    np.add.at(inside, taking[~apart], found.pair_bytes[~apart] * _PASSES)
    np.add.at(inside, found.ranks // ranks_per_host, found.copied)
    np.add.at(leaving, giving[apart], found.pair_bytes[apart])
    np.add.at(entering, taking[apart], found.pair_bytes[apart])
    rate = memory_rate(min(ranks_per_host, len(os.sched_getaffinity(0))))
    link_rate = _LINK_RATE if bandwidth is None else bandwidth * 1e9
    through = max(int(leaving.max()), int(entering.max()))
    return Seconds(int(inside.max()) / rate, through / link_rate, rate, link_rate, bandwidth is not None)


def memory_rate(threads: int) -> float:
    """Return how many bytes a second this machine copies with that many threads at once, measured, best of three."""
    length = _COPY_BYTES // threads
    # Memory that was never written has no pages yet.
    pairs = [(np.ones(length, np.uint8), np.ones(length, np.uint8)) for _ in range(threads)]
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(3):
            started = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), pairs))
            best = min(best, time.perf_counter() - started)
    return sum(target.nbytes for _, target in pairs) / best
