from __future__ import annotations

import pytest

from mpiparallel.communication.agreement import failing_together, raise_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError, RankFailureError, ReshardError, origins_of


def messages(size: int, failing: set[int], error: Exception) -> list[str | None]:
    def run(communicator: Communicator) -> str | None:
        try:
            with failing_together(communicator, CheckpointError):
                if communicator.rank in failing:
                    raise error
        except CheckpointError as raised:
            return str(raised)
        return None

    return run_world(size, run)


def test_nobody_fails_where_nobody_fails() -> None:
    assert messages(3, set(), OSError()) == [None] * 3


@pytest.mark.parametrize(
    ("error", "text"),
    [(OSError(28, "disk full"), "[Errno 28] disk full"), (MemoryError(), "MemoryError"), (CheckpointError("é"), "é")],
)
def test_every_rank_tells_who_failed_and_why(error: Exception, text: str) -> None:
    assert messages(4, {1, 3}, error) == [f"ranks 1, 3: {text}"] * 4


def test_of_many_failures_some_are_shown() -> None:
    def fail(communicator: Communicator) -> str:
        with pytest.raises(ReshardError) as caught:
            raise_together(f"{communicator.rank // 2} {'x' * 2000}", communicator, ReshardError)
        return str(caught.value)

    shown = run_world(22, fail)
    assert len(set(shown)) == 1
    assert shown[0].startswith("ranks 0, 1: 0 xxx")
    assert shown[0].endswith("\nand 6 ranks more")


def test_a_reason_that_many_ranks_have_is_told_once() -> None:
    message = messages(12, set(range(1, 12)), OSError("full"))[0]
    assert message == "ranks 1, 2, 3, 4, 5, 6, 7, 8, ...: full"


def test_an_error_of_the_program_itself_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        messages(1, {0}, ZeroDivisionError())


def test_a_problem_that_a_rank_found_is_raised_on_all_with_its_rank() -> None:
    def check(communicator: Communicator) -> str:
        with pytest.raises(ReshardError) as caught:
            raise_together("too short" if communicator.rank else None, communicator.group([1, 3]), ReshardError)
        return str(caught.value)

    def outer(communicator: Communicator) -> str | None:
        return check(communicator) if communicator.rank in (1, 3) else None

    text = "ranks 1, 3: too short"
    assert run_world(4, outer) == [None, text, None, text]


def test_without_a_problem_all_ranks_go_on() -> None:
    assert run_world(3, lambda communicator: raise_together(None, communicator, ReshardError)) == [None] * 3


def test_all_members_name_the_ranks_whose_problem_it_is() -> None:
    def origins(communicator: Communicator) -> tuple[int, ...]:
        try:
            with failing_together(communicator, MemoryError):
                if communicator.rank in (1, 3):
                    raise MemoryError(f"none on {communicator.rank}")
        except MemoryError as error:
            try:
                raise CheckpointError("could not be loaded") from error
            except CheckpointError as above:
                return origins_of(above)
        return ()

    assert run_world(4, origins) == [(1, 3)] * 4


def test_the_death_of_a_rank_is_told_as_it_is_and_asks_nobody() -> None:
    death = RankFailureError("rank 1 has died")

    def fail(communicator: Communicator) -> None:
        # The others are not in the block, and are not waited for.
        if communicator.rank == 0:
            with pytest.raises(RankFailureError) as caught, failing_together(communicator, CheckpointError):
                raise death
            assert caught.value is death

    run_world(3, fail)


@pytest.mark.parametrize(
    ("ranks", "lines", "more"), [(8, 8, ""), (9, 8, "and 1 ranks more"), (11, 8, "and 3 ranks more")]
)
def test_eight_reasons_are_shown_and_the_ranks_of_all_others_are_counted(ranks: int, lines: int, more: str) -> None:
    def fail(communicator: Communicator) -> str:
        with pytest.raises(ReshardError) as caught:
            raise_together(f"reason {communicator.rank}", communicator, ReshardError)
        return str(caught.value)

    wanted = [f"rank {rank}: reason {rank}" for rank in range(lines)] + [more] * bool(more)
    assert run_world(ranks, fail) == ["\n".join(wanted)] * ranks


@pytest.mark.parametrize(("failing", "listed"), [(8, "1, 2, 3, 4, 5, 6, 7, 8"), (9, "1, 2, 3, 4, 5, 6, 7, 8, ...")])
def test_eight_ranks_of_one_reason_are_listed(failing: int, listed: str) -> None:
    assert messages(10, set(range(1, 1 + failing)), OSError("full"))[0] == f"ranks {listed}: full"


def test_of_a_reason_512_bytes_are_told_whole_letters_or_not() -> None:
    assert messages(1, {0}, OSError("x" * 512)) == ["rank 0: " + "x" * 512]
    assert messages(1, {0}, OSError("x" * 513)) == ["rank 0: " + "x" * 512]
    # Half of a letter of two bytes shows as the sign of what cannot be read.
    assert messages(1, {0}, OSError("x" * 511 + "é")) == ["rank 0: " + "x" * 511 + "\ufffd"]
    assert messages(1, {0}, OSError("a \udcff name")) == ["rank 0: a ? name"]


def test_an_error_stays_the_cause_on_the_rank_that_has_it_alone() -> None:
    full = OSError("full")

    def causes(communicator: Communicator) -> BaseException | None:
        try:
            with failing_together(communicator, CheckpointError):
                if communicator.rank == 1:
                    raise full
        except CheckpointError as error:
            return error.__cause__
        return None

    assert run_world(2, causes) == [None, full]
