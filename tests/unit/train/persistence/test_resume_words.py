"""What all ranks find wrong alike with a checkpoint is said once."""

from __future__ import annotations

import pytest

from mpiparallel.errors import CheckpointError
from mpiparallel.train.persistence.resume import _in_own_words


@pytest.mark.parametrize(
    ("cause", "said"), [(None, "rank 1: no such file"), (CheckpointError("no such file"), "no such file")]
)
def test_the_words_are_those_of_the_cause_where_there_is_one(cause: Exception | None, said: str) -> None:
    with pytest.raises(CheckpointError) as raised, _in_own_words():
        raise CheckpointError("rank 1: no such file") from cause
    assert str(raised.value) == said
