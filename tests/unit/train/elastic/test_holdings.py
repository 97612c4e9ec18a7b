"""Which parameters of a training's networks move, and by which names."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Parameter, nn
from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.train.elastic.holdings import carried, parameters_of, whole_on


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
