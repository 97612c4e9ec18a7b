"""What the user has set, per process (per thread rank in tests), and the frozen configuration made from it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from math import inf, prod
from typing import Any

from mpiparallel.communication import world
from mpiparallel.compatibility.remark import remark
from mpiparallel.context.accepted import GENERAL, OPTIMIZER, PARALLEL, say_without_effect
from mpiparallel.context.default_values import CONTEXT_DEFAULTS, GRAPH_MODE, PARALLEL_DEFAULTS, PYNATIVE_MODE
from mpiparallel.context.device_target import GPU, device_of_target, remark_eager_mode
from mpiparallel.context.gpu_config import check_gpu_config, convolves_in_tf32, multiplies_in_tf32
from mpiparallel.context.parallel_values import (
    check_names,
    check_parallel_values,
    in_one_way,
    pipeline_schedule,
    stage_ranks,
)
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.random_stream import put_random_stream, random_stream
from mpiparallel.graph.operator import Strategy
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.observed_configuration import ObservedConfiguration

LoadedStrategies = tuple[str, tuple[tuple[str, Strategy], ...], int]


@dataclass(frozen=True)
class Settings:
    """All that the user has set."""

    general: dict[str, Any] = field(default_factory=lambda: dict(CONTEXT_DEFAULTS))
    parallel: dict[str, Any] = field(default_factory=lambda: dict(PARALLEL_DEFAULTS))
    seed: int = 0
    unnamed: int = 0
    draws: int = 0
    loaded_strategies: LoadedStrategies = "", (), 0


_SETTINGS: ContextVar[Settings] = ContextVar("settings")
_TRACED_FOR: ContextVar[ObservedConfiguration | None] = ContextVar("traced_for", default=None)


def all_settings() -> Settings:
    """Return what the user has set, and how many random draws have been made since."""
    traced_for = _TRACED_FOR.get()
    if traced_for is not None:
        traced_for.read_all()
    stream = random_stream()
    return replace(_SETTINGS.get(Settings()), seed=stream.seed, draws=stream.place)


def _keep(settings: Settings) -> None:
    _SETTINGS.set(settings)
    by_rank = settings.parallel["parallel_mode"] in ParallelMode.OWN_BATCH
    put_random_stream(replace(random_stream(), seed=settings.seed, place=settings.draws, by_rank=by_rank))


def set_context(**settings: Any) -> None:
    """Set how programs run from now on; what is not named stays as it is.

    Parameters
    ----------
    **settings
        ``mode``: GRAPH_MODE (0), or PYNATIVE_MODE (1), in which cells run operator by operator. ``device_target``:
        "CPU", "GPU" or "Ascend", which means the GPU where there is one, else the CPU. ``device_id``: int, the device
        of this host. ``save_graphs``: 0 to 3 or True, how many kinds of graphs are written. ``save_graphs_path``: the
        folder for them. ``gpu_config``: with {"matmul_allow_tf32": True} a GPU may round the factors of products of
        float32 to 10 bits of fraction. That is several times as fast. "conv_allow_tf32" lets it round those of
        convolutions. The other names of MindSpore's are accepted, and said to have no effect.

    Raises
    ------
    ConfigurationError
        For an unknown name, with the nearest right one, a wrong value, or a GPU that this rank does not have.

    Examples
    --------
    >>> set_context(mode=GRAPH_MODE, device_target="CPU")
    """
    check_names(settings, CONTEXT_DEFAULTS, "set_context")
    if settings.get("mode", GRAPH_MODE) not in (GRAPH_MODE, PYNATIVE_MODE):
        raise ConfigurationError(
            f"set_context: mode {settings['mode']!r} is neither GRAPH_MODE (0) nor PYNATIVE_MODE (1)"
        )
    if "device_target" in settings:
        settings["device_target"] = device_of_target(settings["device_target"], "set_context")
    if settings.get("save_graphs", 0) not in (0, 1, 2, 3):
        raise ConfigurationError(f"set_context: save_graphs {settings['save_graphs']!r} is not one of 0, 1, 2, 3, True")
    if not isinstance(settings.get("save_graphs_path", ""), (str, os.PathLike)):
        raise ConfigurationError(f"set_context: save_graphs_path {settings['save_graphs_path']!r} must be a folder")
    device = settings.get("device_id")
    if device is not None and (isinstance(device, bool) or not isinstance(device, int) or device < 0):
        raise ConfigurationError(f"set_context: device_id {device!r} must be an integer of at least 0")
    say_without_effect("set_context", settings, GENERAL)
    check_gpu_config(settings.get("gpu_config"))
    now = all_settings()
    general = {**now.general, **settings}
    if (general["mode"], general["device_target"]) == (PYNATIVE_MODE, GPU):
        remark_eager_mode("set_context")
    _keep(replace(now, general=general))


def get_context(name: str) -> Any:
    """Return what ``set_context`` has set for ``name``.

    Parameters
    ----------
    name : str
        A name that ``set_context`` takes.

    Returns
    -------
    object
        The value that was set, or the default.

    Raises
    ------
    ConfigurationError
        For an unknown name, with the nearest right one.

    Examples
    --------
    >>> get_context("mode") == GRAPH_MODE
    True
    """
    check_names({name: None}, CONTEXT_DEFAULTS, "get_context")
    return all_settings().general[name]


def set_auto_parallel_context(**settings: Any) -> None:
    """Set how networks that are compiled from now on are cut and fed; what is not named stays as it is.

    Parameters
    ----------
    **settings
        ``parallel_mode``: a name of ``ParallelMode``. ``device_num``, ``global_rank``: int, by default those of the
        world. ``full_batch``: bool, whether each rank is fed the whole batch; or ``dataset_strategy``: "full_batch",
        "data_parallel", or the cuts of each input. ``gradients_mean``: bool, whether data parallelism averages rather
        than sums. ``enable_parallel_optimizer``: bool, whether replicas share out weights and moments;
        ``optimizer_weight_shard_size``: among how many, -1 for all; ``parallel_optimizer_config``: a dict, in which
        ``parallel_optimizer_threshold`` is in KiB. ``grad_accumulation_step``: int, the batches of a step.
        ``strategy_ckpt_save_file``, ``strategy_ckpt_load_file``, ``group_ckpt_save_file``: paths.
        ``auto_parallel_search_mode``: how strategies are found in auto parallel; with "everything" stages,
        micro-batches, their schedule, recomputation and optimizer shards are found, too. ``search_timeout``: seconds;
        ``search_machine``: a cluster file; ``search_memory_gb``: what a rank may need. The other names of MindSpore's
        are accepted, and said to have no effect.

    Raises
    ------
    ConfigurationError
        For an unknown name, with the nearest right one, or a wrong value.

    Notes
    -----
    Equal results: the loss of a step is that of one device on the same global batch, whatever the cut. It is equal up
    to the order in which floating-point terms are summed.

    Examples
    --------
    >>> set_auto_parallel_context(parallel_mode=ParallelMode.SEMI_AUTO_PARALLEL, full_batch=True)
    >>> reset_auto_parallel_context()
    """
    check_names(settings, PARALLEL_DEFAULTS, "set_auto_parallel_context")
    settings = in_one_way(settings)
    check_parallel_values(settings)
    say_without_effect("set_auto_parallel_context", settings, PARALLEL)
    optimizer = settings.get("parallel_optimizer_config", {})
    say_without_effect("set_auto_parallel_context: parallel_optimizer_config", optimizer, OPTIMIZER)
    now = all_settings()
    parallel = {**now.parallel, **settings}
    _check_shards_fit(parallel)
    _keep(replace(now, parallel=parallel))


def _check_shards_fit(parallel: dict[str, Any]) -> None:
    """Raise ConfigurationError where the shards of a parameter would need more devices than there are, if known."""
    devices = parallel["device_num"] or (world.current().size if world.initialised() else 1)
    size = _shard_size(parallel)
    if size > devices > 1:
        raise ConfigurationError(
            f"set_auto_parallel_context: optimizer_weight_shard_size {size} is more than the {devices} devices; use a "
            "divisor of their number, or -1 for all replicas"
        )


def _shard_size(parallel: dict[str, Any]) -> int:
    chosen = parallel["parallel_optimizer_config"].get("optimizer_weight_shard_size")
    return int(parallel["optimizer_weight_shard_size"] if chosen is None else chosen)


def get_auto_parallel_context(name: str) -> Any:
    """Return what ``set_auto_parallel_context`` has set for ``name``.

    Parameters
    ----------
    name : str
        A name that ``set_auto_parallel_context`` takes.

    Returns
    -------
    object
        The value that was set, or the default.

    Raises
    ------
    ConfigurationError
        For an unknown name, with the nearest right one.

    Examples
    --------
    >>> get_auto_parallel_context("parallel_mode")
    'stand_alone'
    """
    check_names({name: None}, PARALLEL_DEFAULTS, "get_auto_parallel_context")
    return all_settings().parallel[name]


def reset_auto_parallel_context() -> None:
    """Set all parallel settings back to their defaults.

    Examples
    --------
    >>> set_auto_parallel_context(device_num=8)
    >>> reset_auto_parallel_context()
    >>> get_auto_parallel_context("device_num") is None
    True
    """
    _keep(replace(all_settings(), parallel=dict(PARALLEL_DEFAULTS)))


def next_unnamed() -> int:
    """Return how many tensors without a name initializers have made since the seed was set, and count one more."""
    now = all_settings()
    _keep(replace(now, unnamed=now.unnamed + 1))
    return now.unnamed


def take_strategies(path: str, strategies: tuple[tuple[str, Strategy], ...], device_num: int = 0) -> None:
    """Take what the ``strategy_ckpt_load_file`` of that path says of operators; who can read such files calls this.

    They are for ``device_num`` devices, 0 where that is not known: for another number nothing is cut by them. Without a
    path they are not from a file, and hold as long as none is set.
    """
    _keep(replace(all_settings(), loaded_strategies=(path, strategies, device_num)))


def take_settings(settings: Settings) -> None:
    """Put what is set aside for ``settings``, which ``all_settings`` returned here or on another rank."""
    _keep(settings)


def _loaded_strategies(settings: Settings, device_num: int) -> tuple[tuple[str, Strategy], ...]:
    wanted = settings.parallel["strategy_ckpt_load_file"]
    path, strategies, made_for = settings.loaded_strategies
    if settings.parallel["parallel_mode"] not in ParallelMode.ONE_BATCH or (path and not wanted):
        return ()
    if path != wanted:
        raise ConfigurationError(
            f"strategy_ckpt_load_file {wanted!r} has not been read, which Model does; set it before making the Model, "
            "and run the network by the Model"
        )
    if made_for not in (0, device_num):
        remark(
            f"strategy_ckpt_load_file {path!r} is of {made_for} devices, and there are {device_num}: operators keep "
            "their own strategies, and the file only tells how the checkpoint files of that training are cut"
            if path
            else f"the strategies that were found are for {made_for} devices, and there are {device_num}: others count"
        )
        return ()
    return strategies


@contextmanager
def tracing_for(configuration: ObservedConfiguration) -> Iterator[None]:
    """Make a configuration the current one while a function is traced for it; it may be for other ranks.

    Where the function looks at other settings or at the world, all of the configuration has been read.
    """
    token = _TRACED_FOR.set(configuration)
    try:
        with world.observed(configuration.read_all):
            yield
    finally:
        _TRACED_FOR.reset(token)


def current_configuration(devices: int | None = None) -> ParallelConfiguration:
    """Return the frozen configuration that the settings and the world make now, or would make on so many ``devices``.

    Raises ConfigurationError when ``device_num`` or ``global_rank`` do not fit.
    """
    traced_for = _TRACED_FOR.get()
    if traced_for is not None and devices is None:
        return traced_for
    settings = all_settings()
    parallel = settings.parallel
    communicator = world.current() if world.initialised() else None
    alone = parallel["parallel_mode"] == ParallelMode.STAND_ALONE
    size = 1 if alone or communicator is None else communicator.size
    device_num = size if alone or parallel["device_num"] is None else parallel["device_num"]
    device_num = device_num if devices is None else devices
    rank = parallel["global_rank"]
    if rank is None:
        rank = 0 if alone or communicator is None else communicator.rank
    optimizer = parallel["parallel_optimizer_config"]
    device_id = settings.general["device_id"]
    stages, ranks_of_stages = stage_ranks(parallel["pipeline_stages"])
    full_batch, input_cuts = _fed(parallel, len(ranks_of_stages[0]) if ranks_of_stages else device_num // stages)
    return ParallelConfiguration(
        mode=parallel["parallel_mode"],
        device_num=device_num,
        rank=rank,
        full_batch=full_batch,
        input_cuts=input_cuts,
        gradients_mean=bool(parallel["gradients_mean"]),
        parameter_broadcast=bool(parallel["parameter_broadcast"]),
        enable_parallel_optimizer=bool(parallel["enable_parallel_optimizer"]),
        optimizer_threshold=optimizer.get("parallel_optimizer_threshold", 64),
        optimizer_shard_size=_shard_size(parallel),
        strategy_save_file=parallel["strategy_ckpt_save_file"],
        strategy_load_file=parallel["strategy_ckpt_load_file"],
        loaded_strategies=_loaded_strategies(settings, device_num),
        strategy_of_all=not parallel["strategy_ckpt_config"].get("only_trainable_params", True),
        group_info_file=parallel["group_ckpt_save_file"] or os.environ.get("GROUP_INFO_FILE", ""),
        save_graphs=_graph_level(settings.general["save_graphs"]),
        save_graphs_path=os.fspath(settings.general["save_graphs_path"]),
        seed=settings.seed,
        device_target=settings.general["device_target"],
        device_id=device_id,
        allows_tf32=multiplies_in_tf32(settings.general["gpu_config"]),
        convolves_in_tf32=convolves_in_tf32(settings.general["gpu_config"]),
        search_mode=parallel["auto_parallel_search_mode"],
        search_machine=parallel["search_machine"],
        search_memory=inf if parallel["search_memory_gb"] is None else parallel["search_memory_gb"] * 1e9,
        search_timeout=inf if parallel["search_timeout"] is None else float(parallel["search_timeout"]),
        pipeline_stages=stages,
        stage_ranks=ranks_of_stages,
        pipeline_schedule=pipeline_schedule(parallel["pipeline_config"] or {}),
    )


def _fed(parallel: dict[str, Any], device_num: int) -> tuple[bool, tuple[tuple[int, ...], ...]]:
    """Return whether every rank is fed the global batch, and how else it is cut than in equal pieces of dim 0.

    Where each rank has a batch of its own, none is fed the global one.
    """
    strategy = parallel["dataset_strategy"]
    if parallel["parallel_mode"] in ParallelMode.OWN_BATCH:
        return False, ()
    if isinstance(strategy, str):
        full = strategy == "full_batch" if parallel["full_batch"] is None else parallel["full_batch"]
        return bool(full), ()
    for cuts in strategy:
        if prod(cuts) not in (1, device_num):
            raise ConfigurationError(
                f"dataset_strategy {strategy!r}: {cuts} makes {prod(cuts)} pieces, but {device_num} devices share a "
                f"batch; cut an input in {device_num}, for a piece each, or in 1, for the whole on each"
            )
    whole = all(prod(cuts) == 1 for cuts in strategy)
    rows = all(cuts[:1] == (device_num,) for cuts in strategy)
    return whole, () if whole or rows else tuple(strategy)


def _graph_level(asked: Any) -> int:
    """Return which graphs are written, from 0 for none to 3; True is 2, as in MindSpore."""
    return 2 if asked is True else int(asked)
