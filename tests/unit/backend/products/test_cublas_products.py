"""Products by cuBLASLt: descriptors, layouts, epilogues and launches, by a strict library that computes here."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from ctypes.util import find_library
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.products import cublas_lt, cublas_products
from mpiparallel.backend.products.cublas_lt import Compute, CublasLt, CudaType, Epilogue, HeuristicResult
from mpiparallel.backend.products.cublas_products import CublasProducts
from mpiparallel.backend.products.product import Product
from mpiparallel.compile.bind import make_backend
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.product_kernel import product_kernel
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.parallel.configuration import ParallelConfiguration
from tests.conformance.hidden_arrays.backend import install
from tests.conformance.hidden_arrays.cublas_lt import FakeCublasLt, LibraryObjects, MisusedError, gelu, gelu_slope
from tests.conformance.hidden_arrays.stream import DEVICE

ROUNDING = {np.float64: 1e-13, np.float32: 2e-6, np.float16: 2e-3, bfloat16: 1.6e-2}


class Device:
    """Products of a library on the host's memory."""

    def __init__(self, library: FakeCublasLt | None = None, allows_tf32: bool = False) -> None:
        DEVICE.reset()
        self.library = library or FakeCublasLt()
        make = partial(CublasLt, self.library)
        self.products = CublasProducts(self.library.address, lambda: DEVICE.current.ptr, allows_tf32, make)

    def scratch(self, shape: Any, dtype: Any, slot: int) -> Any:
        """Return memory; what one product leaves there the next one may find."""
        return aligned(np.zeros(shape, dtype))

    def bind(self, product: Product) -> Callable[[], object] | None:
        """Bind a product."""
        return self.products.bind(product, self.scratch)

    def run(self, product: Product) -> None:
        """Compute one that the library must know."""
        launch = self.bind(product)
        assert launch is not None
        launch()


def aligned(array: Any) -> Any:
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    made = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return aligned(np.random.default_rng(shape).normal(size=shape).astype(dtype))


def unset(*shape: int, dtype: Any = np.float32) -> Any:
    return aligned(np.full(shape, np.nan, dtype))


def wide(array: Any) -> Any:
    return array.astype(np.float64)


def same(found: Any, truth: Any, dtype: Any) -> None:
    np.testing.assert_allclose(wide(found), truth, ROUNDING[dtype], ROUNDING[dtype] * 10)


def turned(*shape: int, dtype: Any) -> Any:
    """Return an array of which the last two dims lie the other way round."""
    return numbers(*shape[:-2], shape[-1], shape[-2], dtype=dtype).swapaxes(-1, -2)


def rows_apart(*shape: int, dtype: Any) -> Any:
    """Return an array of which the rows are part of longer ones."""
    return numbers(*shape[:-1], shape[-1] + 24, dtype=dtype)[..., 8:-16]


def heads(*shape: int, dtype: Any) -> Any:
    """Return an array of which the first dims but one lie beside the rows, as attention's heads do."""
    *before, count, rows, columns = shape
    return numbers(*before, rows, count, columns, dtype=dtype).swapaxes(-2, -3)


LYING = {"in order": numbers, "turned": turned, "rows apart": rows_apart}


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("second", LYING)
@pytest.mark.parametrize("first", LYING)
@pytest.mark.parametrize(
    "batch", [((), ()), ((5,), (5,)), ((5,), ()), ((), (5,)), ((5,), (1,)), ((2, 3), (3,)), ((2, 1), (1, 3))]
)
def test_products_are_numpys_however_matrices_lie(batch: Any, first: str, second: str, dtype: Any) -> None:
    x, y = LYING[first](*batch[0], 6, 10, dtype=dtype), LYING[second](*batch[1], 10, 7, dtype=dtype)
    truth = np.matmul(wide(x), wide(y))
    output = unset(*truth.shape, dtype=dtype)
    Device().run(Product(x, y, output))
    same(output, truth, dtype)


@pytest.mark.parametrize(
    "shapes", [((1, 1), (1, 1)), ((1, 9), (9, 1)), ((4, 1), (1, 5)), ((3, 1, 8), (8, 2)), ((3, 1, 1), (1, 1))]
)
@pytest.mark.parametrize("make", [numbers, turned])
def test_dims_of_one_element_lie_as_one_likes(shapes: Any, make: Any) -> None:
    x, y = (make(*shape, dtype=np.float64) for shape in shapes)
    truth = np.matmul(x, y)
    for output in (
        unset(*truth.shape, dtype=np.float64),
        unset(*truth.shape[:-2], *truth.shape[:-3:-1], dtype=np.float64).swapaxes(-1, -2),
    ):
        Device().run(Product(x, y, output))
        same(output, truth, np.float64)


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_each_matrix_of_a_result_may_lie_turned(batch: Any) -> None:
    x, y, output = numbers(*batch, 6, 10), numbers(*batch, 10, 7), unset(*batch, 7, 6).swapaxes(-1, -2)
    Device().run(Product(x, y, output))
    same(output, np.matmul(wide(x), wide(y)), np.float32)


def test_a_stack_by_one_matrix_is_one_product_and_other_stacks_are_strided() -> None:
    device = Device()
    for x, y, calls in (
        (numbers(5, 6, 10), numbers(10, 7), [(30, 1)]),
        (numbers(5, 6, 10), numbers(5, 10, 7), [(6, 5)]),
        (heads(2, 3, 6, 10, dtype=np.float32), numbers(2, 3, 10, 7), [(6, 3)] * 2),
        (numbers(4, 6, 10)[:, :, ::1].swapaxes(0, 1)[:, :4], numbers(10, 7), [(4, 6)]),
    ):
        before = len(device.library.announced)
        truth = np.matmul(x, y)
        output = unset(*truth.shape)
        count = len(device.library.multiplied)
        device.run(Product(x, y, output))
        same(output, truth, np.float32)
        found = device.library.announced[before:]
        assert [(layouts[3].columns, layouts[3].count) for _, layouts, _ in found] == calls[: len(found)]
        assert len(device.library.multiplied) - count == len(calls)


@pytest.mark.parametrize("dtype", [bfloat16, np.float16])
def test_factors_of_16_bits_may_be_summed_into_float32(dtype: Any) -> None:
    x, y, output = numbers(6, 40, dtype=dtype), numbers(40, 8, dtype=dtype), unset(6, 8)
    Device().run(Product(x, y, output))
    same(output, wide(x) @ wide(y), np.float32)


def test_factors_of_float32_are_rounded_only_where_that_is_allowed() -> None:
    x, y = numbers(6, 40), numbers(40, 8)
    errors = []
    for allows in (False, True):
        output = unset(6, 8)
        device = Device(allows_tf32=allows)
        device.run(Product(x, y, output))
        assert device.library.multiplied[0][0] == (Compute.TF32 if allows else Compute.FLOAT32)
        errors.append(np.abs(output - wide(x) @ wide(y)).max())
    assert errors[0] < 1e-5 < 1e-4 < errors[1]


@pytest.mark.parametrize("allows", [False, True])
def test_a_product_may_say_itself_whether_its_factors_are_rounded(allows: bool) -> None:
    device = Device(allows_tf32=not allows)
    for says in (None, allows, not allows):
        device.run(Product(numbers(6, 40), numbers(40, 8), unset(6, 8), allows_tf32=says))
    wanted = [not allows, allows, not allows]
    assert [one[0] == Compute.TF32 for one in device.library.multiplied] == wanted


@pytest.mark.parametrize("allows", [False, True])
def test_a_backend_multiplies_as_its_configuration_says(allows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    library = FakeCublasLt(memory=[(0, 1 << 63)])
    monkeypatch.setattr(cublas_lt, "nvidia_library", lambda *names: library)
    backend = make_backend(ParallelConfiguration(device_target="GPU", allows_tf32=allows))
    x, y, output = (backend.from_host(one) for one in (numbers(6, 40), numbers(40, 8), unset(6, 8)))
    product_kernel(Runtime(backend), x, y, output)()
    same(backend.to_host(output), numbers(6, 40) @ numbers(40, 8), bfloat16)
    assert [one[0] for one in library.multiplied] == [Compute.TF32 if allows else Compute.FLOAT32]


REFUSED = {
    "integers": lambda: Product(np.ones((3, 4), np.int32), np.ones((4, 5), np.int32), np.ones((3, 5), np.int32)),
    "two types": lambda: Product(numbers(3, 4), numbers(4, 5, dtype=np.float64), numbers(3, 5, dtype=np.float64)),
    "no neighbours": lambda: Product(numbers(3, 8)[:, ::2], numbers(4, 5), unset(3, 5)),
    "backwards": lambda: Product(numbers(3, 4)[:, ::-1], numbers(4, 5), unset(3, 5)),
    "one row for all": lambda: Product(np.broadcast_to(numbers(4), (3, 4)), numbers(4, 5), unset(3, 5)),
    "no rows": lambda: Product(numbers(0, 4), numbers(4, 5), unset(0, 5)),
    "no depth": lambda: Product(numbers(3, 0), numbers(0, 5), unset(3, 5)),
    "GELU of float64": lambda: Product(*(numbers(8, 8, dtype=np.float64) for _ in range(3)), gelu=True),
    "kept at odd distances": lambda: Product(numbers(3, 4), numbers(4, 5), unset(3, 5), gelu=True, before=unset(3, 5)),
    "sums of a stack": lambda: Product(numbers(2, 3, 4), numbers(2, 4, 8), unset(2, 3, 8), sums=unset(8), sums_of="y"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_the_rest_is_left_to_the_array_library(kind: str) -> None:
    assert Device().bind(REFUSED[kind]()) is None


@pytest.mark.parametrize(("of_output", "of_kept", "is_taken"), [(9, 16, True), (16, 9, False)])
def test_rows_of_what_is_kept_lie_at_multiples_of_8_elements_and_those_of_the_output_anywhere(
    of_output: int, of_kept: int, is_taken: bool
) -> None:
    output, before = unset(6, of_output)[:, :8], unset(6, of_kept)[:, :8]
    bound = Device().bind(Product(numbers(6, 10), numbers(10, 8), output, gelu=True, before=before))
    assert (bound is not None) == is_taken


@pytest.mark.parametrize("dtype", [np.float32, np.float16, bfloat16])
@pytest.mark.parametrize("first", LYING)
@pytest.mark.parametrize("batch", [(), (5,)])
def test_what_is_joined_to_a_product_is_numpys(batch: Any, first: str, dtype: Any) -> None:
    x, y, bias = LYING[first](*batch, 6, 10, dtype=dtype), numbers(10, 8, dtype=dtype), numbers(8, dtype=dtype)
    added, slopes = numbers(*batch, 6, 8, dtype=dtype), numbers(*batch, 6, 8, dtype=dtype) * 2
    product = wide(x) @ wide(y)
    output, before = (unset(*batch, 6, 8, dtype=dtype) for _ in range(2))
    plain = Product(x, y, output)
    cases = [
        (replace(plain, bias=bias), product + wide(bias)),
        (replace(plain, gelu=True), gelu(product)),
        (replace(plain, bias=bias, gelu=True, before=before), gelu(product + wide(bias))),
        (replace(plain, added=added, bias=bias), product + wide(added) + wide(bias)),
        (replace(plain, slopes_at=slopes), product * gelu_slope(wide(slopes))),
        (replace(plain, slopes_at=slopes, added=added), (product + wide(added)) * gelu_slope(wide(slopes))),
    ]
    for case, truth in cases:
        output[...] = np.nan
        Device().run(case)
        same(output, truth, dtype)
    same(before, product + wide(bias), dtype)


def test_a_bias_of_one_element_may_lie_anywhere() -> None:
    x, y, bias, output = numbers(6, 8), numbers(8, 1), numbers(4)[2:3], unset(6, 1)
    Device().run(Product(x, y, output, bias=np.lib.stride_tricks.as_strided(bias, (1,), (64,))))
    same(output, wide(x) @ wide(y) + wide(bias), np.float32)


def test_a_product_is_added_up_where_its_sum_is() -> None:
    x, y, total = numbers(6, 10), numbers(10, 8), numbers(6, 8)
    truth = wide(total) + 2 * (wide(x) @ wide(y))
    device = Device()
    launch = device.bind(Product(x, y, total, added=total))
    assert launch is not None
    launch()
    launch()
    same(total, truth, np.float32)


@pytest.mark.parametrize("of", ["output", "x", "y"])
def test_sums_of_rows_come_with_a_product(of: str) -> None:
    x, y, slopes, output = numbers(10, 6).T, numbers(10, 8), numbers(6, 8), unset(6, 8)
    sums = unset(6 if of == "x" else 8)
    product = Product(x, y, output, slopes_at=slopes if of == "output" else None, sums=sums, sums_of=of)
    Device().run(product)
    truth = {"output": wide(output).sum(0), "x": wide(x).sum(1), "y": wide(y).sum(0)}
    same(sums, truth[of], np.float32)


def test_an_algorithm_is_asked_for_once_for_each_shape() -> None:
    device = Device()
    for _ in range(3):
        device.run(Product(numbers(6, 10), numbers(10, 8), unset(6, 8)))
    device.run(Product(numbers(6, 10), numbers(10, 9), unset(6, 9)))
    assert (len(device.library.announced), len(device.library.multiplied)) == (2, 4)


class Broken(FakeCublasLt):
    """A library whose callers have made a mistake on the way to it."""


def swapped_leading(library: Any, patch: pytest.MonkeyPatch) -> None:
    whole = CublasLt.layout

    def layout(self: Any, element: Any, rows: int, columns: int, leading: int, *rest: int) -> Any:
        return whole(self, element, rows, columns, columns if leading == rows else rows, *rest)

    patch.setattr(CublasLt, "layout", layout)


def wrong_epilogue(library: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cublas_products, "epilogue_of", lambda product: Epilogue.BIAS)


def turned_wrongly(library: Any, patch: pytest.MonkeyPatch) -> None:
    names = cublas_lt.Setting.TURNS_A, cublas_lt.Setting.TURNS_B
    whole = CublasLt.descriptor

    def descriptor(self: Any, compute: Any, scale: Any, settings: Any) -> Any:
        return whole(self, compute, scale, settings | {name: 1 - settings[name] for name in names})

    patch.setattr(CublasLt, "descriptor", descriptor)


def beta_forgotten(library: Any, patch: pytest.MonkeyPatch) -> None:
    whole = CublasProducts._bound

    def bound(self: Any, held: Any, descriptor: Any, layouts: Any, pointers: Any, factors: Any, *rest: Any) -> Any:
        return whole(self, held, descriptor, layouts, pointers, (factors[0], type(factors[1])(0)), *rest)

    patch.setattr(CublasProducts, "_bound", bound)


def small_workspace(library: Any, patch: pytest.MonkeyPatch) -> None:
    whole = CublasLt.algorithm

    def algorithm(self: Any, *given: Any) -> Any:
        found = whole(self, *given)
        patch.setattr(cublas_products, "WORKSPACE", 1 << 10)
        return found

    patch.setattr(CublasLt, "algorithm", algorithm)


def alignment_forgotten(library: Any, patch: pytest.MonkeyPatch) -> None:
    whole = CublasLt.algorithm
    patch.setattr(CublasLt, "algorithm", lambda self, *given: whole(self, *given[:3], (256,) * 4))


def another_stream(library: Any, patch: pytest.MonkeyPatch) -> None:
    whole = CublasProducts.__init__

    def init(self: Any, address: Any, stream: Any, *rest: Any) -> None:
        whole(self, address, lambda: 0, *rest)

    patch.setattr(CublasProducts, "__init__", init)


FAULTS = [
    swapped_leading,
    wrong_epilogue,
    turned_wrongly,
    beta_forgotten,
    small_workspace,
    alignment_forgotten,
    another_stream,
]


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_a_planted_fault_is_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeCublasLt()
    if fault is not None:
        fault(library, monkeypatch)
    x, y, bias, added = numbers(6, 10), numbers(10, 8), numbers(8), numbers(6, 8)
    output = unset(6, 9)[:, 1:]

    def attempt() -> None:
        Device(library).run(Product(x, y, output, bias=bias, added=added, gelu=True))
        same(output, gelu(wide(x) @ wide(y) + wide(added) + wide(bias)), np.float32)

    if fault is None:
        attempt()
        return
    with pytest.raises((AssertionError, MisusedError)):
        attempt()


@pytest.fixture(scope="module")
def real_library() -> Any:
    try:
        return cublas_lt.nvidia_library("cublasLt", "cuBLAS")
    except ConfigurationError as error:
        pytest.skip(f"no cuBLAS to try: {error}")


@pytest.mark.parametrize("dtype", [np.float64, np.float32, bfloat16])
def test_the_library_itself_takes_what_is_said_of_products(real_library: Any, dtype: Any) -> None:
    device = Device(FakeCublasLt(LibraryObjects(real_library)))
    x, y, bias = numbers(5, 16, 10, dtype=dtype), numbers(10, 8, dtype=dtype), numbers(8, dtype=dtype)
    stack, output, before = numbers(5, 10, 8, dtype=dtype), unset(5, 16, 8, dtype=dtype), unset(5, 16, 8, dtype=dtype)
    device.run(Product(x, stack, output))
    same(output, wide(x) @ wide(stack), dtype)
    if dtype != np.float64:
        device.run(Product(x, y, output, bias=bias, gelu=True, before=before))
        same(output, gelu(wide(x) @ wide(y) + wide(bias)), dtype)


@pytest.mark.skipif(find_library("cuda") is not None, reason="there is a driver")
def test_without_a_driver_the_library_says_that_there_is_no_device(real_library: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"cuBLASLt: cublasLtCreate gave \d+, .*\w"):
        CublasLt(real_library)


NAMES = {
    "CUBLAS_COMPUTE_32F": Compute.FLOAT32,
    "CUBLAS_COMPUTE_64F": Compute.FLOAT64,
    "CUBLAS_COMPUTE_32F_FAST_TF32": Compute.TF32,
    "CUBLASLT_MATMUL_DESC_TRANSA": cublas_lt.Setting.TURNS_A,
    "CUBLASLT_MATMUL_DESC_TRANSB": cublas_lt.Setting.TURNS_B,
    "CUBLASLT_MATMUL_DESC_EPILOGUE": cublas_lt.Setting.EPILOGUE,
    "CUBLASLT_MATMUL_DESC_BIAS_POINTER": cublas_lt.Setting.BIAS,
    "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER": cublas_lt.Setting.AUXILIARY,
    "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD": cublas_lt.Setting.AUXILIARY_LEADING,
    "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE": cublas_lt.Setting.AUXILIARY_STRIDE,
    "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT": cublas_lt.LayoutSetting.COUNT,
    "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET": cublas_lt.LayoutSetting.STRIDE,
    "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES": cublas_lt.Preference.WORKSPACE,
    "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES": cublas_lt.Preference.OF_A,
    "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES": cublas_lt.Preference.OF_D,
    "CUBLASLT_EPILOGUE_BIAS": Epilogue.BIAS,
    "CUBLASLT_EPILOGUE_GELU": Epilogue.GELU,
    "CUBLASLT_EPILOGUE_GELU_AUX": Epilogue.GELU | Epilogue.AUXILIARY,
    "CUBLASLT_EPILOGUE_GELU_AUX_BIAS": Epilogue.GELU | Epilogue.AUXILIARY | Epilogue.BIAS,
    "CUBLASLT_EPILOGUE_DGELU": Epilogue.GELU_SLOPE | Epilogue.AUXILIARY,
    "CUBLASLT_EPILOGUE_DGELU_BGRAD": Epilogue.GELU_SLOPE | Epilogue.AUXILIARY | Epilogue.BIAS_GRADIENT,
    "CUBLASLT_EPILOGUE_BGRADA": Epilogue.SUMS_OF_A,
    "CUBLASLT_EPILOGUE_BGRADB": Epilogue.SUMS_OF_B,
}


def test_numbers_are_those_of_the_librarys_header() -> None:
    found = find_spec("nvidia.cublas") if find_spec("nvidia") else None
    folders = [Path(one) / "include" for one in (found.submodule_search_locations or ())] if found else []
    texts = [
        (folder / name).read_text()
        for folder in folders
        for name in ("cublasLt.h", "cublas_api.h")
        if (folder / name).exists()
    ]
    if not texts:
        pytest.skip("the header of cuBLAS is not there: it comes with nvidia-cublas-cu12")
    known: dict[str, int] = {}
    kinds = "CUBLASLT_MATMUL_DESC|CUBLASLT_MATRIX_LAYOUT|CUBLASLT_MATMUL_PREF|CUBLASLT_EPILOGUE|CUBLAS_COMPUTE"
    for name, formula in re.findall(rf"^  ((?:{kinds})\w*) *= ([^,\n/]+)", "\n".join(texts), re.MULTILINE):
        known[name] = eval(formula, {}, known)
    assert {name: known.get(name) for name in NAMES} == {name: int(value) for name, value in NAMES.items()}
    assert (ctypes.sizeof(HeuristicResult), HeuristicResult.workspace.offset) == (96, 64)
    assert [int(one) for one in CudaType] == [0, 1, 2, 14]


def odd(vector: Any) -> Any:
    """Return the same numbers, with others between them."""
    return np.repeat(vector, 2)[::2]


def plain(source: Any = np.float32, target: Any = np.float32) -> Product:
    return Product(numbers(3, 8, dtype=source), numbers(8, 8, dtype=source), np.empty((3, 8), target))


NOT_JOINED = {
    "wider than its factors": lambda: plain(np.float32, np.float64),
    "narrower than its factors": lambda: plain(np.float32, np.float16),
    "16 bits of another kind": lambda: plain(np.float16, bfloat16),
    "a bias of another type": lambda: replace(plain(), bias=numbers(8, dtype=np.float64)),
    "a sum of another type": lambda: replace(plain(np.float16), added=numbers(3, 8, dtype=np.float16)),
    "a bias with others between": lambda: replace(plain(), bias=odd(numbers(8))),
    "sums with others between": lambda: replace(plain(), sums=odd(unset(8)), sums_of="y"),
    "a turned sum": lambda: replace(plain(), added=numbers(8, 3).T, bias=numbers(8)),
}


@pytest.mark.parametrize("kind", NOT_JOINED)
def test_other_types_and_vectors_whose_numbers_are_no_neighbours_are_left_to_the_array_library(kind: str) -> None:
    assert Device().bind(NOT_JOINED[kind]()) is None


@pytest.mark.parametrize("source", [np.float16, bfloat16])
def test_a_product_of_16_bits_may_have_an_output_of_32(source: Any) -> None:
    made = plain(source)
    Device().run(made)
    np.testing.assert_allclose(made.output, wide(made.x) @ wide(made.y), 1e-5, 1e-5)


def test_a_status_of_the_library_is_told_in_its_words() -> None:
    library = FakeCublasLt()
    launch = Device(library).bind(plain())
    assert launch is not None
    made = CublasLt(library)
    made.check("cublasLtMatmul", 0)
    with pytest.raises(ConfigurationError, match=r"^cuBLASLt: cublasLtMatmul gave 13, status 13$"):
        made.check("cublasLtMatmul", 13)


def test_a_product_that_fails_when_it_runs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCublasLt, "cublasLtMatmul", lambda self, *given: 14)
    launch = Device().bind(plain())
    assert launch is not None
    with pytest.raises(ConfigurationError, match=r"^cuBLASLt: cublasLtMatmul gave 14, status 14$"):
        launch()
