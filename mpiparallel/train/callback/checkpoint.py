"""Checkpoints between steps."""

from __future__ import annotations

import time
from itertools import takewhile
from pathlib import Path

import numpy as np

from mpiparallel.backend.collector_pause import collector_paused
from mpiparallel.checkpoint.catalogue import remove_files
from mpiparallel.checkpoint.files.durable_file import write_durably
from mpiparallel.checkpoint.manifest import checkpoint_name
from mpiparallel.checkpoint.saving import ShardSave
from mpiparallel.checkpoint.shard_places import ShardPlaces
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import CheckpointError, ConfigurationError, ReshardError
from mpiparallel.train.callback.callback import Callback, CallbackParameters, RunContext
from mpiparallel.train.callback.checkpoint_config import CheckpointConfig
from mpiparallel.train.callback.checkpoint_content import CheckpointContent, Content
from mpiparallel.train.callback.checkpoint_folder import CheckpointFolder
from mpiparallel.train.object_collectives import world_or_alone
from mpiparallel.train.persistence.asynchronous_save import AsynchronousSave


class ModelCheckpoint(Callback):
    """Save the state of the training as one HDF5 shard a rank: ``<directory>/rank_<r>/<prefix>-<epoch>_<step>.h5``.

    ``step`` is that in the epoch. A checkpoint counts once ``<directory>/<prefix>-<epoch>_<step>.manifest.json`` is
    written, after all shards. What is not committed when an error ends the training is deleted.

    Where the folder has checkpoints of the prefix from an earlier run, the prefix becomes ``<prefix>_1`` and so on, on
    all ranks alike. A training that ``Model.resume`` has taken from there goes on under the prefix that it had, after
    deleting its shards that were never committed. Where the context asks for rank 0's strategy and group files, they
    are copied beside the manifest as ``<prefix>-<epoch>_<step>.<name>``. So a later training that is cut otherwise
    leaves them alone. ``last_checkpoint`` is the file with this rank's slices in the newest checkpoint,
    ``last_manifest`` its manifest.

    Parameters
    ----------
    prefix : str
        With which names of files begin.
    directory : str or Path, optional
        The same for all ranks, "checkpoints" unless given; one that ends in ``rank_<r>``, with the rank's number, means
        the folder above. Or each rank names its own, like ``ckpt_<r>``, or works in a folder of its own. Then its
        shards are in that folder itself, and the manifest in the one above them all.
    config : CheckpointConfig, optional
        When it saves, and what.

    Raises
    ------
    CheckpointError
        In a training, on all ranks, with who failed and why, if a checkpoint cannot be saved. With
        ``CheckpointConfig(on_error="warn")`` it is not raised. What was committed before is as it was.

    Examples
    --------
    >>> from mpiparallel import Model, nn
    >>> from mpiparallel.dataset import NumpySlicesDataset
    >>> data = NumpySlicesDataset(([[1.0]] * 2, [[2.0]] * 2), ["x", "y"], shuffle=False).batch(1)
    >>> network = nn.Dense(1, 1, weight_init="zeros").to_float("float64")
    >>> model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.25))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = ModelCheckpoint("line", folder)
    ...     model.train(1, data, checkpoint, dataset_sink_mode=False)
    ...     checkpoint.last_checkpoint.name
    'line-1_2.h5'
    """

    on_all_ranks = True

    def __init__(
        self, prefix: str = "CKP", directory: str | Path | None = None, config: CheckpointConfig | None = None
    ) -> None:
        checkpoint_name(prefix, 1, 1)
        self._config = config or CheckpointConfig()
        self._folder = CheckpointFolder(directory, prefix)
        self._content = CheckpointContent(self._config)
        self._is_placed = False
        self._last_step = self._begun_step = 0
        self._committed_step = -1
        self._last_time = time.monotonic()
        self._asynchronous = AsynchronousSave()
        self._pending: tuple[Path, Communicator, ShardSave] | None = None
        self._lost: frozenset[str] = frozenset()
        self._copies: list[Path] = []
        self.last_checkpoint: Path | None = None
        self.last_manifest: Path | None = None

    @property
    def latest_ckpt_file_name(self) -> str:
        """``last_checkpoint`` as text, empty before the first; MindSpore's name."""
        return str(self.last_checkpoint or "")

    @property
    def committed(self) -> tuple[Path, str] | None:
        """Folder and prefix of its checkpoints once one of them is committed."""
        return None if self.last_manifest is None else (self._folder.path, self._folder.prefix)

    @property
    def _places(self) -> ShardPlaces:
        return ShardPlaces(self._folder.folders, self._config.format)

    def begin(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        self._last_step, self._last_time = parameters.cur_step_num, time.monotonic()
        self._begun_step = self._last_step
        if not self._is_placed and not parameters.joins:
            self._place(parameters)
        elif not parameters.joins:
            self._folder.claim(world_or_alone())
        self._is_placed = True

    def _place(self, parameters: CallbackParameters) -> None:
        communicator, resumed = world_or_alone(), parameters.resumed
        if parameters.device_number != communicator.size:
            raise ConfigurationError(
                f"ModelCheckpoint: {communicator.size} ranks train networks of {parameters.device_number} devices "
                f"(parallel_mode {parameters.parallel_mode!r}); set parallel_mode so that they train one together"
            )
        self._folder.place(communicator)
        self._folder.claim(communicator)
        if resumed is not None and self._folder.take_resumed(resumed.folder, resumed.prefix):
            self._lost = frozenset(resumed.lost)
            self._folder.clear(communicator)
        else:
            self._folder.take_unused(communicator)
        self._check_alone(parameters)

    def _check_alone(self, parameters: CallbackParameters) -> None:
        """Raise ConfigurationError where an earlier callback saves under the same names: one would undo the other's."""
        for callback in takewhile(lambda callback: callback is not self, parameters.list_callback):
            if isinstance(callback, ModelCheckpoint) and callback._folder.is_that_of(self._folder):
                raise ConfigurationError(
                    f"ModelCheckpoint: two of them save in {self._folder.path} under the prefix "
                    f"{self._folder.prefix!r}; give one of them another prefix"
                )

    def resharding(self, run_context: RunContext) -> None:
        # The ranks that have written it may never meet again.
        self._finish(run_context.original_args())

    def resharded(self, run_context: RunContext) -> None:
        # A rank that has joined knows neither which number was free on the others, nor when they have saved.
        joined = run_context.original_args().joins
        known = np.array([0, 0] if joined else [self._folder.number, self._last_step], np.int64)
        world_or_alone().all_reduce(known, "max")
        self._folder.number, self._last_step = known.tolist()
        self._folder.place(world_or_alone())
        self._folder.claim(world_or_alone())
        self._last_step = min(self._last_step, run_context.original_args().cur_step_num)

    def retired(self, run_context: RunContext) -> None:
        self._folder.release()

    def ranks_lost(self, run_context: RunContext) -> None:
        self._abandon()
        # What was being saved is not, so it is due again.
        self._last_step = max(self._committed_step, min(self._begun_step, self._last_step))

    def step_end(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        if self._pending is not None and not self._pending[1].any_true(self._asynchronous.is_writing):
            self._finish(parameters)
        if self._due(parameters.cur_step_num):
            self._save(parameters)

    def end(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        if parameters.cur_step_num > self._last_step:
            self._save(parameters)
        self._finish(parameters)
        self._folder.release()

    def preempted(self, run_context: RunContext) -> None:
        self.end(run_context)
        if self._committed_step >= 0:
            run_context.report_saved(self._committed_step, self.last_manifest or self._folder.path)

    def broken_off(self, run_context: RunContext) -> None:
        self._abandon()
        self._folder.release()

    def _abandon(self) -> None:
        self._pending = None
        self._asynchronous.abandon()
        self._drop_copies()

    def _drop_copies(self) -> None:
        copies, self._copies = self._copies, []
        remove_files(copies)

    def _due(self, step: int) -> bool:
        if self._config.save_checkpoint_seconds:
            elapsed = time.monotonic() - self._last_time
            return world_or_alone().any_true(elapsed >= self._config.save_checkpoint_seconds)
        return 0 < self._config.save_checkpoint_steps <= step - self._last_step

    @collector_paused()
    def _save(self, parameters: CallbackParameters) -> None:
        # A loss that is not finite is refused before its weights are saved.
        parameters.settle()
        self._finish(parameters)
        self._last_step, self._last_time = parameters.cur_step_num, time.monotonic()
        communicator = world_or_alone()
        try:
            self._folder.hold(communicator)
            name = checkpoint_name(self._folder.prefix, parameters.cur_epoch_num, parameters.step_in_epoch)
            if self._has(name, parameters.cur_step_num, communicator):
                self._committed_step = self._last_step
                return
            state = self._content.of(parameters, communicator)
            save = self._begun(name, state, parameters, communicator)
            path = self._folder.path / self._places.file(name, 0) if self._config.integrated_save else save.path
            if self._config.async_save:
                self._asynchronous.start(save, state.arrays)
                self._pending = path, communicator, save
                return
            save.write(state.arrays)
            save.commit()
            self._committed(save, path, communicator)
        except (CheckpointError, ReshardError) as error:
            self._fail(error, parameters)

    def _begun(
        self, name: str, state: Content, parameters: CallbackParameters, communicator: Communicator
    ) -> ShardSave:
        """Agree with all ranks on a save, and copy what belongs to it of rank 0's files.

        Copies, because a later training that is cut otherwise writes other files of these names.
        """
        configuration = current_configuration()
        files = [configuration.strategy_save_file, configuration.group_info_file] if communicator.rank == 0 else []
        copies = self._folder.companions(name, files)
        save = ShardSave(
            self._folder.path,
            self._folder.prefix,
            parameters.cur_epoch_num,
            parameters.step_in_epoch,
            state.layouts,
            communicator,
            state.training,
            self._config.remove_redundancy,
            list(copies),
            self._places,
        )
        self._copies = list(copies)
        with failing_together(communicator, CheckpointError):
            for copy, source in copies.items():
                self._folder.path.mkdir(parents=True, exist_ok=True)
                write_durably(copy, source.read_bytes())
        return save

    def _has(self, name: str, step: int, communicator: Communicator) -> bool:
        """Return whether this very step is committed already; one of the name that was lost is deleted."""
        if communicator.any_true(name in self._lost):
            self._folder.discard([name], communicator)
            self._lost -= {name}
        return communicator.any_true(communicator.rank == 0 and self._folder.has(name, step))

    def _finish(self, parameters: CallbackParameters) -> None:
        """Commit what a thread writes, or has written, if there is any."""
        if self._pending is None:
            return
        (path, communicator, save), self._pending = self._pending, None
        try:
            self._asynchronous.commit(communicator)
            self._committed(save, path, communicator)
        except CheckpointError as error:
            self._fail(error, parameters)

    def _committed(self, save: ShardSave, path: Path, communicator: Communicator) -> None:
        self._copies = []
        manifest = save.manifest_path
        self.last_checkpoint, self.last_manifest, self._committed_step = path, manifest, self._last_step
        self._folder.take_committed(save.files)
        minutes = self._config.keep_checkpoint_per_n_minutes
        try:
            self._folder.prune(int(self._config.keep_checkpoint_max), minutes, self._lost, communicator)
        except CheckpointError as error:
            if self._config.on_error == "raise":
                raise
            if communicator.rank == 0:
                print(f"ModelCheckpoint: {manifest} is saved, but older ones cannot be deleted: {error}", flush=True)

    def _fail(self, error: CheckpointError | ReshardError, parameters: CallbackParameters) -> None:
        self._drop_copies()
        if self._config.on_error == "raise":
            raise error
        if parameters.rank == 0:
            print(f"ModelCheckpoint: no checkpoint of step {self._last_step}; training goes on: {error}", flush=True)
