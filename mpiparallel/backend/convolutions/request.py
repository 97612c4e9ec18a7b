"""A convolution or one of its gradients, as a library of a device is asked for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, Protocol

from mpiparallel.dataclass import dataclass

Array = Any
Launch = Callable[[], object]
Scratch = Callable[[tuple[int, ...], Any, int], Any]


class Direction(Enum):
    """What is computed, of the other two."""

    FORWARD = "outputs"
    INPUT_GRADIENT = "images"
    WEIGHT_GRADIENT = "weight"


@dataclass(frozen=True, eq=False)
class ConvolutionRequest:
    """One of ``images`` (n, c, h, w), ``weight`` (k, c / groups, down, across) and ``outputs`` (n, k, high, wide).

    The ``direction`` names the array that is to be set from the others, all of one dtype, which may lie in memory in
    any order. Pairs are down and across: ``before`` and ``after`` are the padding. With ``allows_tf32`` factors of
    float32 may be rounded to 10 bits of fraction.
    """

    direction: Direction
    images: Array
    weight: Array
    outputs: Array
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]
    allows_tf32: bool = False

    @property
    def arrays(self) -> dict[str, Array]:
        """The three arrays by name."""
        return {"images": self.images, "weight": self.weight, "outputs": self.outputs}

    @property
    def shape(self) -> Hashable:
        """All but where the arrays are: requests that have it in common are computed by one plan."""
        orders = tuple((one.shape, one.strides) for one in self.arrays.values())
        window = self.stride, self.dilation, self.before, self.after
        return self.direction, self.images.dtype, orders, window, self.allows_tf32


class Convolutions(Protocol):
    """What a device has for convolutions beside texts of ours."""

    def bind(self, request: ConvolutionRequest, scratch: Scratch) -> Launch | None:
        """Return what computes a request each time it is called; None for one that the library does not take."""

    def is_faster(self, request: ConvolutionRequest, theirs: Launch, ours: Launch) -> bool:
        """Return which is faster, by running both where no request of this shape was measured before."""
