"""Where ranks save that were given one folder for all of them, or each a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mpiparallel.checkpoint.catalogue import below, root_of
from mpiparallel.checkpoint.files.regular_file import from_root
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ConfigurationError
from mpiparallel.train.object_collectives import all_gather_object, broadcast_object, world_or_alone

DEFAULT_FOLDER: Final = "checkpoints"
"""Where ranks save that work in one folder and name none."""


def folder_of(directory: str | Path, rank: int | None = None) -> Path:
    """Return the folder of the checkpoints of all ranks: one named after the rank means the folder above it.

    >>> folder_of("checkpoints/rank_0").name
    'checkpoints'
    """
    path = Path(directory)
    own = world_or_alone().rank if rank is None else rank
    return path.parent if path.name == f"rank_{own}" else path


def rank_folders(
    directory: str | Path | None, communicator: Communicator, known: Path | None = None
) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of the manifests, and below it that of each rank; none where these are ``rank_<r>``.

    Where all ranks name one folder, that has the manifests. Each may name its own, such as ``ckpt_<rank>``, or work in
    its own and name none. Then it is the folder that is above all of them. ``known`` is that folder, on ranks that know
    it. All ranks call it together; raises ConfigurationError on all of them where they have no folder in common.
    """
    # The folder of the process, not links resolved: they may lead elsewhere on other hosts.
    own = str(from_root(directory)) if directory else None
    said = all_gather_object([own, str(Path.cwd()), str(known) if known else None], communicator)
    working = [folder for _, folder, _ in said]
    default = Path(DEFAULT_FOLDER if len(set(working)) == 1 else "")
    named = [given or str(Path(folder) / default) for given, folder, _ in said]
    shared = {str(folder_of(folder, rank)) for rank, folder in enumerate(named)}
    roots = [root for _, _, root in said if root]
    if len(shared) == 1:
        # As it was written, where it was: so it stands in messages.
        return (Path(roots[0]) if roots and not directory else folder_of(directory or default)), ()
    if len(set(named)) < len(named):
        named = [str(Path(folder) / f"rank_{rank}") for rank, folder in enumerate(named)]
    root = str(from_root(roots[0])) if roots else os.path.commonpath(named)
    if root == os.path.sep:
        raise ConfigurationError(
            f"ModelCheckpoint: rank 0 saves in {named[0]}, rank {len(named) - 1} in {named[-1]}, and no folder is "
            "above both; give ranks folders below one, or all the same: each makes a folder rank_<r> in it"
        )
    return Path(root), tuple(_below(folder, root, rank) for rank, folder in enumerate(named))


def _below(folder: str, root: str, rank: int) -> str:
    """Return the path of a rank's folder from ``root``; ``rank_<r>`` for one that is not there, or of another rank."""
    path = os.path.relpath(folder, root)
    if path.startswith(os.path.pardir) or (path.startswith("rank_") and path != f"rank_{rank}" and os.sep not in path):
        return f"rank_{rank}"
    return path


def saved_folder(directory: str | Path, communicator: Communicator) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of the manifests of what was saved in ``directory``, by whichever ranks; all call it together.

    ``directory`` may be that folder, or on each rank the own one in which it has saved. Then these come too, as paths
    in it: of other trainings manifests may lie there.
    """
    root, own = rank_folders(directory, communicator)
    if not own or not any(root.glob(f"*{MANIFEST_SUFFIX}")):
        given = folder_of(directory)
        root = root_of(given)
        own = below(root, given)
    # The folder of rank 0 may be above the others'.
    folders = tuple(folder for folder in own if folder != ".")
    said = broadcast_object([str(root), list(folders)], communicator)
    return Path(said[0]), tuple(said[1])
