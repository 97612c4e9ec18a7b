"""The copy to which a step that cannot be ended goes back."""

from __future__ import annotations

import numpy as np

from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.train.elastic.snapshot import Snapshot

HALVES = Layout((4, 3), DeviceMatrix((2,)), ((0,), ()))


def placed() -> dict[str, Parameter]:
    parameters = {name: Parameter(np.zeros((4, 3)), name) for name in ("w", "moment", "unplaced")}
    for name in ("w", "moment"):
        parameters[name].move(HALVES, 1, np.arange(6.0).reshape(2, 3) + len(name))
    return parameters


def test_parameters_have_again_what_they_had_in_the_arrays_that_programs_are_bound_to() -> None:
    parameters, snapshot = placed(), Snapshot()
    arrays = {name: parameters[name].asnumpy() for name in ("w", "moment")}
    before = {name: array.copy() for name, array in arrays.items()}
    snapshot.take(parameters, 3, {"epoch": 1})
    for array in arrays.values():
        array += 1.0
    snapshot.take(parameters, 4, {"epoch": 2})
    for array in arrays.values():
        array *= 7.0
    snapshot.put_back(parameters)
    assert (snapshot.step, snapshot.position) == (4, {"epoch": 2})
    for name, array in arrays.items():
        assert parameters[name].asnumpy() is array
        np.testing.assert_array_equal(array, before[name] + 1.0)


def test_a_copy_does_not_fit_once_a_parameter_is_cut_otherwise_or_gone() -> None:
    parameters, snapshot = placed(), Snapshot()
    snapshot.take(parameters, 3, {})
    assert (snapshot.fits(parameters), snapshot.is_held(parameters)) == (True, True)
    parameters["w"].move(Layout((4, 3), DeviceMatrix(()), ((), ())), 0, np.zeros((4, 3)))
    assert (snapshot.fits(parameters), snapshot.is_held(parameters)) == (False, True)
    parameters["w"].leave()
    assert (snapshot.fits(parameters), snapshot.is_held(parameters)) == (False, False)


def test_nothing_is_left_of_a_copy_that_is_dropped() -> None:
    parameters, snapshot = placed(), Snapshot()
    snapshot.take(parameters, 3, {})
    snapshot.drop()
    parameters["w"].leave()
    assert (snapshot.step, snapshot.fits(parameters)) == (-1, True)
