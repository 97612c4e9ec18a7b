from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.agreement import agree_on_dtypes


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
