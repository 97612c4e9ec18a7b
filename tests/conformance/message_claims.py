"""What every communicator must do with a message whose two ends are not what they should be."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError
from tests.conformance.communicator import Claim, Run


def ending_a_message_that_is_not_under_way_does_nothing(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        if communicator.size == 1:
            return
        array = np.full(2, communicator.rank + 1.0)
        make = communicator.message_from if communicator.rank else communicator.message_to
        message = make(array, 1 - communicator.rank)
        message.end()
        message.start()
        message.end()
        message.end()
        assert array.tolist() == [1.0, 1.0]

    run(2, check)


def a_message_that_is_too_short_is_refused_where_it_arrives(run: Run) -> None:
    def check(communicator: Communicator) -> None:
        if communicator.size == 1:
            return
        if communicator.rank == 0:
            for _ in range(2):
                # Some communicators tell the sender, too.
                with suppress(CommunicationError):
                    communicator.send(np.zeros(1), 1)
        else:
            with pytest.raises(CommunicationError, match="receive"):
                communicator.receive(np.zeros(2), 0)
            message = communicator.message_from(np.zeros(2), 0)
            message.start()
            with pytest.raises(CommunicationError, match="receive"):
                message.end()
        communicator.barrier()

    run(2, check)


MESSAGE_CLAIMS: tuple[Claim, ...] = (
    ending_a_message_that_is_not_under_way_does_nothing,
    a_message_that_is_too_short_is_refused_where_it_arrives,
)
