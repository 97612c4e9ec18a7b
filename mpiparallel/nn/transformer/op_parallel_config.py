"""How the layers of a transformer are cut."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

from mpiparallel.context.settings import set_auto_parallel_context
from mpiparallel.errors import ConfigurationError


@runtime_checkable
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


def _check_unused_axis(who: object, name: str, value: object) -> None:
    _check_count(who, name, value)
    if value != 1:
        _refuse(who, f"{name}={value}", "1")


def _check_recompute(who: object, name: str, value: object) -> None:
    if not isinstance(value, TransformerRecomputeConfig):
        _check_flag(who, name, value)


def _refuse(who: object, what: str, instead: str) -> None:
    raise ConfigurationError(f"{type(who).__name__}: {what} is not implemented yet; use {instead}")


ArgumentCheck = Callable[[object, str, object], None]


class CheckedConfig:
    """Values by name, each checked whenever it is set.

    Raises ConfigurationError for a wrong value, and for a name that it does not have, with the nearest right one.
    """

    checks: ClassVar[Mapping[str, ArgumentCheck]]

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self.checks:
            near = difflib.get_close_matches(name, self.checks, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(self.checks)}"
            raise ConfigurationError(f"{type(self).__name__}: {name!r} is not one of its values; {hint}")
        self.checks[name](self, name, value)
        super().__setattr__(name, value)


@dataclass
class OpParallelConfig(CheckedConfig):
    """Cuts of one layer: its batch into ``data_parallel`` parts, its weights into ``model_parallel``.

    Parameters
    ----------
    data_parallel, model_parallel : int
        At least 1.

    Raises
    ------
    ConfigurationError
        For a wrong value, and for a name that it does not have, also when set later.

    Examples
    --------
    >>> OpParallelConfig(2, 4)
    OpParallelConfig(data_parallel=2, model_parallel=4)
    """

    checks: ClassVar[Mapping[str, ArgumentCheck]] = {"data_parallel": _check_count, "model_parallel": _check_count}

    data_parallel: int = 1
    model_parallel: int = 1


@dataclass
class EmbeddingOpParallelConfig(OpParallelConfig):
    """Cuts of an embedding: its table is whole with ``vocab_emb_dp``, else its rows are cut by ``model_parallel``.

    Parameters
    ----------
    data_parallel, model_parallel : int
        At least 1.
    vocab_emb_dp : bool
        Whether the table is whole on every rank.

    Examples
    --------
    >>> EmbeddingOpParallelConfig(2, 4, vocab_emb_dp=False).dp_mp_config
    OpParallelConfig(data_parallel=2, model_parallel=4)
    """

    checks: ClassVar[Mapping[str, ArgumentCheck]] = {**OpParallelConfig.checks, "vocab_emb_dp": _check_flag}

    vocab_emb_dp: bool = True

    @property
    def dp_mp_config(self) -> OpParallelConfig:
        """The cuts without those of the table."""
        return OpParallelConfig(self.data_parallel, self.model_parallel)


@dataclass
class TransformerRecomputeConfig(CheckedConfig):
    """Whether layers compute again in the backward pass what they would else keep, as ``Cell.recompute`` says.

    Parameters
    ----------
    recompute, parallel_optimizer_comm_recompute, mp_comm_recompute : bool
        As for ``Cell.recompute``.
    recompute_slice_activation : bool
        It changes nothing: of what is computed again, each rank does its part.

    Examples
    --------
    >>> TransformerRecomputeConfig(recompute=True).recompute
    True
    """

    checks: ClassVar[Mapping[str, ArgumentCheck]] = {
        "recompute": _check_flag,
        "parallel_optimizer_comm_recompute": _check_flag,
        "mp_comm_recompute": _check_flag,
        "recompute_slice_activation": _check_flag,
    }

    recompute: bool = False
    parallel_optimizer_comm_recompute: bool = False
    mp_comm_recompute: bool = True
    recompute_slice_activation: bool = False


@dataclass
class TransformerOpParallelConfig(CheckedConfig):
    """Cuts of a whole transformer.

    Parameters
    ----------
    data_parallel, model_parallel : int
        Into how many parts the batch is cut, and the weights.
    expert_parallel : int
        1: more are not implemented yet.
    pipeline_stage : int
        Into how many stages encoder and decoder put their layers, equally many in each; what is left over is in the
        last. Sets ``pipeline_stages`` of the context.
    micro_batch_num : int
        Of ``nn.PipelineCell``, which is given it.
    recompute : TransformerRecomputeConfig or bool
        For each layer of encoder and decoder.
    optimizer_shard : bool
        Turns the parallel optimizer on, as ``set_auto_parallel_context(enable_parallel_optimizer=True)``.
    gradient_aggregation_group : int
        Into how many groups the layers are put whose gradients may be fused.
    vocab_emb_dp : bool
        Whether tables of embeddings are whole on every rank.

    Raises
    ------
    ConfigurationError
        For wrong values, given or set later, and for what is not implemented yet.

    Examples
    --------
    >>> TransformerOpParallelConfig(data_parallel=2, model_parallel=4).dp_mp_config
    OpParallelConfig(data_parallel=2, model_parallel=4)
    """

    checks: ClassVar[Mapping[str, ArgumentCheck]] = {
        "data_parallel": _check_count,
        "model_parallel": _check_count,
        "expert_parallel": _check_unused_axis,
        "pipeline_stage": _check_count,
        "micro_batch_num": _check_count,
        "recompute": _check_recompute,
        "optimizer_shard": _check_flag,
        "gradient_aggregation_group": _check_count,
        "vocab_emb_dp": _check_flag,
    }

    data_parallel: int = 1
    model_parallel: int = 1
    expert_parallel: int = 1
    pipeline_stage: int = 1
    micro_batch_num: int = 1
    recompute: TransformerRecomputeConfig | bool = field(default_factory=TransformerRecomputeConfig)
    optimizer_shard: bool = False
    gradient_aggregation_group: int = 4
    vocab_emb_dp: bool = True

    def __setattr__(self, name: str, value: object) -> None:
        is_new = name not in vars(self)
        super().__setattr__(name, value)
        # A default must not undo what the context says; an assignment must.
        if name == "optimizer_shard" and (value or not is_new):
            set_auto_parallel_context(enable_parallel_optimizer=value)
        if name == "pipeline_stage" and (value != 1 or not is_new):
            set_auto_parallel_context(pipeline_stages=value)

    @property
    def recomputation(self) -> TransformerRecomputeConfig:
        """What ``recompute`` says, whichever way it says it."""
        return self.recompute if not isinstance(self.recompute, bool) else TransformerRecomputeConfig(self.recompute)

    @property
    def dp_mp_config(self) -> OpParallelConfig:
        """The cuts of a layer."""
        return OpParallelConfig(self.data_parallel, self.model_parallel)

    @property
    def embedding_dp_mp_config(self) -> EmbeddingOpParallelConfig:
        """The cuts of an embedding."""
        return EmbeddingOpParallelConfig(self.data_parallel, self.model_parallel, self.vocab_emb_dp)
