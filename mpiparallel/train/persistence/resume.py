"""Going on with a training from its newest checkpoint, on any ranks and any cut.

>>> import tempfile
>>> from mpiparallel import Model, nn
>>> from mpiparallel.dataset import NumpySlicesDataset
>>> from mpiparallel.train import CheckpointConfig, ModelCheckpoint
>>> def job(epochs, folder):
...     data = NumpySlicesDataset((np.ones((12, 3)), np.ones((12, 1))), ["x", "y"]).batch(6)
...     network = nn.Dense(3, 1).to_float("float64")
...     model = Model(network, nn.MSELoss(), nn.Adam(network.trainable_params()))
...     found = model.resume(folder, data)
...     model.train(epochs, data, ModelCheckpoint("line", folder, CheckpointConfig(1)))
...     return found and found.step, model.step
>>> with tempfile.TemporaryDirectory() as folder:  # doctest: +ELLIPSIS
...     job(1, folder), job(3, folder)
Model.resume: ... has no checkpoint, so the training begins at its beginning
((None, 2), (2, 6))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.collector_pause import collector_paused
from mpiparallel.backend.freed_memory import give_back_freed_memory
from mpiparallel.checkpoint.catalogue import catalogue
from mpiparallel.checkpoint.loading.new_arrays import LackOfMemoryError
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError
from mpiparallel.train.object_collectives import broadcast_object
from mpiparallel.train.persistence.refilled_parameters import overwritable
from mpiparallel.train.persistence.state import misfit, parameters_in, read_state, take_state
from mpiparallel.train.persistence.training_record import TrainingRecord

_SHOWN = 4


@dataclass(frozen=True)
class Resumption:
    """From where a training goes on: the checkpoint ``name`` in ``folder``, and what it took to load it.

    ``step`` counts all steps, ``epoch`` and ``step_in_epoch`` from 1 on; ``ranks`` had saved it. ``lost`` are newer
    checkpoints, by name, that could not be read, with the reason. ``replaced`` are the ranks whose slices were read
    from replicas, with what is wrong with their files. ``differences`` are what is other here than it was there, and
    ``missing`` the parameters that were not in it: nothing of both unless ``strict=False``.
    """

    folder: Path
    prefix: str
    name: str
    step: int
    epoch: int
    step_in_epoch: int
    ranks: int
    lost: Mapping[str, str]
    replaced: Mapping[int, str]
    differences: tuple[str, ...]
    missing: tuple[str, ...]

    def __str__(self) -> str:
        saved_by = "1 rank" if self.ranks == 1 else f"{self.ranks} ranks"
        return f"{self.folder / self.name}: step {self.step}, saved by {saved_by}"


@collector_paused()
def resume(
    folder: Path,
    prefix: str | None,
    staged: StagedGraph,
    facts: Mapping[str, Any],
    strict: bool,
    communicator: Communicator,
    own_folders: tuple[str, ...] = (),
) -> Resumption | None:
    """Load the newest checkpoint in ``folder`` that can be read into a compiled network; None where there is none.

    With ``own_folders``, those of ranks below it, only what their training has saved counts. All ranks call it
    together. Raises CheckpointError on all of them, before anything is changed, for a checkpoint of another network.
    With ``strict`` it does so for one of a training with other ``facts`` too. It also does so if no checkpoint can be
    read though there are some.
    """
    lost: dict[str, str] = {}
    for name, problem, read in _candidates(folder, own_folders, prefix, communicator):
        if problem:
            lost[name] = problem
            _say(f"{folder / name} cannot be read: {problem}", communicator)
            continue
        with _in_own_words(), failing_together(communicator, CheckpointError):
            manifest = read or Manifest.load(folder / f"{name}{MANIFEST_SUFFIX}")
            record, differences, missing = _checked(manifest, folder, staged, facts, strict)
        try:
            arrays, replaced = _read(folder, manifest, record, staged, communicator)
        except LackOfMemoryError:
            # Nothing is wrong with the checkpoint: an older one would not fit either.
            raise
        except CheckpointError as error:
            lost[name] = str(error)
            _say(f"{folder / name} cannot be read, going back to an older one: {error}", communicator)
            continue
        take_state(staged, arrays)
        del arrays
        give_back_freed_memory()
        position = record.step, record.epoch, record.step_in_epoch, record.ranks
        found = Resumption(folder, manifest.prefix, name, *position, lost, replaced, differences, missing)
        if lost or replaced or differences or missing:
            _say(_describe(found), communicator)
        return found
    if lost:
        listed = "; ".join(f"{name}: {problem}" for name, problem in list(lost.items())[:_SHOWN])
        raise CheckpointError(f"{folder}: none of {len(lost)} checkpoints can be read: {listed}")
    # Else a folder with a slip in its name would go unnoticed.
    where = folder / own_folders[0] if own_folders else folder
    _say(f"{where} has no checkpoint, so the training begins at its beginning", communicator)
    return None


@contextmanager
def _in_own_words() -> Iterator[None]:
    """Let what all ranks find wrong alike be said once."""
    try:
        yield
    except CheckpointError as error:
        if error.__cause__ is None:
            raise
        raise CheckpointError(str(error.__cause__)) from error


def _candidates(
    folder: Path, own_folders: tuple[str, ...], prefix: str | None, communicator: Communicator
) -> Iterator[tuple[str, str, Manifest | None]]:
    """Yield the names of the checkpoints as rank 0 finds them, the newest first, and what is wrong with its manifest.

    Those with a damaged manifest come before all: they do not say how old they are. Rank 0 has read the others.
    """
    found: list[tuple[str, str]] = []
    read: dict[str, Manifest | None] = {}
    with failing_together(communicator, CheckpointError):
        if communicator.rank == 0 and folder.exists():
            entries = catalogue(folder, prefix, own_folders)[::-1]
            read = {entry.name: entry.manifest for entry in entries}
            found = [(entry.name, entry.problem) for entry in sorted(entries, key=lambda entry: not entry.problem)]
    for name, problem in broadcast_object(found, communicator):
        yield name, problem, read.pop(name, None)


def _checked(
    manifest: Manifest, folder: Path, staged: StagedGraph, facts: Mapping[str, Any], strict: bool
) -> tuple[TrainingRecord, tuple[str, ...], tuple[str, ...]]:
    """Return where the training stood, what differs here, and what the checkpoint lacks.

    Raises CheckpointError where it does not fit.
    """
    where = folder / f"{manifest.name}{MANIFEST_SUFFIX}"
    try:
        record = TrainingRecord.of_json(manifest.training)
    except CheckpointError as error:
        raise CheckpointError(f"{where}: {error}") from error
    here = parameters_in(staged)
    stored = manifest.tensors.keys() - record.appended
    missing, besides = sorted(here.keys() - stored), sorted(stored - here.keys())
    if strict and (missing or besides):
        raise CheckpointError(
            f"{where}: lacks {_listed(missing)} and has {_listed(besides)} besides; load the network and the optimizer "
            "that were saved, or resume with strict=False"
        )
    unfit = misfit(manifest.tensors, staged, record.own, strict)
    if unfit:
        raise CheckpointError(f"{where}: {'; '.join(unfit[:_SHOWN])}; load the network that was saved")
    differences = record.differences(facts)
    if strict and differences:
        raise CheckpointError(
            f"{where}: the training would not go on as it was: {'; '.join(differences)}; make it as it was, or resume "
            "with strict=False"
        )
    return record, tuple(differences), tuple(missing)


def _read(
    folder: Path, manifest: Manifest, record: TrainingRecord, staged: StagedGraph, communicator: Communicator
) -> tuple[dict[str, NDArray[Any]], dict[int, str]]:
    """Return what this rank holds of the tensors, and for whom others stood in on any rank."""
    here = parameters_in(staged)
    names = sorted(here.keys() & manifest.tensors.keys() - record.appended)
    # Optimizer states are most of a training: beside a second copy of them it might not fit.
    given = overwritable({name: here[name] for name in names if not here[name].is_elsewhere})
    with StoredState.of_manifest(folder, manifest) as state, given as into:
        arrays = read_state(state, staged, names, record.own, communicator, into)
        return arrays, _known_to_all(state.replaced, manifest.rank_count, communicator)


def _known_to_all(replaced: Mapping[int, str], ranks: int, communicator: Communicator) -> dict[int, str]:
    """Return whose files were passed over on some rank; why, as far as this rank knows."""
    passed_over = np.zeros(ranks, np.int64)
    passed_over[list(replaced)] = 1
    communicator.all_reduce(passed_over, "max")
    unknown = "its file was passed over on another rank"
    return {rank: replaced.get(rank, unknown) for rank in np.flatnonzero(passed_over).tolist()}


def _describe(found: Resumption) -> str:
    told = [f"resumed from {found}"]
    if found.replaced:
        reasons = "; ".join(f"rank {rank}: {problem}" for rank, problem in list(found.replaced.items())[:_SHOWN])
        told.append(f"replicas stand in for {len(found.replaced)} files ({reasons})")
    told += [f"other than it was: {difference}" for difference in found.differences]
    if found.missing:
        told.append(f"not in it, and left as they are: {_listed(found.missing)}")
    return "; ".join(told)


def _say(words: str, communicator: Communicator) -> None:
    if communicator.rank == 0:
        print(f"Model.resume: {words}", flush=True)


def _listed(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more if names else "nothing"
