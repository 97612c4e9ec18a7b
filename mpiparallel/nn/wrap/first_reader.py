"""Which operator of a network reads an input first, and in which stage of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from mpiparallel.errors import MpiParallelError
from mpiparallel.graph.graph import Value
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace


def first_reader(trace: Trace, function: Callable[..., Any], inputs: Sequence[Any], tensor: Tensor) -> str:
    """Return in words who reads ``tensor`` first where ``function`` is traced on ``inputs``; empty where nobody does.

    A node in no stage, such as one of a loss, runs in the stage of its last input. The trace is of no use afterwards.
    """
    read, made = trace.value_of(tensor), len(trace.graph.nodes)
    # It may refuse a whole batch; what it has read until there is known.
    with suppress(MpiParallelError):
        function(*inputs)
    stages: dict[Value, int] = {}
    for node in trace.graph.nodes[made:]:
        known = [stages[value] for value in node.inputs if value in stages]
        stage = node.notes.stage if node.notes.stage is not None else next(reversed(known), None)
        if read in node.inputs:
            return f"{node.name}{'' if stage is None else f' of stage {stage}'}"
        if stage is not None:
            stages.update(dict.fromkeys(node.outputs, stage))
    return ""
