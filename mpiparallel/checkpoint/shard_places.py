"""Where the ranks of a checkpoint have their shards, below its folder."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from mpiparallel.dataclass import dataclass

SHARD_FORMATS: Final = ("h5", "ckpt", "safetensors")
"""The formats that shards may have."""

_RANK_FOLDER: Final = re.compile(r"rank_(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class ShardPlaces:
    """The folder of each rank, as a path in the checkpoint's folder, and the format of the shards.

    Without ``folders`` each rank has ``rank_<r>``.

    >>> ShardPlaces().file("net-1_77", 3), ShardPlaces(("ckpt_0", "ckpt_1"), "ckpt").file("net-1_77", 1)
    ('rank_3/net-1_77.h5', 'ckpt_1/net-1_77.ckpt')
    """

    folders: tuple[str, ...] = ()
    format: str = "h5"

    def file(self, name: str, rank: int) -> str:
        """Return where the checkpoint ``name`` has the shard of ``rank``."""
        folder = self.folders[rank] if self.folders else f"rank_{rank}"
        return str(PurePosixPath(folder) / f"{name}.{self.format}")


IN_RANK_FOLDERS: Final = ShardPlaces()
"""Where shards are unless somebody says otherwise."""


def is_shard_of(file: str, name: str, rank: int) -> bool:
    """Return whether ``file`` may be the shard of ``rank`` of the checkpoint ``name``.

    >>> [is_shard_of(f"{folder}/a-1_2.h5", "a-1_2", 3) for folder in ("rank_3", "ckpt", "rank_2")]
    [True, True, False]
    """
    path = PurePosixPath(file)
    match = _RANK_FOLDER.fullmatch(str(path.parent))
    return path.name in {f"{name}.{format_}" for format_ in SHARD_FORMATS} and (match is None or int(match[1]) == rank)
