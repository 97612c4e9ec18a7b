"""Model: train, evaluate and predict with a network (MindSpore's ``Model``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import Any

import numpy as np

from mpiparallel.communication import world
from mpiparallel.context.settings import current_configuration, get_auto_parallel_context
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import ConfigurationError, DatasetError
from mpiparallel.graph.program import Profile
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.tensor_spec import TensorSpec
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.sharded_graph import ShardedGraph
from mpiparallel.train.amp import auto_mixed_precision, build_train_network
from mpiparallel.train.batch_agreement import check_batches
from mpiparallel.train.callback.callback import CallbackList, CallbackParameters, RunContext
from mpiparallel.train.callback.loss_guard import LossGuard
from mpiparallel.train.evaluation import Evaluation, not_training
from mpiparallel.train.loaded_strategies import check_loaded_strategies, take_loaded_strategies
from mpiparallel.train.loss_scale_manager import LossScaleManager
from mpiparallel.train.strategy_files import write_group_file, write_strategy_file

Batch = list[np.ndarray[Any, Any]]

_MOST_SKIPPED = 100
"""Steps in a row that a training with a scaled loss may leave out where no LossGuard says how many."""


class Model:
    """A network with what trains it.

    ``network`` returns the loss itself when ``loss_fn`` is None. ``optimizer`` may be left out for evaluation and
    prediction, or where ``network`` is a TrainOneStepCell. ``metrics`` are names, such as "acc" and "loss", or metrics
    of ``nn`` by name; without, it is the loss. ``eval_network`` returns loss, outputs and labels, in the places
    ``eval_indexes``, 0 to 2 unless given.

    ``amp_level``, ``keep_batchnorm_fp32`` and ``loss_scale_manager`` say in which precision it is trained: see
    ``train.amp``. With ``accumulation_steps``, or ``grad_accumulation_step`` of the context, a step takes as many
    batches of the dataset: it updates along the mean of their gradients, which ranks sum once. What is left of an epoch
    then is left out.

    The position of a training is ``step``: it may be set to go on from where another run stopped.
    """

    def __init__(
        self,
        network: Cell,
        loss_fn: Cell | None = None,
        optimizer: Any = None,
        metrics: Any = None,
        eval_network: Cell | None = None,
        eval_indexes: Sequence[int] | None = None,
        amp_level: str = "O0",
        boost_level: str = "O0",
        loss_scale_manager: LossScaleManager | None = None,
        keep_batchnorm_fp32: bool | None = None,
        accumulation_steps: int | None = None,
    ) -> None:
        take_loaded_strategies()
        self._network = network
        self._loss_fn = loss_fn
        self._optimizer = optimizer
        steps = (
            get_auto_parallel_context("grad_accumulation_step") if accumulation_steps is None else accumulation_steps
        )
        self._train_network: TrainOneStepCell | None = None
        if optimizer is not None:
            self._train_network = build_train_network(
                network, optimizer, loss_fn, amp_level, boost_level, loss_scale_manager, keep_batchnorm_fp32, steps
            )
        else:
            auto_mixed_precision(network, amp_level, keep_batchnorm_fp32)
        if optimizer is None and loss_fn is None and isinstance(network, TrainOneStepCell):
            self._train_network, self._network, network = network, network.network, network.network
        self._evaluation = Evaluation.of(network, loss_fn, metrics, eval_network, eval_indexes)
        self.step = 0
        self.profile: Profile | None = None

    @property
    def train_network(self) -> TrainOneStepCell:
        """The network with loss, gradient and optimizer; ConfigurationError when there is no optimizer."""
        if self._train_network is None:
            raise ConfigurationError("Model: training needs an optimizer; give Model(network, loss_fn, optimizer)")
        return self._train_network

    @property
    def predict_network(self) -> Cell:
        """The network that ``predict`` runs."""
        return self._network

    def train(
        self,
        epoch: int,
        train_dataset: Dataset,
        callbacks: Any = None,
        dataset_sink_mode: bool = True,
        sink_size: int = -1,
        initial_epoch: int = 0,
    ) -> None:
        """Train for ``epoch`` epochs, from where ``step`` stands on.

        In sink mode ``step_end`` comes after ``sink_size`` steps, -1 meaning all of an epoch. Raises
        ConfigurationError for a wrong count, DatasetError for a dataset without a batch.
        """
        if not isinstance(epoch, int) or epoch < 1:
            raise ConfigurationError(f"Model.train: epoch {epoch!r} must be an integer of at least 1")
        if sink_size == 0 or sink_size < -1:
            raise ConfigurationError(f"Model.train: sink_size {sink_size} must be -1 or at least 1")
        run = _TrainingRun(self, epoch, train_dataset, callbacks)
        sunk = (run.batch_num if sink_size == -1 else sink_size) if dataset_sink_mode else 1
        run.train(sunk, initial_epoch)

    def build(
        self,
        train_dataset: Dataset | None = None,
        valid_dataset: Dataset | None = None,
        sink_size: int = -1,
        epoch: int = 1,
    ) -> ShardedGraph | None:
        """Compile without a step, so that parameters can be loaded, and write the strategy and group files asked for.

        Outside a world of ``device_num`` ranks only the layouts and the files are made. Returns the sharded training
        graph.
        """
        sharded = None
        if train_dataset is not None:
            batch = _first_batch(train_dataset)
            sharded = self.shard(batch)
            network = self.train_network.set_train()
            if _world_fits():
                network.compile(*batch)
        if valid_dataset is not None and _world_fits():
            self._evaluation.network.set_train(False).compile(*_first_batch(valid_dataset))
        return sharded

    def shard(self, batch: Sequence[Any], configuration: ParallelConfiguration | None = None) -> ShardedGraph:
        """Return the training graph with its layouts for one batch, and write the strategy and group files asked for.

        The context's configuration is taken where none is given.
        """
        configuration = configuration or current_configuration()
        sharded = self.train_network.set_train().sharded_graph(*batch, configuration=configuration)
        check_loaded_strategies(sharded, configuration)
        if configuration.strategy_save_file:
            write_strategy_file(configuration.strategy_save_file, sharded, configuration)
        if configuration.group_info_file:
            write_group_file(configuration.group_info_file, sharded, configuration.rank)
        return sharded

    def eval(self, valid_dataset: Dataset, callbacks: Any = None, dataset_sink_mode: bool = True) -> dict[str, Any]:
        """Return the metrics over the dataset by name, without dropout: ``{"acc": ..., "loss": ...}``.

        Where ranks have batches of their own, it is those of all ranks together. Raises DatasetError without a batch.
        """
        return self._evaluation.run(valid_dataset)

    def predict(self, *predict_data: Any) -> Any:
        """Return what the network returns for these inputs, without dropout; whole on every rank."""
        with not_training(self._network) as network:
            return network(*predict_data)

    def run_step(self, *batches: Batch) -> Tensor:
        """Train on the batches of one step, as many as are accumulated, and return the mean of their losses."""
        network = self.train_network
        steps = network.accumulation_steps
        if len(batches) != steps:
            raise ConfigurationError(f"Model.run_step: {len(batches)} batches are given; a step takes {steps}")
        if steps > 1:
            network.sums.forget()
        losses: list[Tensor] = []
        for index, batch in enumerate(batches):
            returned = network.run(self.step * steps + index, batch, self.profile)
            losses.append(returned[0] if isinstance(returned, tuple) else returned)
        self.step += 1
        return losses[0] if steps == 1 else Tensor(np.mean([loss.asnumpy() for loss in losses], axis=0))


class _TrainingRun:
    """One call of ``Model.train``."""

    def __init__(self, model: Model, epochs: int, dataset: Dataset, callbacks: Any) -> None:
        self._model = model
        self._dataset = dataset
        model.train_network.check_as_made()
        self._callbacks = CallbackList(callbacks)
        watched = any(isinstance(callback, LossGuard) for callback in self._callbacks.callbacks)
        if model.train_network.skips_unsound and not watched:
            self._callbacks = CallbackList([*self._callbacks.callbacks, LossGuard("skip", _MOST_SKIPPED)])
        self._batches_a_step = model.train_network.accumulation_steps
        self.batch_num = dataset.get_dataset_size() // self._batches_a_step
        self._first_batch = _first_batch(dataset) if self.batch_num else []
        specs = [TensorSpec(column.shape, column.dtype) for column in self._first_batch]
        check_batches(self.batch_num, specs, self._batches_a_step)
        configuration = current_configuration()
        self._parameters = CallbackParameters(
            network=model.predict_network,
            train_network=model.train_network,
            optimizer=getattr(model.train_network, "optimizer", None),
            train_dataset=dataset,
            parallel_mode=configuration.mode,
            device_number=configuration.device_num,
            rank=configuration.rank,
            epoch_num=epochs,
            batch_num=self.batch_num,
            batch_size=dataset.get_batch_size() * self._batches_a_step,
            pieces=1 if configuration.full_batch else configuration.device_num,
            cur_step_num=model.step,
            list_callback=self._callbacks.callbacks,
        )
        self._context = RunContext(self._parameters)

    def train(self, sunk: int, initial_epoch: int) -> None:
        self._model.train_network.set_train()
        self._parameters.sharded = self._model.shard(self._first_batch)
        self._callbacks.at("begin", self._context)
        done = initial_epoch * self.batch_num
        first = max(self._model.step, done)
        self._model.step = first
        for epoch in range(first // self.batch_num, initial_epoch + self._parameters.epoch_num):
            self._parameters.cur_epoch_num = epoch + 1
            self._callbacks.at("epoch_begin", self._context)
            self._train_epoch(epoch, sunk)
            self._callbacks.at("epoch_end", self._context)
            if self._context.get_stop_requested():
                break
        self._callbacks.at("end", self._context)

    def _train_epoch(self, epoch: int, sunk: int) -> None:
        skip = self._model.step - epoch * self.batch_num
        # The thread that reads ahead ends with the epoch, also where a step fails or the training is stopped.
        with closing(self._dataset.iterate(epoch, skip * self._batches_a_step)) as batches:
            steps = self._steps(batches)
            while block := list(islice(steps, 1)):
                self._callbacks.at("step_begin", self._context)
                for step in chain(block, islice(steps, sunk - 1)):
                    self._parameters.net_outputs = self._model.run_step(*step)
                    self._parameters.cur_step_num, self._parameters.cur_batches = self._model.step, step
                    self._callbacks.at("every_step", self._context)
                self._callbacks.at("step_end", self._context)
                if self._context.get_stop_requested():
                    return

    def _steps(self, batches: Iterator[Any]) -> Iterator[list[Batch]]:
        """Yield the batches of each step; too few for a step are left out."""
        while step := [list(columns.values()) for columns in islice(batches, self._batches_a_step)]:
            if len(step) == self._batches_a_step:
                yield step


def _first_batch(dataset: Dataset) -> Batch:
    for columns in dataset.iterate():
        return list(columns.values())
    raise DatasetError("the dataset has no batch; use a smaller batch_size or drop_remainder=False")


def _world_fits() -> bool:
    """Return whether this process can run what it compiles: the world has as many ranks as the network is cut for."""
    configuration = current_configuration()
    size = world.current().size if world.initialised() else 1
    return configuration.mode == ParallelMode.STAND_ALONE or configuration.device_num == size
