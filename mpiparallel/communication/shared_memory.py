"""Blocks of memory that the ranks of a host see of each other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication import arguments


class SharedMemory:
    """One block of bytes of each member on this host, which all of them see; ``own`` is that of this one.

    A block lives until the last array over it is gone, here or on a peer.
    """

    def __init__(self, own: NDArray[np.uint8], blocks: Mapping[int, NDArray[np.uint8]]) -> None:
        self.own = own
        self._blocks = dict(blocks)

    def of(self, member: int) -> NDArray[np.uint8]:
        """Return the block of a member on this host; what it writes there is seen here at the latest after a barrier.

        Raises CommunicationError for members of other hosts, and after ``release``.
        """
        arguments.refuse(arguments.shared_problem(member, self._blocks))
        return self._blocks[member]

    def release(self) -> None:
        """Forget the blocks, without the other members; arrays over them that the caller keeps stay valid."""
        self._blocks.clear()
