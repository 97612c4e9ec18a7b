"""Which parameters of a training's networks move, and by which names."""

from __future__ import annotations

import numpy as np

from mpiparallel import Parameter, nn
from mpiparallel.train.elastic.holdings import parameters_of


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
