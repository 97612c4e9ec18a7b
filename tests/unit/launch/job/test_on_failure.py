from __future__ import annotations

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.on_failure import OnFailure


@pytest.mark.parametrize("text", ["", "again", "abort:3", "restart:0", "restart:x", "restart:", "shrink:-1", "Restart"])
def test_word_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="give abort, restart, restart:5"):
        OnFailure.parse(text)


def test_words_and_their_numbers() -> None:
    parsed = [OnFailure.parse(text) for text in ("abort", "restart", "shrink", "shrink:7")]
    assert [(one.kind, one.restarts) for one in parsed] == [
        ("abort", 0), ("restart", 3), ("shrink", 3), ("shrink", 7)
    ]  # fmt: skip
