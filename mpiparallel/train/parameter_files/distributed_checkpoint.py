"""Slices of one cut loaded into a network of another: MindSpore's ``load_distributed_checkpoint``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mpiparallel.backend.collector_pause import collector_paused
from mpiparallel.backend.freed_memory import give_back_freed_memory
from mpiparallel.checkpoint.catalogue import find, manifest_of_shard
from mpiparallel.checkpoint.formats.registry import existing_file
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.checkpoint.transform.replica_comparison import check_unnamed
from mpiparallel.checkpoint.transform.sliced_parameter import merge_slices
from mpiparallel.checkpoint.transform.source_state import open_source
from mpiparallel.checkpoint.transform.target_slices import strategy_stages
from mpiparallel.context.settings import get_auto_parallel_context
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.box import Box
from mpiparallel.train.callback.checkpoint_config import check_protection
from mpiparallel.train.parameter_files.loading_into_network import check_dtype
from mpiparallel.train.parameter_files.saved_draws import DRAWS, draws_in, go_on_from
from mpiparallel.train.persistence.state import shape_of_one
from mpiparallel.train.strategies.inferred_layouts import ParameterLayout

_SHOWN = 4


@collector_paused()
def load_distributed_checkpoint(
    network: Any,
    checkpoint_filenames: str | Path | Sequence[str | Path] | None = None,
    predict_strategy: Mapping[str, ParameterLayout] | None = None,
    train_strategy_filename: str | Path | None = None,
    strict_load: bool = False,
    dec_key: Any = None,
    dec_mode: str = "AES-GCM",
) -> tuple[list[str], list[str]]:
    """Load the files of all ranks of a training into a network that is cut otherwise, or not at all.

    This rank reads only what it needs. Of a compiled network that is the slices that it holds, of another the whole
    parameters. Of what was each rank's own, it reads that of rank 0. A missing or damaged file is replaced by that of a
    rank with the same slices.

    Parameters
    ----------
    network : Cell
        What the parameters are loaded into.
    checkpoint_filenames : list of str or Path, or one
        The files of rank 0, 1, ... of the training, of any format. Or the folder of a ``ModelCheckpoint``, whose newest
        checkpoint is taken, or ``<folder>/<prefix>-<epoch>_<step>``.
    predict_strategy : dict, optional
        What ``Model.infer_train_layout`` or ``infer_predict_layout`` has returned, which compile; the network must be
        cut as it says.
    train_strategy_filename : str or Path, optional
        The strategy file of the training; without it ``strategy_ckpt_load_file`` of the context. What
        ``ModelCheckpoint`` has saved needs none.
    strict_load : bool
        Whether dtypes must be equal; else floats may differ.
    dec_key, dec_mode
        Encryption is refused.

    Returns
    -------
    tuple of list of str
        The names that only the network has, and those that only the files have.

    Raises
    ------
    CheckpointError, StrategyFileError, ConfigurationError
        If files, strategy and network do not fit, or if a slice is lost. Also if a parameter that no strategy names is
        not the same whole tensor on all ranks. Then nothing has changed.

    Examples
    --------
    >>> import tempfile
    >>> from mpiparallel import nn
    >>> from mpiparallel.train.serialization import save_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint(nn.Dense(2, 1), f"{folder}/net.ckpt")
    ...     load_distributed_checkpoint(nn.Dense(2, 1), [f"{folder}/net.ckpt"])
    ([], [])
    """
    check_protection("load_distributed_checkpoint", dec_key, dec_mode=dec_mode)
    known = {parameter.name: parameter for parameter in network.get_parameters() if not parameter.transient}
    _check_cuts(known, predict_strategy or {})
    strategy = train_strategy_filename or get_auto_parallel_context("strategy_ckpt_load_file") or None
    with ExitStack() as opened:
        state, own = _opened(checkpoint_filenames, strategy, opened)
        found = {
            name: _slice_of(state, known[name], name in own, strict_load)
            for name in sorted(known.keys() & state.tensors.keys())
            if not known[name].is_elsewhere
        }
        besides = state.tensors.keys() - known.keys()
        draws = draws_in(_whole(state, DRAWS) if DRAWS in besides else {})
    if draws is not None:
        go_on_from(draws)
    missing = sorted(known.keys() - state.tensors.keys())
    while found:
        name, array = found.popitem()
        known[name].set_data(array, slice_shape=known[name].layout is not None)
    give_back_freed_memory()
    return missing, sorted(besides - {DRAWS})


def _opened(given: Any, strategy: str | Path | None, opened: ExitStack) -> tuple[StoredState, frozenset[str]]:
    """Return the state in the files, and the names of what was each rank's own."""
    if isinstance(given, (list, tuple)) and strategy is None:
        given = _committed(_files(given)) or given
    if isinstance(given, (str, Path)):
        folder, manifest = find(given)
        listed = manifest.training.get("own")
        own = frozenset(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else frozenset()
        return opened.enter_context(StoredState.of_manifest(folder, manifest)), own
    files = _files(given)
    if strategy is None and len(files) > 1:
        raise ConfigurationError(
            f"load_distributed_checkpoint: how the {len(files)} ranks of the training cut their parameters is not "
            "known; give train_strategy_filename, the strategy_ckpt_save_file of the training"
        )
    source = opened.enter_context(open_source(files, strategy_stages(strategy)))
    check_unnamed(source)
    return source.state, frozenset()


def _whole(state: StoredState, name: str) -> dict[str, NDArray[Any]]:
    return {name: state.read_box(name, Box.whole(state.tensors[name].layout.global_shape))}


def _slice_of(state: StoredState, parameter: Parameter, is_own: bool, strict: bool) -> NDArray[Any]:
    """Return what this rank takes of a stored tensor. Raises CheckpointError if it does not fit."""
    name, box, stored = parameter.name, parameter.box, state.tensors[parameter.name]
    shape = shape_of_one(stored.layout, is_own)
    if shape is not None and prod(shape) == prod(parameter.shape) == 1:
        # Numbers are (1,) or () in files, and rank after rank where each has its own.
        box = Box.whole(shape)
    elif shape != parameter.shape:
        raise CheckpointError(
            f"parameter {name!r}: the files hold shape {shape or stored.layout.global_shape}, the network "
            f"{parameter.shape}; give the files and the strategy of this network"
        )
    check_dtype(parameter, stored.dtype, strict)
    return state.read_box(name, box).reshape(parameter.box.shape)


def merge_sliced_parameter(sliced_parameters: Sequence[Any], strategy: Mapping[str, Any] | None = None) -> Parameter:
    """Return the whole parameter of which each rank holds one of the slices.

    Shards of the parallel optimizer are merged too. The parameter has the name and the kind of the first slice.

    Parameters
    ----------
    sliced_parameters : list of Parameter
        In the order of the ranks.
    strategy : dict, optional
        What ``build_searched_strategy`` returns; without it the slices follow one another along dim 0.

    Returns
    -------
    Parameter
        Of the global shape.

    Raises
    ------
    KeyError
        Where the strategy does not name it.
    CheckpointError, StrategyFileError
        ValueErrors both, where the slices do not fit the strategy or copies differ.
    ConfigurationError
        Where ranks are given the same memory: a network into which one file after another was loaded holds only the
        last.

    Examples
    --------
    >>> import numpy as np
    >>> slices = [Parameter(np.array([[1.0, 2.0]]), "w"), Parameter(np.array([[3.0, 4.0]]), "w")]
    >>> merge_sliced_parameter(slices).asnumpy().tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if not isinstance(sliced_parameters, (list, tuple)) or not sliced_parameters:
        raise ConfigurationError("merge_sliced_parameter: give a list of the parameters of all ranks, rank after rank")
    first = sliced_parameters[0]
    names = {getattr(one, "name", None) for one in sliced_parameters}
    if not all(isinstance(one, Parameter) for one in sliced_parameters) or len(names) > 1:
        raise ConfigurationError(
            f"merge_sliced_parameter: {sorted(map(str, names))[:_SHOWN]}: give the slices of one parameter"
        )
    if strategy is not None and first.name not in strategy:
        raise KeyError(f"merge_sliced_parameter: the strategy does not name {first.name!r}; it has {_few(strategy)}")
    _refuse_shared_memory(sliced_parameters)
    item = None if strategy is None else strategy[first.name]
    whole = merge_slices([one.asnumpy() for one in sliced_parameters], item)
    return Parameter(whole, first.name, first.requires_grad, first.layerwise_parallel)


def _refuse_shared_memory(slices: Sequence[Parameter]) -> None:
    first_with: dict[int, int] = {}
    for rank, one in enumerate(slices):
        first = first_with.setdefault(id(one.array), rank)
        if first != rank:
            raise ConfigurationError(
                f"merge_sliced_parameter: ranks {first} and {rank} are given one and the same {one.name!r}: a "
                "network holds only what was loaded into it last; give what load_checkpoint returns for each file, or "
                "a copy.deepcopy of the parameter after each load"
            )


def _files(given: Any) -> dict[int, Path]:
    is_list = isinstance(given, (list, tuple)) and given
    if not is_list or not all(isinstance(name, (str, Path)) for name in given):
        raise ConfigurationError(
            "load_distributed_checkpoint: checkpoint_filenames must be a list of the files of rank 0, 1, ..."
        )
    return {rank: existing_file(name) for rank, name in enumerate(given)}


def _committed(files: Mapping[int, Path]) -> Path | None:
    """Return the manifest of a checkpoint of ours, if the files are its shards, rank after rank."""
    first = next(iter(files.values()))
    manifest = manifest_of_shard(first)
    if manifest is None:
        return None
    shards = Manifest.load(manifest).shards
    named = {rank: manifest.parent / shard.file for rank, shard in enumerate(shards) if shard is not None}
    same = all(rank in named and path.absolute() == named[rank].absolute() for rank, path in files.items())
    return manifest if same else None


def _check_cuts(known: Mapping[str, Parameter], wanted: Mapping[str, ParameterLayout]) -> None:
    for name, layout in wanted.items():
        if name not in known:
            continue
        here, there = known[name].box.shape, tuple(layout[2])
        if here != there:
            raise ConfigurationError(
                f"load_distributed_checkpoint: predict_strategy gives this rank {there} of {name!r}, the network holds "
                f"{here}; give the network of the model that has inferred it, compiled"
            )


def _few(names: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, sorted(names)[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
