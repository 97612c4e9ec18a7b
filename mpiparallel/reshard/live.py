"""Resharding of live arrays: one call for those who want only that."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Final, overload

from numpy.typing import NDArray

from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.movement import Movement
from mpiparallel.reshard.options import ReshardOptions
from mpiparallel.reshard.planning.plan_cache import PlanCache

Array = NDArray[Any]

_PLANS: Final = PlanCache()


@overload
def reshard(
    arrays: MutableMapping[str, Array],
    source: Mapping[str, Layout],
    target: Mapping[str, Layout],
    communicator: Any,
    **options: Any,
) -> dict[str, Array]: ...


@overload
def reshard(
    arrays: Array | None, source: Layout, target: Layout, communicator: Any, **options: Any
) -> Array | None: ...


def reshard(arrays: Any, source: Any, target: Any, communicator: Any, **options: Any) -> Any:
    """Return what this rank holds of each tensor after it went from its source to its target layout.

    All ranks of ``communicator`` call it together with equal layouts and options. A tensor whose box on this rank stays
    is returned as the very array that was given, every other one as a new array. Elements move as bytes, of any dtype
    but objects and structures. ``Movement`` is for those who want to go on or back after an error in bounded mode.

    Parameters
    ----------
    arrays : dict of str to array, or array
        This rank's box of each tensor that it holds by its source layout, and nothing else; never written. One tensor
        may be given as an array, None where a rank has none. With ``mode="bounded"`` the mapping itself is changed,
        wave by wave, and returned.
    source, target : dict of str to Layout, or Layout
        Where each tensor is, and where it is to be.
    communicator : Communicator
        Ours or one of mpi4py; it must have all ranks of both.
    **options
        The fields of ``ReshardOptions``.

    Returns
    -------
    dict of str to array, or array or None
        This rank's box of each tensor by its target layout: bit for bit the elements of the source.

    Raises
    ------
    ReshardError
        On every rank, when ranks disagree, an array does not fit its layout, a rank runs out of memory or bytes arrive
        damaged. The given arrays are intact then.
    ConfigurationError
        On every rank, for an option that is wrong on one, or what is no layout.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel.communication.threads import run_world
    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> rows = Layout((2, 2), DeviceMatrix((2,)), ((0,), ()))
    >>> columns = Layout((2, 2), DeviceMatrix((2,)), ((), (0,)))
    >>> def turn(communicator):
    ...     row = np.array([[1, 2]]) if communicator.rank == 0 else np.array([[3, 4]])
    ...     return reshard(row, rows, columns, communicator).tolist()
    >>> run_world(2, turn)
    [[[1], [3]], [[2], [4]]]
    """
    if isinstance(source, Layout):
        given = {} if arrays is None else {"array": arrays}
        return reshard(given, {"array": source}, {"array": target}, communicator, **options).get("array")
    if type(communicator).__module__.partition(".")[0] == "mpi4py":
        # Importing this module starts MPI, which here has been started already.
        from mpiparallel.communication import mpi

        own: Communicator = mpi.communicator_of(communicator)
        try:
            return reshard(arrays, source, target, own, **options)
        finally:
            own.free()
    with failing_together(communicator, ConfigurationError):
        chosen = _chosen(options)
        _check_layouts(source, "source")
        _check_layouts(target, "target")
    movement = Movement(arrays, source, target, communicator, chosen, _PLANS)
    movement.forward()
    return movement.arrays


def _chosen(options: Mapping[str, Any]) -> ReshardOptions:
    unknown = options.keys() - ReshardOptions.__dataclass_fields__.keys()
    if unknown:
        raise ConfigurationError(
            f"reshard: unknown option {min(unknown)!r}; there are {', '.join(ReshardOptions.__dataclass_fields__)}"
        )
    return ReshardOptions(**options)


def _check_layouts(given: Any, side: str) -> None:
    layouts = given if isinstance(given, Mapping) else {side: given}
    for name, layout in layouts.items():
        if not isinstance(layout, Layout):
            raise ConfigurationError(
                f"reshard: {side} layouts: {name} is a {type(layout).__name__}, not a Layout; give a Layout, or a "
                "mapping of tensor names to layouts"
            )
