"""Collectives in two halves: started when their inputs are there, ended when somebody needs their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.protocol import Completion
from mpiparallel.communication.transport.protocol import Transport
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator


class Start(Operator):
    """Begins the collective of an operator; its outputs are there when its ``Wait`` has run."""

    kind = "communication"

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self.reuses = operator.reuses  # type: ignore[misc]
        self.scope = operator.scope

    @property
    def name(self) -> str:
        return f"Start{self.operator.name}"

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return tuple(self.operator.infer(*inputs))

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        bound = self.operator.bound(runtime, inputs, outputs)
        begun = runtime.begun[self] = Begun(tuple(runtime.opened))

        def run() -> None:
            begun.completion = bound.start()

        return run


class Wait(Operator):
    """Ends what a ``Start`` began. It reads what the collective reads and writes, so that memory stays as it is."""

    kind = "communication"

    def __init__(self, start: Start) -> None:
        self.start = start
        self.scope = start.scope

    @property
    def name(self) -> str:
        return f"End{self.start.operator.name}"

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        begun: Begun = runtime.begun[self.start]
        runtime.opened.extend(begun.transports)
        return begun.end


class Begun:
    """A collective of one program by ``transports``, from where it is started to where its outputs are needed."""

    def __init__(self, transports: tuple[Transport, ...]) -> None:
        self.transports = transports
        self.completion: Completion | None = None

    def end(self) -> None:
        """Wait until the outputs are there."""
        if self.completion is not None:
            self.completion()
            self.completion = None
