from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.agreement import agree_on_dtypes, failing_together, raise_together


@pytest.mark.parametrize("problems", [["", "", "too short"], ["", "x" + "\u00e9" * 2000, "later"], ["first", "", ""]])
def test_the_problem_of_the_lowest_rank_is_raised_on_all(problems: list[str]) -> None:
    def check(communicator: Communicator) -> str:
        with pytest.raises(ReshardError) as caught:
            raise_together(problems[communicator.rank] or None, communicator)
        return str(caught.value)

    lowest = next(problem for problem in problems if problem)
    assert run_world(3, check) == [lowest.encode()[:1024].decode(errors="replace")] * 3


def test_without_a_problem_all_ranks_go_on() -> None:
    assert run_world(3, lambda communicator: raise_together(None, communicator)) == [None] * 3


def test_an_error_of_the_program_is_not_taken_for_a_lack_of_memory() -> None:
    def check(communicator: Communicator) -> None:
        with pytest.raises(ZeroDivisionError), failing_together(communicator):
            raise ZeroDivisionError

    run_world(2, check)


def test_ranks_without_a_tensor_learn_its_dtype() -> None:
    given = [{"a": np.zeros(1, ">i2")}, {"b": np.zeros(0, "M8[us]")}, {}]
    expected = {"a": np.dtype(">i2"), "b": np.dtype("M8[us]")}
    found = run_world(3, lambda communicator: agree_on_dtypes(given[communicator.rank], ["a", "b"], communicator))
    assert found == [expected] * 3


def test_unlike_dtypes_are_named_with_the_ranks_that_hold_them() -> None:
    given = [{}, {"a": np.zeros(1, "f4")}, {"a": np.zeros(1, "f8")}, {"a": np.zeros(1, "f4")}]

    def check(communicator: Communicator) -> str:
        with pytest.raises(ReshardError) as caught:
            agree_on_dtypes(given[communicator.rank], ["a"], communicator)
        return str(caught.value)

    message = (
        "a: arrays are float32 on ranks [1, 3], float64 on ranks [2]; nothing was moved: give every rank the same dtype"
    )
    assert run_world(4, check) == [message] * 4
