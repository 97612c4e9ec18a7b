"""The shard of one rank in the folder of a checkpoint: equal for all who write it, so that it can be written again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import NamedArrays
from mpiparallel.checkpoint.files.digested_file import write_committed
from mpiparallel.checkpoint.files.durable_file import clear_partial, make_folder, remove_irregular, sync_folder
from mpiparallel.checkpoint.files.regular_file import check_folder
from mpiparallel.checkpoint.manifest import checkpoint_name
from mpiparallel.checkpoint.manifest_entries import shard_file
from mpiparallel.checkpoint.shard.writer import WrittenShard
from mpiparallel.errors import CheckpointError

ShardIdentity = tuple[str, int, int]


def write_rank_shard(
    folder: Path,
    identity: ShardIdentity,
    rank: int,
    specs: Mapping[str, TensorSpec],
    arrays: NamedArrays,
    clears: bool = False,
    file: str | None = None,
) -> WrittenShard:
    """Write what ``rank`` holds of the checkpoint of this prefix, epoch and step; see ``write_shard``.

    ``file`` is where in ``folder``, by default ``shard_file``; its suffix is the format. The folder of the rank is made
    where it is missing, its name on disk. ``clears`` deletes what killed writers have left there: only for one who
    knows that nobody else writes.
    """
    prefix, epoch, step = identity
    path = folder / (file or shard_file(checkpoint_name(prefix, epoch, step), rank))
    try:
        make_folder(path.parent)
        check_folder(path.parent)
        # A job that was killed may have made them, and not come to this.
        for made in (path.parent.parent, folder, folder.parent):
            sync_folder(made)
        if clears:
            clear_partial(path.parent)
        remove_irregular(path)
    except OSError as error:
        raise CheckpointError(f"{path.parent}: cannot be made ({error}); name a folder that can be written") from error
    return write_committed(path, specs, arrays, {"prefix": prefix, "epoch": epoch, "step": step, "rank": rank})
