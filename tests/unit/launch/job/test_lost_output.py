"""What is told of output that could not be written, by a rank and on the way to the launcher."""

from __future__ import annotations

import pytest

from mpiparallel.launch.job.lost_output import LostOutput


@pytest.mark.parametrize(
    ("fields", "loss"),
    [
        ({"size": 1, "reason": "full"}, LostOutput(1, "full")),
        ({"size": 5, "reason": "x" * 200}, LostOutput(5, "x" * 200)),
        ({"size": 5, "reason": "x" * 201}, LostOutput(5, "x" * 200)),
        ({"size": 5, "reason": ""}, LostOutput(5, "")),
        ({"size": 0, "reason": "full"}, LostOutput()),
        ({"size": -1, "reason": "full"}, LostOutput()),
        ({"size": 1.5, "reason": "full"}, LostOutput()),
        ({"size": 1, "reason": 7}, LostOutput()),
        ({"size": 1}, LostOutput()),
        ({"reason": "full"}, LostOutput()),
        ([], LostOutput()),
        (None, LostOutput()),
    ],
)
def test_a_loss_is_taken_as_it_was_told_and_nonsense_is_none(fields: object, loss: LostOutput) -> None:
    assert LostOutput.parsed(fields) == loss


def test_all_that_is_lost_is_counted_with_the_first_reason() -> None:
    loss = LostOutput()
    assert not loss
    loss.add(1)
    assert (bool(loss), str(loss)) == (True, "1 bytes ()")
    loss.add(1000, ValueError("closed"))
    loss.add(30, OSError(28, "No space left on device"))
    assert str(loss) == "1,031 bytes (closed)"
    other = LostOutput()
    other.add(2, OSError(28, "No space left on device"))
    assert str(other) == "2 bytes (No space left on device)"
