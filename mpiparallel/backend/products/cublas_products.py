"""Products of matrices by cuBLASLt, each bound once: to its pointers, its algorithm and memory of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Final

import ml_dtypes
import numpy as np

from mpiparallel.backend.products.cublas_lt import Compute, CublasLt, CudaType, Epilogue, LibraryObject, Setting
from mpiparallel.backend.products.product import Array, Product, Scratch
from mpiparallel.backend.products.product_layout import Matrices, StackedProduct, stacked

_ELEMENTS: Final = {
    np.dtype(np.float32): CudaType.FLOAT32,
    np.dtype(np.float64): CudaType.FLOAT64,
    np.dtype(np.float16): CudaType.FLOAT16,
    np.dtype(ml_dtypes.bfloat16): CudaType.BFLOAT16,
}
_NARROW: Final = (CudaType.FLOAT16, CudaType.BFLOAT16)
WORKSPACE: Final = 32 << 20
"""Bytes that an algorithm may use for itself: what NVIDIA advises for Hopper."""
_SLOT: Final = 60
_ALIGNED: Final = 256
"""Bytes beyond which no algorithm asks for more."""
_EIGHT: Final = 8
"""Elements of which the distance of what is kept for GELU must be a multiple."""
_MOST_LAUNCHES: Final = 64
"""Launches of one product from which on an array library is no slower."""


class CublasProducts:
    """Products of one device and one stream.

    ``address`` tells where an array is, ``stream`` the stream that is given work, as a number. With ``allows_tf32``
    factors of float32 may be rounded to 10 bits of fraction. ``make_library`` is asked when the first product is bound.
    """

    def __init__(
        self,
        address: Callable[[Array], int],
        stream: Callable[[], int],
        allows_tf32: bool = False,
        make_library: Callable[[], CublasLt] = CublasLt,
    ) -> None:
        self._address = address
        self._stream = stream
        self._allows_tf32 = allows_tf32
        self._make_library = make_library
        self._algorithms: dict[object, Any] = {}

    @cached_property
    def _library(self) -> CublasLt:
        return self._make_library()

    def bind(self, product: Product, scratch: Scratch) -> Callable[[], object] | None:
        """Return the launch of a product; None where cuBLASLt knows none: of integers, of nothing, of odd strides."""
        if product.is_plain and _lies_turned(product.output):
            x, y, output = (one.swapaxes(-1, -2) for one in (product.y, product.x, product.output))
            product = Product(x, y, output, allows_tf32=product.allows_tf32)
        kinds = _kinds(product)
        if kinds is None:
            return None
        like_output = [one for one in (product.added, _auxiliary(product)) if one is not None]
        found = stacked(product.x, product.y, [product.output, *like_output])
        if found is None or len(found.starts) > _MOST_LAUNCHES or not _suits(product, found):
            return None
        made = [self._launch(product, kinds, found, start, scratch) for start in found.starts]
        launches = [one for one in made if one is not None]
        if len(launches) < len(made):
            return None
        return launches[0] if len(launches) == 1 else partial(_run_all, launches)

    def _launch(
        self,
        product: Product,
        kinds: tuple[CudaType, CudaType],
        found: StackedProduct,
        start: Sequence[int],
        scratch: Scratch,
    ) -> Callable[[], object] | None:
        source, target = kinds
        arrays = [product.x, product.y, product.output]
        arrays += [one for one in (product.added, _auxiliary(product)) if one is not None]
        places = [self._address(one) + first * one.itemsize for one, first in zip(arrays, start, strict=True)]
        x, y, output, *others = found.arrays
        # What is stored row by row is the transpose to the library, and the transpose of a product has y before x.
        c, c_place = (others[0], places[3]) if product.added is not None else (output, places[2])
        settings = self._settings(product, found, places[-1])
        scale = CudaType.FLOAT64 if source is CudaType.FLOAT64 else CudaType.FLOAT32
        count, sizes = found.count, (found.rows, found.columns, found.depth)
        compute = self._compute(source, product.allows_tf32)
        descriptor = self._library.descriptor(compute, scale, settings)
        layouts = [
            self._layout(source, y, found.depth, found.columns, count),
            self._layout(source, x, found.rows, found.depth, count),
            self._layout(target, c, found.rows, found.columns, count),
            self._layout(target, output, found.rows, found.columns, count),
        ]
        pointers = [places[1], places[0], c_place, places[2]]
        alignments = [min(place & -place, _ALIGNED) for place in pointers]
        shape = tuple(
            (name, value) for name, value in settings.items() if name not in (Setting.BIAS, Setting.AUXILIARY)
        )
        key = (kinds, compute, sizes, count, x, y, c, output, product.added is None, *alignments, *shape)
        if key not in self._algorithms:
            self._algorithms[key] = self._library.algorithm(descriptor, layouts, WORKSPACE, alignments)
        algorithm = self._algorithms[key]
        if algorithm is None:
            return None
        number = ctypes.c_double if scale is CudaType.FLOAT64 else ctypes.c_float
        factors = number(1), number(0 if product.added is None else 1)
        memory = scratch((WORKSPACE,), np.uint8, _SLOT)
        held = product, descriptor, layouts, memory
        return self._bound(held, descriptor, layouts, pointers, factors, algorithm, self._address(memory))

    def _bound(
        self,
        held: object,
        descriptor: LibraryObject,
        layouts: Sequence[LibraryObject],
        pointers: Sequence[int],
        factors: Sequence[Any],
        algorithm: Any,
        workspace: int,
    ) -> Callable[[], object]:
        library, stream, multiply = self._library, self._stream, self._library.multiply
        a, b, c, d = (ctypes.c_void_p(place) for place in pointers)
        of_a, of_b, of_c, of_d = (one.pointer for one in layouts)
        one, other = map(ctypes.byref, factors)
        arguments: tuple[Any, ...] = (library.handle.pointer, descriptor.pointer, one)
        arguments += (a, of_a, b, of_b, other, c, of_c, d, of_d)
        arguments += (ctypes.byref(algorithm), ctypes.c_void_p(workspace), ctypes.c_size_t(WORKSPACE))
        pointer = ctypes.c_void_p

        def run(kept: object = held) -> None:
            status = multiply(*arguments, pointer(stream()))
            if status:
                library.check("cublasLtMatmul", status)

        return run

    def _compute(self, source: CudaType, allows_tf32: bool | None) -> Compute:
        if source is CudaType.FLOAT64:
            return Compute.FLOAT64
        allowed = self._allows_tf32 if allows_tf32 is None else allows_tf32
        return Compute.TF32 if source is CudaType.FLOAT32 and allowed else Compute.FLOAT32

    def _layout(self, element: CudaType, one: Matrices, rows: int, columns: int, count: int) -> LibraryObject:
        sizes = (rows, columns) if one.is_turned else (columns, rows)
        return self._library.layout(element, *sizes, one.leading, count, one.stride)

    def _settings(self, product: Product, found: StackedProduct, auxiliary: int) -> dict[Setting, int]:
        """Return how a product is configured; its auxiliary array is at that place."""
        x, y = found.arrays[:2]
        settings = {Setting.TURNS_A: int(y.is_turned), Setting.TURNS_B: int(x.is_turned)}
        settings[Setting.EPILOGUE] = int(epilogue_of(product))
        vector = product.bias if product.sums is None else product.sums
        if vector is not None:
            settings[Setting.BIAS] = self._address(vector)
        if _auxiliary(product) is not None:
            last = found.arrays[-1]
            settings[Setting.AUXILIARY] = auxiliary
            settings[Setting.AUXILIARY_LEADING] = last.leading
            if found.count > 1:
                settings[Setting.AUXILIARY_STRIDE] = last.stride
        return settings


def epilogue_of(product: Product) -> Epilogue:
    """Return what the library is told to do with the sums of a product.

    >>> epilogue_of(Product(None, None, None, bias=1, gelu=True)).value
    36
    """
    parts = [
        (product.bias is not None, Epilogue.BIAS),
        (product.gelu, Epilogue.GELU),
        (product.slopes_at is not None, Epilogue.GELU_SLOPE),
        (_auxiliary(product) is not None, Epilogue.AUXILIARY),
        (product.sums_of == "output", Epilogue.BIAS_GRADIENT),
        (product.sums_of == "y", Epilogue.SUMS_OF_A),
        (product.sums_of == "x", Epilogue.SUMS_OF_B),
    ]
    found = Epilogue(sum(part for is_wanted, part in parts if is_wanted))
    return found or Epilogue.DEFAULT


def _auxiliary(product: Product) -> Array | None:
    return product.before if product.slopes_at is None else product.slopes_at


def _kinds(product: Product) -> tuple[CudaType, CudaType] | None:
    """Return the elements of the factors and of the output; None for those that are not multiplied."""
    source, target = _ELEMENTS.get(product.x.dtype), _ELEMENTS.get(product.output.dtype)
    if source is None or target is None or product.y.dtype != product.x.dtype:
        return None
    if target != source and not (source in _NARROW and target is CudaType.FLOAT32):
        return None
    others = (product.added, product.bias, product.before, product.slopes_at, product.sums)
    if any(one is not None and one.dtype != product.output.dtype for one in others):
        return None
    return source, target


def _suits(product: Product, found: StackedProduct) -> bool:
    """Return whether the library does with the sums what is wanted, where the matrices lie so."""
    if product.is_plain:
        return not found.arrays[2].is_turned
    vectors = [one for one in (product.bias, product.sums) if one is not None]
    if any(one.strides[-1] != one.itemsize for one in vectors if one.size > 1) or any(
        one.is_turned for one in found.arrays[2:]
    ):
        return False
    if product.sums is not None and (found.count > 1 or len(found.starts) > 1):
        return False
    last = found.arrays[-1]
    return _auxiliary(product) is None or not (last.leading % _EIGHT or last.stride % _EIGHT)


def _lies_turned(output: Array) -> bool:
    return bool(output.strides[-1] != output.itemsize == output.strides[-2])


def _run_all(launches: Sequence[Callable[[], object]]) -> None:
    for launch in launches:
        launch()
