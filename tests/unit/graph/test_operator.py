"""What an operator says of itself where its class says nothing, and what it must say itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import GradientError, ShapeError, StrategyError
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.random_stream import random_stream
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.input_conversion import as_tensors
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.own_gradient import OwnGradient, OwnGradients
from mpiparallel.graph.tensor import Tensor
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


def test_a_copy_is_configured_and_the_operator_stays_as_it_was() -> None:
    product = P.MatMul(transpose_b=True).shard(((1, 2), (1, 2)))
    twin = product.configured(transpose_a=True, scope="net")
    assert (twin.transpose_a, twin.transpose_b, twin.strategy, twin.scope) == (True, True, ((1, 2), (1, 2)), "net")
    assert (product.transpose_a, product.scope, type(twin)) == (False, "", P.MatMul)
    assert repr(twin) == "MatMul(transpose_a=True, transpose_b=True)"


def test_an_operator_without_a_gradient_says_so() -> None:
    with pytest.raises(GradientError, match=r"^the gradient of Unfinished is not defined; take it out of the differ"):
        Unfinished().gradient([], [], [])


class Weighed(Operator):
    """Its second input gives a shape only, and its first is overwritten."""

    unread = (1,)
    updates = (0,)

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.same(*(len(one.shape) for one in inputs))


def test_what_is_read_and_written_is_counted_in_bytes_and_views_cost_nothing() -> None:
    assert Weighed().cost([ROWS, VECTOR, ROWS], [VECTOR]) == Cost(6, 4 * 6 * 2, 8 * 5 + 4 * 6)
    assert P.Reshape().cost([ROWS], [ROWS]) == Cost(0)


@pytest.mark.parametrize(
    ("operator", "names"),
    [(P.Exp(), ("Exp", "element-wise")), (P.MatMul(), ("MatMul",)), (Unfinished(), ("Unfinished",))],
)
def test_what_is_computed_of_each_element_takes_as_long_as_others_of_that_kind(
    operator: Operator, names: tuple[str, ...]
) -> None:
    assert operator.kernel_names([ROWS], [ROWS]) == names


@pytest.mark.parametrize(
    ("inputs", "dtypes"),
    [
        ((ARRAY, 2), (np.float32, np.float32)),
        ((2, ARRAY), (np.float32, np.float32)),
        ((np.ones(2, np.int32), 2), (np.int32, np.int32)),
        ((np.ones(2, np.int32), 2.5), (np.int32, np.float32)),
        ((np.ones(2, np.bool_), 2.5), (np.bool_, np.float32)),
        ((1.5, 2), (np.float32, np.int64)),
        ((np.float16(1.5), [1, 2]), (np.float16, np.int64)),
        ((Tensor(ARRAY), True), (np.float32, np.float32)),
    ],
)
def test_a_number_takes_the_type_of_the_first_tensor_beside_it(inputs: Any, dtypes: Any) -> None:
    assert [np.dtype(one.dtype) for one in as_tensors("Add", inputs)] == [np.dtype(one) for one in dtypes]


def test_what_is_no_number_and_no_array_is_refused_by_its_place() -> None:
    with pytest.raises(ShapeError, match=r"^Add: input 1 is a str; give a Tensor, an array or a number$"):
        P.Add()(ARRAY, "text")


@pytest.mark.parametrize("strategy", [[(1, 2)], ((1, 2), [1]), (1, 2), "12"])
def test_a_strategy_is_a_tuple_of_tuples(strategy: Any) -> None:
    with pytest.raises(StrategyError, match=r"^MatMul: strategy .* must be a tuple of tuples such as \(\(2, 1\), "):
        P.MatMul().shard(strategy)


@pytest.mark.parametrize("cut", [0, -1, 2.0, "2"])
def test_a_cut_is_an_integer_of_at_least_1(cut: Any) -> None:
    with pytest.raises(StrategyError, match=r"^MatMul: out_strategy .*: each cut must be an integer of at least 1$"):
        P.MatMul().shard(((1, 1), (1, 1)), ((1, cut),))
    assert P.MatMul().shard(((1, 1), (1, 1)), ((1, 1),)).out_strategy == ((1, 1),)


def test_at_once_a_view_shows_the_memory_of_its_input_where_elements_follow_one_another() -> None:
    values = np.arange(6.0).reshape(2, 3)
    shown = [P.Reshape()(values, (3, 2)), P.Transpose()(values, (1, 0)), P.Transpose()(values.T, (1, 0))]
    assert [np.shares_memory(one.asnumpy(), values) for one in shown] == [True] * 3
    copied = P.Reshape()(values.T, (6,))
    assert not np.shares_memory(copied.asnumpy(), values)
    assert copied.tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    assert shown[1].tolist() == values.T.tolist()


def test_only_what_is_random_moves_the_stream_of_random_numbers_on() -> None:
    before = random_stream().place
    P.Exp()(ARRAY)
    assert random_stream().place == before
    P.Dropout(0.5)(ARRAY)
    assert random_stream().place == before + 1


def test_what_is_recomputed_has_a_segment_of_its_own() -> None:
    first, second = P.Exp().recompute(), P.Exp().recompute()
    assert first.segment is not None
    assert second.segment is not None
    assert first.segment is not second.segment
    assert first.recompute(False).segment is None
    assert P.Exp().settings == (None, None, None)
    assert second.settings == (None, None, second.segment)


def test_one_output_is_given_alone_but_where_there_may_be_several() -> None:
    assert P.Exp()(ARRAY).shape == (2, 3)
    assert [one.shape for one in P.Split(1, 1)(ARRAY)] == [(2, 3)]
    assert [one.shape for one in P.Split(1, 3)(ARRAY)] == [(2, 1)] * 3


class Written(Operator):
    """It has a kernel of its own."""

    def kernel(self, runtime: Runtime, inputs: Any, outputs: Any) -> Any:
        return super().kernel(runtime, inputs, outputs)


class Saying(Written):
    """It says that its kernel may be replayed."""

    replays = True

    def kernel(self, runtime: Runtime, inputs: Any, outputs: Any) -> Any:
        return super().kernel(runtime, inputs, outputs)


def test_the_kernel_of_a_user_is_replayed_only_where_its_class_says_so() -> None:
    kinds = Unfinished, Written, Saying, P.ReLU, P.MatMul
    assert [one.replays for one in kinds] == [True, False, True, True, True]


def test_without_a_rule_of_its_own_an_output_is_like_the_first_input() -> None:
    assert Unfinished().infer(ROWS, VECTOR) == (ROWS,)
