"""What is known of each rank of a job from what it says and from the moment it falls silent."""

from __future__ import annotations

import time

import pytest

from mpiparallel.launch.control.message import COMPLETED, FAILED, FAILING, PREEMPTED, SCRIPT_ENDED
from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.job.lost_output import LostOutput
from mpiparallel.launch.job.rank_folder import Failure

FAILURE = Failure(1, 1000.0, "ValueError: x", "", 1)


def test_of_a_rank_that_has_not_called_nothing_is_known(registry: RankRegistry) -> None:
    assert (registry.size, [entry.rank for entry in registry]) == (4, [0, 1, 2, 3])
    assert not registry.anyone_called
    for entry in registry:
        assert not any((entry.is_over, entry.has_died, entry.ended_well, entry.is_ready, entry.script_has_ended))
        assert not any((entry.is_unreachable, entry.has_called_again, entry.is_guarded))
        assert (entry.process, entry.pid, entry.called_at, entry.said_at, entry.lost_at) == (None,) * 5


def test_a_rank_that_calls_is_known_by_its_process_and_host(registry: RankRegistry) -> None:
    before = time.time()
    registry.call(1, 3, "node1", 77, 70)
    registry.call(2, 2, "node1", 78)
    guarded, other = registry.entries[1:3]
    assert registry.anyone_called
    assert (guarded.process, guarded.host, guarded.pid, guarded.starter) == (3, "node1", 77, 70)
    assert (other.pid, other.starter) == (78, 78)
    assert (guarded.is_guarded, other.is_guarded) == (True, False)
    assert guarded.called_at is not None
    assert before <= guarded.called_at <= time.time()
    assert not guarded.has_called_again


def test_a_rank_that_calls_again_has_called_when_it_first_did(registry: RankRegistry) -> None:
    registry.call(1, 1, "a", 7)
    registry.entries[1].called_at = 5.0
    registry.call(1, 2, "b", 8)
    entry = registry.entries[1]
    assert (entry.called_at, entry.has_called_again, entry.host, entry.pid) == (5.0, True, "b", 8)
    assert not registry.entries[0].has_called_again


def test_a_rank_that_was_lost_and_calls_again_is_lost_no_more(registry: RankRegistry) -> None:
    # Its script may close the connection while nobody reads from it, which the launcher sees before the rank does.
    registry.call(1, 1, "a", 7)
    registry.lose(1, is_unreachable=True)
    entry = registry.entries[1]
    assert (entry.is_over, entry.has_died, entry.is_unreachable) == (True, True, True)
    registry.call(1, 1, "a", 7)
    assert (entry.is_over, entry.has_died, entry.is_unreachable) == (False, False, False)
    assert entry.has_called_again


@pytest.mark.parametrize(
    ("word", "failure", "over", "well"),
    [
        (COMPLETED, None, True, True),
        (PREEMPTED, None, True, True),
        (FAILED, FAILURE, True, False),
        (FAILING, FAILURE, False, False),
        (SCRIPT_ENDED, None, False, False),
        ("unheard of", None, False, False),
    ],
)
def test_a_word_is_the_last_one_or_not(
    registry: RankRegistry, word: str, failure: Failure | None, over: bool, well: bool
) -> None:
    registry.hear(1, word, failure)
    entry = registry.entries[1]
    assert (entry.is_over, entry.ended_well, entry.has_died) == (over, well, False)
    assert entry.last_word == (word if over else None)
    assert (entry.said_at is not None) == over
    assert entry.failure == (failure if over else None)
    assert entry.failing == (failure if word == FAILING else None)
    assert (entry.failing_at is not None) == (word == FAILING)
    assert entry.script_has_ended == (word == SCRIPT_ENDED)
    assert not registry.entries[0].is_over


@pytest.mark.parametrize(("word", "failure"), [(COMPLETED, FAILURE), (FAILED, None), (FAILING, None)])
def test_a_word_that_does_not_fit_what_comes_with_it_is_not_heard(
    registry: RankRegistry, word: str, failure: Failure | None
) -> None:
    registry.hear(1, word, failure)
    assert not registry.entries[1].is_over
    assert registry.entries[1].failing_at is None


def test_the_first_last_word_counts_and_so_does_the_first_failure(registry: RankRegistry) -> None:
    other = Failure(1, 2000.0, "KeyError: y", "", 1)
    registry.hear(1, FAILING, FAILURE)
    registry.hear(1, FAILING, other)
    registry.hear(1, FAILED, other)
    registry.hear(1, COMPLETED, None)
    registry.hear(1, SCRIPT_ENDED, None)
    entry = registry.entries[1]
    assert (entry.failing, entry.failure, entry.last_word) == (FAILURE, other, FAILED)
    assert entry.script_has_ended


def test_what_could_not_be_printed_is_kept_with_the_last_word(registry: RankRegistry) -> None:
    lost = LostOutput(5, "No space left on device")
    registry.hear(1, COMPLETED, None, lost)
    registry.hear(2, COMPLETED, None)
    assert registry.entries[1].lost == lost
    assert registry.entries[2].lost == LostOutput()


def test_a_rank_that_is_lost_has_died_unless_it_has_said_its_last_word(registry: RankRegistry) -> None:
    registry.hear(2, COMPLETED, None)
    for rank in (1, 2):
        registry.lose(rank)
    registry.lose(3, is_unreachable=True)
    assert [entry.has_died for entry in registry] == [False, True, False, True]
    assert [entry.is_over for entry in registry] == [False, True, True, True]
    assert [entry.is_unreachable for entry in registry] == [False, False, False, True]
    assert not registry.anyone_called


def test_all_are_ready_once_each_is(registry: RankRegistry) -> None:
    assert [registry.be_ready(rank) for rank in (2, 0, 2, 3, 1)] == [False, False, False, False, True]
