"""Loading parameters into a network or an optimizer that may be cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.dtype import is_floating
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.layout.box import Box
from mpiparallel.train.object_collectives import world_or_alone
from mpiparallel.train.parameter_files.saved_draws import DRAWS, draws_in, go_on_from
from mpiparallel.train.parameter_files.saved_slice import SavedSlice, SliceOfRank


def load_param_into_net(
    net: Any, parameter_dict: Mapping[str, Any], strict_load: bool = False, remove_redundancy: bool = False
) -> tuple[list[str], list[str]]:
    """Overwrite the parameters of a network or optimizer; nothing is changed unless everything fits.

    A network that is cut must be compiled first (``Model.build``) where it is given slices that come from elsewhere, so
    that its own are known. With the "random_draws" of ``save_checkpoint`` random operators go on as if as many draws
    had been made here.

    Parameters
    ----------
    net : Cell or Optimizer
        Its parameters are overwritten.
    parameter_dict : dict
        Parameters, tensors or arrays by name; texts are left alone. Each is the rank's slice, or a whole tensor, of
        which the rank takes its slice. If it is another rank's slice of a checkpoint, the rank reads its own from the
        shards.
    strict_load : bool
        Whether dtypes must be equal; else floats may differ.
    remove_redundancy : bool
        Whether the parameters were loaded from a checkpoint of ``CheckpointConfig(remove_redundancy=True)``. Then each
        rank gives only some of the slices that it shares with others, and gets the rest from those ranks. All ranks
        call it together.

    Returns
    -------
    tuple of list of str
        The names that only ``net`` has, and those that only the dict has.

    Raises
    ------
    CheckpointError
        For another shape, and for another dtype: it names parameter, shapes and dtypes.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> network = nn.Dense(2, 1)
    >>> load_param_into_net(network, {"weight": np.ones((1, 2), np.float32), "other": np.ones(1)})
    (['bias'], ['other'])
    >>> network.weight.asnumpy().tolist()
    [[1.0, 1.0]]
    """
    known = {parameter.name: parameter for parameter in net.get_parameters() if not parameter.transient}
    given = {name: value for name, value in parameter_dict.items() if not isinstance(value, str)}
    draws = None if DRAWS in known else draws_in(given)
    fitting: dict[str, NDArray[Any]] = {}
    if remove_redundancy:
        communicator = world_or_alone()
        with failing_together(communicator, CheckpointError):
            fitting = _fitting(known, given, strict_load)
        fitting = _with_those_of_others(known, fitting, communicator)
    else:
        fitting = _fitting(known, given, strict_load)
    for name, array in fitting.items():
        known[name].set_data(array, slice_shape=known[name].layout is not None)
    taken = set(known)
    if draws is not None:
        go_on_from(draws)
        taken.add(DRAWS)
    return sorted(known.keys() - fitting.keys()), sorted(parameter_dict.keys() - taken)


def _fitting(known: Mapping[str, Parameter], given: Mapping[str, Any], strict: bool) -> dict[str, NDArray[Any]]:
    return {
        name: _slice_for(known[name], value, strict)
        for name, value in given.items()
        if name in known and not known[name].is_elsewhere
    }


def _slice_for(target: Parameter, source: Any, strict: bool) -> NDArray[Any]:
    """Return what this rank takes of a tensor for a parameter, of the parameter's dtype.

    Raises CheckpointError if it does not fit.
    """
    if not isinstance(source, (Tensor, np.ndarray, np.generic)):
        raise ConfigurationError(
            f"load_param_into_net: {target.name!r} is a {type(source).__name__}; give parameters or arrays, as "
            "load_checkpoint does"
        )
    array = np.asarray(source.asnumpy() if isinstance(source, Tensor) else source)
    check_dtype(target, array.dtype, strict)
    if isinstance(source, SavedSlice) and source.whole_shape == target.shape:
        # Before shapes are compared: slices of other ranks may have the same.
        part = source.part(target.box)
        if part is not None:
            return part.astype(target.dtype, copy=False)
    if array.size == 1 and target.shape in ((), (1,)) and array.ndim < 2:
        # MindSpore's files have numbers as (1,) or as ().
        array = array.reshape(target.shape)
    if isinstance(source, SliceOfRank) and array.shape != target.shape:
        source.check_rank(target)
    if array.shape == target.box.shape:
        return array.astype(target.dtype, copy=False)
    if array.shape == target.shape:
        return array[target.box.within(Box.whole(target.shape))].astype(target.dtype, copy=False)
    raise CheckpointError(
        f"parameter {target.name!r}: the file holds shape {array.shape}, this rank {target.box.shape} of "
        f"{target.shape}; build the model with the strategy and the ranks that saved it, or give whole "
        "tensors, or load the folder by load_distributed_checkpoint"
    )


def check_dtype(target: Parameter, dtype: np.dtype[Any], strict: bool) -> None:
    """Raise CheckpointError unless a parameter can take values of ``dtype``: its own, or of floats another float."""
    floats = is_floating(dtype) and is_floating(target.dtype)
    if dtype != target.dtype and (strict or not floats):
        raise CheckpointError(f"parameter {target.name!r}: the file holds {dtype}, the network {target.spec.dtype}")


def _with_those_of_others(
    known: Mapping[str, Parameter], own: Mapping[str, NDArray[Any]], communicator: Communicator
) -> dict[str, NDArray[Any]]:
    """Return what this rank and those that hold the same slices give; all ranks call it together."""
    names = sorted(known)
    given = np.array([name in own for name in names], np.uint8)
    everyone = np.zeros((communicator.size, len(names)), np.uint8)
    communicator.all_gather(given, everyone)
    found = dict(own)
    for index, name in enumerate(names):
        layout = known[name].layout
        if layout is None or communicator.rank not in layout.devices:
            continue
        sharing = layout.replica_group(communicator.rank) if not layout.partial else (communicator.rank,)
        givers = [rank for rank in sharing if everyone[rank, index]]
        if not givers or len(givers) == len(sharing):
            continue
        array = np.array(own[name], order="C") if name in own else np.empty(known[name].box.shape, known[name].dtype)
        communicator.group(sharing).broadcast(array, sharing.index(givers[0]))
        found[name] = array
    return found
