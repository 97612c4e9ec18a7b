"""Which device a rank computes on: the one that is asked for, or an error that says how to get it."""

from __future__ import annotations

from mpiparallel.context.device_target import device_of_target
from mpiparallel.context.settings import set_context


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Choose the device that this rank computes on; it may be called again.

    Parameters
    ----------
    device_target : str
        "CPU", "GPU", or "Ascend", which means the GPU of this rank or else its CPU.
    device_id : int, optional
        The number of the device on this host; by default the rank's own, that of ``DEVICE_ID``.

    Raises
    ------
    ConfigurationError
        For another device, for a GPU that is not there, and for a number that is none.

    Examples
    --------
    >>> set_device("CPU")
    """
    given = {} if device_id is None else {"device_id": device_id}
    set_context(device_target=device_of_target(device_target, "set_device"), **given)
