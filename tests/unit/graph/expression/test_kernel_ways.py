"""Terms computed in blocks, and by the loops that are compiled for them: both give what NumPy gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend import jit
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression import block_places, loop_kernel, loop_source
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import Term, call, operand, reduce

Array = Any
RANDOM = np.random.default_rng(11)
X, Y = RANDOM.uniform(0.5, 2.0, (2, 3, 4, 5))
ROW, COLUMN, ONE = X[0, 0] - 1, Y[:, :1, :1] - 1, np.array([[[1.5]]])
MATRIX, COUNTS = RANDOM.uniform(-2, 2, (6, 8)), RANDOM.integers(-9, 9, (6, 8))
SINGLE = MATRIX.astype(np.float32)
HALVES = MATRIX.astype(np.float16)


@dataclass
class Interpreter:
    """It stands for the compiler: the text of a loop is Python, and is run as that."""

    texts: list[str] = field(default_factory=list)

    @property
    def names(self) -> dict[str, Any]:
        """What the text of a loop may use."""
        whole = {f"int{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)}
        functions = {"maximum": np.maximum, "minimum": np.minimum, "add_up": lambda total, term: total + term}
        letters = {f"{name}_{letter}": getattr(np, name) for name in ("exp", "tanh") for letter in ("f4", "f8")}
        halves = {
            "from_float16": lambda bits: np.float32(np.uint16(bits).view(np.float16)),
            "to_float16": lambda number: np.float16(number).view(np.uint16),
        }
        kinds = {"f4": np.float32, "f8": np.float64, "nan": np.nan, "inf": np.inf, "np": np, "math": math}
        return {**whole, **functions, **letters, **halves, **kinds}

    def converts(self, dtype: Any) -> bool:
        """Say that floats of 16 bits are read and written."""
        return True

    def bind(self, text: str, arguments: tuple[Any, ...]) -> Callable[[], object]:
        """Return a call of the loop."""
        self.texts.append(text)
        names = self.names
        exec(compile(text, "<loop>", "exec"), names)
        return partial(names["kernel"], *arguments)


def mean(x: Any, *dims: int) -> Any:
    if isinstance(x, Term):
        return reduce("sum", x, dims) / float(math.prod(x.shape[dim] for dim in dims))
    return x.mean(dims, keepdims=True)


def total(x: Any, *dims: int) -> Any:
    return reduce("sum", x, dims) if isinstance(x, Term) else np.sum(x, dims, keepdims=True)


def largest(x: Any, *dims: int) -> Any:
    return reduce("max", x, dims) if isinstance(x, Term) else np.max(x, dims, keepdims=True)


def of(name: str, *given: Any) -> Any:
    return call(name, *given) if any(isinstance(one, Term) for one in given) else getattr(np, name)(*given)


def normalized(x: Any, scale: Any, *dims: int) -> list[Any]:
    middle = mean(x, *dims)
    apart = x - middle
    spread = 1.0 / of("sqrt", mean(apart * apart, *dims) + 0.25)
    return [apart * spread * scale, middle, spread]


def soft(x: Any, *dims: int) -> list[Any]:
    powers = of("exp", x - largest(x, *dims))
    return [powers / total(powers, *dims), of("log", total(powers, *dims))]


def slopes(x: Any, dy: Any, *dims: int) -> list[Any]:
    middle = mean(x, *dims)
    wide = dy * (x - middle)
    return [dy - mean(wide, *dims), total(wide, 0), total(dy, 0)]


def in_two_types(x: Any) -> list[Any]:
    summed = total(x, 0)
    return [summed.astype(np.float32), summed, x * 2.0]


Roots = Callable[..., list[Any]]
CASES: dict[str, tuple[Roots, Sequence[Array]]] = {
    "numbers beside rows and columns": (lambda x, r, c, o: [x * r + c, (x - o) / c], [X, ROW, COLUMN, ONE]),
    "powers of numbers": (lambda x: [1.0 / x - (2.0 - x), -x * 3.0 + (1.0 + x)], [X]),
    "small terms first": (lambda x, r: [x * (r * 2.0 + 1.0), r * 2.0 + 1.0], [X, ROW]),
    "a row scaled first": (lambda x, r: [x * (r * 2.0 + 1.0)], [X, ROW]),
    "a chosen number": (lambda x, y: [of("where", of("greater", x, y), x, y * 2.0)], [X, Y]),
    "a row normalized": (lambda x, s: normalized(x, s, 2), [X, ROW]),
    "two dims normalized": (lambda x, s: normalized(x, s, 1, 2), [X, COLUMN]),
    "a dim in the middle normalized": (lambda x, s: normalized(x, s, 1), [X, COLUMN]),
    "the first dim normalized": (lambda x, s: normalized(x, s, 0), [X, ROW]),
    "a row of exponentials": (lambda x: soft(x, 1), [MATRIX]),
    "exponentials of single precision": (lambda x: soft(x, 1), [SINGLE]),
    "columns of exponentials": (lambda x: soft(x, 0), [MATRIX]),
    "gradients of a row and sums over rows": (lambda x, dy: slopes(x, dy, 1), [MATRIX, MATRIX[::-1].copy()]),
    "a sum of all": (lambda x, y: [total(x * y, 0, 1, 2)], [X, Y]),
    "sums over one dim each": (lambda x: [total(x, 0), total(x * x, 0)], [X]),
    "sums of rows": (lambda x, y: [total(x * y, 2), x + y], [X, Y]),
    "sums of what is costly": (lambda x: [total(of("exp", x), 0), of("exp", x)], [MATRIX]),
    "a sum of middles": (lambda x: [total(mean(x, 1) * 2.0, 0), x - mean(x, 1)], [MATRIX]),
    "the largest of rows": (lambda x: [largest(x, 1)], [MATRIX]),
    "the largest of all": (lambda x: [largest(x, 0, 1)], [-1.0 - abs(MATRIX)]),
    "turned": (lambda x, y: [x * y], [X.transpose(2, 0, 1), np.ascontiguousarray(Y.transpose(2, 0, 1))]),
    "every other": (lambda x, y: [x - y, x * y], [MATRIX[:, ::2], MATRIX[:, 1::2]]),
    "the same twice": (lambda x, y: [x * y + x], [MATRIX, MATRIX]),
    "one number": (lambda x: [x * 2.0, x + 1.0], [np.array(3.0)]),
    "costly ones of each other": (lambda x: [of("tanh", x), of("sin", of("tanh", x)) * of("tanh", x)], [MATRIX]),
    "integers": (lambda x: [x * 3 - x, of("less", x, 0)], [COUNTS]),
    "truths": (lambda x: [of("logical_and", of("greater", x, 0.0), of("less", x, 1.0))], [MATRIX]),
    "rows of one element": (lambda x: normalized(x, 1.0, 1), [MATRIX[:, :1]]),
    "one row": (lambda x: soft(x, 1), [MATRIX[:1]]),
    "two dims of a part normalized": (lambda x, s: normalized(x, s, 1, 2), [X[:, :, ::2], COLUMN]),
    "in another order": (lambda x, y: [x * y], [MATRIX[:, ::-1], MATRIX[::-1]]),
    "bytes in another order": (lambda x: [x * 3], [COUNTS.astype(np.int8)[:, ::-1]]),
    "halves": (lambda x: [(x.astype(np.float32) * 2.0).astype(np.float16), x.astype(np.float64)], [HALVES]),
    "halves by themselves": (lambda x: [x * 2.0], [HALVES]),
    "short integers as halves": (lambda x: [x.astype(np.float16)], [COUNTS.astype(np.int16)]),
    "integers as halves": (lambda x: [x.astype(np.float16)], [COUNTS.astype(np.int32)]),
    # Rounded to float32 first it would be half way between two halves.
    "doubles as halves": (lambda x: [x.astype(np.float16)], [np.array([1 + 2**-11 + 2**-40, 3.0])]),
    "other types": (lambda x: [x.astype(np.int32), (x * 1.0).astype(np.bool_), x.astype(np.int8)], [SINGLE]),
    "a sum in two types": (in_two_types, [MATRIX]),
    "a row beside numbers of each place": (lambda x, v: normalized(x + v, v, 1), [MATRIX, MATRIX[0]]),
    "exponentials times what they are of": (lambda x: [soft(x, 1)[0] * x], [MATRIX]),
    "two costly ones": (lambda x: [soft(x, 1)[0] + of("sin", x) / total(of("sin", x), 1)], [MATRIX]),
    "sums of shares of a row": (lambda x: [total(soft(x, 1)[0] * x, 1) * 2.0], [MATRIX]),
    "the larger of two": (lambda x, y: [of("maximum", x, y), of("minimum", x, y)], [X, Y]),
    "the larger of two integers": (lambda x: [of("maximum", x, 2)], [COUNTS]),
    "means of rows": (lambda x: [mean(x, 1) * 2.0], [MATRIX]),
    "a root that is given": (lambda x, r: [x, x + r], [X, ROW]),
}


def by_terms(
    roots: Roots, given: Sequence[Array], runtime: Runtime | None = None, in_place: bool = False, runs: int = 2
) -> list[Array]:
    terms = roots(*(operand(place, one.shape, one.dtype) for place, one in enumerate(given)))
    found = [np.full(term.shape, 7, term.dtype) for term in terms]
    arrays = [*given]
    if in_place:
        found[0][...] = given[0]
        arrays[0] = found[0]
    run = expression_kernel(runtime or Runtime(), terms, arrays, found)
    for _ in range(runs):
        run()
    return found


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """Return what runs the loops of however few elements."""
    made = Interpreter()
    monkeypatch.setattr(loop_kernel, "_SMALLEST", 2)
    monkeypatch.setattr(jit, "is_there", lambda: True)
    monkeypatch.setattr(jit, "compiler", lambda: made)
    return made


@pytest.mark.parametrize("size", [7, 1 << 16])
@pytest.mark.parametrize(("roots", "given"), CASES.values(), ids=CASES)
def test_blocks_give_what_numpy_does(
    roots: Roots, given: Sequence[Array], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPIPARALLEL_JIT", "0")
    monkeypatch.setattr(block_places, "_BLOCK", size)
    assert_alike(by_terms(roots, given), roots(*given))


@pytest.mark.parametrize("long", [1, 1 << 15])
@pytest.mark.parametrize(("roots", "given"), CASES.values(), ids=CASES)
def test_loops_give_what_numpy_does(
    roots: Roots, given: Sequence[Array], long: int, loops: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_source, "_LONG", long)
    assert_alike(by_terms(roots, given), roots(*given))


def assert_alike(found: Sequence[Array], wanted: Sequence[Array]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert (one.dtype, one.shape) == (np.asarray(other).dtype, np.shape(other))
        np.testing.assert_allclose(one, other, rtol=1e-5 if one.dtype == np.float32 else 1e-13, atol=1e-14)


BY_BLOCKS = {
    *("one number", "rows of one element", "two dims of a part normalized", "in another order"),
    *("bytes in another order", "halves by themselves", "integers as halves", "doubles as halves"),
    "the larger of two integers",
}


@pytest.mark.parametrize("name", CASES)
def test_a_loop_is_compiled_wherever_one_can_be(name: str, loops: Interpreter) -> None:
    by_terms(*CASES[name])
    assert bool(loops.texts) == (name not in BY_BLOCKS)


IN_PLACE = [
    name
    for name, (roots, given) in CASES.items()
    if (roots(*given)[0].shape, roots(*given)[0].dtype) == (given[0].shape, given[0].dtype)
]


@pytest.mark.parametrize("way", ["blocks", "loops"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_the_first_result_may_take_the_memory_of_the_first_operand(
    name: str, way: str, loops: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "blocks":
        monkeypatch.setattr(jit, "is_there", lambda: False)
        monkeypatch.setattr(block_places, "_BLOCK", 7)
    roots, given = CASES[name]
    assert_alike(by_terms(roots, given, in_place=True, runs=1), roots(*given))
    assert bool(loops.texts) <= (way == "loops")


@pytest.mark.parametrize(
    "name", ["a row normalized", "gradients of a row and sums over rows", "short integers as halves"]
)
def test_a_rehearsal_collects_the_text_of_the_loop_and_runs_nothing(name: str, loops: Interpreter) -> None:
    texts: set[str] = set()
    roots, given = CASES[name]
    for one in by_terms(roots, given, Runtime(rehearsed=texts))[:1]:
        assert (one == 7).all()
    assert loops.texts == []
    by_terms(roots, given)
    assert texts == {*loops.texts}


def test_who_wants_no_loop_gets_blocks(loops: Interpreter) -> None:
    x, found = operand(0, MATRIX.shape, MATRIX.dtype), np.zeros_like(MATRIX)
    expression_kernel(Runtime(), [x * 2.0], [MATRIX], [found], compiles=False)()
    np.testing.assert_array_equal(found, MATRIX * 2.0)
    assert loops.texts == []


def test_of_no_elements_sums_are_0() -> None:
    twice, summed, same = by_terms(lambda x: [x * 2.0, total(x, 0), total(x, 0).astype(np.float32)], [MATRIX[:0]])
    assert twice.shape == (0, 8)
    assert summed.tolist() == same.tolist() == [[0.0] * 8]


@pytest.mark.parametrize(
    ("roots", "count", "rows", "passes"),
    [
        (lambda x: [soft(x, 1)[0]], 1, 0, 3),
        # What is kept is not of the type of the output.
        (lambda x: [soft(x, 1)[0].astype(np.float32)], 1, 1, 3),
        (lambda x: [soft(x, 1)[0] + soft(x * 2.0, 1)[0]], 2, 1, 3),
        # One pass alone needs it.
        (lambda x: [(of("exp", x) - mean(x, 1)).astype(np.float32)], 1, 0, 2),
        (lambda x: [(x - of("log", total(of("exp", x), 1))).astype(np.float32)], 1, 0, 2),
        (lambda x: normalized(x * 3.0, 1.0, 1), 0, 0, 3),
        (lambda x: [mean(x, 1) * 2.0], 0, 0, 1),
        # Its sums over rows are added up in a loop of their own; those of what costs little are not.
        (lambda x: [total(of("exp", x), 0), x * 2.0], 1, 1, 2),
        (lambda x: [total(x * x, 0), x * 2.0], 0, 0, 1),
    ],
)
def test_what_is_costly_is_computed_once_and_kept_in_the_row_of_an_output_where_one_is_free(
    roots: Roots, count: int, rows: int, passes: int, loops: Interpreter
) -> None:
    by_terms(roots, [MATRIX])
    (text,) = loops.texts
    assert text.count("exp_f8(") == count
    assert sum(f" w{place}" in text.splitlines()[0] for place in range(4)) == rows
    assert text.count("for k in range(") == passes


@pytest.mark.parametrize(("extent", "letter"), [(1 << 15, "f4"), ((1 << 15) + 1, "f8")])
def test_sums_of_rows_of_more_than_32768_elements_are_made_in_float64(extent: int, letter: str) -> None:
    texts: set[str] = set()
    by_terms(lambda x: [x - mean(x, 1)], [np.zeros((2, extent), np.float32)], Runtime(rehearsed=texts))
    assert [f"= {letter}(0)" in text for text in texts] == [True]
