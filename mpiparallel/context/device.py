"""Which device a rank computes on: the one that is asked for, or an error that says how to get it."""

from __future__ import annotations

from mpiparallel.context.device_target import device_of_target
from mpiparallel.context.settings import set_context


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Compute on "CPU" or "GPU", device ``device_id`` of this host; "Ascend" is the GPU of this rank or else its CPU.

    Without ``device_id`` it is the rank's own, that of ``DEVICE_ID``. It may be called again. Raises ConfigurationError
    for another device, for a GPU that is not there, and for a number that is none.

    >>> set_device("CPU")
    """
    given = {} if device_id is None else {"device_id": device_id}
    set_context(device_target=device_of_target(device_target, "set_device"), **given)
