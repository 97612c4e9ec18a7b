"""The CUDA texts of terms, run on the CPU behind an emulating header and compiled by NVRTC: no GPU is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.threads import alone
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.cuda import elements, kernel
from mpiparallel.graph.expression.cuda.operand import CudaOperand, index_type
from mpiparallel.graph.expression.cuda.text import cuda_constant
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import Term, call, operand, reduce, widened
from mpiparallel.graph.expression.universal_functions import UNIVERSAL_FUNCTIONS
from mpiparallel.ops.elementwise import ROWS
from mpiparallel.testing.case_strategies import run_case
from tests.conformance.cases.operator_cases import CASES
from tests.conformance.cuda_emulator.emulator import (
    NO_COMPILER,
    EmulatedBackend,
    EmulatedKernels,
    compiler,
)
from tests.conformance.cuda_emulator.registers import ARCHITECTURES, compile_for, nvidia_compiler
from tests.conformance.cuda_emulator.table_programs import bind_case, bind_table, narrowed
from tests.conformance.hidden_arrays.backend import hidden_backend, install
from tests.reliability.counts import share

EVERY = 1 if share() else 24
"""Of how many operators one is tried in 16 bits, too: of all in make soak."""

TOLERANCES = {"d": 1e-12, "f": 2e-5, "e": 2e-3, "E": 1.6e-2, "?": 0.0}
EDGES = [0.0, -0.0, 1.0, -2.5, 0.75, 3.0, -3.0, 6.5, np.inf, -np.inf, np.nan, 1e-7]
Roots = Callable[..., list[Term]]

is_emulated = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[EmulatedKernels]:
    made = EmulatedKernels(tmp_path)
    yield made
    made.close()


@is_emulated
def test_every_operator_of_the_table_gives_what_it_does_on_the_cpu(
    kernels: EmulatedKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    for one in bind_table(hidden_backend(kernels)):
        for result, truth in zip(one.run(), run_case(alone(), one.case, None), strict=True):
            np.testing.assert_allclose(result, truth, 1e-11, 1e-12, err_msg=one.case.name)


NARROW = {np.float16: 2e-3, bfloat16: 1.6e-2}
"""Four units in the last place: of 11 bits, and of 8."""


@is_emulated
def test_operators_of_16_bits_give_what_they_do_on_the_cpu(kernels: EmulatedKernels) -> None:
    chosen = CASES[::EVERY]
    cases = [narrowed(case, dtype) for case, dtype in zip(chosen, cycle(NARROW))]
    programs = [[bind_case(case, backend) for backend in (NumpyBackend(), EmulatedBackend(kernels))] for case in cases]
    for (truth, found), dtype in zip(programs, cycle(NARROW)):
        for wanted, result in zip(truth.run(), found.run(), strict=True):
            wide = wanted.astype(np.float64)
            assert result.dtype == wanted.dtype
            close = NARROW[dtype] * float(np.abs(wide[np.isfinite(wide)]).max(initial=1e-3))
            np.testing.assert_allclose(result.astype(np.float64), wide, NARROW[dtype], close, err_msg=truth.case.name)


class Comparison:
    """Kernels of terms, bound twice: for the array library, and for the device."""

    def __init__(self, kernels: EmulatedKernels) -> None:
        self._device = Runtime(EmulatedBackend(kernels))
        self._checks: list[Callable[[], None]] = []

    def add(self, name: str, roots: Roots, *arrays: Any, in_place: bool = False) -> None:
        """Bind ``roots``, which makes terms of the arrays' terms, in the arrays' first dtype."""
        terms = [widened(operand(place, one.shape, one.dtype)) for place, one in enumerate(arrays)]
        made = [term if term.dtype.kind == "b" else term.astype(arrays[0].dtype) for term in roots(*terms)]
        sides = []
        for runtime in (Runtime(), self._device):
            given = [np.array(one, copy=True, order="K") for one in arrays] if in_place else list(arrays)
            targets = [given[0]] if in_place else [np.full(term.shape, 77, term.dtype) for term in made]
            sides.append((expression_kernel(runtime, made, given, targets), targets))

        def check() -> None:
            with np.errstate(all="ignore"):
                for kernel, _ in sides:
                    kernel()
            for truth, found in zip(sides[0][1], sides[1][1], strict=True):
                tolerance = TOLERANCES[found.dtype.char]
                np.testing.assert_allclose(*map(as_numpy_compares, (found, truth)), tolerance, tolerance, err_msg=name)

        self._checks.append(check)

    def run(self) -> None:
        """Compare all."""
        for check in self._checks:
            check()


def as_numpy_compares(array: Any) -> Any:
    return array.astype(np.float32) if array.dtype == bfloat16 else array


@pytest.fixture
def comparison(kernels: EmulatedKernels, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    monkeypatch.setenv("MPIPARALLEL_JIT", "0")
    return Comparison(kernels)


def test_every_function_of_the_table_has_a_cuda_text() -> None:
    assert [row.name for row in UNIVERSAL_FUNCTIONS if not row.cuda] == []


def roots_of(row: Any, *terms: Term) -> list[Term]:
    return [row.terms(*terms, **row.options) if row.terms else call(row.universal, *terms)]


def edges_of(row: Any, dtype: Any) -> list[Any]:
    """Return each of the edges, beside each other one where the function has two arguments."""
    kind = np.dtype(np.bool_ if row.takes == "booleans" else dtype)
    first, second = np.meshgrid(np.array(EDGES, kind), np.array(EDGES, kind), indexing="ij")
    return [first.copy(), second.copy()][: len(row.arguments)]


@is_emulated
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, bfloat16])
def test_functions_at_the_edges_are_numpys(dtype: Any, comparison: Comparison) -> None:
    gradients = [row.gradient for row in ROWS if row.gradient is not None]
    for row in (*ROWS, *gradients):
        if row.takes == "booleans" and dtype != np.float64:
            continue
        arrays = edges_of(row, dtype)
        comparison.add(row.name, partial(roots_of, row), *arrays)
    comparison.run()


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(dtype)


def softmax(x: Term) -> list[Term]:
    exponential = call("exp", x - reduce("max", x, (-1,)))
    return [exponential / reduce("sum", exponential, (-1,))]


def layer_norm_gradient(dy: Term, x: Term, mean: Term, variance: Term, gamma: Term) -> list[Term]:
    return list(ops.LayerNormGrad(-1, -1).expression(dy, x, mean, variance, gamma))


def sums(x: Term) -> list[Term]:
    """Return sums over all choices of dims, with a whole result beside them."""
    rank = len(x.shape)
    chosen = [[dim for dim in range(rank) if choice >> dim & 1] for choice in range(1, 1 << rank)]
    return [x * 2.0, *(reduce("sum", x * x, dims) for dims in chosen)]


def each_sum(comparison: Comparison, x: Any) -> None:
    for place in range(1, 1 << x.ndim):
        comparison.add(f"sum {place} of {x.shape}", lambda term, place=place: [sums(term)[place]], x)


@is_emulated
def test_rows_and_sums_of_any_length_are_numpys(comparison: Comparison) -> None:
    for rows, extent in ((3, 1), (5, 3), (9, 100), (2, 600), (1, 20000), (1, 33001)):
        comparison.add(f"softmax {extent}", softmax, numbers(rows, extent))
    for rows, extent in ((33, 100), (9, 1028), (3, 17000)):
        x = numbers(rows, extent)
        statistics = [x.mean(1, keepdims=True), x.var(1, keepdims=True)]
        comparison.add(
            f"layer norm {extent}", layer_norm_gradient, numbers(extent, rows).T.copy(), x, *statistics, x[0]
        )
    for shape in ((9000,), (600, 3), (130, 40), (4, 5, 6)):
        each_sum(comparison, numbers(*shape))
    comparison.add("sums over all choices of dims", sums, numbers(4, 5, 6))
    for dtype in (np.float16, bfloat16):
        narrow = numbers(3, 4, 40, dtype=dtype)
        comparison.add(f"16 bits {dtype}", lambda x: [reduce("sum", x, (0, 2)), reduce("max", x, (0, 2)) - x], narrow)
    comparison.run()


def mixed(a: Term, b: Term, c: Term, d: Term) -> list[Term]:
    chosen = call("where", call("less", a, b), a * c, b + d)
    return [chosen, call("greater", chosen, 0.0), chosen.astype(np.int32).astype(chosen.dtype) + c]


@is_emulated
@pytest.mark.parametrize("index", ["int", "long long"])
def test_layouts_broadcast_and_overwrite_as_numpys(
    index: str, comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (elements, kernel):
        monkeypatch.setattr(module, "index_type", lambda *_: index)
    for shape in ((4, 6, 16), (3, 5, 7), (1, 1, 9), (1, 1, 1)):
        a, b, c = shape
        for dtype in (np.float32, np.float16, bfloat16):
            turned = np.moveaxis(numbers(b, c, a, dtype=dtype), 2, 0)
            others = [numbers(b, 1, dtype=dtype), numbers(c, dtype=dtype), np.array(0.5, dtype)]
            comparison.add(f"mixed {shape}", mixed, turned, *others)
    comparison.add("in place", lambda x, y: [x - y * 0.1], numbers(40, 8), numbers(8), in_place=True)
    comparison.add("softmax in place", softmax, numbers(7, 36), in_place=True)
    comparison.add("off by one place", lambda x: [x + 1.0], numbers(65)[1:])
    comparison.add("every second", lambda x: [x + 1.0], numbers(8, 64)[:, ::2])
    comparison.add("columns", lambda x: [reduce("sum", x, (0,))], numbers(50, 64))
    comparison.add("by channel", by_channel, numbers(64, 3, 8), numbers(3, 1), abs(numbers(3, 1)))
    comparison.run()


def by_channel(x: Term, mean: Term, variance: Term) -> list[Term]:
    """Return what has a term that is costly, and far smaller than the rest."""
    return [(x - mean) * (1.0 / call("sqrt", variance + 1e-3))]


@is_emulated
def test_images_whose_channels_are_last_in_memory_are_computed_as_they_lie(
    comparison: Comparison, kernels: EmulatedKernels
) -> None:
    last, first = numbers(3, 4, 5, 8), numbers(3, 8, 4, 5)
    turned, vector = last.transpose(0, 3, 1, 2), numbers(8, 1, 1)
    comparison.add("scaled and added", lambda x, y, v: [x * v + y], turned, turned * 2, vector)
    comparison.add("sums by channel", lambda x: [reduce("sum", x, (0, 2, 3))], turned)
    comparison.add("rows of channels", lambda x: [x - reduce("max", x, (1,))], turned)
    comparison.add("of both orders", lambda x, y: [x * y], turned, first)
    comparison.add("fewer dims", lambda x, y: [x * y], turned, numbers(5))
    comparison.run()
    kernels.texts.clear()
    runtime = Runtime(EmulatedBackend(kernels))
    for given in (last, turned):
        term = operand(0, given.shape, given.dtype)
        expression_kernel(runtime, [call("exp", term)], [given], [np.empty_like(given)])
    assert len(kernels.texts) == 1


def test_indices_have_64_bits_only_where_places_need_them() -> None:
    wide = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (3, 1 << 31), (1 << 31, 1))
    near = np.zeros((3, 5), np.int8)
    operands = [[CudaOperand(0, one, 0, one.shape, False)] for one in (wide, near)]
    assert [index_type(one, 15) for one in operands] == ["long long", "int"]
    assert index_type(operands[1], 1 << 31) == "long long"


@pytest.mark.parametrize(("offset", "width"), [(0, 4), (1, None), (2, 2)])
def test_neighbours_are_moved_by_16_bytes_where_addresses_allow(
    offset: int, width: int | None, kernels: EmulatedKernels
) -> None:
    runtime = Runtime(EmulatedBackend(kernels))
    memory = runtime.backend.empty(4 * (64 + offset)).view(np.float32)
    x = operand(0, (64,), memory.dtype)
    expression_kernel(runtime, [x + 1.0], [memory[offset:]], [runtime.backend.empty(256).view(np.float32)])
    (text,) = kernels.texts.values()
    found = set(re.findall(r"Vector<float, (\d)>\*", text))
    assert found == ({str(width)} if width else set())


def bind_softmax(runtime: Runtime, extent: int) -> Any:
    x = numbers(3, extent)
    found = np.empty_like(x)
    truth = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    return expression_kernel(runtime, softmax(operand(0, x.shape, x.dtype)), [x], [found]), found, truth


@pytest.mark.parametrize(("dtype", "arrays"), [("f", 3), ("d", 2)])
def test_a_thread_holds_as_much_of_its_row_for_the_next_pass_as_64_registers_take(
    dtype: str, arrays: int, kernels: EmulatedKernels
) -> None:
    given = [numbers(3, 500).astype(dtype) for _ in range(3)]
    operands = [operand(place, one.shape, one.dtype) for place, one in enumerate(given)]
    first, second, third = (one / reduce("sum", one, (-1,)) for one in operands)
    runtime = Runtime(EmulatedBackend(kernels))
    expression_kernel(runtime, [first + second + third], given, [np.empty_like(given[0])])
    (text,) = kernels.texts.values()
    held = re.findall(r"(float|double) held\d+\[(\d+)\];", text)
    words = [int(count) * {"float": 1, "double": 2}[kind] for kind, count in held]
    assert (len(words), sum(words) <= 64) == (arrays, True)


def bind_columns(runtime: Runtime, extent: int) -> Any:
    x = numbers(300, extent)
    found = np.empty((1, extent), x.dtype)
    root = reduce("sum", operand(0, x.shape, x.dtype), (0,))
    return expression_kernel(runtime, [root], [x], [found]), found, x.sum(0, keepdims=True)


@pytest.mark.parametrize(("extent", "side_by_side"), [(1000, 32), (32, 32), (31, 1)])
def test_sums_of_many_columns_are_read_side_by_side(extent: int, side_by_side: int, kernels: EmulatedKernels) -> None:
    bind_columns(Runtime(EmulatedBackend(kernels)), extent)
    (text,) = (one for one in kernels.texts.values() if "const int column" in one)
    assert f"const int column = threadIdx.x % {side_by_side}," in text


FAULTS = {
    "no barrier before cells are read": (bind_softmax, "cells[warp] = x;\n    __syncthreads();", "cells[warp] = x;"),
    "no barrier between turns": (bind_columns, "        __syncthreads();\n    }", "    }"),
    "a barrier for some threads": (
        bind_columns,
        "    if (first || own",
        "    if (first) __syncthreads();\n    if (first || own",
    ),
    "an element too many": (bind_softmax, "k >= extent", "k > extent"),
    "a row too many": (bind_columns, "? unit + share :", "? unit + share + 1 :"),
    "a wrong alignment": (bind_softmax, "r0 + k)", "r0 + k + 1)"),
}


@is_emulated
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, kernels: EmulatedKernels) -> None:
    bind, sound, broken = FAULTS[fault]
    kernels.mutate = lambda text: text.replace(sound, broken)
    kernel, found, truth = bind(Runtime(EmulatedBackend(kernels)), 1000)
    assert any(sound in text for text in kernels.texts.values())
    with pytest.raises(AssertionError):
        compare(kernel, found, truth)


def compare(kernel: Callable[[], object], found: Any, truth: Any) -> None:
    kernel()
    np.testing.assert_allclose(found, truth, 1e-4, 1e-4)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_of_the_table_compiles_and_keeps_to_its_registers(
    architecture: str, kernels: EmulatedKernels
) -> None:
    bind_table(EmulatedBackend(kernels))
    for case in CASES[ARCHITECTURES.index(architecture) :: EVERY]:
        bind_case(narrowed(case, bfloat16), EmulatedBackend(kernels))
    for extent in (1000, 4096, 16384, 40000):
        bind_softmax(Runtime(EmulatedBackend(kernels)), extent)
    compile_for(architecture, list(kernels.texts.values()))


def test_what_nvrtc_refuses_is_said_with_the_text() -> None:
    nvrtc = nvidia_compiler()
    with pytest.raises(ConfigurationError, match=r"refuses a kernel for sm_90: .*identifier .nothing. is undefined"):
        nvrtc.compile('extern "C" __global__ void kernel() { nothing(); }', "sm_90")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_that_is_no_number_or_infinite_is_written_by_its_bits(dtype: type) -> None:
    kind = np.dtype(dtype)
    bits = [f"0x{int(one):x}" for one in np.array([np.nan, np.inf], kind).view(f"u{kind.itemsize}")]
    x = operand(0, (2,), kind)
    written = [cuda_constant((x + value).operands[1]) for value in (np.nan, np.inf, -np.inf, 2.5)]
    assert bits[0] in written[0]
    assert bits[1] in written[1]
    assert written[2] == f"(-{written[1]})"
    assert written[3] == ("(2.5f)" if dtype == np.float32 else "(2.5)")
