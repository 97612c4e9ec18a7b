"""Products of bfloat16 are within their rounding of float64, by the processor and by way of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpiparallel.backend.products import pair_products
from mpiparallel.backend.products.product import Product
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.product_kernel import product_kernel
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.ops import operations as P

HALF_STEP = 2.0**-8
EXTENTS = st.sampled_from([1, 2, 7, 15, 16, 17, 31, 33, 47, 48, 49, 64, 97])
DEPTHS = st.sampled_from([1, 2, 3, 31, 32, 33, 65, 511, 512, 513, 600])
BATCHES = st.sampled_from([((), ()), ((3,), ()), ((3,), (3,)), ((2, 1), (3,)), ((1,), (2, 2))])
VIEWS = st.sampled_from(["rows", "columns", "padded rows", "every other"])


def laid_out(numbers: np.ndarray[Any, Any], view: str) -> np.ndarray[Any, Any]:
    """Return equal numbers with other strides; padded ones do not start on a border of memory."""
    if view == "columns":
        return np.ascontiguousarray(numbers.swapaxes(-1, -2)).swapaxes(-1, -2)
    if view == "padded rows":
        memory = np.zeros((*numbers.shape[:-1], numbers.shape[-1] + 3), numbers.dtype)[..., 1:-2]
    elif view == "every other":
        memory = np.zeros((*numbers.shape[:-1], 2 * numbers.shape[-1]), numbers.dtype)[..., ::2]
    else:
        return np.ascontiguousarray(numbers)
    memory[...] = numbers
    return memory


def assert_within_rounding(x: Any, y: Any, output: Any) -> None:
    exact = np.matmul(x.astype(np.float64), y.astype(np.float64))
    sums = np.matmul(abs(x.astype(np.float64)), abs(y.astype(np.float64)))
    step = HALF_STEP if output.dtype == bfloat16 else 0.0
    # Sums of n float32 are within n of its roundings of the sum of sizes.
    bound = step * abs(exact) + 2 * (x.shape[-1] + 1) * 2.0**-24 * sums
    assert (abs(output.astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize("way", ["processor", "float32"])
@settings(max_examples=25, deadline=None)
@given(
    st.tuples(EXTENTS, EXTENTS, DEPTHS),
    BATCHES,
    st.tuples(VIEWS, VIEWS, VIEWS),
    st.sampled_from([bfloat16.dtype, np.dtype(np.float32)]),
)
def test_product_is_within_its_rounding_whatever_the_strides(
    way: str, extents: Any, batches: Any, views: Any, dtype: Any
) -> None:
    m, n, k = extents
    random = np.random.default_rng(m + n + k)
    x = laid_out(random.standard_normal((*batches[0], m, k)).astype(bfloat16), views[0])
    y = laid_out(random.standard_normal((*batches[1], k, n)).astype(bfloat16), views[1])
    batch = np.broadcast_shapes(*batches)
    output = laid_out(np.full((*batch, m, n), np.nan, dtype), views[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_products, "SMALLEST", 0)
        patch.setenv("MPIPARALLEL_BFLOAT16_PRODUCTS", "float32" if way == "float32" else "")
        product = pair_products.pair_product(x, y, output, Runtime().scratch)
        if way == "processor" and pair_products.is_at_hand() and pair_products.is_wanted():
            assert product is not None
        else:
            assert product is None
            product = product_kernel(Runtime(), x, y, output) if dtype != np.float32 else None
    if product is not None:
        product()
        assert_within_rounding(x, y, output)


@pytest.mark.parametrize("extents", [(200, 1600, 530), (1600, 50, 4300), (7, 1700, 4300)])
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("way", ["", "float32"])
def test_large_products_of_operators_are_within_their_rounding(
    transposed: tuple[bool, bool], extents: tuple[int, int, int], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPIPARALLEL_BFLOAT16_PRODUCTS", way)
    random = np.random.default_rng(1)
    m, n, k = extents
    x = random.standard_normal((k, m) if transposed[0] else (m, k)).astype(bfloat16)
    y = random.standard_normal((n, k) if transposed[1] else (k, n)).astype(bfloat16)
    output = P.MatMul(*transposed)(x, y).asnumpy()
    assert_within_rounding(x.T if transposed[0] else x, y.T if transposed[1] else y, output)


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_large_products_of_float16_are_those_of_float32_rounded_once(transposed: tuple[bool, bool]) -> None:
    random = np.random.default_rng(3)
    x = random.standard_normal((90, 80) if transposed[0] else (80, 90)).astype(np.float16)
    y = random.standard_normal((70, 90) if transposed[1] else (90, 70)).astype(np.float16)
    output = P.MatMul(*transposed)(x, y).asnumpy()
    wide = P.MatMul(*transposed)(x.astype(np.float32), y.astype(np.float32)).asnumpy()
    np.testing.assert_allclose(output, wide.astype(np.float16), rtol=2.0**-10, atol=2.0**-14)
    exact = np.matmul(x.T if transposed[0] else x, y.T if transposed[1] else y, dtype=np.float64)
    assert (abs(output - exact) <= 2.0**-11 * abs(exact) + 1e-5).all()


@pytest.mark.parametrize("way", ["", "float32"])
def test_a_number_that_is_none_stays_in_its_row(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPIPARALLEL_BFLOAT16_PRODUCTS", way)
    x, y = np.ones((65, 67), bfloat16), np.ones((67, 70), bfloat16)
    x[3, 66], x[5, 0] = np.nan, np.inf
    output = P.MatMul()(x, y).asnumpy().astype(np.float32)
    assert np.isnan(output[3]).all()
    assert np.isposinf(output[5]).all()
    assert np.array_equal(np.delete(output, [3, 5], 0), np.full((63, 70), 67.0))


def test_a_row_of_a_product_is_the_same_whichever_rows_are_beside_it() -> None:
    random = np.random.default_rng(2)
    x, y = (random.standard_normal(shape).astype(bfloat16) for shape in ((200, 700), (700, 90)))
    whole = P.MatMul()(x, y).asnumpy()
    parts = [P.MatMul()(x[rows], y).asnumpy() for rows in (slice(0, 77), slice(77, 200))]
    assert np.array_equal(whole, np.concatenate(parts))


def test_without_numba_no_product_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_products, "find_spec", lambda name: None)
    assert pair_products.is_at_hand.__wrapped__() is False


@pytest.mark.parametrize(
    ("features", "name", "told", "wanted"),
    [
        ({"avx512bf16": True}, None, None, True),
        ({"avx512bf16": False}, None, None, False),
        ({"avx2": True}, None, None, False),
        ({"avx512bf16": True}, None, "+avx2,+avx512bf16", True),
        # numba is told to compile for another processor, or without these instructions.
        ({"avx512bf16": True}, "skylake", None, False),
        ({"avx512bf16": True}, None, "+avx2", False),
        ({"avx512bf16": False}, None, "+avx512bf16", False),
    ],
)
def test_products_are_compiled_where_the_processor_and_numba_have_the_instructions(
    features: dict[str, bool], name: str | None, told: str | None, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config: Any = pytest.importorskip("numba.core.config")
    from llvmlite import binding

    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: features)
    monkeypatch.setattr(config, "CPU_NAME", name)
    monkeypatch.setattr(config, "CPU_FEATURES", told)
    assert pair_products.is_at_hand.__wrapped__() is wanted


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, True),
        ({"MPIPARALLEL_BFLOAT16_PRODUCTS": ""}, True),
        ({"MPIPARALLEL_BFLOAT16_PRODUCTS": "float32"}, False),
        ({"MPIPARALLEL_BFLOAT16_PRODUCTS": "Float32"}, False),
        ({"MPIPARALLEL_BFLOAT16_PRODUCTS": "processor"}, True),
    ],
)
def test_products_by_way_of_float32_are_asked_for_by_name(variables: dict[str, str], wanted: bool) -> None:
    assert pair_products.is_wanted(variables) is wanted


def matrices(dtype: Any, other: Any, result: Any, extents: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    m, k, n = extents
    return np.ones((m, k), dtype), np.ones((k, n), other), np.zeros((m, n), result)


@pytest.mark.parametrize(
    ("arrays", "way"),
    [
        (matrices(np.float32, bfloat16, bfloat16, (64, 64, 64)), ""),
        (matrices(bfloat16, np.float32, bfloat16, (64, 64, 64)), ""),
        (matrices(bfloat16, bfloat16, np.float16, (64, 64, 64)), ""),
        # One multiplication less than 2**18.
        (matrices(bfloat16, bfloat16, bfloat16, (3, 87381, 1)), ""),
        (matrices(bfloat16, bfloat16, bfloat16, (64, 64, 64)), "float32"),
    ],
    ids=["other x", "other y", "other output", "small", "not wanted"],
)
def test_other_products_are_left_to_blas(arrays: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPIPARALLEL_BFLOAT16_PRODUCTS", way)
    monkeypatch.setattr(pair_products, "is_at_hand", lambda: True)
    assert pair_products.pair_product(*arrays, Runtime().scratch) is None


@pytest.mark.parametrize(("threads", "is_asked"), [(1, True), (2, True), (3, False)])
def test_few_threads_of_blas_are_slower_than_the_processor_itself(
    threads: int, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(pair_products, "blas_threads", lambda: threads)
    monkeypatch.setattr(pair_products, "pair_product", lambda *given: asked.append(given))
    x, y, output = matrices(bfloat16, bfloat16, bfloat16, (2, 2, 2))
    scratch = Runtime().scratch
    pair_products.PairProducts().bind(Product(x, y, output), scratch)
    assert asked == ([(x, y, output, scratch)] if is_asked else [])
    # What is more than a product is BLAS's.
    assert pair_products.PairProducts().bind(Product(x, y, output, bias=output[0]), scratch) is None
    assert pair_products.PairProducts().bind(Product(x, y, output, gelu=True), scratch) is None
    assert len(asked) == is_asked


def test_the_type_of_16_bits_is_one_in_llvm_wherever_it_is_made() -> None:
    tiles = pytest.importorskip("mpiparallel.backend.products.bfloat16_vector_tiles")
    from llvmlite import ir

    assert {tiles.BFloat16(), tiles.BFloat16()} == {tiles.BFloat16()}
    assert tiles.BFloat16() != ir.HalfType()
    assert str(ir.VectorType(tiles.BFloat16(), 4)) == "<4 x bfloat>"
