"""What an operator says of itself where its class says nothing, and what it must say itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.own_gradient import OwnGradient, OwnGradients
from mpiparallel.layout.box import Box
from mpiparallel.ops import operations as P
from mpiparallel.ops.images.pooling_windows import Pooling
from mpiparallel.ops.reductions.reduction import ReduceExtremum
from mpiparallel.ops.variables.optimizer_update import Update
from mpiparallel.parallel.border import EndSend, Send
from mpiparallel.parallel.collective_operators import AllGather, AllReduce, Broadcast
from mpiparallel.parallel.overlap import Start, Wait
from mpiparallel.parallel.redistribution_operators import FusedAllReduce, GatherBlocks
from mpiparallel.parallel.shared_scalars import ShareScalars

ROWS = TensorSpec((2, 3), np.dtype(np.float32))
VECTOR = TensorSpec((5,), np.dtype(np.float64))
ARRAY = np.ones((2, 3), np.float32)
NOTHING: Any = None


class Unfinished(Operator):
    """It has nothing of its own."""


class UnfinishedExtremum(ReduceExtremum):
    pass


class UnfinishedUpdate(Update):
    pass


MOVING, ROOTED, BLOCKED = (kind.__mro__[1] for kind in (AllGather, Broadcast, GatherBlocks))
Call = Callable[[], object]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Unfinished().equation(ROWS), "Unfinished"),
        (lambda: Unfinished().view(ARRAY), "Unfinished"),
        (lambda: Unfinished().kernel(Runtime(), [ARRAY], [ARRAY]), "Unfinished"),
        (lambda: Unfinished()(ARRAY), "Unfinished"),
        (lambda: MOVING().call(NOTHING, ARRAY, ARRAY), "_Moving"),
        (lambda: ROOTED(0).call(NOTHING, ARRAY), "_Rooted"),
        (lambda: BLOCKED((), 0).bound(Runtime(), [ARRAY], [ARRAY]), "_Blocked"),
        (lambda: Pooling().pool(Runtime(), NOTHING, ARRAY), "Pooling"),
        (lambda: UnfinishedExtremum().identity(np.dtype(np.int8)), "UnfinishedExtremum"),
        (lambda: UnfinishedUpdate().rule([], NOTHING), "UnfinishedUpdate"),
        (lambda: share().infer(ROWS), "net/norm: what it takes was computed by others"),
    ],
)
def test_what_an_operator_must_say_itself_is_asked_for_by_its_name(call: Call, said: str) -> None:
    with pytest.raises(NotImplementedError) as caught:
        call()
    assert str(caught.value) == said


def share() -> ShareScalars:
    made = ShareScalars(3, [0], [1, 2], [0, 1], (0, 1), (0,))
    made.scope = "net/norm"
    return made


def test_without_a_rule_of_its_own_an_operator_has_none_and_reads_the_parts_that_it_is_given() -> None:
    parts = [Part((4, 6), Box((0, 2), (2, 6))), Part((4,), Box((1,), (3,)))]
    assert not Unfinished().has_rule
    assert P.MatMul().has_rule
    assert Unfinished().reads(parts, []) == (Box((0, 2), (2, 6)), Box((1,), (3,)))
    made = Unfinished()
    assert made.local(parts, []) is made


def test_what_a_written_gradient_passes_on_is_cut_as_it_is_and_alone() -> None:
    equation = OwnGradients(lambda *_: (), 1, 2).equation(ROWS, VECTOR, ROWS)
    labels = [label for given in equation.inputs for label in given]
    assert [len(given) for given in equation.inputs] == [2, 1, 2]
    assert len(set(labels)) == len(labels) == 5
    assert equation.outputs == equation.inputs[:2]
    assert OwnGradient(lambda *_: (), 1).equation(VECTOR, ROWS).outputs == (("0d0",),)


@pytest.mark.parametrize(
    ("operator", "outputs"),
    [
        (Send(), ()),
        (EndSend(), ()),
        (Wait(Start(AllReduce())), ()),
        (FusedAllReduce(), (ROWS, VECTOR)),
        (Start(FusedAllReduce()), (ROWS, VECTOR)),
        (OwnGradient(lambda *_: (), 1), (ROWS,)),
        (OwnGradients(lambda *_: (), 0, 2), (ROWS, VECTOR)),
    ],
    ids=lambda given: given.name if isinstance(given, Operator) else "",
)
def test_what_goes_to_other_ranks_has_no_output_and_what_is_summed_or_passed_on_keeps_its_shape(
    operator: Operator, outputs: tuple[TensorSpec, ...]
) -> None:
    assert operator.infer(ROWS, VECTOR) == outputs
