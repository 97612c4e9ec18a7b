"""Attention of heads or its gradients, as a library of a device is asked for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, Protocol

from mpiparallel.dataclass import dataclass

Array = Any
Launch = Callable[[], object]
Scratch = Callable[[tuple[int, ...], Any, int], Any]

SETTING: Final = "MPIPARALLEL_ATTENTION"
"""The variable by which a user asks for a library's attention."""


@dataclass(frozen=True, eq=False)
class AttentionRequest:
    """``output = softmax(scale * query @ key.T + bias) @ value``, all (batch, heads, length, depth) and of one dtype.

    ``sums`` (batch, heads, queries) are the logarithms of the sums of exponentials, in float32. ``bias`` is (batch or
    1, heads or 1, queries, keys), or None for none. Output and sums are to be set. With ``slope``, the gradient of the
    output, they are known instead; ``gradients`` of query, key and value are to be set. Where
    ``is_causal``, a query sees the keys of its own place and of those before it alone.
    """

    query: Array
    key: Array
    value: Array
    bias: Array | None
    output: Array
    sums: Array
    scale: float
    slope: Array | None = None
    gradients: tuple[Array, ...] = ()
    is_causal: bool = False

    @property
    def given(self) -> dict[str, Array]:
        """The arrays that are read, by name."""
        named = {"query": self.query, "key": self.key, "value": self.value}
        if self.bias is not None:
            named["bias"] = self.bias
        return named if self.slope is None else {**named, **self._attended, "slope": self.slope}

    @property
    def results(self) -> dict[str, Array]:
        """The arrays that are set, by name."""
        names = ("query_gradient", "key_gradient", "value_gradient")
        return self._attended if self.slope is None else dict(zip(names, self.gradients, strict=True))

    @property
    def _attended(self) -> dict[str, Array]:
        return {"output": self.output, "sums": self.sums.reshape((*self.sums.shape, 1))}

    @property
    def shape(self) -> Hashable:
        """All but where the arrays are: requests that have it in common are computed by one plan."""
        named = {**self.given, **self.results}
        arrays = tuple((name, one.dtype, one.shape, one.strides) for name, one in named.items())
        return self.scale, self.is_causal, arrays


class Attentions(Protocol):
    """What a device has for attention beside texts of ours."""

    def check(self) -> None:
        """Raise ConfigurationError, which tells what to install, where the library is not there."""

    def bind(self, request: AttentionRequest, scratch: Scratch) -> Launch | None:
        """Return what computes a request each time it is called; None for one that the library does not take."""
