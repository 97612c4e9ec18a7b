"""How the layers of a transformer are cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from mpiparallel.context.settings import set_auto_parallel_context
from mpiparallel.errors import ConfigurationError


class DpMpConfig(Protocol):
    """What a layer asks of its configuration: into how many parts it cuts the batch, and its weights."""

    @property
    def data_parallel(self) -> int:
        """Into how many parts the batch is cut."""

    @property
    def model_parallel(self) -> int:
        """Into how many parts the weights are cut."""


def _check_count(who: object, name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{type(who).__name__}: {name} {value!r} must be an integer of at least 1")


def _check_flag(who: object, name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{type(who).__name__}: {name} {value!r} must be True or False")


@dataclass
class OpParallelConfig:
    """Cuts of one layer: its batch into ``data_parallel`` parts, its weights into ``model_parallel``.

    >>> OpParallelConfig(2, 4)
    OpParallelConfig(data_parallel=2, model_parallel=4)
    """

    data_parallel: int = 1
    model_parallel: int = 1

    def __post_init__(self) -> None:
        _check_count(self, "data_parallel", self.data_parallel)
        _check_count(self, "model_parallel", self.model_parallel)


@dataclass
class EmbeddingOpParallelConfig(OpParallelConfig):
    """Cuts of an embedding: its table is whole with ``vocab_emb_dp``, else its rows are cut by ``model_parallel``."""

    vocab_emb_dp: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_flag(self, "vocab_emb_dp", self.vocab_emb_dp)

    @property
    def dp_mp_config(self) -> OpParallelConfig:
        """The cuts without those of the table."""
        return OpParallelConfig(self.data_parallel, self.model_parallel)


@dataclass
class TransformerRecomputeConfig:
    """Which activations are computed again in the backward pass rather than kept; none can be yet."""

    recompute: bool = False
    parallel_optimizer_comm_recompute: bool = False
    mp_comm_recompute: bool = True
    recompute_slice_activation: bool = False


@dataclass
class TransformerOpParallelConfig:
    """Cuts of a whole transformer.

    ``optimizer_shard`` turns the parallel optimizer on, as
    ``set_auto_parallel_context(enable_parallel_optimizer=True)``; ``gradient_aggregation_group`` is into how many
    groups the layers are put whose gradients may be fused. Raises ConfigurationError for what is not implemented yet:
    more than one ``pipeline_stage`` or ``expert_parallel`` way, and ``recompute``.
    """

    data_parallel: int = 1
    model_parallel: int = 1
    expert_parallel: int = 1
    pipeline_stage: int = 1
    micro_batch_num: int = 1
    recompute: TransformerRecomputeConfig | bool = field(default_factory=TransformerRecomputeConfig)
    optimizer_shard: bool = False
    gradient_aggregation_group: int = 4
    vocab_emb_dp: bool = True

    def __post_init__(self) -> None:
        for name in (
            "data_parallel",
            "model_parallel",
            "expert_parallel",
            "pipeline_stage",
            "micro_batch_num",
            "gradient_aggregation_group",
        ):
            _check_count(self, name, getattr(self, name))
        for name in ("optimizer_shard", "vocab_emb_dp"):
            _check_flag(self, name, getattr(self, name))
        for name in ("pipeline_stage", "expert_parallel"):
            if getattr(self, name) > 1:
                self._refuse(f"{name}={getattr(self, name)}", "1")
        recompute = self.recompute if isinstance(self.recompute, bool) else self.recompute.recompute
        if recompute:
            self._refuse("recompute=True", "False")
        if self.optimizer_shard:
            set_auto_parallel_context(enable_parallel_optimizer=True)

    def _refuse(self, what: str, instead: str) -> None:
        raise ConfigurationError(f"TransformerOpParallelConfig: {what} is not implemented yet; use {instead}")

    @property
    def dp_mp_config(self) -> OpParallelConfig:
        """The cuts of a layer."""
        return OpParallelConfig(self.data_parallel, self.model_parallel)

    @property
    def embedding_dp_mp_config(self) -> EmbeddingOpParallelConfig:
        """The cuts of an embedding."""
        return EmbeddingOpParallelConfig(self.data_parallel, self.model_parallel, self.vocab_emb_dp)
