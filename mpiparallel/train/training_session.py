"""What is trained here, how far it has come, and with which ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.communication import world
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.program import Profile
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.wrap.own_training import OwnTraining
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.reshard.report import ReshardReport
from mpiparallel.train.elastic.leader_message import ReshardCommand
from mpiparallel.train.elastic.membership import Membership
from mpiparallel.train.elastic.proposal import Networks, ReshardRequest, TrainingProgress
from mpiparallel.train.elastic.resharding import Resharding
from mpiparallel.train.elastic.shrinking import Commit, Shrinking, is_wanted
from mpiparallel.train.full_search.open_training import is_open
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.object_collectives import world_or_alone
from mpiparallel.train.persistence.resume import Resumption
from mpiparallel.train.strategies.loaded_strategies import check_loaded_strategies
from mpiparallel.train.strategies.strategy_files import group_file_of_rank, write_group_file, write_strategy_file

Batch = list[np.ndarray[Any, Any]]


class TrainingSession:
    """The networks of a model and where their training stands; a model, its runs and their recovery share one.

    ``accumulation_steps`` is for a network that makes its update itself: how many batches a step takes. It is None
    where the network cannot be trained without an optimizer. ``has_trained`` says that a call of ``train`` has ended
    since. ``plan`` is what a loaded file says of how it is trained. ``resumed`` is the checkpoint from which the
    training goes on.
    """

    def __init__(
        self,
        network: Cell,
        training: TrainOneStepCell | None,
        evaluation: Cell,
        accumulation_steps: int | None,
        plan: Plan | None = None,
    ) -> None:
        self.network = network
        self._training = training
        self._evaluation = evaluation
        self._accumulation_steps = accumulation_steps
        self._plan = plan
        self._resharding: Resharding | None = None
        self.step = 0
        self.has_trained = False
        self.profile: Profile | None = None
        self.resumed: Resumption | None = None

    @property
    def training(self) -> TrainOneStepCell:
        """The network with loss, gradient and optimizer; ConfigurationError where there is none."""
        if self._training is None and self._accumulation_steps is not None:
            self._training = OwnTraining(self.network, self._accumulation_steps)
        if self._training is None:
            raise ConfigurationError("Model: training needs an optimizer; give Model(network, loss_fn, optimizer)")
        return self._training

    @property
    def resharding(self) -> Resharding:
        """Who trains and who waits, and how that changes."""
        if self._resharding is None:
            self._resharding = Resharding(self._networks, Membership.of_current_world())
        return self._resharding

    @property
    def _networks(self) -> Networks:
        return Networks.of(self.network, self._training, self._evaluation)

    @property
    def active(self) -> bool:
        """Whether this rank trains."""
        return self._resharding is None or self._resharding.membership.active

    @property
    def has_left(self) -> bool:
        """Whether this rank has left the job."""
        return self._resharding is not None and self._resharding.membership.has_left

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that train, by the numbers that they had when the job began, in the order of their new ranks."""
        return (Membership.of_current_world() if self._resharding is None else self._resharding.membership).ranks

    @property
    def generation(self) -> int:
        """How many times the training has moved."""
        return 0 if self._resharding is None else self._resharding.membership.generation

    def check_active(self, method: str) -> None:
        """Raise ConfigurationError where this rank does not train, and so cannot run ``method``."""
        if not self.active:
            raise ConfigurationError(
                f"Model.{method}: this rank does not train since Model.reshard, and holds nothing of the network; call "
                "it where model.active is true, or reshard to this rank first"
            )

    def move(self, request: ReshardRequest, progress: TrainingProgress) -> ReshardReport:
        """Move the training as a user has asked; all ranks call it together."""
        report = self.resharding.ask(request, progress)
        self._take_step()
        return report

    def follow(self, command: ReshardCommand) -> None:
        """As a waiting rank, take part in a reshard that the training ranks have ordered."""
        self.resharding.carry_out(command)
        self._take_step()

    def _take_step(self) -> None:
        self.has_trained = False
        if self.active:
            self.step = self.resharding.step

    def shrinking(self, commit: Commit) -> Shrinking | None:
        """Return what lets a training go on without ranks that die, where the launcher asks for it; else None.

        ``commit`` returns folder and prefix of the checkpoints to fall back to, or ().
        """
        return Shrinking(self._networks, self.resharding, commit) if is_wanted(world_or_alone()) else None

    def shard(self, batch: Sequence[Any], configuration: ParallelConfiguration) -> StagedGraph:
        """Return the training graph, in its stages, with its layouts for one batch; write the files asked for.

        Strategy and group files of a rank are those of its stage.
        """
        self.training.set_train()
        if is_open(configuration):
            # All of the search, which other trainings need not load.
            from mpiparallel.train.full_search.decision import decided

            configuration, self._plan = decided(self.training, batch, configuration)
        staged = self.training.staged_graph(*batch, configuration=configuration)
        check_loaded_strategies(staged, configuration)
        if configuration.strategy_save_file:
            said = {} if self._plan is None else self._plan.json
            write_strategy_file(configuration.strategy_save_file, staged, configuration, said)
        if configuration.group_info_file:
            together = world.initialised() and world_fits() and configuration.mode != ParallelMode.STAND_ALONE
            own = group_file_of_rank(configuration.group_info_file, world.current()) if together else None
            write_group_file(own or configuration.group_info_file, staged, configuration.rank)
        return staged

    def run_step(self, *batches: Batch) -> Tensor:
        """Train on the batches of one step, as many as are accumulated, and return the mean of their losses."""
        self.check_active("run_step")
        network = self.training
        steps = network.batches_a_step
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


def world_fits() -> bool:
    """Return whether this process can run what it compiles: the world has as many ranks as the network is cut for."""
    configuration = current_configuration()
    size = world.current().size if world.initialised() else 1
    return configuration.mode == ParallelMode.STAND_ALONE or configuration.device_num == size
