"""What values parallel settings may have: wrong names and values are refused, with the nearest right one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from mpiparallel.context.accepted import OPTIMIZER
from mpiparallel.errors import ConfigurationError, ScheduleError
from mpiparallel.parallel.configuration import EVERYTHING, ParallelMode
from mpiparallel.pipeline.parsing import read_schedule
from mpiparallel.pipeline.registry import schedule_name
from mpiparallel.pipeline.schedule import Schedule

_PIPELINE_KEYS: Final = ("pipeline_interleave", "pipeline_scheduler")
_OPTIMIZER_KEYS: Final = ("parallel_optimizer_threshold", "optimizer_weight_shard_size", *OPTIMIZER)
# Accepting these and doing nothing would be a lie; each has one value that says what is done.
_ONLY: Final[dict[str, Any]] = {
    "loss_repeated_mean": True,
    "force_fp32_communication": False,
    "dump_local_norm": False,
    "dump_device_local_norm": False,
}
_FLAGS: Final = ("gradients_mean", "parameter_broadcast", "enable_parallel_optimizer", "loss_repeated_mean")
_PATHS: Final = (
    "strategy_ckpt_save_file",
    "strategy_ckpt_load_file",
    "group_ckpt_save_file",
    "dump_local_norm_path",
    "search_machine",
)
_STRATEGY_FILES: Final = {"load_file": "strategy_ckpt_load_file", "save_file": "strategy_ckpt_save_file"}
_LEVELS: Final = ("level1", "level2", "level3")
_SEARCH_MODES: Final = ("recursive_programming", "dynamic_programming", "sharding_propagation", "optimal", EVERYTHING)


def check_names(given: dict[str, Any], known: dict[str, Any] | tuple[str, ...], where: str) -> None:
    """Raise ConfigurationError for a name that is not ``known``."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
            raise ConfigurationError(f"{where}: {name!r} is not a parameter; {hint}")


def in_one_way(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with those that MindSpore knows by two names under both, and the schedule in a file read."""
    where = "set_auto_parallel_context"
    files = settings.get("strategy_ckpt_config") or {}
    if not isinstance(files, dict):
        raise ConfigurationError(f"{where}: strategy_ckpt_config {files!r} must be a dict of load_file and save_file")
    check_names(files, (*_STRATEGY_FILES, "only_trainable_params"), f"{where}: strategy_ckpt_config")
    config = settings.get("pipeline_config")
    if isinstance(config, dict) and _is_file(config.get("pipeline_scheduler")):
        settings = {**settings, "pipeline_config": {**config, "pipeline_scheduler": _read_schedule(config, where)}}
    searches = [settings[name] for name in ("auto_parallel_search_mode", "search_mode") if name in settings]
    return {
        **settings,
        **{_STRATEGY_FILES[name]: path for name, path in files.items() if name in _STRATEGY_FILES},
        **(dict.fromkeys(("auto_parallel_search_mode", "search_mode"), searches[-1]) if searches else {}),
    }


def check_parallel_values(settings: dict[str, Any]) -> None:
    """Raise ConfigurationError for what ``set_auto_parallel_context`` cannot be told."""
    where = "set_auto_parallel_context"
    mode = settings.get("parallel_mode", ParallelMode.STAND_ALONE)
    if mode not in ParallelMode.MODE_LIST:
        near = difflib.get_close_matches(str(mode).lower(), ParallelMode.MODE_LIST, 1, 0.3)
        raise ConfigurationError(
            f"{where}: parallel_mode {mode!r} is not one; did you mean {(near or ParallelMode.MODE_LIST)[0]!r}?"
        )
    _check_kinds(settings, where)
    _check_pipeline(settings.get("pipeline_config"), f"{where}: pipeline_config")
    _check_stage_ranks(settings.get("pipeline_stages"), where)
    _check_dataset_strategy(settings.get("dataset_strategy", "data_parallel"), where)
    optimizer = settings.get("parallel_optimizer_config", {})
    if not isinstance(optimizer, dict):
        raise ConfigurationError(
            f"{where}: parallel_optimizer_config {optimizer!r} must be a dict of {', '.join(_OPTIMIZER_KEYS)}"
        )
    _check_shard_size(optimizer, f"{where}: parallel_optimizer_config")
    _check_shard_size(settings, where)
    _check_whole(optimizer, "parallel_optimizer_threshold", 0, f"{where}: parallel_optimizer_config")
    check_names(optimizer, _OPTIMIZER_KEYS, f"{where}: parallel_optimizer_config")
    _check_only(settings, _ONLY, where)
    level = optimizer.get("optimizer_level", _LEVELS[0])
    if level not in _LEVELS:
        raise ConfigurationError(
            f"{where}: parallel_optimizer_config: optimizer_level {level!r} is not one of {', '.join(_LEVELS)}"
        )


def _check_pipeline(config: Any, where: str) -> None:
    if config is None:
        return
    if not isinstance(config, dict):
        raise ConfigurationError(f"{where} {config!r} must be a dict of {', '.join(_PIPELINE_KEYS)}")
    check_names(config, _PIPELINE_KEYS, where)
    interleave = config.get("pipeline_interleave", False)
    if not isinstance(interleave, bool):
        raise ConfigurationError(f"{where}: pipeline_interleave {interleave!r} must be True or False")
    try:
        pipeline_schedule(config)
    except ScheduleError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _check_stage_ranks(stages: Any, where: str) -> None:
    if not isinstance(stages, (list, tuple)):
        return
    counted = all(type(one) is int and one > 0 for one in stages)
    listed = all(isinstance(one, (list, tuple)) and one and all(type(rank) is int for rank in one) for one in stages)
    ranks = [rank for one in stages for rank in one] if listed else []
    if not stages or not (counted or listed) or sorted(ranks) != list(range(len(ranks))):
        raise ConfigurationError(
            f"{where}: pipeline_stages {stages!r} is neither a number of stages, nor how many ranks each has, like "
            "[1, 3], nor the ranks of each, like [[0, 2], [1, 3]]; name each rank from 0 on once"
        )


def stage_ranks(stages: Any) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Return how many stages there are, and the ranks of each where these are not equally many consecutive ones.

    Within a stage they ascend, as the blocks of its collectives do.
    """
    if isinstance(stages, int):
        return stages, ()
    if isinstance(stages[0], int):
        ends = list(accumulate(stages))
        return len(stages), tuple(tuple(range(end - count, end)) for count, end in zip(stages, ends, strict=True))
    return len(stages), tuple(tuple(sorted(ranks)) for ranks in stages)


def _is_file(scheduler: Any) -> bool:
    return isinstance(scheduler, str) and Path(scheduler).is_file()


def _read_schedule(config: dict[str, Any], where: str) -> Schedule:
    try:
        return read_schedule(config["pipeline_scheduler"])
    except ScheduleError as error:
        raise ConfigurationError(f"{where}: pipeline_config: {error}") from None


def pipeline_schedule(config: Mapping[str, Any]) -> str | Schedule:
    """Return the schedule that a ``pipeline_config`` asks for, or its name, which is empty where it asks for none.

    Raises ScheduleError for an unknown one.
    """
    interleave = config.get("pipeline_interleave", False)
    asked = config.get("pipeline_scheduler", "1f1b" if interleave else "")
    if isinstance(asked, Schedule) or not asked:
        return asked
    try:
        return schedule_name(asked, interleave)
    except ScheduleError as error:
        raise ScheduleError(f"{error}; nor is there a file {asked!r} with a list of actions") from None


def _check_dataset_strategy(strategy: Any, where: str) -> None:
    if strategy in ("data_parallel", "full_batch"):
        return
    shaped = isinstance(strategy, (tuple, list)) and strategy and all(isinstance(cuts, tuple) for cuts in strategy)
    if not shaped or not all(type(cut) is int and cut > 0 for cuts in strategy for cut in cuts):
        raise ConfigurationError(
            f"{where}: dataset_strategy {strategy!r} is not one of 'data_parallel', 'full_batch', nor a tuple of the "
            "cuts of each input, like ((8, 1), (8,))"
        )


def _check_kinds(settings: dict[str, Any], where: str) -> None:
    """Raise ConfigurationError for a text where a flag is wanted, which would count as true, and the like."""
    for name in (*_FLAGS, *(["full_batch"] if settings.get("full_batch") is not None else [])):
        if not isinstance(settings.get(name, True), bool):
            raise ConfigurationError(f"{where}: {name} {settings[name]!r} must be True or False")
    for name in _PATHS:
        if not isinstance(settings.get(name, ""), str):
            raise ConfigurationError(f"{where}: {name} {settings[name]!r} must be a path as text, or '' for none")
    for name, least in {"device_num": 1, "pipeline_stages": 1, "grad_accumulation_step": 1, "global_rank": 0}.items():
        if name != "pipeline_stages" or not isinstance(settings.get(name), (list, tuple)):
            _check_whole(settings, name, least, where)
    search = settings.get("auto_parallel_search_mode", _SEARCH_MODES[0])
    if search not in _SEARCH_MODES:
        near = (difflib.get_close_matches(str(search).lower(), _SEARCH_MODES, 1) or _SEARCH_MODES)[0]
        raise ConfigurationError(f"{where}: auto_parallel_search_mode {search!r} is not one; did you mean {near!r}?")
    for name, what in {"search_timeout": "seconds", "search_memory_gb": "gigabytes"}.items():
        value = settings.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0):
            raise ConfigurationError(f"{where}: {name} {value!r} must be {what} above 0, or None for no end")


def _check_whole(given: dict[str, Any], name: str, least: int, where: str) -> None:
    value = given.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise ConfigurationError(f"{where}: {name} {value!r} must be an integer of at least {least}")


def _check_shard_size(given: dict[str, Any], where: str) -> None:
    if given.get("optimizer_weight_shard_size", -1) == 0:
        raise ConfigurationError(f"{where}: optimizer_weight_shard_size 0 must be at least 1, or -1 for all replicas")
    _check_whole(given, "optimizer_weight_shard_size", -1, where)


def _check_only(given: dict[str, Any], possible: dict[str, Any], where: str) -> None:
    for name, value in possible.items():
        if given.get(name, value) != value:
            raise ConfigurationError(f"{where}: {name} {given[name]!r} is not implemented yet; use {value!r}")
