"""The blocks by which ranks on one GPU talk: each has one, which all others read (CUDA IPC).

A block has two slots, used in turns. In each turn every member writes to its own slot, waits until the device has
written, meets the others, and then reads theirs. A member that comes to the meeting has read all of the turn before.
So the slot of that turn may be written to in the next one, and one meeting a turn is enough.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from mpiparallel.backend.gpu.shared_block import AddressedBytes, SharedBlocks, memory_space
from mpiparallel.backend.gpu.wait import before_waiting
from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError

_CARD_BYTES: Final = 256
_SLOTS: Final = 2


class IpcGroup:
    """The blocks of the members of ``communicator``, with slots of ``slot_bytes``; all of them make it together.

    Raises CommunicationError on all of them where CUDA refuses one.
    """

    def __init__(self, communicator: Communicator, backend: Backend, blocks: SharedBlocks, slot_bytes: int) -> None:
        self._communicator = communicator
        self._backend = backend
        self._blocks = blocks
        self._turn = 0
        self._opened: list[int] = []
        self.slot_bytes = slot_bytes
        self._own = 0
        card = b""
        with failing_together(communicator, CommunicationError):
            self._own = blocks.allocate(_SLOTS * slot_bytes)
            card = json.dumps([memory_space(), self._own, blocks.name(self._own).hex()]).encode()
        row = np.frombuffer(card.ljust(_CARD_BYTES), np.uint8)
        rows = np.zeros((communicator.size, _CARD_BYTES), np.uint8)
        communicator.all_gather(row, rows)
        addresses: list[int] = []
        with failing_together(communicator, CommunicationError):
            addresses = [self._seen_at(one.tobytes()) for one in rows]
        asarray = backend.array_module.asarray
        whole = [asarray(AddressedBytes(address, _SLOTS * slot_bytes)) for address in addresses]
        self._slots = [[one[turn * slot_bytes : (turn + 1) * slot_bytes] for one in whole] for turn in range(_SLOTS)]

    def take_turn(self) -> list[Array]:
        """Return the slots of all members for the next turn, in their order."""
        self._turn += 1
        return self._slots[self._turn % _SLOTS]

    def meet(self) -> None:
        """Wait until the devices of all members have done what was given to their streams of communication."""
        before_waiting()
        self._backend.communication.record().synchronize()
        self._communicator.barrier()

    def free(self) -> None:
        """Give the block back, after all others have closed it; they call it too."""
        try:
            # Nobody reads any more, then nobody sees the others' blocks any more.
            self.meet()
            self.abandon()
            self._communicator.barrier()
        except CommunicationError:
            # A block that others may still see stays until the process ends.
            self.abandon()
            return
        self._blocks.free(self._own)

    def abandon(self) -> None:
        """Close the blocks of the others, and wait for nobody; the own one stays until the process ends."""
        self._slots.clear()
        while self._opened:
            self._blocks.close(self._opened.pop())

    def _seen_at(self, card: bytes) -> int:
        """Return where this process sees the block of a member."""
        space, address, name = json.loads(card)
        if space == memory_space():
            return int(address)
        self._opened.append(self._blocks.open(bytes.fromhex(name)))
        return self._opened[-1]
