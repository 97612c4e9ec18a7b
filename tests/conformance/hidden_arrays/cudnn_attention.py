"""What cuDNN computes for graphs of attention, by NumPy in float64."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

FORWARD: Final = ("q", "k", "v")
BACKWARD: Final = (*FORWARD, "o", "dO", "stats")


def attend(arrays: dict[str, Any], scale: float, is_causal: bool) -> None:
    """Set the output and its statistics."""
    scores = _scores(arrays, scale, is_causal)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    arrays["O"][...] = weights / total @ _wide(arrays["v"])
    arrays["Stats"][...] = np.log(total) + largest


def go_back(arrays: dict[str, Any], scale: float, is_causal: bool) -> None:
    """Set the gradients of query, key and value by the statistics that are given."""
    weights = np.exp(_scores(arrays, scale, is_causal) - _wide(arrays["stats"]))
    q, k, v, o, slope = (_wide(arrays[name]) for name in ("q", "k", "v", "o", "dO"))
    lost = (o * slope).sum(-1, keepdims=True)
    slopes = weights * (slope @ v.swapaxes(2, 3) - lost) * scale
    arrays["dQ"][...] = slopes @ k
    arrays["dK"][...] = slopes.swapaxes(2, 3) @ q
    arrays["dV"][...] = weights.swapaxes(2, 3) @ slope


def _scores(arrays: dict[str, Any], scale: float, is_causal: bool) -> Any:
    scores = _wide(arrays["q"]) @ _wide(arrays["k"]).swapaxes(2, 3) * scale
    if is_causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    return scores + _wide(arrays["bias"]) if "bias" in arrays else scores


def _wide(array: Any) -> Any:
    return array.astype(np.float64)
