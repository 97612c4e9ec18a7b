"""Parameters in one file: MindSpore's ``save_checkpoint``, ``load_checkpoint`` and ``load_param_into_net``."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.catalogue import manifest_of_shard
from mpiparallel.checkpoint.files.array_file import ArrayFile, infos_of, read_array
from mpiparallel.checkpoint.files.regular_file import from_root
from mpiparallel.checkpoint.formats.registry import FORMATS, existing_file, format_of, write_file
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.transform.file_owner import owner_in, told_of_itself
from mpiparallel.communication.agreement import failing_together
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.nn.cell import Cell
from mpiparallel.train.callback.checkpoint_config import check_protection
from mpiparallel.train.parameter_files.loading_into_network import load_param_into_net as load_param_into_net
from mpiparallel.train.parameter_files.missing_shard import refuse_missing_shard
from mpiparallel.train.parameter_files.saved_draws import draws_so_far
from mpiparallel.train.parameter_files.saved_object import appended_array, arrays_of
from mpiparallel.train.parameter_files.saved_slice import SavedSlice, SliceOfRank
from mpiparallel.train.persistence.background_write import BackgroundWrite

_DEFAULT_FORMAT: Final = "ckpt"

NameFilter = Callable[[str], bool]
Appended = Mapping[str, Any]


def save_checkpoint(
    save_obj: Any,
    ckpt_file_name: str | Path,
    integrated_save: bool = True,
    async_save: bool | str = False,
    append_dict: Appended | None = None,
    enc_key: Any = None,
    enc_mode: str = "AES-GCM",
    choice_func: NameFilter | None = None,
    crc_check: bool = False,
    format: str | None = None,
) -> BackgroundWrite | None:
    """Save parameters in one file of this process, in the format that its suffix names.

    The file is replaced in one step. Checksums are written wherever the format has them, whatever ``crc_check`` says.

    Parameters
    ----------
    save_obj : Cell, Optimizer, dict or list
        A network or an optimizer; or parameters, tensors or arrays by name; or a list of parameters, or of
        ``{"name": ..., "data": ...}``. Beside a network that has drawn random numbers outside of training steps, by
        dropout in a loop of one's own, stands how many times: "random_draws".
    ckpt_file_name : str or Path
        Its suffix names the format: ".h5", ".ckpt" (MindSpore's), ".safetensors" or ".npz". A name without such a
        suffix gets that of ``format``, ".ckpt" unless given, as in MindSpore.
    integrated_save : bool
        Whether a parameter that is cut is gathered whole from all ranks. They then call it together; those that name
        the same file write it once. Without, each rank saves its slices.
    async_save : bool or str
        Whether the values are copied and a thread writes them.
    append_dict : dict, optional
        Numbers, texts and tensors that are saved besides.
    enc_key, enc_mode, crc_check
        Encryption is refused; checksums are always written.
    choice_func : callable, optional
        Tells by name what is saved.
    format : str, optional
        The format of a name without a suffix.

    Returns
    -------
    BackgroundWrite or None
        With ``async_save`` what has ``wait()``, which raises what went wrong; that is printed too.

    Raises
    ------
    CheckpointError
        If it cannot be written.
    ConfigurationError
        For what cannot be saved.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint({"weight": np.arange(4.0)}, f"{folder}/line", append_dict={"epoch_num": 3})
    ...     loaded = load_checkpoint(f"{folder}/line.ckpt")
    >>> loaded["weight"].asnumpy().tolist(), int(loaded["epoch_num"].asnumpy())
    ([0.0, 1.0, 2.0, 3.0], 3)
    """
    check_protection("save_checkpoint", enc_key, crc_check, enc_mode=enc_mode)
    path = _with_suffix(ckpt_file_name, format)
    texts, numbers = _texts_and_numbers(append_dict or {})
    saved = arrays_of(save_obj, path, integrated_save, choice_func)
    clashing = saved.names & (append_dict or {}).keys()
    if clashing:
        raise ConfigurationError(f"save_checkpoint: append_dict: {min(clashing)!r} is the name of a parameter")
    drawn = draws_so_far() if isinstance(save_obj, Cell) else {}
    if not (saved.names or drawn or append_dict):
        chosen = "" if choice_func is None else " that choice_func chooses"
        raise ConfigurationError(f"save_checkpoint: save_obj has no parameter{chosen}, and a file of nothing is no use")
    arrays = None if saved.arrays is None else {**drawn, **saved.arrays, **numbers}
    if async_save:
        copied = None if arrays is None else {name: array.copy() for name, array in arrays.items()}
        return BackgroundWrite(partial(_write_aloud, path, copied, texts, _earlier(path)), _thread_name(path))
    for thread in _earlier(path):
        thread.join()
    if saved.communicator is None:
        _write(path, arrays, texts)
    else:
        with failing_together(saved.communicator, CheckpointError):
            _write(path, arrays, texts)
    return None


def _texts_and_numbers(appended: Appended) -> tuple[dict[str, str], dict[str, Any]]:
    texts = {name: value for name, value in appended.items() if isinstance(value, str)}
    others = {name: value for name, value in appended.items() if name not in texts}
    where = "save_checkpoint: append_dict"
    return texts, {name: appended_array(where, name, value) for name, value in others.items()}


def load_checkpoint(
    ckpt_file_name: str | Path,
    net: Cell | None = None,
    strict_load: bool = False,
    filter_prefix: str | Sequence[str] | None = None,
    dec_key: Any = None,
    dec_mode: str = "AES-GCM",
    specify_prefix: str | Sequence[str] | None = None,
    choice_func: NameFilter | None = None,
    crc_check: bool = False,
    remove_redundancy: bool = False,
    format: str | None = None,
) -> dict[str, Any]:
    """Return the parameters in one file by name; with ``net`` they are loaded into it, as ``load_param_into_net`` does.

    Of a rank's shard they are the slices that the rank held. If the network is cut otherwise, or not yet, each rank
    takes its part of the whole from the shards. What was saved by ``append_dict`` comes too: numbers as
    parameters of no dim, texts as they are. Checksums are always looked at.

    Parameters
    ----------
    ckpt_file_name : str or Path
        The suffix tells the format, unless ``format`` does. Where there is no such file, one beside it of that name in
        another format is read, and that is said.
    net, strict_load
        What the parameters are loaded into, as by ``load_param_into_net``.
    filter_prefix, specify_prefix : str or sequence of str, optional
        Names that begin with one of ``filter_prefix``, and those that do not begin with one of ``specify_prefix``, are
        left out.
    dec_key, dec_mode, crc_check
        Encryption is refused; checksums are always looked at.
    choice_func : callable, optional
        Names that it says False to are left out.
    remove_redundancy : bool
        Whether a shard may lack slices of its rank, which ``CheckpointConfig(remove_redundancy=True)`` left to others.
    format : str, optional
        The format of the file, whatever its suffix.

    Returns
    -------
    dict of str to Parameter or str
        The parameters, by name.

    Raises
    ------
    CheckpointError
        When the file is missing or damaged, and for a shard that lacks slices without ``remove_redundancy``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint({"weight": np.ones(2), "bias": np.zeros(1)}, f"{folder}/net.ckpt")
    ...     sorted(load_checkpoint(f"{folder}/net.ckpt", filter_prefix="bias"))
    ['weight']
    """
    check_protection("load_checkpoint", dec_key, crc_check, dec_mode=dec_mode)
    path = existing_file(ckpt_file_name) if format is None else Path(ckpt_file_name)
    refuse_missing_shard(path)
    wanted = partial(_is_wanted, filter_prefix, specify_prefix, choice_func)
    with _opened(path, format) as file:
        committed = _committed(file.path)
        if committed and not remove_redundancy:
            _check_is_whole(file, *committed)
        loaded: dict[str, Any] = {name: _parameter(file, name, committed) for name in file.arrays if wanted(name)}
        loaded |= {name: value for name, value in _appended(file).items() if wanted(name)}
    if not loaded:
        raise CheckpointError(f"{path}: holds nothing of the names that were asked for")
    if net is not None:
        load_param_into_net(net, loaded, strict_load, remove_redundancy)
    return loaded


def _committed(path: Path) -> tuple[Path, Manifest, int] | None:
    """Return the folder and the manifest that name a shard, and its rank; None where it is no shard."""
    manifest_path = manifest_of_shard(path)
    if manifest_path is None:
        return None
    manifest = Manifest.load(manifest_path)
    named = [None if shard is None else manifest_path.parent / shard.file for shard in manifest.shards]
    shard = from_root(path)
    return (manifest_path.parent, manifest, named.index(shard)) if shard in named else None


def _parameter(file: ArrayFile, name: str, committed: tuple[Path, Manifest, int] | None) -> Parameter:
    array = read_array(file, name)
    if committed and name in committed[1].tensors and committed[1].tensors[name].layout.global_shape != array.shape:
        return SavedSlice(array, name, *committed)
    owner = owner_in(file.attributes)
    if committed is None and owner is not None:
        return SliceOfRank(array, name, owner)
    return Parameter(array, name, requires_grad=False)


def _check_is_whole(file: ArrayFile, folder: Path, manifest: Manifest, rank: int) -> None:
    """Refuse a shard without slices that its rank held: loaded alone it would leave a network as it was, in parts."""
    held = {name for name, entry in manifest.tensors.items() if rank in entry.layout.devices}
    lacking = sorted(held - file.arrays.keys())
    if lacking:
        raise CheckpointError(
            f"{file.path}: lacks {len(lacking)} of the {len(held)} slices that rank {rank} held, such as "
            f'"{lacking[0]}", for other ranks have written them; load it with remove_redundancy=True on all ranks, '
            "here and in load_param_into_net, or use Model.resume"
        )


def _with_suffix(name: str | Path, format_name: str | None) -> Path:
    path = Path(name)
    if format_name is not None and format_name not in FORMATS:
        raise ConfigurationError(f"save_checkpoint: format {format_name!r} is not one of {', '.join(FORMATS)}")
    suffixes = {format_.suffix: format_.name for format_ in FORMATS.values()}
    if path.suffix not in suffixes:
        return path.with_name(f"{path.name}.{format_name or _DEFAULT_FORMAT}")
    if format_name not in (None, suffixes[path.suffix]):
        raise ConfigurationError(f"save_checkpoint: {path}: its suffix is not that of format {format_name!r}")
    return path


def _write(path: Path, arrays: Mapping[str, NDArray[Any]] | None, texts: Mapping[str, str]) -> None:
    if arrays is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{path.parent}: the folder cannot be made ({error}); name another") from error
    write_file(path, infos_of(arrays), arrays.items(), texts)


def _thread_name(path: Path) -> str:
    return f"save_checkpoint {path.absolute()}"


def _earlier(path: Path) -> list[Thread]:
    """Return the threads that still write to ``path``: what is saved last must be what is there in the end."""
    return [thread for thread in threading.enumerate() if thread.name == _thread_name(path)]


def _write_aloud(
    path: Path, arrays: Mapping[str, NDArray[Any]] | None, texts: Mapping[str, str], earlier: Sequence[Thread]
) -> None:
    """Write once the ``earlier`` ones have, and say what goes wrong at once: perhaps nobody waits for it."""
    for thread in earlier:
        thread.join()
    try:
        _write(path, arrays, texts)
    except (CheckpointError, OSError, MemoryError) as error:
        print(f"save_checkpoint: {path} is not written: {error}", file=sys.stderr, flush=True)
        raise


def _opened(path: Path, format_name: str | None) -> ArrayFile:
    if format_name is not None and format_name not in FORMATS:
        raise ConfigurationError(f"load_checkpoint: format {format_name!r} is not one of {', '.join(FORMATS)}")
    chosen = format_of(path) if format_name is None else FORMATS[format_name]
    return chosen.open(path)


def _appended(file: ArrayFile) -> dict[str, Any]:
    """Return what else a file tells, numbers as parameters; not what it says of itself."""
    own = told_of_itself(file.attributes)
    return {
        name: value if isinstance(value, str) else Parameter(np.asarray(value), name, requires_grad=False)
        for name, value in file.attributes.items()
        if name not in file.arrays and name not in own
    }


def _is_wanted(
    filtered: str | Sequence[str] | None, specified: str | Sequence[str] | None, choice: NameFilter | None, name: str
) -> bool:
    if filtered is not None and name.startswith(_prefixes(filtered)):
        return False
    if specified is not None and not name.startswith(_prefixes(specified)):
        return False
    return choice is None or bool(choice(name))


def _prefixes(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
