"""Which tensor of a peer in PyTorch, or which part of one, a parameter of ours is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_VECTORS = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
_ATTENTION = {"attention": "self_attn", "cross_attention": "multihead_attn"}
_FEED_FORWARD = {"mapping": "linear1", "projection": "linear2"}
_NORMS = {
    "encoder": {"layernorm1": "norm1", "layernorm2": "norm2"},
    "decoder": {"layernorm1": "norm1", "cross_attention_layernorm": "norm2", "layernorm2": "norm3"},
}


@dataclass(frozen=True)
class Place:
    """A tensor by name, of it third ``third`` of dim 0 where that is given, and transposed where it is stored so."""

    name: str
    third: int | None = None
    transposed: bool = False

    def of(self, tensor: Any) -> Any:
        """Return the view of the tensor that has the shape of our parameter."""
        part = tensor if self.third is None else tensor.chunk(3)[self.third]
        return part.T if self.transposed else part


def resnet_place(name: str) -> Place:
    """Return where a parameter of ResNet-50 is."""

    def layer(found: re.Match[str]) -> str:
        index = int(found[2])
        return f"blocks.{found[1]}.{'bn' if index % 3 else 'conv'}{index // 3}."

    name = re.sub(r"^stages\.(\d+)\.body\.(\d+)\.", layer, name)
    name = re.sub(r"^stages\.(\d+)\.projection\.", r"blocks.\1.projection.", name)
    stem, _, last = name.rpartition(".")
    return Place(f"{stem}.{_VECTORS.get(last, last)}")


def transformer_place(name: str) -> Place:
    """Return where a parameter of the translation network is."""
    tables = {"word_embedding": "words", "position_embedding": "places"}
    found = re.fullmatch(r"(source|target)_embedding\.(\w+)\.embedding_table", name)
    if found:
        return Place(f"{found[1]}.{tables[found[2]]}.weight")
    found = re.fullmatch(r"transformer\.(encoder|decoder)\.blocks\.(\d+)\.(.+)\.(\w+)", name)
    if not found:
        return Place(name)
    side, index, cell, last = found.groups()
    start = f"{side}.{index}"
    if cell in _NORMS[side]:
        return Place(f"{start}.{_NORMS[side][cell]}.{_VECTORS[last]}")
    outer, inner = cell.split(".")
    transposed = inner in _FEED_FORWARD and last == "weight"
    if outer == "output":
        return Place(f"{start}.{_FEED_FORWARD[inner]}.{last}", transposed=transposed)
    if inner == "projection":
        return Place(f"{start}.{_ATTENTION[outer]}.out_proj.{last}", transposed=transposed)
    return Place(f"{start}.{_ATTENTION[outer]}.in_proj_{last}", third=int(inner.removeprefix("dense")) - 1)


def carry_over(values: Mapping[str, Array], places: Mapping[str, Place], tensors: Mapping[str, Any]) -> None:
    """Fill a peer's tensors with our values; every element of every floating-point tensor is filled once."""
    import torch

    filled = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    with torch.no_grad():
        for name, value in values.items():
            place = places[name]
            place.of(tensors[place.name]).copy_(torch.from_numpy(np.array(value)))
            place.of(filled[place.name]).add_(1)
    missed = [name for name, count in filled.items() if count.is_floating_point() and not bool((count == 1).all())]
    if missed:
        raise ValueError(f"not filled exactly once: {missed}")


def relative_errors(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> dict[str, float]:
    """Return the norm of the difference of each array over the norm of theirs."""
    return {
        name: float(np.linalg.norm(np.float64(value) - theirs[name]) / np.linalg.norm(np.float64(theirs[name])))
        for name, value in ours.items()
    }
