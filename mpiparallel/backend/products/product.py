"""A product of matrices with what may be done in one go with it, and what computes such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mpiparallel.dataclass import dataclass

Array = Any
Scratch = Callable[[tuple[int, ...], Any, int], Any]
"""Returns memory that starts on a 64-byte border, of a shape and a dtype; the last number tells such memories apart."""


@dataclass(frozen=True, eq=False)
class Product:
    """``output`` is to be the product of the last two dims of ``x`` and ``y``, whose leading dims broadcast.

    Two things are added to the product. ``added`` is an array like the output, and may be the output itself. ``bias``
    has a number for each place of the last dim. What that gives goes to ``before`` where it is wanted too, and with
    ``gelu`` the output is GELU of it, in the tanh form. With ``slopes_at``, the output is the product times the slopes
    of GELU there. ``sums`` are the sums of the rows of what ``sums_of`` names: of the output, or of x or y over the dim
    that is contracted. ``allows_tf32`` says whether factors of float32 may be rounded to 10 bits of fraction; None
    leaves that to the device's setting.
    """

    x: Array
    y: Array
    output: Array
    added: Array | None = None
    bias: Array | None = None
    gelu: bool = False
    before: Array | None = None
    slopes_at: Array | None = None
    sums: Array | None = None
    sums_of: str = ""
    allows_tf32: bool | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is a product, and nothing else."""
        others = (self.added, self.bias, self.before, self.slopes_at, self.sums)
        return not self.gelu and all(one is None for one in others)


class Products(Protocol):
    """What a device has for products beside its array library."""

    def bind(self, product: Product, scratch: Scratch) -> Callable[[], object] | None:
        """Return what computes a product each time it is called; None for one that the array library should do."""
