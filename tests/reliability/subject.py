"""What is under test, in a few words: the calls of the package that every test here makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mpiparallel.checkpoint.catalogue import catalogue
from mpiparallel.checkpoint.loading.load import load_state
from mpiparallel.checkpoint.maintenance.verification import verify
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.layout import Layout
from tests.reliability.states import State, differing, held, layouts

PREFIX = "net"
EPOCH = 1


def save(
    communicator: Communicator,
    folder: Path,
    state: State,
    step: int,
    remove_redundancy: bool = False,
    companions: Sequence[Path] = (),
) -> Path:
    """Save ``state`` as it is at ``step``; every rank calls it. Returns the path of the manifest."""
    arrays = held(state, communicator.rank, step)
    return save_shards(
        folder,
        PREFIX,
        EPOCH,
        step,
        arrays,
        layouts(state),
        communicator,
        {"step": step},
        remove_redundancy=remove_redundancy,
        companions=companions,
    )


def saved(folder: Path, ranks: int, state: State, step: int, *options: Any) -> Manifest:
    """Save ``state`` on thread ranks, with the options of ``save``; return the manifest."""
    return Manifest.load(run_world(ranks, save, folder, state, step, *options)[0])


def steps_in(folder: Path) -> dict[int, Manifest]:
    """Return the checkpoints that count, by step. A manifest that cannot be read fails the test."""
    entries = catalogue(folder)
    problems = [entry.problem for entry in entries if entry.manifest is None]
    assert not problems, f"{folder}: committed, but not readable: {problems}"
    return {entry.manifest.step: entry.manifest for entry in entries if entry.manifest is not None}


def load(
    communicator: Communicator, folder: Path, manifest: Manifest, wanted: Mapping[str, Layout]
) -> dict[str, NDArray[Any]]:
    """Return what this rank has of a checkpoint in ``folder``, laid out as ``wanted``; every rank calls it."""
    with StoredState.of_manifest(folder, manifest) as stored:
        return load_state(stored, wanted, communicator)


def wrong_arrays(folder: Path, manifest: Manifest, ranks: int, state: State) -> list[str]:
    """Load a checkpoint on thread ranks, as it was saved; return the names that any rank gets other than saved."""
    found = run_world(ranks, load, folder, manifest, layouts(state))
    return sorted({name for rank in range(ranks) for name in differing(found[rank], held(state, rank, manifest.step))})


def load_sound(folder: Path, name: str, ranks: int, state: State) -> str:
    """Load checkpoint ``name`` on thread ranks. Returns "" where all is right to the bit, else why it was refused.

    Arrays that are other than saved, and errors of any other class, fail the test.
    """
    try:
        manifest = Manifest.load(folder / f"{name}{MANIFEST_SUFFIX}")
        wrong = wrong_arrays(folder, manifest, ranks, state)
    except CheckpointError as error:
        return str(error)
    assert not wrong, f"SILENT: {wrong} are loaded, and are wrong"
    return ""


def complaints(folder: Path, name: str) -> list[str]:
    """Return what is wrong with the files of checkpoint ``name``, each with the path of the file."""
    try:
        manifest = Manifest.load(folder / f"{name}{MANIFEST_SUFFIX}")
    except CheckpointError as error:
        return [str(error)]
    return [f"{folder}/{problem}" for problem in verify(folder, manifest).problems]
