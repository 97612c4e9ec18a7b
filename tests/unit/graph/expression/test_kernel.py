"""What one kernel computes, in blocks or by a compiled loop, is what NumPy computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend import jit
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression import kernel
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.loop_kernel import is_worth_a_loop
from mpiparallel.graph.expression.term import Term, call, operand

LENGTH = 1 << 12
"""The fewest elements for which a loop is compiled."""
RANDOM = np.random.default_rng(5)
NUMBERS = RANDOM.normal(size=LENGTH).astype(np.float32)
OTHERS = RANDOM.normal(size=LENGTH).astype(np.float32)
COUNTS = RANDOM.integers(-99, 99, LENGTH).astype(np.int32)
MORE_COUNTS = RANDOM.integers(-99, 99, LENGTH).astype(np.int32)
TURNED = NUMBERS.astype(np.complex64) * np.complex64(1 + 2j)
HALVES = NUMBERS.astype(np.float16)
NEAR_ONE = 1 + NUMBERS.astype(np.float64) * 2.0**-30
"""Numbers that are 1 in float32."""
Roots = Callable[..., Sequence[Term]]
BLOCKS, LOOP = "blocks", "loop"


def computed(roots: Roots, *given: Any) -> list[Any]:
    terms = roots(*(operand(place, one.shape, one.dtype) for place, one in enumerate(given)))
    found = [np.zeros(term.shape, term.dtype) for term in terms]
    expression_kernel(Runtime(), terms, given, found)()
    return found


class Counting(NumpyBackend):
    """Counts the pieces of memory that are asked of it."""

    def __init__(self) -> None:
        self.pieces = 0

    def empty(self, byte_count: int, holder: str = "") -> Any:
        self.pieces += 1
        return super().empty(byte_count, holder)


def test_a_result_that_is_a_smaller_operand_is_copied_to_its_place() -> None:
    row, matrix = NUMBERS[:3], NUMBERS[:12].reshape(4, 3)
    copied, scaled = computed(lambda x, y: (x, y * x), row, matrix)
    np.testing.assert_array_equal(copied, row)
    np.testing.assert_array_equal(scaled, matrix * row)


@pytest.mark.parametrize("steps", [1, 5])
def test_what_a_term_was_made_of_makes_room_for_it(steps: int) -> None:
    x = operand(0, (64,), np.dtype(np.float32))
    left, right = x * 2.0, x * 3.0
    for number in range(steps):
        left, right = call("sin", left + number), call("cos", right + number)
    backend = Counting()
    expression_kernel(Runtime(backend), [left * right], [NUMBERS[:64]], [np.zeros(64, np.float32)])
    assert backend.pieces == 1


@pytest.mark.parametrize(
    ("root", "pieces"),
    [
        # What is computed before a result waits where that will be.
        (lambda x: x * 2.0 + 1.0, 0),
        (lambda x: call("sin", call("exp", x * 2.0) + 1.0), 0),
        (lambda x: call("exp", x) + call("sin", x), 1),
        (lambda x: (call("exp", x) + call("sin", x)) * call("cos", x), 1),
        (lambda x: (call("exp", x) + call("sin", x)) * (call("cos", x) - call("tanh", x)), 2),
        (lambda x: call("where", call("greater", x, 0.0), x, 0.0), 1),
    ],
)
def test_blocks_need_memory_only_for_what_cannot_wait_in_a_result(root: Callable[[Term], Term], pieces: int) -> None:
    backend, found = Counting(), np.zeros(64, np.float32)
    x = operand(0, (64,), np.dtype(np.float32))
    expression_kernel(Runtime(backend), [root(x)], [NUMBERS[:64]], [found])()
    assert backend.pieces == pieces


@pytest.mark.parametrize(
    ("root", "pieces"),
    [
        (lambda x: x * 2.0 + 1.0, 0),
        # The operand is read once more, so its memory cannot have what comes first.
        (lambda x: x * 2.0 + call("exp", x), 1),
        (lambda x: (x * 2.0 + call("exp", x)) * x, 2),
    ],
)
def test_in_place_what_comes_first_does_not_wait_where_the_operand_is_still_read(
    root: Callable[[Term], Term], pieces: int
) -> None:
    backend, found = Counting(), NUMBERS[:64].copy()
    x = operand(0, (64,), np.dtype(np.float32))
    expression_kernel(Runtime(backend), [root(x)], [found], [found])()
    assert backend.pieces == pieces


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ways by which kernels have been made, one after the other."""
    made: list[str] = []
    for name, way in (("block_kernel", BLOCKS), ("loop_kernel", LOOP)):
        bind = getattr(kernel, name)

        def noting(*given: Any, bind: Any = bind, way: str = way) -> Any:
            found = bind(*given)
            made.extend([way] if found is not None else [])
            return found

        monkeypatch.setattr(kernel, name, noting)
    return made


@pytest.mark.parametrize(
    ("roots", "given", "wanted", "way"),
    [
        (lambda x: [x, x * 2.0], [NUMBERS], [NUMBERS, NUMBERS * 2], LOOP),
        (lambda x: [x, x * 2.0], [NUMBERS[1:]], [NUMBERS[1:], NUMBERS[1:] * 2], BLOCKS),
        (lambda x, y: [x * y], [TURNED, TURNED[::-1]], [TURNED * TURNED[::-1]], BLOCKS),
        (lambda x, y: [call("maximum", x, y)], [COUNTS, MORE_COUNTS], [np.maximum(COUNTS, MORE_COUNTS)], BLOCKS),
        (lambda x, y: [call("minimum", x, y)], [COUNTS, MORE_COUNTS], [np.minimum(COUNTS, MORE_COUNTS)], BLOCKS),
        (lambda x, y: [x + y], [COUNTS, MORE_COUNTS], [COUNTS + MORE_COUNTS], LOOP),
        (lambda x, y: [call("maximum", x, y)], [NUMBERS, OTHERS], [np.maximum(NUMBERS, OTHERS)], LOOP),
        (lambda x: [x.astype(np.dtype(np.float32)) - 1.0], [NEAR_ONE], [np.zeros(LENGTH, np.float32)], LOOP),
        (lambda x: [call("logical_or", call("greater", x, 0), False)], [NUMBERS], [NUMBERS > 0], LOOP),
        (lambda x: [call("logical_or", call("greater", x, 0), True)], [NUMBERS], [np.ones(LENGTH, bool)], LOOP),
    ],
)
def test_a_kernel_computes_what_numpy_does_by_a_loop_where_one_can(
    roots: Roots, given: list[Any], wanted: list[Any], way: str, ways: list[str]
) -> None:
    if jit.compiler() is None:
        pytest.skip("loops are not compiled here")
    for one, other in zip(computed(roots, *given), wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, 1e-6)
    assert ways == [way]


def no_float16(patch: pytest.MonkeyPatch) -> None:
    """Let the processor not convert float16."""
    if jit.compiler() is None:
        pytest.skip("loops are not compiled here")
    from mpiparallel.backend import machine_code

    patch.setattr(machine_code, "converts_float16", lambda: False)


def no_numba(patch: pytest.MonkeyPatch) -> None:
    """Let numba be found, though it cannot be imported."""
    patch.setattr(jit, "is_there", lambda: True)
    patch.setattr(jit, "compiler", lambda: None)


@pytest.mark.parametrize("lacks", [no_float16, no_numba])
def test_where_no_loop_can_be_compiled_blocks_are_computed(
    lacks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, ways: list[str]
) -> None:
    lacks(monkeypatch)
    (found,) = computed(lambda x: [(x.astype(np.dtype(np.float32)) * 2.0).astype(np.dtype(np.float16))], HALVES)
    np.testing.assert_array_equal(found, HALVES * np.float16(2))
    assert ways == [BLOCKS]


def test_a_loop_is_worth_its_compilation_from_4096_elements_on() -> None:
    assert [is_worth_a_loop(size) for size in (LENGTH - 1, LENGTH)] == [False, True]
