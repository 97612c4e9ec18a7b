"""How a reshard is carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from mpiparallel.errors import ConfigurationError

Mode = Literal["safe", "bounded"]
ExecutorName = Literal["auto", "packed", "datatypes", "shared"]

LEAST_SCRATCH_BYTES: Final = 4096


@dataclass(frozen=True)
class ReshardOptions:
    """How a reshard is carried out, the same on every rank.

    Parameters
    ----------
    mode : {"safe", "bounded"}
        "safe" keeps all of the old state until every rank has verified the new: its peak is both. "bounded" moves the
        tensors in waves and gives back the old arrays of each: its peak is the state, one wave and the scratch.
    scratch_bytes : int
        What a rank needs at most beyond source and target; at least 4096.
    wave_bytes : int
        Of a wave on a rank, but at least one tensor.
    verify : bool
        Whether a checksum of every window is compared at both ends.
    digest : bool
        Whether one of each whole tensor, that does not depend on its layout, is compared before and after.
    executor : {"auto", "packed", "datatypes", "shared"}
        "auto" takes the one that was the quickest in a short calibration for this MPI library. All give the same bytes.
        Where all ranks have GPUs, "auto" and "packed" pack and send on these; the others go through the hosts.

    Raises
    ------
    ConfigurationError
        For a value that is none of these.

    Examples
    --------
    >>> ReshardOptions(mode="bounded", wave_bytes=1 << 20).executor
    'auto'
    """

    mode: Mode = "safe"
    scratch_bytes: int = 64 << 20
    wave_bytes: int = 64 << 20
    verify: bool = True
    digest: bool = False
    executor: ExecutorName = "auto"

    def __post_init__(self) -> None:
        for name, value, legal in (
            ("mode", self.mode, get_args(Mode)),
            ("executor", self.executor, get_args(ExecutorName)),
        ):
            if value not in legal:
                raise ConfigurationError(f"reshard: {name} {value!r} is not one of {', '.join(legal)}")
        for name, bytes_given, least in (
            ("scratch_bytes", self.scratch_bytes, LEAST_SCRATCH_BYTES),
            ("wave_bytes", self.wave_bytes, 1),
        ):
            if not isinstance(bytes_given, int) or bytes_given < least:
                raise ConfigurationError(f"reshard: {name} {bytes_given!r} must be an integer of at least {least}")
