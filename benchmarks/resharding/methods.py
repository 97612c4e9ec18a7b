"""All that is measured, by name, and where it is; nothing here loads MPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from resharding.work import Arrays

MEMCPY, FLOOR, BY_HAND = "memcpy", "shared window", "pack+Alltoallv"


class Method(Protocol):
    """A case made ready on this rank; ``run`` moves it once.

    It may also have ``reset``, which all ranks call before each run, and ``close``.
    """

    def run(self) -> None:
        """Move everything; the time of this is taken."""

    def results(self) -> Arrays | None:
        """Return what this rank holds after a run; None from a method that moves nothing."""


METHODS: Mapping[str, str] = {
    MEMCPY: "floors:Memcpy",
    FLOOR: "floors:SharedWindow",
    BY_HAND: "by_hand:PackedAlltoallv",
    "ours packed": "ours:packed",
    "ours packed unchecked": "ours:packed_unchecked",
    "ours datatypes": "ours:datatypes",
    "ours datatypes unchecked": "ours:datatypes_unchecked",
    "ours shared": "ours:shared",
    "ours shared unchecked": "ours:shared_unchecked",
    "ours": "ours:chosen",
    "ours unchecked": "ours:chosen_unchecked",
    "ours reshard()": "ours:WholeCall",
    "mpi4py-fft Transfer": "fft_transfer:FftTransfer",
    "Heat resplit_": "heat_resplit:HeatResplit",
    "DTensor redistribute": "torch_dtensor:DTensorRedistribute",
    "DCP save+load": "torch_checkpoint:DistributedCheckpoint",
    "HDF5 write+read": "hdf5_files:Hdf5Files",
}
