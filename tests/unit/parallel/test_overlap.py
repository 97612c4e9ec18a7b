"""A collective in two halves: begun when its inputs are there, ended once when its outputs are needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport.on_host import HostTransport
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.parallel.overlap import Begun, Start, Wait


class Call:
    """A collective whose outputs come when it is ended."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def start(self) -> Any:
        self._told.append("begun")
        return lambda: self._told.append("ended")


class Sum:
    """An operator that runs a collective over one transport."""

    name, scope, reuses = "AllReduce", "network/sum", 0

    def __init__(self, transport: Any) -> None:
        self.told: list[str] = []
        self._transport = transport

    def infer(self, *inputs: TensorSpec) -> list[TensorSpec]:
        return [*inputs]

    def bound(self, runtime: Runtime, inputs: Any, outputs: Any) -> Call:
        runtime.opened.append(self._transport)
        self.told.append(f"bound to {len(inputs)} and {len(outputs)}")
        return Call(self.told)


def test_both_halves_tell_what_they_are_of() -> None:
    operator = Sum(None)
    start = Start(operator)
    wait = Wait(start)
    spec = TensorSpec((2, 3), np.dtype(np.float32))
    assert (start.name, wait.name) == ("StartAllReduce", "EndAllReduce")
    assert start.kind == wait.kind == "communication"
    assert start.scope == wait.scope == "network/sum"
    assert start.reuses == 0
    assert start.infer(spec) == (spec,)
    assert wait.infer(spec, spec) == ()


def test_what_is_begun_is_ended_once_in_each_step_by_the_same_transport() -> None:
    def job(communicator: Any) -> None:
        transport = HostTransport(communicator)
        operator, runtime = Sum(transport), Runtime(communicator=communicator)
        start = Start(operator)
        array = np.zeros(2)
        begin = start.kernel(runtime, [array], [array, array])
        runtime.opened.clear()
        end = Wait(start).kernel(runtime, [array], [])
        assert runtime.opened == [transport]
        assert operator.told == ["bound to 1 and 2"]
        end()
        assert operator.told[1:] == []
        for _ in range(2):
            begin()
            assert operator.told[-1] == "begun"
            end()
            end()
        assert operator.told[1:] == ["begun", "ended"] * 2

    run_world(1, job)


def test_programs_of_one_operator_end_what_each_of_them_has_begun() -> None:
    operator = Sum(None)
    start = Start(operator)
    array = np.zeros(2)
    first, second = Runtime(), Runtime()
    kernels = [start.kernel(one, [array], [array]) for one in (first, second)]
    ends = [Wait(start).kernel(one, [array], []) for one in (first, second)]
    kernels[0]()
    ends[1]()
    assert operator.told[-1] == "begun"
    ends[0]()
    assert operator.told[-1] == "ended"


def test_nothing_that_was_not_begun_is_waited_for() -> None:
    begun = Begun(())
    begun.end()
    ended: list[int] = []
    begun.completion = lambda: ended.append(1)
    begun.end()
    assert ended == [1]
    assert begun.completion is None
