"""Options that fit into a memory limit: each byte is given a price until they do."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from mpiparallel.dataclass import dataclass

_ROUNDS = 12


@dataclass(frozen=True)
class Priced:
    """What is best where a byte has a price: the options, their seconds and bytes, and a bound of both summed."""

    options: tuple[int, ...]
    seconds: float
    bytes: float
    bound: float


def within_memory(
    solve: Callable[[float], Priced], limit: float, has_time: Callable[[], bool] = lambda: True
) -> tuple[Priced, float]:
    """Return the quickest that has been found within a limit of bytes, and seconds that nothing within it goes below.

    ``solve`` is told the price of a byte. Where nothing fits, it is what needs the least memory, with no bound unless
    there was no time to find that out.
    """
    free = solve(0.0)
    if free.bytes <= limit:
        return free, free.bound
    low, high = 0.0, max(free.seconds, 1e-9) / max(free.bytes, 1.0)
    bound, best, least = free.bound, None, free
    for _ in range(_ROUNDS):
        if not has_time():
            return least, bound
        found = solve(high)
        bound = max(bound, found.bound - high * limit)
        least = min(least, found, key=lambda one: one.bytes)
        if found.bytes <= limit:
            best = found
            break
        low, high = high, high * 4
    for _ in range(_ROUNDS if best is not None else 0):
        if not has_time() or high - low <= 1e-2 * high:
            break
        middle = (low + high) / 2
        found = solve(middle)
        bound = max(bound, found.bound - middle * limit)
        if found.bytes <= limit:
            high = middle
            best = found if best is None or found.seconds < best.seconds else best
        else:
            low = middle
    return (best, bound) if best is not None else (least, inf)
