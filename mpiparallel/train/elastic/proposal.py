"""From what a user asks of ``Model.reshard`` to a command, made by each rank that trains, before anything moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.context.settings import (
    LoadedStrategies,
    all_settings,
    current_configuration,
    set_auto_parallel_context,
    take_strategies,
)
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError, ReshardError, StrategyError, StrategyFileError
from mpiparallel.graph.operator import Operator, Strategy
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.wrap.pipeline_cell import PipelineCell
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.saved_strategies import saved_name
from mpiparallel.reshard.options import ReshardOptions
from mpiparallel.reshard.relabeling.relabel import relabel
from mpiparallel.train.elastic.holdings import carried, parameters_of
from mpiparallel.train.elastic.leader_message import MovedParameter, ReshardCommand, settings_for
from mpiparallel.train.elastic.membership import Membership
from mpiparallel.train.elastic.operator_cuts import (
    cuts_like,
    cuts_of,
    merge_stages,
    operators_of,
    set_cuts,
    set_stages,
    stages_of,
)
from mpiparallel.train.strategies.loaded_strategies import check_loaded_strategies, take_loaded_strategies

_OPTIONS = tuple(field.name for field in fields(ReshardOptions))
_DECIDED = frozenset(("device_num", "global_rank", "grad_accumulation_step"))
_SHOWN = 3


@dataclass(frozen=True)
class Networks:
    """The networks of a model: the one that the user gave, the one that trains, and all networks, beginning with the
    one that trains.
    """

    own: Cell
    training: TrainOneStepCell | None
    all: tuple[Cell, ...]

    @classmethod
    def of(cls, own: Cell, training: TrainOneStepCell | None, evaluation: Cell) -> Networks:
        """Return the networks of a model, of which some may be one."""
        return cls(own, training, (own, evaluation) if training is None else (training, own, evaluation))


@dataclass(frozen=True)
class ReshardRequest:
    """What a user asks of ``Model.reshard``."""

    strategy: Any
    ranks: int | Sequence[int] | None
    retire: str
    relabel: bool
    spawn: bool
    options: dict[str, Any]
    stages: Sequence[Any] | None = None

    def settings(self) -> dict[str, Any]:
        """Return the parallel settings that are asked for; raise ConfigurationError for one that would do nothing."""
        for name in sorted(_DECIDED & self.options.keys()):
            raise ConfigurationError(
                f"Model.reshard: {name} cannot be given here; the number of ranks is that of ranks=..., and a training "
                "keeps its accumulation"
            )
        given = {name: one for name, one in self.options.items() if name not in _OPTIONS}
        return given if self.stages is None else {"pipeline_stages": len(self.stages), **given}

    def movement(self) -> dict[str, Any]:
        """Return the options of the move; raise ConfigurationError for a wrong one."""
        return asdict(ReshardOptions(**{name: one for name, one in self.options.items() if name in _OPTIONS}))


@dataclass(frozen=True)
class TrainingProgress:
    """Where a training stands: ``position`` in a call of ``train``; ``check`` raises if its data cannot follow."""

    step: int
    position: dict[str, Any] | None = None
    check: Callable[[ParallelConfiguration, Sequence[int]], None] | None = None


def propose(
    request: ReshardRequest, networks: Networks, membership: Membership, progress: TrainingProgress
) -> ReshardCommand:
    """Return the command that a request makes; nothing is changed, whatever becomes of it.

    Raises what is wrong with it: ConfigurationError, StrategyError, StrategyFileError or ReshardError.
    """
    after = _chosen(request, membership)
    if request.spawn and progress.position is None:
        raise ConfigurationError(
            "Model.reshard: processes that are started join a training (spawn=True); reshard in a callback of train"
        )
    if request.retire not in ("wait", "end"):
        raise ConfigurationError(f"Model.reshard: retire {request.retire!r} is neither 'wait' nor 'end'")
    if networks.training is not None and networks.training.batches_a_step > 1:
        _refuse_half_a_step(networks.training)
    with _strategies_kept(networks.all[0]):
        return copy_context().run(_make_command, request, networks, membership, after, progress)


def _chosen(request: ReshardRequest, membership: Membership) -> tuple[int, ...]:
    """Return the ranks that are to train, in order; those that are still to be started have the next numbers."""
    ranks = request.ranks
    if ranks is None:
        return membership.ranks
    known = membership.everyone.ranks
    if _is_integer(ranks):
        order, count = [*membership.ranks, *membership.spares], int(ranks)
        if request.spawn and count > len(order):
            if known != tuple(range(len(known))):
                raise ConfigurationError(
                    "Model.reshard: processes cannot be started any more (spawn=True), because ranks have left; let "
                    "them wait instead (retire='wait')"
                )
            return (*order, *range(len(order), count))
        if not 1 <= count <= len(order):
            raise ConfigurationError(
                f"Model.reshard: ranks {count} must be 1 to {len(order)}, for so many ranks train or wait; have more "
                "started with spawn=True"
            )
        return tuple(order[:count])
    chosen = tuple(ranks) if isinstance(ranks, (Sequence, np.ndarray)) else ()
    integers = bool(chosen) and all(map(_is_integer, chosen))
    if not integers or len(set(chosen)) < len(chosen) or not set(chosen) <= set(known):
        raise ConfigurationError(
            f"Model.reshard: ranks {ranks!r} must be a count, or a list of distinct ranks of the job, which are "
            f"{list(known)}"
        )
    return tuple(int(rank) for rank in chosen)


def _is_integer(given: Any) -> TypeGuard[int]:
    return isinstance(given, (int, np.integer)) and not isinstance(given, bool)


def _refuse_half_a_step(training: TrainOneStepCell) -> None:
    batches = int(training.sums.count.asnumpy())
    if batches:
        raise ReshardError(
            f"Model.reshard: {batches} of the {training.batches_a_step} batches of a step have been accumulated; "
            "reshard between two steps"
        )


@contextmanager
def _strategies_kept(network: Cell) -> Iterator[None]:
    """Let operators be cut otherwise, and cells be in other stages, in a ``with`` block, and as before after it."""
    kept, stages = cuts_of(network), stages_of(network)
    try:
        yield
    finally:
        set_cuts(network, kept)
        set_stages(network, stages)


def _make_command(
    request: ReshardRequest,
    networks: Networks,
    membership: Membership,
    after: tuple[int, ...],
    progress: TrainingProgress,
) -> ReshardCommand:
    """Return the command; run it in a copy of the context, because it sets what the command asks for."""
    set_auto_parallel_context(**request.settings())
    if "strategy_ckpt_load_file" in request.options:
        take_loaded_strategies()
    _take_strategy(request.strategy, networks.own)
    if request.stages is not None:
        _take_stages(request.stages, networks.own)
    settings = all_settings()
    if isinstance(request.strategy, (str, Path)) or "strategy_ckpt_load_file" in request.options:
        _check_devices(settings.loaded_strategies, len(after))
    set_auto_parallel_context(**settings_for(settings.parallel, len(after)))
    configuration = replace(current_configuration(len(after)), rank=0, laid_out_anew=True)
    if configuration.mode == ParallelMode.STAND_ALONE and max(len(after), len(membership.ranks)) > 1:
        raise ConfigurationError(
            "Model.reshard: in stand_alone mode each rank trains a network of its own; set parallel_mode, for example "
            "to 'semi_auto_parallel', before the training"
        )
    root = networks.all[0]
    if not isinstance(request.strategy, Cell) and request.stages is None:
        merge_stages(root, configuration.pipeline_stages)
    signature, staged = root.program.signature, None
    if signature is not None:
        staged = root.staged_graph(*signature.arguments(configuration), configuration=configuration)
        check_loaded_strategies(staged, configuration)
    _check_names(request.strategy, networks.own, staged)
    found = all_settings()
    command = ReshardCommand(
        before=membership.ranks,
        after=after,
        leaving=(),
        step=int(progress.step),
        parallel=found.parallel,
        seed=found.seed,
        draws=found.draws,
        strategies=found.loaded_strategies,
        cuts=cuts_of(root),
        stages=stages_of(root),
        signature=signature,
        options=request.movement(),
        position=progress.position,
    )
    command = replace(command, tensors=_tensors(networks, staged, command))
    if request.relabel and all(_is_relabelled(one, command) for one in command.tensors.values()):
        shrinks = _is_integer(request.ranks) and request.ranks <= len(membership.ranks)
        command = replace(command, after=_relabelled(command, membership.ranks if shrinks else after))
    if progress.check is not None:
        progress.check(configuration, command.after)
    retired = tuple(rank for rank in membership.everyone.ranks if rank not in command.after)
    return replace(command, leaving=retired if request.retire == "end" else ())


def _is_relabelled(one: MovedParameter, command: ReshardCommand) -> bool:
    """Return whether whoever has a part may have any rank: it is not each rank's own, nor that of a stage."""
    sizes = one.source.devices.size, one.target.devices.size
    return not one.source.partial and not one.target.partial and sizes == (len(command.before), len(command.after))


def _relabelled(command: ReshardCommand, candidates: Sequence[int]) -> tuple[int, ...]:
    """Return who of the candidates is to train, in an order in which most bytes stay where they are."""
    places = sorted(command.after)
    pairs = {
        name: (one.source.on_ranks(command.before), one.target.on_ranks(places))
        for name, one in command.tensors.items()
    }
    itemsizes = {name: one.spec.dtype.itemsize for name, one in command.tensors.items()}
    return relabel(pairs, itemsizes, sorted(candidates)) if pairs else command.after


def _tensors(networks: Networks, staged: StagedGraph | None, command: ReshardCommand) -> dict[str, Any]:
    targets = {}
    if staged is not None:
        targets = {id(staged.parameters[name]): layout for name, layout in staged.stored.items()}
    return {
        name: carried(parameter, targets.get(id(parameter)), command.before, command.after)
        for name, parameter in parameters_of(networks.all).items()
        if parameter.layout is not None or id(parameter) in targets
    }


def _take_stages(stages: Sequence[Any], network: Cell) -> None:
    """Put the cells of a network into other stages."""
    pipeline = next((cell for _, cell in network.cells_and_names() if isinstance(cell, PipelineCell)), None)
    if pipeline is None:
        raise ConfigurationError(
            f"Model.reshard: stages {stages!r} say where the cells of an nn.PipelineCell are, and the model has none; "
            "leave them out, or make the model of nn.PipelineCell(network, micro_size)"
        )
    pipeline.put_in_stages(stages)


def _take_strategy(strategy: Any, network: Cell) -> None:
    """Cut the network as is asked: by a file, by another network, or by operators' names."""
    if strategy is None:
        return
    if isinstance(strategy, (str, Path)):
        set_auto_parallel_context(strategy_ckpt_load_file=str(strategy))
        take_loaded_strategies()
        return
    set_auto_parallel_context(strategy_ckpt_load_file="")
    take_strategies("", ())
    if isinstance(strategy, Cell):
        set_cuts(network, cuts_like(network, strategy))
        set_stages(network, stages_of(strategy))
    elif isinstance(strategy, Mapping):
        _take_named(strategy, network)
    else:
        raise ConfigurationError(
            f"Model.reshard: strategy is a {type(strategy).__name__}; give a strategy file, a network like the model's "
            "that is cut as wanted, or a dict of strategies by the names of operators"
        )


def _check_devices(loaded: LoadedStrategies, count: int) -> None:
    """Raise StrategyFileError where the file that is to cut the network is for other devices."""
    path, _, made_for = loaded
    if made_for not in (0, count):
        raise StrategyFileError(
            f"{path}: is of {made_for} devices, and {count} ranks are to train; give the file of a training on {count}"
        )


def _take_named(strategies: Mapping[str, Any], network: Cell) -> None:
    for name, cuts in strategies.items():
        if not isinstance(name, str):
            raise StrategyError(f"Model.reshard: strategy has the key {name!r}; give operators by name")
        # It raises for what is no strategy at all.
        Operator().shard(cuts)
    places = operators_of(network)
    set_cuts(network, {name: (cuts, None) for name, cuts in strategies.items() if name in places})
    saved: list[tuple[str, Strategy]] = [(name, cuts) for name, cuts in strategies.items() if name not in places]
    take_strategies("", tuple(sorted(saved)))


def _check_names(strategy: Any, network: Cell, staged: StagedGraph | None) -> None:
    """Raise StrategyError for the name of an operator that is not there, or that cannot be looked up yet."""
    if not isinstance(strategy, Mapping):
        return
    places = operators_of(network)
    stages = () if staged is None else staged.stages
    nodes = [node for stage in stages for node in stage.graph.nodes if node.is_forward]
    known = {name for node in nodes for name in (saved_name(node), node.name)}
    missing = [name for name in strategy if name not in places and name not in known]
    if missing:
        listed = ", ".join([*places][:_SHOWN])
        saved = ", ".join(sorted(name for name in map(saved_name, nodes) if name)[:_SHOWN])
        as_saved = f"as strategy files do ({saved}, ...)" if saved else "after Model.build as strategy files do"
        raise StrategyError(
            f"Model.reshard: strategy names {', '.join(map(repr, missing[:_SHOWN]))}, which is no operator of the "
            f"network; name them by their places ({listed}, ...) or {as_saved}"
        )
