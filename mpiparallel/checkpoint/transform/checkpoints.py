"""Checkpoint files of one set of ranks converted to those of another (MindSpore's ``transform_checkpoints``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mpiparallel.checkpoint.formats.registry import FORMATS, existing_file
from mpiparallel.checkpoint.strategy.message_file import path_of
from mpiparallel.checkpoint.transform.folder_request import FolderRequest, convert
from mpiparallel.checkpoint.transform.rank_list import check_rank
from mpiparallel.checkpoint.transform.report import TransformReport
from mpiparallel.checkpoint.transform.source_state import open_source
from mpiparallel.checkpoint.transform.target_slices import Missing, Target, strategy_stages
from mpiparallel.checkpoint.transform.workers import run_workers
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ConfigurationError, TransformError

Name = str | Path


def transform_checkpoints(
    src_checkpoints_dir: Name,
    dst_checkpoints_dir: Name,
    ckpt_prefix: str,
    src_strategy_file: Name | None = None,
    dst_strategy_file: Name | None = None,
    process_num: int = 1,
    output_format: str | None = None,
    *,
    missing: Missing = "refuse",
    compare_replicas: bool = False,
    communicator: Any = None,
) -> TransformReport:
    """Convert the files ``rank_<r>/*`` of all source ranks to ``rank_<r>/<ckpt_prefix><r>.*`` of all target ranks.

    As MindSpore's function of that name, from any number of ranks to any other, cut evenly or not. Shards of the
    parallel optimizer are merged and cut like all else. The newest checkpoint is taken, that of the highest epoch and
    step in the file's name; ranks whose newest differ are refused. Where the file of a rank is missing or damaged a
    replica stands in. Each process needs memory for one slice. A target file is there whole or not at all.

    A parameter that no source strategy names must be the same in all files. One that no target strategy names goes to
    every rank if it is not cut or has one element.

    Parameters
    ----------
    src_checkpoints_dir, dst_checkpoints_dir : str or Path
        The folders.
    ckpt_prefix : str
        With which names of target files begin.
    src_strategy_file, dst_strategy_file : str or Path, optional
        None for a single device that has all whole; of our own checkpoints the manifest says how the source is cut. A
        merged strategy file tells of pipeline stages.
    process_num : int
        How many processes share the targets.
    output_format : str, optional
        A name of ``FORMATS``, by default that of the source.
    missing : {"refuse", "replicated", "omitted"}
        What becomes of a cut parameter that no target strategy names: it is refused, given whole to every rank, or left
        out. It is given whole even where copies differ: the first is taken.
    compare_replicas : bool
        Whether all copies of a slice must be equal.
    communicator : Communicator, optional
        Ours or one of mpi4py: its ranks share the targets, call it together, and have a report each of what they made.

    Returns
    -------
    TransformReport
        The files that were written, and what was done for want of something better.

    Raises
    ------
    StrategyFileError, ConfigurationError, TransformError
        ValueErrors each, for what does not fit, before a file is written.
    CheckpointError
        Where reading or writing fails later on.

    Notes
    -----
    The elements of the targets are bit for bit those of the sources.

    Examples
    --------
    One file of a single device, for two ranks that cut ``w`` along dim 0:

    >>> import tempfile
    >>> import numpy as np
    >>> from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
    >>> from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyRecord
    >>> from mpiparallel.train.serialization import load_checkpoint, save_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_strategy(f"{folder}/two.ckpt", StrategyRecord({"w": LayoutItem((2,), ((0,),))}, {}))
    ...     save_checkpoint({"w": np.arange(4.0)}, f"{folder}/from/rank_0/net-1_1.ckpt")
    ...     _ = transform_checkpoints(f"{folder}/from", f"{folder}/to", "part", dst_strategy_file=f"{folder}/two.ckpt")
    ...     load_checkpoint(f"{folder}/to/rank_1/part1.ckpt")["w"].asnumpy().tolist()
    [2.0, 3.0]
    """
    request = FolderRequest(
        _text(src_checkpoints_dir, "src_checkpoints_dir"),
        _text(dst_checkpoints_dir, "dst_checkpoints_dir"),
        ckpt_prefix,
        None if src_strategy_file is None else _text(src_strategy_file, "src_strategy_file"),
        None if dst_strategy_file is None else _text(dst_strategy_file, "dst_strategy_file"),
        output_format,
        missing,
        compare_replicas,
    )
    if type(process_num) is not int or process_num < 1 or (process_num > 1 and communicator is not None):
        raise ConfigurationError(f"process_num is {process_num!r}; give 1 or more, and 1 with a communicator")
    if communicator is not None:
        with _our_world(communicator) as world, failing_together(world, TransformError):
            return request.run(world.rank, world.size)
    return request.run() if process_num == 1 else run_workers(request, process_num)


def transform_checkpoint_by_rank(
    rank_id: int,
    checkpoint_files_map: Mapping[int, Name],
    save_checkpoint_file_name: Name,
    src_strategy_file: Name | None = None,
    dst_strategy_file: Name | None = None,
    *,
    missing: Missing = "refuse",
    compare_replicas: bool = False,
) -> TransformReport:
    """Make the file of one target rank from the files of source ranks, as ``transform_checkpoints`` would.

    As MindSpore's function of that name.

    Parameters
    ----------
    rank_id : int
        The target rank.
    checkpoint_files_map : dict of int to str or Path
        The file of each rank that ``rank_list_for_transform`` names, or of others with the same slices. Some parts of a
        dim may be missing while neither a ``.json`` strategy file nor a manifest beside the files says how long it is.
        Then the parts are taken to be equally long.
    save_checkpoint_file_name : str or Path
        The suffix is its format; without one it gets that of the sources.
    src_strategy_file, dst_strategy_file, missing, compare_replicas
        As for ``transform_checkpoints``.

    Returns
    -------
    TransformReport
        The file that was written, and what was done for want of something better.

    Raises
    ------
    StrategyFileError, ConfigurationError, TransformError, CheckpointError
        As ``transform_checkpoints`` does; what is missing is told by parameter and rank.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
    >>> from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyRecord
    >>> from mpiparallel.train.serialization import load_checkpoint, save_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_strategy(f"{folder}/two.ckpt", StrategyRecord({"w": LayoutItem((2,), ((0,),))}, {}))
    ...     for rank in range(2):
    ...         save_checkpoint({"w": np.full(2, float(rank))}, f"{folder}/{rank}.ckpt")
    ...     files = {rank: f"{folder}/{rank}.ckpt" for rank in range(2)}
    ...     _ = transform_checkpoint_by_rank(0, files, f"{folder}/whole.ckpt", f"{folder}/two.ckpt")
    ...     load_checkpoint(f"{folder}/whole.ckpt")["w"].asnumpy().tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    target = Target(strategy_stages(dst_strategy_file), missing)
    check_rank(rank_id, target)
    files = _files(checkpoint_files_map)
    path = path_of(save_checkpoint_file_name, "save_checkpoint_file_name", "file to write")
    with open_source(files, strategy_stages(src_strategy_file)) as source:
        if path.suffix not in {format_.suffix for format_ in FORMATS.values()}:
            path = path.with_name(f"{path.name}{source.suffix}")
        if path.resolve() in {file.resolve() for file in files.values()}:
            raise TransformError(f"{path}: is a source too; give save_checkpoint_file_name another name")
        return convert(source, target, {rank_id: path}, source.tensors if compare_replicas else ())


def _files(given: Any) -> dict[int, Path]:
    if not isinstance(given, Mapping) or any(type(rank) is not int or rank < 0 for rank in given):
        raise ConfigurationError(
            "checkpoint_files_map is no dict of files by source rank; give {0: path, 1: path, ...}"
        )
    named = {rank: path_of(name, f"checkpoint_files_map[{rank}]", "checkpoint file") for rank, name in given.items()}
    return {rank: existing_file(path) for rank, path in named.items()}


def _text(name: Any, argument: str) -> str:
    return str(path_of(name, argument, "folder or file"))


@contextmanager
def _our_world(communicator: Any) -> Iterator[Communicator]:
    if type(communicator).__module__.partition(".")[0] != "mpi4py":
        yield communicator
        return
    # Importing this module starts MPI, which here has been started already.
    from mpiparallel.communication import mpi

    world: Communicator = mpi.communicator_of(communicator)
    try:
        yield world
    finally:
        world.free()
