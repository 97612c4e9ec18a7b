"""The error function and its complement against the C library's, of one number at a time."""

from __future__ import annotations

import math

import numpy as np

from mpiparallel.graph.expression.error_function import erf, erfc

X = np.concatenate([np.linspace(-6.0, 27.0, 2001), np.logspace(-300, 0, 301), [-0.0, 0.0, np.inf, -np.inf]])


def test_the_error_function_is_exact_to_a_few_units_in_the_last_place() -> None:
    found = np.empty_like(X)
    erf(X, out=found)
    np.testing.assert_allclose(found, [math.erf(x) for x in X], rtol=2e-15, atol=0)


def test_its_complement_is_exact_even_where_next_to_nothing_is_left() -> None:
    found = np.empty_like(X)
    erfc(X, out=found)
    truth = np.array([math.erfc(x) for x in X])
    is_normal = truth > np.finfo(np.float64).tiny
    np.testing.assert_allclose(found[is_normal], truth[is_normal], rtol=2e-15, atol=0)
    np.testing.assert_allclose(found, truth, atol=1e-300)
