"""Whether what arrived is what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.agreement import raise_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.bound_plan import PeerPieces
from mpiparallel.reshard.checksums import Checksummer, windows
from mpiparallel.reshard.pieces import byte_view

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class Checked:
    """The checksums of one run on this rank, by member: of the windows sent, and of those received as they arrived.

    ``tensors`` are those that a window received has elements of.
    """

    sent: dict[int, list[int]] = field(default_factory=dict)
    arrived: dict[int, list[int]] = field(default_factory=dict)
    tensors: dict[int, list[tuple[str, ...]]] = field(default_factory=dict)

    def add(self, other: Checked) -> None:
        """Add what was exchanged with other members."""
        self.sent.update(other.sent)
        self.arrived.update(other.arrived)
        self.tensors.update(other.tensors)

    def add_sent(self, stream: PeerPieces, checksummer: Checksummer) -> None:
        """Add what is in the sources of a stream."""
        self.sent[stream.member] = [checksummer.of(stream.pieces[part]) for part in windows(stream)]

    def add_arrived(self, stream: PeerPieces, checksummer: Checksummer) -> None:
        """Add what is found in the targets of a stream."""
        parts = windows(stream)
        self.arrived[stream.member] = [checksummer.of(stream.pieces[part]) for part in parts]
        self.tensors[stream.member] = [stream.tensors[part] for part in parts]


def verify(checked: Checked, communicator: Communicator) -> None:
    """Compare the checksums of every window at both ends; all ranks call it together.

    Raises ReshardError on every rank if a window differs on any.
    """
    here, size = communicator.rank, communicator.size
    # What was sent minus what has arrived, over all windows and ranks: one number, and zero where nothing is damaged.
    difference = np.zeros(1, np.uint64)
    for member, sent in checked.sent.items():
        difference += _signature(sent, here * size + member)
    for member, found in checked.arrived.items():
        difference -= _signature(found, member * size + here)
    communicator.all_reduce(difference)
    if difference[0]:
        _tell_damage(checked, communicator)


def _signature(checksums: Sequence[int], stream: int) -> NDArray[np.uint64]:
    """Return a number that tells the checksums of a stream, each in its place, from any others."""
    places = np.arange(len(checksums), dtype=np.uint64) + np.uint64(stream << 32)
    mixed = np.array(checksums, np.uint64) ^ (places * _ODD)
    mixed ^= mixed >> np.uint64(31)
    mixed *= _ODD
    mixed ^= mixed >> np.uint64(29)
    return np.array([mixed.sum()])


def _tell_damage(checked: Checked, communicator: Communicator) -> None:
    expected = {member: np.empty(len(found), np.uint64) for member, found in checked.arrived.items()}
    communicator.exchange(
        {member: byte_view(np.array(sent, np.uint64)) for member, sent in checked.sent.items()},
        {member: byte_view(checksums) for member, checksums in expected.items()},
    )
    damaged = [
        f"{_names(tensors)} from rank {communicator.ranks[member]}"
        for member, found in checked.arrived.items()
        for tensors, here, there in zip(checked.tensors[member], found, expected[member].tolist(), strict=True)
        if here != there
    ]
    raise_together(f"bytes arrived damaged: {'; '.join(damaged)}" if damaged else None, communicator, ReshardError)


def _names(tensors: tuple[str, ...]) -> str:
    first, *others = dict.fromkeys(tensors)
    return f"{first} and {len(others)} more tensors" if others else first
