"""The one frozen value that says how a network is run in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.operator import Strategy
from mpiparallel.pipeline.schedule import Schedule

EVERYTHING: Final = "everything"
"""The search that decides more than strategies: stages, micro-batches, schedule, recomputation, optimizer shards."""


class ParallelMode:
    """The names of the parallel modes.

    Attributes
    ----------
    STAND_ALONE
        Each rank runs the whole network on its own.
    DATA_PARALLEL, HYBRID_PARALLEL
        Each rank runs the network on a batch of its own; gradients of shared parameters are summed, or averaged. A
        parameter that is ``layerwise_parallel`` is each rank's own.
    SEMI_AUTO_PARALLEL
        The network is written as for one device; operators are cut as their ``shard`` says, the others by the batch.
    AUTO_PARALLEL
        MindSpore's mode of searched strategies.

    Examples
    --------
    >>> ParallelMode.SEMI_AUTO_PARALLEL
    'semi_auto_parallel'
    """

    STAND_ALONE: Final = "stand_alone"
    DATA_PARALLEL: Final = "data_parallel"
    HYBRID_PARALLEL: Final = "hybrid_parallel"
    SEMI_AUTO_PARALLEL: Final = "semi_auto_parallel"
    AUTO_PARALLEL: Final = "auto_parallel"

    OWN_BATCH: Final = (DATA_PARALLEL, HYBRID_PARALLEL)
    """The modes in which each rank runs the network on a batch of its own."""
    ONE_BATCH: Final = (SEMI_AUTO_PARALLEL, AUTO_PARALLEL)
    """The modes in which all ranks run the network on one batch, by the strategies of its operators."""
    MODE_LIST: Final = (STAND_ALONE, DATA_PARALLEL, HYBRID_PARALLEL, SEMI_AUTO_PARALLEL, AUTO_PARALLEL)


@dataclass(frozen=True)
class ParallelConfiguration:
    """What the context says when a network is compiled.

    ``full_batch`` means that every rank is fed the global batch; else each is fed its own equal piece of dim 0.
    ``input_cuts`` say instead, for each input in turn, into how many pieces each dim is cut. ``optimizer_threshold`` is
    in KiB of the whole parameter. ``optimizer_shard_size`` -1 cuts over all replicas. ``strategy_of_all`` puts
    parameters that are not trained into the strategy file too. ``save_graphs`` says how many kinds of graphs are
    written below ``save_graphs_path``. With 1 it is the traced, with 2 the laid out and the local too, with 3 those
    with the memory. ``loaded_strategies`` are those of a strategy file, by the names that such files give operators.
    With ``laid_out_anew`` parameters are laid out as if no rank held any of them yet. ``search_mode`` says how
    strategies are found in auto parallel, ``search_timeout`` in how many seconds at most. ``search_machine`` is the
    cluster file of the machine that steps are priced for; without it that is the measured one. ``search_memory`` is how
    many bytes a rank may need. ``allows_tf32`` says that a GPU may round the factors of products of float32 to 10 bits
    of fraction, ``convolves_in_tf32`` those of convolutions. ``pipeline_schedule`` is a name of ``pipeline.SCHEDULES``
    or a list of the user's own; if it is empty, ``pipeline_stages`` have the one that suits them. ``stage_ranks`` are
    the ranks of each stage, where these are not equally many consecutive ones. ``ranks_in_common`` is for parameters
    that stages of unequal size share: the largest number that divides all sizes.
    """

    mode: str = ParallelMode.STAND_ALONE
    device_num: int = 1
    rank: int = 0
    full_batch: bool = True
    input_cuts: tuple[tuple[int, ...], ...] = ()
    gradients_mean: bool = False
    parameter_broadcast: bool = False
    enable_parallel_optimizer: bool = False
    optimizer_threshold: int = 64
    optimizer_shard_size: int = -1
    strategy_save_file: str = ""
    strategy_load_file: str = ""
    loaded_strategies: tuple[tuple[str, Strategy], ...] = ()
    strategy_of_all: bool = False
    group_info_file: str = ""
    save_graphs: int = 0
    save_graphs_path: str = "."
    seed: int = 0
    device_target: str = "CPU"
    device_id: int | None = None
    allows_tf32: bool = False
    convolves_in_tf32: bool = False
    laid_out_anew: bool = False
    search_mode: str = "recursive_programming"
    search_timeout: float = inf
    search_machine: str = ""
    search_memory: float = inf
    pipeline_stages: int = 1
    stage_ranks: tuple[tuple[int, ...], ...] = ()
    ranks_in_common: tuple[tuple[str, int], ...] = ()
    pipeline_schedule: str | Schedule = ""

    @property
    def ranks_of_stages(self) -> tuple[Sequence[int], ...]:
        """The ranks of each stage of a pipeline."""
        count = self.device_num // self.pipeline_stages
        return self.stage_ranks or tuple(
            range(stage * count, (stage + 1) * count) for stage in range(self.pipeline_stages)
        )

    @property
    def stage_device_num(self) -> int:
        """How many devices each stage of a pipeline has, or the first where they have not equally many."""
        return len(self.ranks_of_stages[0])

    @property
    def batch_pieces(self) -> int:
        """How many ranks together are fed the rows of a batch; each stage is fed all of it."""
        if self.input_cuts:
            return self.input_cuts[0][0]
        return 1 if self.full_batch else self.stage_device_num
