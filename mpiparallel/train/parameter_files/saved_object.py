"""What ``save_checkpoint`` is given, as arrays by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.context.settings import current_configuration
from mpiparallel.dtype import is_inexact
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.parallel.configuration import ParallelMode
from mpiparallel.train.object_collectives import world_or_alone
from mpiparallel.train.parameter_files.whole_tensors import gathered

Arrays = dict[str, NDArray[Any]]


class SavedObject(NamedTuple):
    """The ``names`` of what all ranks save, and its arrays: None where another rank of the same path writes them.

    ``communicator`` has the ranks that save together; None where each saves on its own.
    """

    names: frozenset[str]
    arrays: Arrays | None
    communicator: Communicator | None


def arrays_of(save_obj: Any, path: Path, integrated: bool, choice: Callable[[str], bool] | None) -> SavedObject:
    """Return what is to be written to ``path``.

    With ``integrated`` all ranks call it together, and parameters that are cut, or in a stage of a pipeline, are
    gathered. Without, only what this rank holds is there.
    """
    tensors = {name: data for name, data in _named(save_obj) if choice is None or choice(name)}
    cut = {name: data for name, data in tensors.items() if integrated and _is_cut(data)}
    arrays = {name: _as_array(name, data) for name, data in tensors.items() if not _is_elsewhere(data)}
    names = frozenset(tensors)
    if not cut:
        return SavedObject(names, arrays, None)
    communicator = world_or_alone()
    layouts = {name: one.layout for name, one in cut.items() if one.layout is not None}
    strange = [name for name, layout in layouts.items() if max(layout.devices.members) >= communicator.size]
    if strange:
        raise ConfigurationError(
            f"save_checkpoint: parameter {strange[0]!r} is cut over other ranks than there are; save slices with "
            "integrated_save=False"
        )
    writers = _first_of_each(path, communicator)
    held = {name: arrays[name] for name in layouts if name in arrays}
    whole = gathered(held, layouts, writers, communicator)
    return SavedObject(names, {**arrays, **whole} if communicator.rank in writers else None, communicator)


def _named(save_obj: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(save_obj, Cell):
        return [(one.name, one) for one in save_obj.get_parameters() if not one.transient]
    if isinstance(save_obj, Mapping):
        return list(save_obj.items())
    if isinstance(save_obj, (list, tuple)) and save_obj and all(isinstance(item, Parameter) for item in save_obj):
        return [(item.name, item) for item in save_obj]
    if isinstance(save_obj, (list, tuple)) and all(isinstance(item, Mapping) for item in save_obj):
        missing = [item for item in save_obj if not {"name", "data"} <= item.keys()]
        if not missing:
            return [(item["name"], item["data"]) for item in save_obj]
    raise ConfigurationError(
        f"save_checkpoint: save_obj is a {type(save_obj).__name__}; give a network, a dict of parameters by name, a "
        'list of parameters, or of {"name": ..., "data": ...}'
    )


def _is_cut(data: Any) -> bool:
    """Return whether a parameter is not whole on every rank; not of what is each rank's own."""
    if not isinstance(data, Parameter) or data.layout is None or data.layout.partial:
        return False
    if current_configuration().mode == ParallelMode.STAND_ALONE:
        return False
    return any(parts > 1 for parts in data.layout.cuts) or data.layout.devices.size != world_or_alone().size


def _is_elsewhere(data: Any) -> bool:
    return isinstance(data, Parameter) and data.is_elsewhere


def _as_array(name: Any, data: Any) -> NDArray[Any]:
    if not isinstance(name, str):
        raise ConfigurationError(f"save_checkpoint: {name!r} is no name; give texts")
    array = np.asarray(data.asnumpy() if isinstance(data, Tensor) else data)
    if not (array.dtype.kind in "biu" or is_inexact(array.dtype)):
        raise ConfigurationError(f"save_checkpoint: {name!r} is a {type(data).__name__}; give a tensor or an array")
    return array


def _first_of_each(path: Path, communicator: Communicator) -> list[int]:
    """Return the first rank of each path that ranks have given."""
    digests = np.zeros(communicator.size, np.uint64)
    own = xxhash.xxh3_64_intdigest(str(path.absolute()).encode(errors="surrogatepass"))
    communicator.all_gather(np.array([own], np.uint64), digests)
    firsts: dict[int, int] = {}
    for rank, digest in enumerate(digests.tolist()):
        firsts.setdefault(digest, rank)
    return sorted(firsts.values())


def appended_array(where: str, name: str, value: Any) -> NDArray[Any]:
    """Return a number or a tensor as an array. Raises ConfigurationError, which begins with ``where``, for others.

    >>> appended_array("append_info", "epoch_num", 3)
    array(3)
    """
    if not isinstance(value, (bool, int, float, np.ndarray, np.generic, Tensor)):
        raise ConfigurationError(f"{where}: {name!r} is a {type(value).__name__}; give a number, a text or a tensor")
    return np.array(value.asnumpy() if isinstance(value, Tensor) else value)
