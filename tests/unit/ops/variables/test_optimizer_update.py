"""Update rules of optimizers, one step written out with numbers; assignments; and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, ops
from mpiparallel.errors import ConfigurationError, ShapeError

W, M, V, G = (np.array([4.0, -2.0]), np.array([1.0, 2.0]), np.array([0.25, 4.0]), np.array([0.5, -1.0]))


def variables(*arrays: Any) -> list[Parameter]:
    return [Parameter(np.array(array), f"p{place}") for place, array in enumerate(arrays)]


@pytest.mark.parametrize("scale", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_steps_along_what_has_gathered(nesterov: bool, scale: float) -> None:
    w, m = variables(W, M)
    ops.ApplyMomentum(nesterov, gradient_scale=scale)(w, m, 0.1, G, 0.9)
    gathered = 0.9 * M + scale * G
    step = scale * G + 0.9 * gathered if nesterov else gathered
    np.testing.assert_allclose(w.asnumpy(), W - 0.1 * step)
    np.testing.assert_allclose(m.asnumpy(), gathered)


@pytest.mark.parametrize("first", [0.0, 1.0])
@pytest.mark.parametrize(
    ("dampening", "nesterov", "momentum"), [(0.0, False, 0.0), (0.25, False, 0.9), (0.0, True, 0.9), (0.0, False, 0.5)]
)
def test_descent_has_momentum_dampening_and_decay(
    dampening: float, nesterov: bool, momentum: float, first: float
) -> None:
    w, a, s = variables(W, M, [first, first])
    ops.SGD(dampening, 0.01, nesterov)(w, G, 0.1, a, momentum, s)
    step = G + 0.01 * W
    if momentum:
        gathered = step if first else momentum * M + (1 - dampening) * step
        step = step + momentum * gathered if nesterov else gathered
    np.testing.assert_allclose(w.asnumpy(), W - 0.1 * step)
    np.testing.assert_allclose(a.asnumpy(), gathered if momentum else M)
    np.testing.assert_allclose(s.asnumpy(), [0.0 if momentum else first] * 2)


@pytest.mark.parametrize("nesterov", [False, True])
def test_adam_corrects_its_means(nesterov: bool) -> None:
    w, m, v = variables(W, M, V)
    ops.Adam(use_nesterov=nesterov)(w, m, v, 0.8**3, 0.95**3, 0.1, 0.8, 0.95, 1e-3, G)
    mean, square = 0.8 * M + 0.2 * G, 0.95 * V + 0.05 * G * G
    rate = 0.1 * np.sqrt(1 - 0.95**3) / (1 - 0.8**3)
    ahead = 0.8 * mean + 0.2 * G if nesterov else mean
    np.testing.assert_allclose(w.asnumpy(), W - rate * ahead / (np.sqrt(square) + 1e-3))
    np.testing.assert_allclose(m.asnumpy(), mean)
    np.testing.assert_allclose(v.asnumpy(), square)


def test_adam_with_decay_does_not_correct_them() -> None:
    w, m, v = variables(W, M, V)
    ops.AdamWeightDecay()(w, m, v, 0.1, 0.8, 0.95, 1e-3, 0.3, G)
    mean, square = 0.8 * M + 0.2 * G, 0.95 * V + 0.05 * G * G
    np.testing.assert_allclose(w.asnumpy(), W - 0.1 * (mean / (np.sqrt(square) + 1e-3) + 0.3 * W))
    np.testing.assert_allclose(m.asnumpy(), mean)
    np.testing.assert_allclose(v.asnumpy(), square)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: ops.ApplyMomentum()(*variables(W, M[:1]), 0.1, G, 0.9), r"input 1 has shape \(1,\); it must be \(2,\)"),
    (lambda: ops.ApplyMomentum()(*variables(W, M), [0.1], G, 0.9), r"input 2 has shape \(1,\); it must be \(\)"),
    (lambda: ops.ApplyMomentum()(*variables(W, M), 0.1, 1.0, 0.9), r"input 3 has shape \(\); it must be \(2,\)"),
    (lambda: ops.Assign()(*variables(W), [1.0]), r"value has shape \(1,\); it must be that of the variable, \(2,\)"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_what_does_not_fit_the_variable_is_refused_by_its_place(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        call()


def test_looking_ahead_goes_without_dampening() -> None:
    ops.SGD(0.0, nesterov=True)
    with pytest.raises(ConfigurationError, match=r"SGD: nesterov=True needs dampening=0\.0, not 0\.5"):
        ops.SGD(0.5, nesterov=True)


@pytest.mark.parametrize("kind", [ops.ApplyMomentum, ops.Adam, ops.AdamWeightDecay])
def test_locks_are_said_to_change_nothing_where_they_are_asked_for(kind: Any, remarks: Callable[[], list[str]]) -> None:
    kind()
    assert remarks() == []
    kind(use_locking=True)
    assert ["use_locking=True has no effect" in line for line in remarks()] == [True]


@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.float64])
@pytest.mark.parametrize("value", [3, [3, 5]])
def test_a_variable_keeps_its_dtype_and_its_memory(value: Any, dtype: Any) -> None:
    for operator, wanted in [(ops.Assign(), 0), (ops.AssignAdd(), 1), (ops.AssignSub(), -1)]:
        (variable,) = variables(np.array([10, 20], dtype))
        seen = variable.asnumpy()
        operator(variable, np.array(value, dtype))
        change = np.array(value, dtype)
        result = np.array([10, 20], dtype) * abs(wanted) + change * (wanted or 1)
        np.testing.assert_array_equal(variable.asnumpy(), result.astype(dtype), strict=True)
        np.testing.assert_array_equal(seen, variable.asnumpy())


@pytest.mark.parametrize(("momentum", "correction"), [(0.9, 1.0), (0.5, 1.0), (0.5, 2.0)])
def test_a_moving_average_moves_by_what_it_does_not_keep(momentum: float, correction: float) -> None:
    (variable,) = variables(W)
    ops.AssignMovingAverage(momentum, correction)(variable, G)
    np.testing.assert_allclose(variable.asnumpy(), momentum * W + (1 - momentum) * correction * G)
