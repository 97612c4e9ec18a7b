"""Ways to train a network on some ranks: those whose memory is measured, and those that are drawn to be timed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Cut = tuple[int, int, int]
PARTS = {"ResNet-18": 5}
"""Parts of a network that are cut alike each; of the others each layer is one."""
WITHOUT_SUMMED = ("Transformer",)


@dataclass(frozen=True)
class Plan:
    """A network of some ``sizes`` on ``ranks`` ranks: a cut for each of its parts, and what else there is to choose.

    ``shards`` is the parallel optimizer's.
    """

    name: str
    network: str
    ranks: int
    sizes: Mapping[str, int]
    cuts: tuple[Cut, ...]
    shards: bool = False
    recompute: bool = False
    stages: int = 1
    micro_batches: int = 1

    @classmethod
    def alike(cls, name: str, network: str, ranks: int, sizes: Mapping[str, int], cut: Cut, **others: Any) -> Plan:
        """Return a plan in which all parts are cut alike."""
        return cls(name, network, ranks, sizes, (cut,) * part_count(network, sizes), **others)

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Plan:
        """Return the plan that ``told`` says."""
        return cls(**{**told, "cuts": tuple(tuple(cut) for cut in told["cuts"])})

    @property
    def told(self) -> dict[str, Any]:
        """The plan as values of JSON."""
        return asdict(self)


def part_count(network: str, sizes: Mapping[str, int]) -> int:
    """Return how many parts of a network are cut by themselves."""
    return PARTS.get(network) or sizes["layers"]


def memory_plans(scale: float = 1.0) -> list[Plan]:
    """Return the twelve ways whose memory is measured: hundreds of MB a rank with ``scale`` 1."""
    wide = int(1024 * scale**0.5) // 64 * 64
    encoder = {"layers": 6, "rows": 8, "length": 128, "width": wide * 3 // 4, "heads": 12}
    dense = {"layers": 8, "rows": 256, "width": 2 * wide}
    images = {"rows": max(int(64 * scale), 4), "size": 64}
    return [
        Plan.alike("1 rank", "Transformer", 1, encoder, (1, 1, 1)),
        Plan.alike("recompute", "Transformer", 1, {**encoder, "rows": 16}, (1, 1, 1), recompute=True),
        Plan.alike("data 2", "Transformer", 2, encoder, (2, 1, 1)),
        Plan.alike("model 2", "Transformer", 2, encoder, (1, 1, 2)),
        Plan.alike("data 2 x model 2", "Transformer", 4, encoder, (2, 1, 2)),
        Plan.alike("optimizer shards 2", "Transformer", 2, encoder, (2, 1, 1), shards=True),
        Plan.alike("2 stages", "Transformer", 2, encoder, (1, 1, 1), stages=2, micro_batches=4),
        Plan.alike("data 2", "MLP", 2, dense, (2, 1, 1)),
        Plan.alike("model 4", "MLP", 4, dense, (1, 2, 2)),
        Plan.alike("optimizer shards 4", "MLP", 4, dense, (4, 1, 1), shards=True),
        Plan.alike("data 2", "ResNet-18", 2, images, (2, 1, 1)),
        Plan.alike("recompute", "ResNet-18", 1, images, (1, 1, 1), recompute=True),
    ]


TIMED_SIZES: Mapping[str, Mapping[str, int]] = {
    "MLP": {"layers": 6, "rows": 512, "width": 1024},
    "Transformer": {"layers": 4, "rows": 8, "length": 64, "width": 512, "heads": 8},
    "ResNet-18": {"rows": 16, "size": 64},
}


def timed_plans(network: str, ranks: int, count: int, seed: int = 18) -> list[Plan]:
    """Return different ways to train a network: each cut for all parts, then cuts drawn for each part."""
    sizes = TIMED_SIZES[network]
    cuts = list(_cuts(ranks, network not in WITHOUT_SUMMED))
    found = [Plan.alike(_name((cut,)), network, ranks, sizes, cut) for cut in cuts]
    whole = [plan for plan in found if np.prod(plan.cuts[0]) == ranks]
    draw = np.random.default_rng(seed)
    while len(whole) < count:
        chosen = tuple(cuts[index] for index in draw.integers(0, len(cuts), part_count(network, sizes)))
        if chosen not in [plan.cuts for plan in whole]:
            whole.append(Plan(_name(chosen), network, ranks, sizes, chosen))
    return whole[:count]


def _cuts(ranks: int, summed: bool) -> Iterator[Cut]:
    """Yield all cuts of dims into powers of two, with as many parts as ranks or half as many."""
    powers = [1 << place for place in range(ranks.bit_length()) if 1 << place <= ranks]
    for rows in powers:
        for inner in powers if summed else [1]:
            for columns in powers:
                if ranks // 2 <= rows * inner * columns <= ranks:
                    yield rows, inner, columns


def _name(cuts: tuple[Cut, ...]) -> str:
    return " ".join("x".join(map(str, cut)) for cut in cuts)
