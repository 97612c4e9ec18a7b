"""cuBLASLt without a GPU: its functions in C as a Python object, which computes in the host's memory by NumPy.

It is strict: arguments have the types of the header, attributes their sizes, products use what they were announced
with, and no matrix goes beyond the memory that it is told of by ``address``.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np

from tests.conformance.hidden_arrays.stream import DEVICE

INVALID, NOT_SUPPORTED = 7, 15
DTYPES: Final = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
SUMS_IN: Final = {68: np.float32, 70: np.float64, 77: np.float32}
TF32: Final = 77
ATTRIBUTES: Final = {
    "MatmulDesc": dict(enumerate("iiiiiiiIP", 0)) | {10: "q", 11: "P", 12: "q", 13: "q"},
    "MatrixLayout": dict(enumerate("IiQQqiq", 0)),
    "MatmulPreference": {1: "Q", 5: "I", 6: "I", 7: "I", 8: "I"},
}
"""The types of attributes in the header, as NumPy calls them."""
EPILOGUES: Final = (1, 4, 32, 36, 160, 164, 192, 208, 256, 512)
NEEDED: Final = 1 << 20
"""Bytes that each algorithm needs for itself."""


class MisusedError(AssertionError):
    """A call that the library's documentation forbids."""


def require(holds: object, what: str) -> None:
    """Raise MisusedError where something does not hold."""
    if not holds:
        raise MisusedError(what)


class HostObjects:
    """Descriptors, layouts and preferences, kept here."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[str, dict[int, int]]] = {}
        self._numbers = itertools.count(4096, 64)

    def create(self, kind: str, made: Any, *given: Any) -> int:
        """Make an object from the attributes that its constructor takes."""
        first = {"MatmulDesc": (0, 1), "MatrixLayout": (0, 2, 3, 4), "MatmulPreference": ()}[kind]
        types = [ATTRIBUTES[kind][name] for name in first]
        require([one._type_ for one in given] == [_of_c(letter) for letter in types], f"{kind}: types of {given}")
        values = dict(zip(first, (one.value for one in given), strict=True))
        made._obj.value = next(self._numbers)
        self._kept[made._obj.value] = kind, values
        return 0

    def set(self, kind: str, owner: Any, name: Any, value: Any, size: Any) -> int:
        """Set an attribute from memory of its size."""
        require((type(owner), type(name), type(size)) == (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t), "types")
        letter = ATTRIBUTES[kind].get(name.value)
        if letter is None or np.dtype(letter).itemsize != size.value or ctypes.sizeof(value._obj) != size.value:
            return INVALID
        found = np.frombuffer(ctypes.string_at(ctypes.addressof(value._obj), size.value), letter)
        self._of(kind, owner)[name.value] = int(found[0])
        return 0

    def read(self, kind: str, owner: Any) -> dict[int, int]:
        """Return what is set; the rest is 0."""
        return dict.fromkeys(ATTRIBUTES[kind], 0) | self._of(kind, owner)

    def destroy(self, kind: str, owner: Any) -> int:
        """Forget an object."""
        self._of(kind, owner)
        del self._kept[owner.value]
        return 0

    def _of(self, kind: str, owner: Any) -> dict[int, int]:
        known, values = self._kept.get(owner.value, ("nothing", {}))
        require(known == kind, f"{kind} {owner.value} is {known}")
        return values


class LibraryObjects:
    """Descriptors, layouts and preferences as the library itself keeps them, which needs no driver."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def create(self, kind: str, *given: Any) -> int:
        return int(getattr(self._library, f"cublasLt{kind}Create")(*given))

    def set(self, kind: str, *given: Any) -> int:
        return int(getattr(self._library, f"cublasLt{kind}SetAttribute")(*given))

    def destroy(self, kind: str, owner: Any) -> int:
        return int(getattr(self._library, f"cublasLt{kind}Destroy")(owner))

    def read(self, kind: str, owner: Any) -> dict[int, int]:
        found = {}
        for name, letter in ATTRIBUTES[kind].items():
            memory, written = np.zeros(1, letter), ctypes.c_size_t()
            place, size = ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(memory.nbytes)
            status = getattr(self._library, f"cublasLt{kind}GetAttribute")(
                owner, ctypes.c_int(name), place, size, ctypes.byref(written)
            )
            require(status == 0 and written.value == memory.nbytes, f"{kind} {name}: {status}, {written.value} bytes")
            found[name] = int(memory[0])
        return found


def _of_c(letter: str) -> str:
    """Return the letter that ctypes has for a type of that size and sign."""
    return {"i": "i", "I": "i", "Q": ctypes.c_uint64._type_, "q": ctypes.c_int64._type_}[letter]


@dataclass(frozen=True)
class Lying:
    """A layout."""

    dtype: Any
    rows: int
    columns: int
    leading: int
    count: int
    stride: int


@dataclass
class FakeCublasLt:
    """The library's functions, by their names in C."""

    objects: Any = field(default_factory=HostObjects)
    refused: Callable[[int, Any], bool] = lambda epilogue, dtype: epilogue & 96 and dtype == np.float64
    announced: list[Any] = field(default_factory=list)
    multiplied: list[dict[int, int]] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)

    def address(self, array: Any) -> int:
        """Return where an array is, and let products use its memory."""
        own = getattr(array, "hidden", array)
        if own.size:
            self.memory.append(tuple(map(int, np.lib.array_utils.byte_bounds(own))))
        return int(own.ctypes.data)

    def __getattr__(self, name: str) -> Any:
        for kind in ATTRIBUTES:
            for ending, called in (("Create", "create"), ("Destroy", "destroy"), ("SetAttribute", "set")):
                if name == f"cublasLt{kind}{ending}":
                    return lambda *given: getattr(self.objects, called)(kind, *given)
        raise AttributeError(name)

    def cublasLtCreate(self, made: Any) -> int:  # noqa: N802
        made._obj.value = 64
        return 0

    def cublasLtDestroy(self, handle: Any) -> int:  # noqa: N802
        return 0

    class cublasLtGetStatusString:  # noqa: N801
        restype = None

        def __new__(cls, status: Any) -> Any:
            return f"status {status.value}".encode()

    def cublasLtMatmulAlgoGetHeuristic(  # noqa: N802
        self, handle: Any, product: Any, a: Any, b: Any, c: Any, d: Any, wanted: Any, count: Any, found: Any, given: Any
    ) -> int:
        require((handle.value, type(count), count.value) == (64, ctypes.c_int, 1), "heuristics of one algorithm")
        settings, preference = self.objects.read("MatmulDesc", product), self.objects.read("MatmulPreference", wanted)
        layouts = [self._layout(one) for one in (a, b, c, d)]
        self._check(settings, layouts)
        if settings[7] not in EPILOGUES:
            return INVALID
        if self.refused(settings[7], layouts[3].dtype):
            return NOT_SUPPORTED
        result = found._obj
        require(ctypes.sizeof(result) == 96, f"a result has 96 bytes, not {ctypes.sizeof(result)}")
        self.announced.append((self._announced(settings), layouts, [preference[name] for name in (5, 6, 7, 8)]))
        number = (ctypes.c_uint64 * 12).from_buffer(result)
        number[0], number[8] = len(self.announced), min(NEEDED, preference[1])
        given._obj.value = 1
        return 0

    def cublasLtMatmul(  # noqa: N802
        self,
        handle: Any,
        product: Any,
        alpha: Any,
        a: Any,
        of_a: Any,
        b: Any,
        of_b: Any,
        beta: Any,
        c: Any,
        of_c: Any,
        d: Any,
        of_d: Any,
        algorithm: Any,
        workspace: Any,
        size: Any,
        stream: Any,
    ) -> int:
        require(handle.value == 64 and type(size) is ctypes.c_size_t, "a handle, and bytes of workspace")
        require(stream.value == DEVICE.current.ptr, "a product is given to another stream than the current one")
        settings, layouts = (
            self.objects.read("MatmulDesc", product),
            [self._layout(one) for one in (of_a, of_b, of_c, of_d)],
        )
        self._check(settings, layouts)
        known = self.announced[algorithm._obj[0] - 1]
        require(known[:2] == (self._announced(settings), layouts), "an algorithm that was found for another product")
        pointers = [one.value for one in (a, b, c, d)]
        for pointer, aligned in zip(pointers, known[2], strict=True):
            require(pointer and pointer % aligned == 0, f"{pointer} is not at a multiple of {aligned}")
        require(size.value >= NEEDED and workspace.value and workspace.value % 16 == 0, "the workspace is too small")
        self._inside(workspace.value, workspace.value + size.value)
        self.multiplied.append(settings)
        views = [self._view(pointer, one) for pointer, one in zip(pointers, layouts, strict=True)]
        vectors = self._vectors(settings, layouts[3], views[3].shape)
        factors = [_number(one, settings[1]) for one in (alpha, beta)]

        def compute() -> None:
            _multiply(settings, views, vectors, *factors)

        arrays = [*views, *(one for one in vectors.values() if one is not None)]
        DEVICE.perform(compute, arrays, arrays[3:], ("cublasLtMatmul", tuple(settings.items())))
        return 0

    def _layout(self, owner: Any) -> Lying:
        found = self.objects.read("MatrixLayout", owner)
        require(found[1] == 0, "columns come one after the other")
        return Lying(np.dtype(DTYPES[found[0]]), found[2], found[3], found[4], found[5] or 1, found[6])

    def _announced(self, settings: dict[int, int]) -> dict[int, int]:
        return {name: value for name, value in settings.items() if name not in (8, 11)}

    def _check(self, settings: dict[int, int], layouts: Sequence[Lying]) -> None:
        a, b, c, d = layouts
        sums, scale = SUMS_IN[settings[0]], DTYPES[settings[1]]
        require(sums is scale, "sums and factors have one type")
        require(a.dtype == b.dtype and c.dtype == d.dtype, "types of factors, and of C and D")
        require((sums is np.float64) == (a.dtype == np.float64), "float64 is summed in float64")
        require(settings[0] != TF32 or a.dtype == np.float32, "TF32 is of float32")
        sizes = [
            (one.columns, one.rows) if turned else (one.rows, one.columns)
            for one, turned in zip((a, b), (settings[3], settings[4]), strict=True)
        ]
        require(sizes[0] == (d.rows, sizes[1][0]) and sizes[1][1] == d.columns, f"sizes {sizes} of {d}")
        require((c.rows, c.columns) == (d.rows, d.columns), "sizes of C and D")
        require(all(one.leading >= one.rows and one.count == d.count for one in layouts), "columns that overlap")

    def _inside(self, start: int, stop: int) -> None:
        require(any(first <= start and stop <= last for first, last in self.memory), "memory that nobody has told of")

    def _view(self, pointer: int, one: Lying) -> Any:
        return self._array(pointer, one.dtype, (one.count, one.rows, one.columns), (one.stride, 1, one.leading))

    def _array(self, pointer: int, dtype: Any, shape: tuple[int, ...], steps: tuple[int, ...]) -> Any:
        reach = 1 + sum((extent - 1) * step for extent, step in zip(shape, steps, strict=True))
        size = np.dtype(dtype).itemsize
        self._inside(pointer, pointer + reach * size)
        flat = np.frombuffer((ctypes.c_char * (reach * size)).from_address(pointer), dtype)
        return np.lib.stride_tricks.as_strided(flat, shape, [step * size for step in steps])

    def _vectors(self, settings: dict[int, int], d: Lying, shape: tuple[int, ...]) -> dict[str, Any]:
        """Return the arrays of an epilogue."""
        epilogue, vector, auxiliary = settings[7], None, None
        if epilogue & (4 | 16 | 256 | 512):
            vector = self._array(settings[8], d.dtype, (d.columns if epilogue & 512 else d.rows,), (1,))
        if epilogue & 128:
            require(settings[12] >= d.rows and settings[12] % 8 == 0 and settings[13] % 8 == 0, "multiples of 8")
            auxiliary = self._array(settings[11], d.dtype, shape, (settings[13], 1, settings[12]))
        require(vector is None or epilogue == 4 or epilogue & 36 == 36 or d.count == 1, "sums of a stack")
        return {"vector": vector, "auxiliary": auxiliary}


def _number(given: Any, scale: int) -> float:
    require(np.dtype(given._obj._type_) == DTYPES[scale], f"a factor of {type(given._obj)}")
    return float(given._obj.value)


def _multiply(
    settings: dict[int, int], views: Sequence[Any], vectors: dict[str, Any], alpha: float, beta: float
) -> None:
    """Compute D; what is added and stored last is rounded once."""
    sums = SUMS_IN[settings[0]]
    a, b = (
        _rounded(one.astype(sums), settings[0]).swapaxes(1, 2) if turned else _rounded(one.astype(sums), settings[0])
        for one, turned in zip(views[:2], (settings[3], settings[4]), strict=True)
    )
    c, d, epilogue = views[2], views[3], settings[7]
    found = alpha * (a @ b) + (beta * c.astype(sums) if beta else 0)
    vector, auxiliary = vectors["vector"], vectors["auxiliary"]
    if epilogue & 4:
        found = found + vector.astype(sums)[:, None]
    if epilogue & 32:
        if auxiliary is not None:
            auxiliary[...] = found
        found = gelu(found)
    if epilogue & 64:
        found = found * gelu_slope(auxiliary.astype(sums))
    d[...] = found
    if epilogue & 16:
        vector[...] = found.sum((0, 2))
    if epilogue & 256:
        vector[...] = a.sum((0, 2))
    if epilogue & 512:
        vector[...] = b.sum((0, 1))


def _rounded(x: Any, compute: int) -> Any:
    """Return numbers as the tensor cores take them: those of TF32 have 10 bits of fraction."""
    return (x.view(np.int32) + 0x1000 & ~0x1FFF).view(np.float32) if compute == TF32 else x


def gelu(x: Any) -> Any:
    """Return GELU in its tanh form."""
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + x.dtype.type(0.044715) * x**3)))


def gelu_slope(x: Any) -> Any:
    """Return the derivative of that."""
    inner = np.sqrt(2 / np.pi).astype(x.dtype) * (x + x.dtype.type(0.044715) * x**3)
    slope = np.sqrt(2 / np.pi).astype(x.dtype) * (1 + x.dtype.type(3 * 0.044715) * x**2)
    return (1 + np.tanh(inner)) / 2 + x / 2 * (1 - np.tanh(inner) ** 2) * slope
