"""Model: train, evaluate and predict with a network (MindSpore's ``Model``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from mpiparallel.communication import world
from mpiparallel.context.settings import current_configuration
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import ConfigurationError, DatasetError
from mpiparallel.graph.program import Profile
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.wrapper import TrainOneStepCell, WithEvalCell, WithLossCell
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.sharded_graph import ShardedGraph
from mpiparallel.train.callback.callback import CallbackList, CallbackParameters, RunContext
from mpiparallel.train.strategy_files import write_group_file, write_strategy_file

Batch = list[np.ndarray[Any, Any]]


class Model:
    """A network with what trains it.

    ``network`` returns the loss itself when ``loss_fn`` is None. ``optimizer`` may be left out for evaluation and
    prediction. ``metrics`` is a set of names of which "loss" is known.

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
    ) -> None:
        if amp_level != "O0":
            raise ConfigurationError(f"Model: amp_level {amp_level!r} is not implemented yet; use 'O0'")
        if eval_indexes is not None:
            raise ConfigurationError("Model: eval_indexes is not implemented yet; leave it out")
        if metrics is not None and set(metrics) - {"loss"}:
            raise ConfigurationError(f"Model: metrics {sorted(set(metrics) - {'loss'})} are not known; known is 'loss'")
        self._network = network
        self._loss_fn = loss_fn
        self._optimizer = optimizer
        self._metrics = metrics
        with_loss = network if loss_fn is None else WithLossCell(network, loss_fn)
        self._train_network = None if optimizer is None else TrainOneStepCell(with_loss, optimizer)
        self._eval_network = eval_network or (None if loss_fn is None else WithEvalCell(network, loss_fn))
        self._evaluated = with_loss
        self.step = 0
        self.profile: Profile | None = None

    @property
    def train_network(self) -> Cell:
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
            self._evaluated.set_train(False).compile(*_first_batch(valid_dataset))
        return sharded

    def shard(self, batch: Sequence[Any], configuration: ParallelConfiguration | None = None) -> ShardedGraph:
        """Return the training graph with its layouts for one batch, and write the strategy and group files asked for.

        The context's configuration is taken where none is given.
        """
        configuration = configuration or current_configuration()
        sharded = self.train_network.set_train().sharded_graph(*batch, configuration=configuration)
        if configuration.strategy_save_file:
            write_strategy_file(configuration.strategy_save_file, sharded, configuration)
        if configuration.group_info_file:
            write_group_file(configuration.group_info_file, sharded, configuration.rank)
        return sharded

    def eval(self, valid_dataset: Dataset, callbacks: Any = None, dataset_sink_mode: bool = True) -> dict[str, float]:
        """Return the mean loss over the dataset, without dropout: ``{"loss": ...}``."""
        network = self._evaluated.set_train(False)
        total, count = 0.0, 0
        for columns in valid_dataset.iterate():
            batch = list(columns.values())
            total += float(network(*batch).asnumpy().mean()) * len(batch[0])
            count += len(batch[0])
        if not count:
            raise DatasetError("Model.eval: the dataset has no batch; use a smaller batch_size or drop_remainder=False")
        return {"loss": total / count}

    def predict(self, *predict_data: Any) -> Any:
        """Return what the network returns for these inputs, without dropout; whole on every rank."""
        return self._network.set_train(False)(*predict_data)

    def run_step(self, batch: Batch) -> Tensor:
        """Train on one batch and return the loss."""
        network = self.train_network
        network.program.step = self.step
        loss: Tensor = network.program(*batch, profile=self.profile)
        self.step += 1
        return loss


class _TrainingRun:
    """One call of ``Model.train``."""

    def __init__(self, model: Model, epochs: int, dataset: Dataset, callbacks: Any) -> None:
        self._model = model
        self._dataset = dataset
        self._callbacks = CallbackList(callbacks)
        self.batch_num = dataset.get_dataset_size()
        if self.batch_num < 1:
            raise DatasetError("Model.train: the dataset has no batch; use a smaller batch_size")
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
            batch_size=dataset.get_batch_size(),
            cur_step_num=model.step,
            list_callback=self._callbacks.callbacks,
        )
        self._context = RunContext(self._parameters)

    def train(self, sunk: int, initial_epoch: int) -> None:
        self._model.train_network.set_train()
        self._parameters.sharded = self._model.shard(_first_batch(self._dataset))
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
        batches = self._dataset.iterate(epoch, skip)
        while block := list(islice(batches, 1)):
            self._callbacks.at("step_begin", self._context)
            for columns in [*block, *islice(batches, sunk - 1)]:
                self._parameters.net_outputs = self._model.run_step(list(columns.values()))
            self._parameters.cur_step_num = self._model.step
            self._callbacks.at("step_end", self._context)
            if self._context.get_stop_requested():
                return


def _first_batch(dataset: Dataset) -> Batch:
    for columns in dataset.iterate():
        return list(columns.values())
    raise DatasetError("the dataset has no batch; use a smaller batch_size or drop_remainder=False")


def _world_fits() -> bool:
    """Return whether this process can run what it compiles: the world has as many ranks as the network is cut for."""
    configuration = current_configuration()
    size = world.current().size if world.initialised() else 1
    return configuration.mode == ParallelMode.STAND_ALONE or configuration.device_num == size
