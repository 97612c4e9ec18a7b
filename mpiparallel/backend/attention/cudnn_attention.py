"""Attention by cuDNN, through its frontend: an optional extra. Plans are made once a shape, and repeat their bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mpiparallel.backend.attention.request import SETTING, Array, AttentionRequest, Launch, Scratch
from mpiparallel.backend.gpu.cudnn_graphs import ALIGNED, ELEMENTS, CudnnGraphs
from mpiparallel.backend.gpu.cudnn_library import find_cudnn
from mpiparallel.errors import ConfigurationError

_NAMES: Final = ("query", "key", "value", "bias", "output", "sums", "slope")
_GRADIENTS: Final = ("query_gradient", "key_gradient", "value_gradient")
_UIDS: Final = {name: uid for uid, name in enumerate((*_NAMES, *_GRADIENTS), 1)}


class CudnnAttention:
    """Attention of 16 bits on one device and one stream, by cuDNN.

    ``address`` tells where an array is, ``stream`` the stream that is given work, as a number. ``find_library`` is
    asked when a user asks for cuDNN's attention.
    """

    def __init__(
        self,
        address: Callable[[Array], int],
        stream: Callable[[], int],
        find_library: Callable[[], Any] = find_cudnn,
    ) -> None:
        self._graphs = CudnnGraphs(address, stream, _UIDS, SETTING, find_library)

    def check(self) -> None:
        """Raise ConfigurationError where cuDNN's frontend is not installed."""
        if self._graphs.library is None:
            raise ConfigurationError(
                f"{SETTING}=cudnn asks for cuDNN's attention, and cuDNN is not installed: pip install "
                f"'mpiparallel[cudnn12x]' (or cudnn13x), or set {SETTING}=own"
            )

    def bind(self, request: AttentionRequest, scratch: Scratch) -> Launch | None:
        """Return the launch of attention or of its gradients; None for what cuDNN does not take."""
        arrays = {**request.given, **request.results}
        if not self._is_taken(request, arrays):
            return None
        plan = self._graphs.plan(request.shape, lambda: self._described(request))
        return None if plan is None else self._graphs.launch(plan, arrays, scratch)

    def _is_taken(self, request: AttentionRequest, arrays: dict[str, Array]) -> bool:
        dtype, sums = request.query.dtype, request.sums
        are_alike = all(one.dtype == dtype for name, one in arrays.items() if name != "sums")
        is_narrow = dtype.itemsize == 2 and dtype in ELEMENTS
        if not (are_alike and is_narrow and sums.dtype == np.float32 and sums.flags.c_contiguous):
            return False
        heads = [one for name, one in arrays.items() if name not in ("sums", "bias")]
        is_aligned = not any(self._graphs.address(one) % ALIGNED for one in arrays.values())
        return is_aligned and all(map(_has_rows_of_loads, heads))

    def _described(self, request: AttentionRequest) -> Any:
        graph = self._graphs.empty(request.query.dtype)
        tensors = {name: self._graphs.given(graph, name, one) for name, one in request.given.items()}
        make = _attended if request.slope is None else _slopes
        made = make(graph, request, tensors, self._seen(request))
        for tensor, (name, array) in zip(made, request.results.items(), strict=True):
            self._graphs.set_result(tensor, name, array)
        return graph

    def _seen(self, request: AttentionRequest) -> dict[str, Any]:
        """Return how far behind its own place a query sees."""
        if not request.is_causal:
            return {}
        start = self._graphs.library.diagonal_alignment.TOP_LEFT
        return {"diagonal_alignment": start, "diagonal_band_right_bound": 0}


def _has_rows_of_loads(heads: Array) -> bool:
    """Return whether each row of a head is contiguous and begins with a whole load of 16 bytes."""
    *steps, last = heads.strides
    return last == heads.dtype.itemsize and not any(step % ALIGNED for step in steps)


def _attended(graph: Any, request: AttentionRequest, tensors: dict[str, Any], seen: dict[str, Any]) -> Any:
    return graph.sdpa(
        name="attention",
        q=tensors["query"],
        k=tensors["key"],
        v=tensors["value"],
        bias=tensors.get("bias"),
        attn_scale=float(request.scale),
        generate_stats=True,
        **seen,
    )


def _slopes(graph: Any, request: AttentionRequest, tensors: dict[str, Any], seen: dict[str, Any]) -> Any:
    return graph.sdpa_backward(
        name="attention_gradients",
        q=tensors["query"],
        k=tensors["key"],
        v=tensors["value"],
        o=tensors["output"],
        dO=tensors["slope"],
        stats=tensors["sums"],
        bias=tensors.get("bias"),
        attn_scale=float(request.scale),
        use_deterministic_algorithm=True,
        **seen,
    )
