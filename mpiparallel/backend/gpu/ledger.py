"""What of a device's memory belongs to whom, for the moment when there is no more of it."""

from __future__ import annotations

import weakref
from typing import Any, Final, NamedTuple

_SHOWN: Final = 10
_LEAST: Final = 1 << 16
"""Bytes from which on memory is written down."""


class HeldMemory(NamedTuple):
    """Bytes that belong to a ``holder``."""

    byte_count: int
    holder: str


class DeviceLedger:
    """The arrays of one device that are alive, by those who have asked for them."""

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[Any, HeldMemory]] = {}

    def note(self, array: Any, holder: str) -> None:
        """Write an array down for as long as it lives."""
        if holder and array.nbytes >= _LEAST:
            key = id(array)
            reference = weakref.ref(array, lambda gone: self._arrays.pop(key, None))
            self._arrays[key] = reference, HeldMemory(int(array.nbytes), holder)

    def largest(self) -> list[HeldMemory]:
        """Return the ten largest, the largest first."""
        return sorted((held for _, held in self._arrays.values()), reverse=True)[:_SHOWN]

    def out_of_memory(self, wanted: int, holder: str, free: int, total: int) -> str:
        """Return what is said where ``wanted`` bytes cannot be had.

        >>> DeviceLedger().out_of_memory(3_000_000_000, "weight", 1_500_000, 80_000_000_000)
        'out of GPU memory: weight wants 3.00 GB, 1.5 MB of 80.00 GB are free; take a smaller batch, or more ranks'
        """
        who = holder or "an array"
        held = ", ".join(f"{one.holder} {_bytes(one.byte_count)}" for one in self.largest())
        told = f"; the largest holders here: {held}" if held else ""
        missing = f"{who} wants {_bytes(wanted)}, {_bytes(free)} of {_bytes(total)} are free"
        return f"out of GPU memory: {missing}{told}; take a smaller batch, or more ranks"


def _bytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
