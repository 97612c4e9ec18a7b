"""Checkpoints between steps."""

from __future__ import annotations

import glob
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpiparallel.checkpoint.shards import save_shards, shard_path
from mpiparallel.communication import world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone
from mpiparallel.errors import ConfigurationError
from mpiparallel.train.callback.callback import Callback, CallbackParameters, RunContext
from mpiparallel.train.state import state_of


@dataclass(frozen=True)
class CheckpointConfig:
    """When checkpoints are saved: every so many steps, or every so many seconds where these are set.

    ``keep_checkpoint_max`` is how many are kept, the newest always. Every rank saves its own slices;
    ``integrated_save`` (merging them before saving) is not implemented yet and must be False where parameters are cut.
    """

    save_checkpoint_steps: int = 1
    save_checkpoint_seconds: int = 0
    keep_checkpoint_max: int = 5
    integrated_save: bool = False

    def __post_init__(self) -> None:
        if self.integrated_save:
            raise ConfigurationError(
                "CheckpointConfig: integrated_save=True is not implemented yet; use False, each rank saves its slices"
            )
        if min(self.save_checkpoint_steps, self.save_checkpoint_seconds, self.keep_checkpoint_max) < 0:
            raise ConfigurationError("CheckpointConfig: steps, seconds and keep_checkpoint_max must be at least 0")


class ModelCheckpoint(Callback):
    """Save the state of the training as one HDF5 shard a rank: ``<directory>/rank_<r>/<prefix>-<epoch>_<step>.h5``.

    A checkpoint counts once its manifest is written, after all shards. Where the folder has shards of the prefix from
    an earlier run, the prefix becomes ``<prefix>_1`` and so on, on all ranks alike. ``last_checkpoint`` is the path of
    this rank's newest shard.
    """

    def __init__(
        self, prefix: str = "CKP", directory: str | None = None, config: CheckpointConfig | None = None
    ) -> None:
        self._prefix = prefix
        self._number = 0
        self._directory = Path(directory or "checkpoints")
        self._config = config or CheckpointConfig()
        self._last_step = 0
        self._last_time = time.monotonic()
        self._saved: list[Path] = []

    @property
    def last_checkpoint(self) -> Path | None:
        """The path of this rank's newest shard; None before the first."""
        return self._saved[-1] if self._saved else None

    def begin(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        self._last_step, self._last_time = parameters.cur_step_num, time.monotonic()
        if not self._saved and not parameters.joins:
            self._number = _unused_number(self._directory, self._prefix, _world())

    def resharded(self, run_context: RunContext) -> None:
        # A rank that has joined knows neither which number was free on the others, nor when they have saved.
        joined = run_context.original_args().joins
        known = np.array([0, 0] if joined else [self._number, self._last_step], np.int64)
        _world().all_reduce(known, "max")
        self._number, self._last_step = known.tolist()

    def step_end(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        if self._due(parameters.cur_step_num):
            self._save(parameters)

    def end(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        if parameters.cur_step_num > self._last_step:
            self._save(parameters)

    def _due(self, step: int) -> bool:
        if self._config.save_checkpoint_seconds:
            return _world().any_true(time.monotonic() - self._last_time >= self._config.save_checkpoint_seconds)
        return 0 < self._config.save_checkpoint_steps <= step - self._last_step

    def _save(self, parameters: CallbackParameters) -> None:
        self._last_step, self._last_time = parameters.cur_step_num, time.monotonic()
        arrays, layouts = state_of(parameters.sharded)
        epoch, step, communicator = parameters.cur_epoch_num, parameters.step_in_epoch, _world()
        position = {"step": parameters.cur_step_num, "epoch": epoch}
        prefix = _numbered(self._prefix, self._number)
        save_shards(self._directory, prefix, epoch, step, arrays, layouts, communicator, position)
        self._saved.append(shard_path(self._directory, communicator.rank, prefix, epoch, step))
        while len(self._saved) > max(self._config.keep_checkpoint_max, 1):
            self._saved.pop(0).unlink(missing_ok=True)


def _world() -> Communicator:
    return world.current() if world.initialised() else alone()


def _unused_number(directory: Path, prefix: str, communicator: Communicator) -> int:
    """Return the lowest number with which no rank has shards of the prefix."""
    number = np.zeros((), np.int64)
    folder = directory / f"rank_{communicator.rank}"
    while any(folder.glob(f"{glob.escape(_numbered(prefix, int(number)))}-*.h5")):
        number += 1
    communicator.all_reduce(number, "max")
    return int(number)


def _numbered(prefix: str, number: int) -> str:
    return f"{prefix}_{number}" if number else prefix
