"""Whose slices a converted file has: told in the file, so that no other rank takes them for its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mpiparallel.checkpoint.files.array_file import Attribute

_RANK: Final = "rank"
_RANKS: Final = "ranks"
_OF_A_SHARD: Final = frozenset({"prefix", "epoch", "step", _RANK})


class FileOwner(NamedTuple):
    """The file is for ``rank`` of ``ranks``."""

    rank: int
    ranks: int

    @property
    def attributes(self) -> dict[str, Attribute]:
        """What is written in the file."""
        return {_RANK: self.rank, _RANKS: self.ranks}


def owner_in(attributes: Mapping[str, Any]) -> FileOwner | None:
    """Return whose file it is by its attributes, which some formats keep as texts; None where it does not tell.

    >>> owner_in(FileOwner(1, 4).attributes), owner_in({"rank": "1", "ranks": "4"}), owner_in({"rank": 1})
    (FileOwner(rank=1, ranks=4), FileOwner(rank=1, ranks=4), None)
    """
    told = [str(attributes.get(name)) for name in (_RANK, _RANKS)]
    if not all(text.isascii() and text.isdigit() for text in told):
        return None
    return FileOwner(*map(int, told))


def told_of_itself(attributes: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of what a shard of a training or a converted file tells of itself, not of what was saved.

    >>> sorted(told_of_itself({"rank": 1, "ranks": 4, "note": "a"})), sorted(told_of_itself({"rank": 1, "note": "a"}))
    (['rank', 'ranks'], [])
    """
    of_shard = _OF_A_SHARD if attributes.keys() >= _OF_A_SHARD else frozenset()
    owner = owner_in(attributes)
    return of_shard if owner is None else of_shard | owner.attributes.keys()
