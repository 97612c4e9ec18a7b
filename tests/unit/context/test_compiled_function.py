"""A compiled function: traced once for each kind of input, run on data from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, Tensor, context, nn
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.context.compiled_function import CompiledFunction
from mpiparallel.context.settings import current_configuration
from mpiparallel.context.simulation import Simulation, SimulationEndError, simulating

X = np.arange(8.0, dtype=np.float32).reshape(4, 2)


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    context.set_context(mode=context.GRAPH_MODE)
    context.reset_auto_parallel_context()


@pytest.fixture
def counted() -> tuple[Callable[..., Any], list[tuple[int, ...]]]:
    """A function that doubles, and the shapes of what it was called on."""
    calls: list[tuple[int, ...]] = []

    def double(x: Tensor) -> Tensor:
        calls.append(x.shape)
        return x * 2

    return double, calls


Counted = tuple[Callable[..., Any], list[tuple[int, ...]]]


def test_a_function_is_traced_once_for_inputs_of_a_shape_and_a_type(counted: Counted) -> None:
    double, calls = counted
    function = CompiledFunction(double)
    for given in (X, X + 1, Tensor(X + 2)):
        assert (
            function(given).asnumpy() == 2 * np.asarray(given.asnumpy() if isinstance(given, Tensor) else given)
        ).all()
    assert (calls, len(function.programs)) == ([(4, 2)], 1)
    function(X[:3])
    function(X.astype(np.float64))
    assert (calls, len(function.programs)) == ([(4, 2), (3, 2), (4, 2)], 3)


def test_what_is_compiled_beforehand_is_not_traced_at_the_first_call(counted: Counted) -> None:
    double, calls = counted
    function = CompiledFunction(double)
    function.compile((X,))
    assert (calls, len(function.programs)) == ([(4, 2)], 1)
    assert function(X).asnumpy().tolist() == (2 * X).tolist()
    assert calls == [(4, 2)]


def test_programs_that_are_forgotten_are_made_anew_of_the_same_trace(counted: Counted) -> None:
    double, calls = counted
    function = CompiledFunction(double)
    function(X)
    (before,) = function.programs
    function.forget()
    assert function.programs == ()
    assert function(X).asnumpy().tolist() == (2 * X).tolist()
    assert function.programs[0] is not before
    assert calls == [(4, 2)]


def test_in_pynative_mode_a_function_is_called_at_once_and_nothing_is_compiled(counted: Counted) -> None:
    double, calls = counted
    function = CompiledFunction(double)
    context.set_context(mode=context.PYNATIVE_MODE)
    for _ in range(2):
        assert function(Tensor(X)).asnumpy().tolist() == (2 * X).tolist()
    assert (calls, function.programs, function.signature) == ([(4, 2)] * 2, (), None)
    assert function.traced_call(Tensor(X)).asnumpy().tolist() == (2 * X).tolist()
    assert len(function.programs) == 1


def test_a_later_run_leaves_earlier_results_as_they_were() -> None:
    function = CompiledFunction(lambda x: (x + 1, {"twice": x * 2}))
    first, second = function(X), function(10 * X)
    assert first[0].asnumpy().tolist() == (X + 1).tolist()
    assert first[1]["twice"].asnumpy().tolist() == (2 * X).tolist()
    assert second[0].asnumpy().tolist() == (10 * X + 1).tolist()
    assert second[1]["twice"].asnumpy().tolist() == (20 * X).tolist()


def test_numbers_are_constants_of_a_program_each() -> None:
    function = CompiledFunction(lambda x, count: x * count)
    assert [function(X, count).asnumpy()[3, 1] for count in (2, 3, 2)] == [14.0, 21.0, 14.0]
    assert len(function.programs) == 2


def test_a_signature_is_that_of_the_last_new_program_and_makes_arguments_of_its_shapes() -> None:
    function = CompiledFunction(lambda x, pair: x + pair[0] * pair[1])
    assert function.signature is None
    function(X, (X, 3))
    signature = function.signature
    assert signature is not None
    first, (second, number) = signature.arguments(current_configuration())
    assert (first.shape, second.shape, number) == ((4, 2), (4, 2), 3)
    assert (first.dtype, first.strides) == (np.float32, (0, 0))
    assert not first.any()
    function(X[:1], (X[:1], 3))
    assert function.signature is not None
    assert [spec.shape for spec in function.signature.specs] == [(1, 2), (1, 2)]
    assert [spec.shape for spec in signature.specs] == [(4, 2), (4, 2)]


def test_a_signature_has_the_shapes_of_the_whole_batch_and_feeds_each_rank_its_piece() -> None:
    def found(_communicator: Communicator, whole: bool) -> tuple[Any, Any, Any]:
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
        function = CompiledFunction(lambda x: x * 2, whole_inputs=whole)
        returned = function(X)
        assert function.signature is not None
        (fed,) = function.signature.arguments(current_configuration())
        return function.signature.specs[0].shape, fed.shape, returned.shape

    # Two ranks feed four rows each, or the same four.
    assert run_world(2, found, False) == [((8, 2), (4, 2), (8, 2))] * 2
    assert run_world(2, found, True) == [((4, 2), (2, 2), (4, 2))] * 2


def test_a_function_is_tried_apart_from_what_has_been_compiled(counted: Counted) -> None:
    double, calls = counted
    function = CompiledFunction(double)
    tried = function.tried((X,))
    assert [node.operator.name for node in tried.staged(current_configuration()).of_rank(0).graph.nodes] == ["Mul"]
    tried.piece(current_configuration(), 2)
    assert calls == [(4, 2), (2, 2)]
    assert (function.programs, function.signature) == ((), None)


def test_a_graph_with_layouts_is_made_without_a_program_and_by_the_configuration_that_is_given() -> None:
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    function = CompiledFunction(lambda x: x * 2)
    sharded = function.shard((X,), current_configuration(4)).of_rank(0)
    assert {layout.devices.size for layout in sharded.layouts.values()} == {4}
    assert function.programs == ()
    assert {layout.devices.size for layout in function.shard((X,)).of_rank(0).layouts.values()} == {1}


def test_a_simulation_ends_with_what_would_train_or_run_on_many_ranks_and_nothing_else() -> None:
    weight = Parameter(np.ones(2, np.float32), name="weight")
    function = CompiledFunction(lambda x: x * weight)
    with simulating(Simulation()):
        assert function(X).asnumpy().tolist() == X.tolist()
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=2, full_batch=True)
        for call in (lambda: function(X), lambda: function.shard((X,)), lambda: function.compile((X,))):
            with pytest.raises(
                SimulationEndError, match="the network has been compiled, and a simulation ends here"
            ) as end:
                call()
        network = end.value.network
        assert not network.trains
        assert network.configuration.device_num == 2
        assert network.lay_out is not None
        _, staged = network.lay_out(current_configuration(4))
        assert {layout.devices.size for layout in staged.of_rank(0).layouts.values()} == {4}
        context.reset_auto_parallel_context()
        cell = nn.Dense(2, 1)
        step = nn.TrainOneStepCell(nn.WithLossCell(cell, nn.MSELoss()), nn.SGD(cell.trainable_params(), 0.1))
        with pytest.raises(SimulationEndError) as trained:
            step(Tensor(X), Tensor(X[:, :1]))
        assert trained.value.network.trains
    assert function(X).asnumpy().tolist() == X.tolist()
