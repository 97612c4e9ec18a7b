"""Where things lie in an SVG, so that a claim can say that words lie inside of what they name and on nothing else."""

from __future__ import annotations

from typing import NamedTuple
from xml.etree.ElementTree import Element

_WIDTHS = {"0123456789": (0.64, 0.7), " .,;:": (0.32, 0.35)}
"""How wide digits and marks are in DejaVu Sans, plain and bold, in the height of the font."""
_LETTER = (0.5, 0.55)
"""What letters are at least, on the average of a word."""
_ASCENT, _DESCENT = 0.76, 0.24


class Area(NamedTuple):
    """A box, in pixels from the left and from the top."""

    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: Area) -> bool:
        """Return whether another box lies inside of this one."""
        across = self.left <= other.left < other.right <= self.right
        return across and self.top <= other.top < other.bottom <= self.bottom

    def touches(self, other: Area) -> bool:
        """Return whether two boxes have a point in common that is on no border."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def box(rect: Element) -> Area:
    """Return the area of a rect."""
    left, top, width, height = (float(rect.get(name, "nan")) for name in ("x", "y", "width", "height"))
    return Area(left, top, left + width, top + height)


def words(text: Element, size: float = 0.0) -> Area:
    """Return the area that a text takes at least, in its own size or else in this one."""
    left, foot, size = float(text.get("x", "nan")), float(text.get("y", "nan")), float(text.get("font-size", size))
    is_bold = text.get("font-weight") == "bold"
    width = size * sum(_width(one)[is_bold] for one in "".join(text.itertext()))
    left -= {"start": 0.0, "middle": width / 2, "end": width}[text.get("text-anchor", "start")]
    return Area(left, foot - _ASCENT * size, left + width, foot + _DESCENT * size)


def _width(character: str) -> tuple[float, float]:
    return next((widths for characters, widths in _WIDTHS.items() if character in characters), _LETTER)
