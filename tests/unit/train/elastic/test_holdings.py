"""Which parameters of a training's networks move, and by which names."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Parameter, nn
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.train.elastic.holdings import (
    carried,
    keys_after,
    keys_before,
    pairs_of,
    parameters_of,
    whole_on,
)
from mpiparallel.train.elastic.leader_message import MovedParameter, ReshardCommand


def parameter(name: str) -> Parameter:
    return Parameter(np.zeros(2, np.float32), name)


class Cells(nn.Cell):
    """A cell that has the parameters that it is given."""

    def __init__(self, **parameters: Parameter) -> None:
        super().__init__()
        for name, one in parameters.items():
            setattr(self, name, one)


def test_each_parameter_of_several_networks_moves_once_whatever_comes_before_it() -> None:
    shared, passing = parameter("shared"), parameter("passing")
    passing.transient = True
    first, second, third = parameter("w"), parameter("w"), parameter("w")
    training = Cells(passing=passing, shared=shared, first=first)
    evaluation = Cells(shared=shared, passing=passing, second=second, third=third)
    found = parameters_of([training, evaluation, training])
    assert {name: id(one) for name, one in found.items()} == {
        "shared": id(shared),
        "w": id(first),
        "w (another)": id(second),
        "w (another) (another)": id(third),
    }


def test_a_parameter_moves_from_the_ranks_it_is_laid_out_on_to_all_that_train_then() -> None:
    one = parameter("w")
    assert carried(one, None, (4, 7), (4, 7, 9)).source == Layout((2,), DeviceMatrix((2,)), ((),))
    halves = Layout((2,), DeviceMatrix((2,)), ((0,),))
    one.move(halves, 0, np.zeros(1, np.float32))
    moved = carried(one, None, (4, 7), (4, 7, 9))
    assert (moved.source, moved.target) == (halves, whole_on((2,), 3))
    with pytest.raises(ReshardError) as raised:
        carried(one, None, (4,), (4, 7, 9))
    assert str(raised.value) == (
        "Model.reshard: parameter 'w' is laid out on 2 ranks, but 1 train; a network is moved by the Model that has "
        "run it"
    )


def own(count: int) -> Layout:
    """Return the layout of what is each rank's own."""
    return Layout((2,), DeviceMatrix((count,)), ((),), partial=(0,))


def command(
    before: tuple[int, ...],
    after: tuple[int, ...],
    source: Layout,
    target: Layout,
    dead: tuple[int, ...] = (),
) -> ReshardCommand:
    """Return a reshard of one tensor, "w"."""
    moved = MovedParameter(TensorSpec((2,), np.dtype(np.float32)), source, target)
    return ReshardCommand(before, after, (), 0, {}, 0, 0, ("", (), 0), {}, tensors={"w": moved}, dead=dead)


def told(one: ReshardCommand) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return from which ranks of the job to which each tensor moves."""
    return {
        name: (tuple(source.devices.members), tuple(target.devices.members))
        for name, (source, target) in pairs_of(one).items()
    }


def test_what_is_each_ranks_own_stays_with_it_and_who_joins_takes_that_of_its_number_counted_round() -> None:
    moved = command((4, 7), (7, 9, 4, 2), own(2), own(4))
    # The second of the new ones has the place 1, the fourth the place 3: both have the second of those before.
    assert told(moved) == {"w of rank 7": ((7,), (7, 9, 2)), "w of rank 4": ((4,), (4,))}
    assert [keys_before(moved, rank) for rank in (4, 7, 9)] == [{"w": "w of rank 4"}, {"w": "w of rank 7"}, {}]
    assert [keys_after(moved, rank)["w"] for rank in (7, 9, 4, 2)] == [f"w of rank {rank}" for rank in (7, 7, 4, 7)]
    assert keys_after(moved, 5) == {}


def test_what_nobody_takes_over_is_given_by_nobody() -> None:
    moved = command((0, 1, 2), (2,), own(3), own(1))
    assert told(moved) == {"w of rank 2": ((2,), (2,))}
    assert [keys_before(moved, rank) for rank in (0, 1, 2)] == [{}, {}, {"w": "w of rank 2"}]


def test_the_dead_give_nothing_and_others_take_their_places_counted_round() -> None:
    moved = command((0, 1, 2), (1, 2, 5), own(3), own(3), dead=(0,))
    assert told(moved) == {"w of rank 1": ((1,), (1, 5)), "w of rank 2": ((2,), (2,))}
    assert keys_before(moved, 0) == {}


def test_where_it_is_to_be_the_same_on_all_ranks_it_is_that_of_the_first_that_lives() -> None:
    moved = command((3, 4, 5), (5, 6), own(3), whole_on((2,), 2), dead=(3,))
    assert told(moved) == {"w": ((4,), (5, 6))}
    assert [keys_before(moved, rank) for rank in (3, 4, 5)] == [{}, {"w": "w"}, {}]
    assert [keys_after(moved, rank) for rank in (4, 5, 6)] == [{}, {"w": "w"}, {"w": "w"}]


def test_what_was_the_same_on_all_ranks_becomes_each_ones_own() -> None:
    moved = command((3, 4), (4, 3, 8), whole_on((2,), 2), own(3))
    assert told(moved) == {"w": ((3, 4), (4, 3, 8))}
    assert [keys_before(moved, rank) for rank in (3, 4, 8)] == [{"w": "w"}, {"w": "w"}, {}]
    assert [keys_after(moved, rank) for rank in (3, 4, 8)] == [{"w": "w"}] * 3


def test_a_tensor_of_a_stage_is_given_and_taken_by_the_ranks_of_that_stage_alone() -> None:
    first, second = (Layout((2,), DeviceMatrix((2,), start), ((0,),)) for start in (0, 2))
    moved = command((9, 8, 7, 6), (6, 7, 8, 9), first, second)
    assert told(moved) == {"w": ((9, 8), (8, 9))}
    assert [keys_before(moved, rank) for rank in (9, 8, 7, 6)] == [{"w": "w"}, {"w": "w"}, {}, {}]
    assert [keys_after(moved, rank) for rank in (9, 8, 7, 6)] == [{"w": "w"}, {"w": "w"}, {}, {}]


def test_a_tensor_that_is_each_ranks_own_by_its_making_moves_to_the_same_ranks_alone() -> None:
    one = Parameter(np.zeros(2, np.float32), "mine", layerwise_parallel=True)
    one.move(own(2), 0, np.zeros(2, np.float32))
    assert carried(one, None, (4, 7), (4, 7)).source == own(2)
    for after in ((4,), (7, 4)):
        with pytest.raises(ReshardError) as raised:
            carried(one, None, (4, 7), after)
        assert str(raised.value) == (
            "Model.reshard: parameter 'mine' is layerwise_parallel, so that each rank has one of its own, and 2 of "
            f"them do not fit {len(after)} other ranks; cut it by a strategy instead"
        )
