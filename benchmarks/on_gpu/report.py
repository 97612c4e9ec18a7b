"""From seconds to shares of the peer's speed and of what the card reaches, and to lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from on_gpu.cases import Case


@dataclass(frozen=True)
class Row:
    """A case, the seconds of ours, or None where it failed, and those of the peer by way."""

    case: Case
    seconds: float | None
    theirs: Mapping[str, float]

    def share(self, against: str, rows: Sequence[Row]) -> float | None:
        """Return the speed of ours over that of a peer or of a ceiling among ``rows``; None where that is unknown."""
        if self.seconds is None:
            return None
        if against == "peer":
            return min(self.theirs.values()) / self.seconds if self.theirs else None
        if against in ("copy", "product"):
            return self._of_copy(rows) if against == "copy" else self._of_product(rows)
        return self.theirs[against] / self.seconds if against in self.theirs else None

    def _of_copy(self, rows: Sequence[Row]) -> float | None:
        rates = [row.case.bytes / seconds for row in rows if row.case.kind == "copy" for seconds in row.all_seconds]
        return self.case.bytes / self.seconds / max(rates) if self.seconds and rates and self.case.bytes else None

    def _of_product(self, rows: Sequence[Row]) -> float | None:
        squares = [
            row.case.operations / seconds
            for row in rows
            if row.case.kind == "product" and row.case.dtype == self.case.dtype and len(set(row.case.sizes)) == 1
            for seconds in row.all_seconds
        ]
        return self.case.operations / self.seconds / max(squares) if self.seconds and squares else None

    @property
    def all_seconds(self) -> tuple[float, ...]:
        """Those of ours and of the peer that are known."""
        return tuple(seconds for seconds in (self.seconds, *self.theirs.values()) if seconds is not None)

    @property
    def ceiling(self) -> str:
        """What bounds the case: "product", "copy", or "" for a whole step."""
        return "product" if self.case.operations else "copy" if self.case.bytes else ""

    def told(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the row as JSON has it."""
        shares = {
            against: self.share(against, rows) for against in ("peer", "eager", "compiled", self.ceiling) if against
        }
        return {"case": self.case.name, "seconds": self.seconds, "peer": dict(self.theirs), "shares": shares}


def line(row: Row, rows: Sequence[Row]) -> str:
    """Return a line: times in ms, shares, and for each share that is wanted whether it is reached."""
    ours = "ours FAILED, see above" if row.seconds is None else f"ours {row.seconds * 1e3:9.3f} ms"
    times = [ours, *(f"{way} {taken * 1e3:9.3f}" for way, taken in row.theirs.items())]
    shares = [
        f"{share:.2f} of {name}"
        for against, name in (("peer", "peer"), (row.ceiling, "top"))
        if against and (share := row.share(against, rows)) is not None
    ]
    return "  ".join([f"{row.case.name:<58}", *times, *shares, *_wanted(row, rows)])


def _wanted(row: Row, rows: Sequence[Row]) -> list[str]:
    found = [(against, least, row.share(against, rows)) for against, least in row.case.wanted]
    return [
        f"{'reached' if share >= least else 'MISSED'}: {share:.2f} of {against}, {least} wanted"
        for against, least, share in found
        if share is not None
    ]


def summary(rows: Sequence[Row]) -> str:
    """Return how many of the shares that are wanted are reached."""
    words = [word for row in rows for word in _wanted(row, rows)]
    missed = sum(word.startswith("MISSED") for word in words)
    failed = sum(row.seconds is None for row in rows)
    return f"{len(words) - missed} of {len(words)} wanted shares reached, {len(rows)} cases, of which {failed} failed"
