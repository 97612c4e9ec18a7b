"""Whether what arrived is what was sent."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mpiparallel.communication.agreement import raise_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.bound_plan import Stream
from mpiparallel.reshard.checksums import Checksummer, windows
from mpiparallel.reshard.pieces import byte_view


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

    def add_sent(self, stream: Stream, checksummer: Checksummer) -> None:
        """Add what is in the sources of a stream."""
        self.sent[stream.member] = [checksummer.of(stream.pieces[part]) for part in windows(stream)]

    def add_arrived(self, stream: Stream, checksummer: Checksummer) -> None:
        """Add what is found in the targets of a stream."""
        parts = windows(stream)
        self.arrived[stream.member] = [checksummer.of(stream.pieces[part]) for part in parts]
        self.tensors[stream.member] = [stream.tensors[part] for part in parts]


def verify(checked: Checked, communicator: Communicator) -> None:
    """Compare the checksums of every window at both ends; all ranks call it together.

    Raises ReshardError on every rank if a window differs on any.
    """
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
