"""Element-wise functions: MindSpore's values at the edges, what they take and give, their names, their cost."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import nn, ops
from mpiparallel.errors import ShapeError
from mpiparallel.graph.broadcasting import broadcast_equation
from mpiparallel.graph.elementwise import Broadcasting
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression import loop_kernel
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import operand
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops import elementwise
from tests.conformance.cases.elementwise_cases import ELEMENTWISE

TABLE = json.loads((Path(__file__).parents[2] / "fixtures" / "mindspore" / "elementwise.json").read_text("utf-8"))
EDGES = [(group, name) for group in ("one", "two") for name in TABLE[group]["values"]]
NUMPYS = "MindSpore computes x - floor(x / y) * y, which is no number where y is infinite; here it is NumPy's"
DIFFERENT: dict[str, tuple[str, list[int]]] = {
    "softplus": ("MindSpore's of no number is infinite on a CPU, and at -100 it is rounded to 0", [0, 17]),
    "mish": ("infinity times 1 is no number on MindSpore's CPU, nor is 100; -100 is rounded to 0", [1, 16, 17]),
    "sign": ("MindSpore's of no number is 0 on a CPU", [0]),
    "relu": ("MindSpore's of no number is 0 on a CPU", [0]),
    "floor_div": (NUMPYS, [1, 2, 14]),
    "floor_divide": (NUMPYS, [1, 2, 14]),
    "floor_mod": (NUMPYS, [12, 14, 16]),
    "remainder": (NUMPYS, [12, 14, 16]),
    "fmod": (NUMPYS, [12, 14, 16]),
}
"""Where values are not MindSpore's on a CPU, and why."""


@pytest.mark.parametrize(("group", "name"), EDGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_at_the_edges_are_mindspores(group: str, name: str, dtype: Any) -> None:
    listed = TABLE[group]["inputs"]
    arrays = [np.array(one, dtype) for one in (listed if group == "two" else [listed])]
    found = getattr(ops, name)(*map(Tensor, arrays))
    wanted = np.array(TABLE[group]["values"][name], float)
    same = np.ones(wanted.shape, bool)
    same[DIFFERENT.get(name, ("", []))[1]] = False
    assert found.dtype == dtype
    if dtype == np.float64:
        # What is too large or too small for float32 need not be for float64.
        same &= np.isfinite(wanted) & ((wanted != 0) | (found.asnumpy() == 0))
    np.testing.assert_allclose(found.asnumpy()[same], wanted[same], rtol=1e-5, atol=1e-6)
    if dtype == np.float32:
        alike = np.isclose(found.asnumpy(), wanted, rtol=1e-5, atol=0, equal_nan=True)
        assert not alike[~same].any(), "DIFFERENT lists what is not different"


@pytest.mark.parametrize("name", TABLE["integers"])
def test_remainders_of_integers_are_mindspores(name: str) -> None:
    x, y = np.array([5, -5, 5, -5, 0, 4], np.int32), np.array([3, 3, -3, -3, 2, 2], np.int32)
    found = getattr(ops, name)(x, y)
    assert (found.dtype, found.tolist()) == (np.int32, TABLE["integers"][name])


@pytest.mark.parametrize("name", sorted(row.name for row in elementwise.ROWS if row.takes == "floats"))
def test_what_is_of_floats_says_so_of_integers(name: str) -> None:
    operator = getattr(ops, name)()
    inputs = [np.array([1, 2])] * len(operator.function.arguments)
    with pytest.raises(ShapeError, match="is of dtype int64; cast it to a floating-point dtype"):
        operator(*inputs)


@pytest.mark.parametrize("name", sorted(row.name for row in elementwise.ROWS if row.gives == "floats"))
def test_what_takes_integers_gives_float32_of_them(name: str) -> None:
    operator = getattr(ops, name)()
    inputs = [np.array([1, 2])] * len(operator.function.arguments)
    assert operator(*inputs).dtype == np.float32


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_function_and_a_method_are_the_operator(name: str) -> None:
    row = getattr(ops, name).function
    inputs = [Tensor(one) for one in ELEMENTWISE[name][1:]]
    wanted = getattr(ops, name)()(*inputs).asnumpy()
    for function in row.functions.split():
        np.testing.assert_array_equal(getattr(ops, function)(*inputs).asnumpy(), wanted)
        by_name = dict(zip(row.arguments, inputs, strict=True))
        np.testing.assert_array_equal(getattr(ops, function)(**by_name).asnumpy(), wanted)
    for method in row.methods.split():
        np.testing.assert_array_equal(getattr(inputs[0], method)(*inputs[1:]).asnumpy(), wanted)


CELLS = {
    **{name: getattr(ops, name) for name in ("ReLU", "Sigmoid", "Tanh", "Softsign", "SeLU", "HSwish", "HSigmoid")},
    **{"GELU": ops.GeLU, "Mish": ops.Mish, "SiLU": ops.SiLU, "ELU": ops.Elu},
}


@pytest.mark.parametrize("name", CELLS)
def test_an_activation_cell_is_the_operator_and_goes_by_its_name(name: str) -> None:
    x = Tensor(np.float32([-4.0, -1.0, 0.5, 3.5]))
    wanted = CELLS[name]()(x).asnumpy()
    np.testing.assert_array_equal(getattr(nn, name)()(x).asnumpy(), wanted)
    if name != "SeLU":
        # MindSpore knows no activation of that name either.
        assert isinstance(nn.get_activation(name.lower()), getattr(nn, name))


def test_all_element_wise_operators_follow_one_sharding_rule() -> None:
    assert {operator.equation for operator in elementwise.OPERATORS.values()} == {Broadcasting.equation}
    shapes = ((6, 1, 5), (4, 1))
    specs = [Tensor(np.ones(shape)).spec for shape in shapes]
    assert ops.Atan2().equation(*specs) == broadcast_equation(*shapes)


def test_what_is_written_for_a_loop_is_what_the_array_library_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.delenv("MPIPARALLEL_JIT", raising=False)
    compiled = [row.name for row in elementwise.ROWS if row.name in ELEMENTWISE and (row.text or row.terms)]

    def all_at_once() -> list[Any]:
        found = [getattr(ops, name)()(*ELEMENTWISE[name][1:]).asnumpy() for name in ("Erf", "Erfc")]
        return [*found, _in_one_loop(compiled)]

    with monkeypatch.context() as patched:
        patched.setenv("MPIPARALLEL_JIT", "0")
        wanted = all_at_once()
    monkeypatch.setattr(loop_kernel, "_SMALLEST", 0)
    for one, other in zip(all_at_once(), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)


def _in_one_loop(names: list[str]) -> Any:
    """Return what a kernel of all functions computes, one after the other."""
    arrays, roots, targets = [], [], []
    for name in names:
        inputs = [np.broadcast_to(one, (6, 5)).copy() for one in ELEMENTWISE[name][1:]]
        terms = [operand(len(arrays) + place, one.shape, one.dtype) for place, one in enumerate(inputs)]
        arrays += inputs
        roots += getattr(ops, name)().expression(*terms)
        targets.append(np.empty((6, 5)))
    expression_kernel(Runtime(), roots, arrays, targets)()
    return np.stack(targets)


def test_the_error_function_is_exact_to_a_few_units_in_the_last_place() -> None:
    x = np.concatenate([np.linspace(-6, 6, 4001), np.geomspace(1e-300, 26, 2000)])
    for function, truth in ((ops.erf, math.erf), (ops.erfc, math.erfc)):
        wanted = np.array([truth(one) for one in x])
        np.testing.assert_array_max_ulp(function(x).asnumpy(), wanted, maxulp=8)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 2e-5)])
def test_the_inverse_of_the_error_function_is_exact_where_it_is_near_0_and_near_1(dtype, rtol) -> None:
    """What is left to 1 is compared, not what is near it: there the inverse has most of its digits to lose."""
    left = 2.0 ** -np.arange(1, np.finfo(dtype).nmant)
    found = ops.erfinv((1.0 - left).astype(dtype)).asnumpy().astype(np.float64)
    np.testing.assert_allclose([math.erfc(one) for one in found], left, rtol)
    small = np.geomspace(1e-30, 0.5, 50).astype(dtype)
    found = ops.erfinv(-small).asnumpy().astype(np.float64)
    np.testing.assert_allclose([math.erf(one) for one in found], -small, rtol)
    ends = ops.erfinv(np.array([-1.0, 0.0, 1.0, 1.5, -2.0, np.nan], dtype)).asnumpy()
    np.testing.assert_array_equal(ends, np.array([-np.inf, 0.0, np.inf, np.nan, np.nan, np.nan], dtype))


def test_round_takes_decimals() -> None:
    assert ops.round(Tensor(np.array([2.345, -0.55])), decimals=1).tolist() == [2.3, -0.6]
    assert Tensor(np.array([25.0, 35.0])).round(-1).tolist() == [20.0, 40.0]
