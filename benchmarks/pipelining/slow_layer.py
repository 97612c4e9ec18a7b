"""Layers whose forward pass, input gradient and weight gradient are sleeps of one length, each written down."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel import Parameter, nn
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.operator import Operator
from mpiparallel.pipeline import Action, Kind, Placement, TimedAction

WIDTH = 16


class Diary:
    """What this rank has computed since it was cleared: kind, part of the network, begin and end in seconds."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, float, float]] = []

    def actions(self, placement: Placement, begin: float) -> list[TimedAction]:
        """Return the entries as actions; micro-batches come in order in each part."""
        counted: dict[tuple[int, int], int] = {}
        found = []
        for kind, part, first, last in self.entries:
            number = counted.setdefault((kind, part), 0)
            counted[kind, part] += 1
            action = Action(Kind(kind), number, placement.chunks[part])
            found.append(TimedAction(placement.stages[part], action, first - begin, last - begin))
        return found


DIARY = Diary()


class Slow(Operator):
    """What it is given, ``seconds`` later. The first input is passed on; others are only waited for."""

    def __init__(self, kind: Kind, part: int, seconds: float) -> None:
        self.computation, self.part, self.seconds = kind, part, seconds

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (inputs[0],)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.parse("mk" + ",mk" * (len(inputs) - 1) + "->mk")

    def kernel(self, runtime: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        def run() -> None:
            begin = time.time()
            outputs[0][...] = inputs[0]
            time.sleep(max(0.0, begin + self.seconds - time.time()))
            DIARY.entries.append((int(self.computation), self.part, begin, time.time()))

        return run


class SlowForward(Slow):
    """The forward pass of a part."""

    def gradient(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        given = Slow(Kind.INPUT_GRADIENT, self.part, self.seconds)(cotangents[0])
        return given, Slow(Kind.WEIGHT_GRADIENT, self.part, self.seconds)(cotangents[0], given)


class SlowLayer(nn.Cell):
    """A part of a network: its weight is as large as a micro-batch."""

    def __init__(self, part: int, seconds: float, rows: int) -> None:
        super().__init__()
        self.weight = Parameter(np.zeros((rows, WIDTH), np.float32), "weight")
        self.slow = SlowForward(Kind.FORWARD, part, seconds)

    def construct(self, x: Any) -> Any:
        """Return ``x``, later."""
        return self.slow(x, self.weight)


def slow_network(placement: Placement, seconds: float, rows: int) -> nn.Cell:
    """Return a network with a slow layer in each part, in which each stage works as long as any other."""
    chunks = len(placement.parts[0])
    network = nn.SequentialCell([SlowLayer(part, seconds / chunks, rows) for part in range(len(placement.stages))])
    for cell, stage in zip(network, placement.stages, strict=True):
        cell.pipeline_stage = stage
    return network
