"""Model: train, evaluate and predict with a network (MindSpore's ``Model``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mpiparallel.compatibility.arguments import only
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.context.settings import current_configuration, get_auto_parallel_context
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.program import Profile
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.reshard.report import ReshardReport
from mpiparallel.train.amp import auto_mixed_precision, build_train_network, level_here
from mpiparallel.train.elastic.proposal import ReshardRequest, TrainingProgress
from mpiparallel.train.elastic.resharding import Resharding
from mpiparallel.train.evaluation import Evaluation, not_training
from mpiparallel.train.feeding.dataset_check import check_dataset
from mpiparallel.train.feeding.feeding_arguments import check_counts, remark_on_feeding
from mpiparallel.train.feeding.read_columns import first_batch
from mpiparallel.train.full_search.open_training import loaded_plan, micro_batched, pipeline_of
from mpiparallel.train.loss_scale_manager import LossScaleManager
from mpiparallel.train.object_collectives import world_or_alone
from mpiparallel.train.persistence.rank_folders import saved_folder
from mpiparallel.train.persistence.resume import Resumption, resume
from mpiparallel.train.persistence.training_record import facts_of
from mpiparallel.train.strategies.inferred_layouts import ParameterLayout, parameter_layouts
from mpiparallel.train.strategies.strategy_files import write_strategy_file
from mpiparallel.train.training_run import TrainingRun
from mpiparallel.train.training_session import Batch, TrainingSession, world_fits


class Model:
    """A network with what trains it.

    ``step`` is the position of a training: it may be set to go on from where another run stopped.

    Parameters
    ----------
    network : Cell
        It returns the loss itself when ``loss_fn`` is None.
    loss_fn : Cell, optional
        It takes the outputs of the network and the label.
    optimizer : Optimizer, optional
        May be left out for evaluation and prediction, or where ``network`` is a TrainOneStepCell, or makes its update
        itself.
    metrics : dict, set or list, optional
        Names, such as "acc" and "loss", or metrics of ``nn`` by name; without, it is the loss.
    eval_network : Cell, optional
        It returns loss, outputs and labels.
    eval_indexes : sequence of int, optional
        The places of these three, 0 to 2 unless given.
    amp_level, keep_batchnorm_fp32, loss_scale_manager
        In which precision it is trained: see ``train.amp``.
    boost_level : str
        "O0".
    accumulation_steps : int, optional
        Batches of a step, which updates along the mean of their gradients; ranks sum them once. What is left of an
        epoch then is left out. By default ``grad_accumulation_step`` of the context.

    Raises
    ------
    ConfigurationError
        For what does not fit together.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> from mpiparallel.dataset import NumpySlicesDataset
    >>> data = NumpySlicesDataset(([[1.0]] * 4, [[2.0]] * 4), ["x", "y"], shuffle=False).batch(2)
    >>> network = nn.Dense(1, 1, weight_init="zeros").to_float("float64")
    >>> model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.25), metrics={"loss"})
    >>> model.train(1, data)
    >>> model.step, model.eval(data)["loss"]
    (2, 0.0)
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
        plan = loaded_plan()
        if optimizer is not None:
            network = micro_batched(network, current_configuration(), plan is not None)
        steps = (
            get_auto_parallel_context("grad_accumulation_step") if accumulation_steps is None else accumulation_steps
        )
        own, training = network, None
        if optimizer is not None:
            training = build_train_network(
                network, optimizer, loss_fn, amp_level, boost_level, loss_scale_manager, keep_batchnorm_fp32, steps
            )
        else:
            auto_mixed_precision(network, level_here(amp_level), keep_batchnorm_fp32=keep_batchnorm_fp32)
        if optimizer is None and loss_fn is None and isinstance(network, TrainOneStepCell):
            network.check_accumulation(steps)
            training, own = network, network.network
        self._evaluation = Evaluation.of(own, loss_fn, metrics, eval_network, eval_indexes)
        if plan is not None:
            plan.take(pipeline_of(own if training is None else training))
        trains_itself = optimizer is None and loss_fn is None
        self._session = TrainingSession(own, training, self._evaluation.network, steps if trains_itself else None, plan)
        self._run: TrainingRun | None = None

    @property
    def step(self) -> int:
        """How many steps the training has made; it may be set to go on from where another run stopped."""
        return self._session.step

    @step.setter
    def step(self, step: int) -> None:
        self._session.step = step

    @property
    def profile(self) -> Profile | None:
        """What the steps are timed by, where it is set."""
        return self._session.profile

    @profile.setter
    def profile(self, profile: Profile | None) -> None:
        self._session.profile = profile

    @property
    def resumed(self) -> Resumption | None:
        """The checkpoint that the training goes on from, as ``resume`` has returned it."""
        return self._session.resumed

    @property
    def train_network(self) -> TrainOneStepCell:
        """The network with loss, gradient and optimizer; a network without ``loss_fn`` may have them itself.

        Raises ConfigurationError when there is no optimizer for what ``loss_fn`` says.
        """
        return self._session.training

    @property
    def predict_network(self) -> Cell:
        """The network that ``predict`` runs."""
        return self._session.network

    @property
    def resharding(self) -> Resharding:
        """Who trains and who waits, and how that changes."""
        return self._session.resharding

    @property
    def active(self) -> bool:
        """Whether this rank trains: not where it waits as a spare, or has left, by ``reshard``."""
        return self._session.active

    @property
    def has_left(self) -> bool:
        """Whether this rank has left the job by ``reshard(retire="end")``."""
        return self._session.has_left

    @property
    def training_ranks(self) -> tuple[int, ...]:
        """The ranks that train, by the numbers that they had when the job began, in the order of their new ranks."""
        return self._session.ranks

    @property
    def generation(self) -> int:
        """How many times ``reshard`` has moved the training."""
        return self._session.generation

    def reshard(
        self,
        strategy: Any = None,
        ranks: int | Sequence[int] | None = None,
        retire: str = "wait",
        relabel: bool = False,
        spawn: bool = False,
        stages: Sequence[Any] | None = None,
        **options: Any,
    ) -> ReshardReport:
        """Move the training to other ranks or another strategy, between two steps, and return what moved.

        All that training needs goes along. These are parameters, optimizer states, counters, moving averages, the scale
        of the loss, the position in the data and the masks of dropout. All ranks call it alike, also in a callback of
        ``train``, which goes on with the next batch on the ranks that then train.

        ``ranks`` is how many are to train, or a list of them by the numbers that they had when the job began. The order
        of the list is that of their new ranks. ``relabel`` chooses and orders them so that most bytes stay in place.
        With ``spawn`` a launcher that can starts those that are missing. They run the same program, and join in
        ``train``.

        ``strategy`` is a strategy file, or strategies by the names that such files give operators, or by the operators'
        places in the network. It may also be a network like the model's but for its cuts. Without one, operators keep
        theirs, and those that have none are cut by the batch. ``stages``, as ``nn.PipelineCell`` takes lists of them,
        say in which stages of a pipeline the cells then are. Without them, where there are to be fewer, neighbours come
        together.
        ``options`` are settings of ``set_auto_parallel_context`` and options of ``mpiparallel.reshard.ReshardOptions``.

        Ranks that no longer train wait in ``train``, asleep, until a later reshard calls them or the training ends. Out
        of ``train`` they call ``reshard`` as the others do. With ``retire="end"`` their ``train`` returns, and they may
        run to their end. ``active`` says whether this rank trains. After it ``get_rank()`` and ``get_group_size()`` are
        those of the ranks that train, and groups that were made by name are gone. Ranks that do not train still have a
        rank among all, maybe 0: what one rank is to do is for the one with ``model.active and get_rank() == 0``.

        Raises on all ranks, before anything moves, ConfigurationError, StrategyError, StrategyFileError, DatasetError
        or ReshardError for what cannot be; ReshardError also when the move fails. The training can then go on.

        >>> import numpy as np
        >>> from mpiparallel import Model, context, nn
        >>> from mpiparallel.communication.threads import run_world
        >>> from mpiparallel.dataset import NumpySlicesDataset
        >>> def job(communicator):
        ...     context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        ...     data = NumpySlicesDataset((np.ones((12, 3)), np.ones((12, 1))), ["x", "y"]).batch(6)
        ...     network = nn.Dense(3, 1).to_float("float64")
        ...     model = Model(network, nn.MSELoss(), nn.Adam(network.trainable_params()))
        ...     model.train(1, data)
        ...     model.reshard(ranks=3)
        ...     model.train(2, data)
        ...     return model.active, model.step
        >>> run_world(4, job)
        [(True, 4), (True, 4), (True, 4), (False, 2)]
        """
        run = self._run
        if run is not None and self.active:
            run.announce_reshard()
        progress = (
            TrainingProgress(self.step) if run is None else TrainingProgress(self.step, run.position(), run.check_data)
        )
        return self._session.move(ReshardRequest(strategy, ranks, retire, relabel, spawn, options, stages), progress)

    def train(
        self,
        epoch: int,
        train_dataset: Dataset,
        callbacks: Any = None,
        dataset_sink_mode: bool = True,
        sink_size: int = -1,
        initial_epoch: int = 0,
    ) -> None:
        """Train for ``epoch`` epochs; after ``resume`` or ``reshard``, or a call that was stopped, up to that many.

        A call after one that has come to its end trains ``epoch`` more, which are numbered on. With ``initial_epoch``
        ``epoch`` is the last one, as in MindSpore: train(3, initial_epoch=1) trains two.

        In sink mode ``step_end`` comes after ``sink_size`` steps, -1 meaning all of an epoch. Where ``reshard`` has
        left this rank out, it waits here, asleep, until it is called or the training ends. An error that ends the
        training on the ranks that train is raised here too. The signal of preemption is SIGUSR1 unless
        MPIPARALLEL_PREEMPTION_SIGNAL names others. It lets the step end and the ModelCheckpoint save it, on all ranks,
        and raises ``Preempted``, a SystemExit with code 85: see ``train.preemption``.

        Raises ConfigurationError for a wrong count, and DatasetError without a batch, or for columns that the network
        does not take.
        """
        check_counts(epoch, initial_epoch, sink_size)
        sunk = (None if sink_size == -1 else sink_size) if dataset_sink_mode else 1
        self._run = TrainingRun(self._session, epoch, train_dataset, callbacks, sunk, initial_epoch)
        try:
            self._run.train()
            self._session.has_trained = not self._run.was_stopped
        finally:
            self._run = None

    def resume(
        self, directory: str | Path, train_dataset: Dataset, prefix: str | None = None, strict: bool = True
    ) -> Resumption | None:
        """Go on from the newest checkpoint in ``directory``, whoever saved it by whatever cut; None where none is.

        The network is compiled for the dataset. Weights, optimizer states, counters and the scale of the loss are
        loaded, and ``step`` is set. So ``train`` with the same number of epochs goes on to the same end, also in the
        middle of an epoch. It does so bit for bit on as many ranks with the same cuts. What the checkpoint has replaces
        what the program has set, the learning rate too. All ranks call it together.

        Where a file is lost or damaged, another rank's with the same slices stands in. Where there is none, an older
        checkpoint does, and what is returned says so, as does rank 0. With ``prefix`` only checkpoints of that one
        count. Raises CheckpointError on all ranks, before anything is changed, where the checkpoint is of another
        network or none can be read. Unless ``strict`` is False, it is also raised where the training would go on
        otherwise: with another seed, dataset, batch, optimizer or schedule. See ``train.resume``.
        """
        self._session.check_active("resume")
        staged = self.build(train_dataset)
        if staged is None or not world_fits():
            raise ConfigurationError(
                "Model.resume: the network is cut for other ranks than there are; set device_num, or start as many"
            )
        configuration = current_configuration()
        facts = facts_of(self.train_network, train_dataset, configuration.batch_pieces)
        folder, own = saved_folder(directory, world_or_alone())
        session = self._session
        session.resumed = resume(folder, prefix, staged, facts, strict, world_or_alone(), own)
        if session.resumed is not None:
            session.step, session.has_trained = session.resumed.step, False
        return session.resumed

    def infer_train_layout(
        self, train_dataset: Dataset, dataset_sink_mode: bool = True, sink_size: int = -1
    ) -> dict[str, ParameterLayout]:
        """Compile for the dataset as ``build`` does, and return how each parameter and optimizer state is cut.

        Each is, as in MindSpore, (device matrix, tensor map, shape of this rank's slice, 0, True, group of the
        optimizer shards): see ``train.inferred_layouts``. It is what ``load_distributed_checkpoint`` takes as
        ``predict_strategy``.
        """
        remark_on_feeding("Model.infer_train_layout", dataset_sink_mode=dataset_sink_mode, sink_size=sink_size)
        staged = self.build(train_dataset)
        return {} if staged is None else parameter_layouts(staged, current_configuration().rank)

    def infer_predict_layout(
        self, *predict_data: Any, skip_backend_compile: bool = False
    ) -> dict[str, ParameterLayout]:
        """Compile for ``predict``, and return how each parameter is cut, as ``infer_train_layout`` does.

        With ``skip_backend_compile``, or outside a world of ``device_num`` ranks, only layouts and files are made.
        """
        configuration = current_configuration()
        with not_training(self.predict_network) as network:
            staged = network.staged_graph(*predict_data)
            if not skip_backend_compile and world_fits():
                network.compile(*predict_data)
        if configuration.strategy_save_file:
            write_strategy_file(configuration.strategy_save_file, staged, configuration)
        return parameter_layouts(staged, configuration.rank)

    def build(
        self,
        train_dataset: Dataset | None = None,
        valid_dataset: Dataset | None = None,
        sink_size: int = -1,
        epoch: int = 1,
        sink_mode: bool = True,
    ) -> StagedGraph | None:
        """Compile without a step, so that parameters can be loaded, and write the strategy and group files asked for.

        Outside a world of ``device_num`` ranks only the layouts and the files are made. Returns the training graph, in
        its stages.
        """
        remark_on_feeding("Model.build", sink_size=sink_size, epoch=epoch, sink_mode=sink_mode)
        staged = None
        for dataset in (one for one in (train_dataset, valid_dataset) if one is not None):
            check_dataset("Model.build", dataset)
        if train_dataset is not None:
            batch = list(first_batch(train_dataset).values())
            staged = self.shard(batch)
            network = self.train_network.set_train()
            if world_fits():
                network.compile(*batch)
        if valid_dataset is not None and world_fits():
            self._evaluation.network.set_train(False).compile(*first_batch(valid_dataset).values())
        return staged

    def shard(self, batch: Sequence[Any], configuration: ParallelConfiguration | None = None) -> StagedGraph:
        """Return the training graph, in its stages, with its layouts for one batch; write the files asked for.

        These are strategy and group files. The context's configuration is taken where none is given.
        """
        return self._session.shard(batch, configuration or current_configuration())

    def eval(self, valid_dataset: Dataset, callbacks: Any = None, dataset_sink_mode: bool = True) -> dict[str, Any]:
        """Return the metrics over the dataset by name, without dropout: ``{"acc": ..., "loss": ...}``.

        Where ranks have batches of their own, it is those of all ranks together. Raises DatasetError without a batch.
        """
        self._session.check_active("eval")
        remark_on_feeding("Model.eval", callbacks=callbacks, dataset_sink_mode=dataset_sink_mode)
        return self._evaluation.run(valid_dataset)

    def predict(self, *predict_data: Any, backend: str | None = None, config: Any = None) -> Any:
        """Return what the network returns for these inputs, without dropout; whole on every rank.

        Raises ConfigurationError for another ``backend`` or ``config``, which are MindSpore's.
        """
        only("Model.predict", "backend", backend, None)
        only("Model.predict", "config", config, None)
        self._session.check_active("predict")
        with not_training(self.predict_network) as network:
            return network(*predict_data)

    def run_step(self, *batches: Batch) -> Tensor:
        """Train on the batches of one step, as many as are accumulated, and return the mean of their losses."""
        return self._session.run_step(*batches)
