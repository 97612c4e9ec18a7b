"""Loading what ModelCheckpoint saved into a network that is cut alike (MindSpore's ``load_checkpoint``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mpiparallel.checkpoint.hdf5 import read_shard
from mpiparallel.errors import CheckpointError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.nn.cell import Cell


def load_checkpoint(ckpt_file_name: str | Path, net: Cell | None = None) -> dict[str, Parameter]:
    """Return the parameters in one rank's shard, by name; with ``net`` they are loaded into it too.

    They are the slices that the rank held. Raises CheckpointError when the file is missing or damaged.
    """
    arrays: Mapping[str, np.ndarray[Any, Any]] = read_shard(ckpt_file_name)
    loaded = {name: Parameter(array, name) for name, array in arrays.items()}
    if net is not None:
        load_param_into_net(net, loaded)
    return loaded


def load_param_into_net(
    net: Any, parameter_dict: Mapping[str, Parameter], strict_load: bool = False
) -> tuple[list[str], list[str]]:
    """Overwrite the parameters of a network or optimizer; return the names that only it has, and only the file.

    A network that is cut must be compiled first (``Model.build``), so that its slices are known. Nothing is changed
    unless everything fits: raises CheckpointError, naming parameter, shapes and dtypes, for a slice of another shape,
    and for another dtype unless both are floats and ``strict_load`` is not set.
    """
    known = {parameter.name: parameter for parameter in net.get_parameters()}
    fitting = {name: parameter for name, parameter in parameter_dict.items() if name in known}
    for name, parameter in fitting.items():
        _check_fits(known[name], parameter, strict_load)
    for name, parameter in fitting.items():
        known[name].set_data(parameter, slice_shape=known[name].layout is not None)
    return sorted(known.keys() - fitting.keys()), sorted(parameter_dict.keys() - fitting.keys())


def _check_fits(target: Parameter, source: Parameter, strict: bool) -> None:
    if source.shape != target.box.shape:
        raise CheckpointError(
            f"parameter {target.name!r}: the file holds shape {source.shape}, this rank {target.box.shape} of "
            f"{target.shape}; "
            "build the model with the strategy and the ranks that saved it"
        )
    floats = source.dtype.kind == target.dtype.kind == "f"
    if source.dtype != target.dtype and (strict or not floats):
        raise CheckpointError(f"parameter {target.name!r}: the file holds {source.dtype}, the network {target.dtype}")
