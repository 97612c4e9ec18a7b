"""cuBLASLt, called directly: CuPy is not asked, and refuses to multiply while a stream is captured.

Matrices are stored column by column. Everything here lives on the host but what pointers lead to.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, IntFlag
from typing import Any, Final

from mpiparallel.backend.nvidia_library import nvidia_library
from mpiparallel.errors import ConfigurationError


class CudaType(IntEnum):
    """The types of elements, ``cudaDataType``."""

    FLOAT32, FLOAT64, FLOAT16, BFLOAT16 = 0, 1, 2, 14


class Compute(IntEnum):
    """What sums are made in, ``cublasComputeType_t``."""

    FLOAT32, FLOAT64, TF32 = 68, 70, 77


class Epilogue(IntFlag):
    """What is done with sums before they are stored, ``cublasLtEpilogue_t``: the sum of these, or DEFAULT."""

    DEFAULT, BIAS, BIAS_GRADIENT, GELU, GELU_SLOPE, AUXILIARY = 1, 4, 16, 32, 64, 128
    SUMS_OF_A, SUMS_OF_B = 256, 512


class Setting(IntEnum):
    """What a product is configured by, ``cublasLtMatmulDescAttributes_t``."""

    TURNS_A, TURNS_B, EPILOGUE, BIAS = 3, 4, 7, 8
    AUXILIARY, AUXILIARY_LEADING, AUXILIARY_STRIDE = 11, 12, 13


class LayoutSetting(IntEnum):
    """What stacks of matrices are said to be by, ``cublasLtMatrixLayoutAttribute_t``."""

    COUNT, STRIDE = 5, 6


class Preference(IntEnum):
    """What algorithms are chosen by, ``cublasLtMatmulPreferenceAttributes_t``; the last are alignments in bytes."""

    WORKSPACE, OF_A, OF_B, OF_C, OF_D = 1, 5, 6, 7, 8


class HeuristicResult(ctypes.Structure):
    """An algorithm and what it needs, ``cublasLtMatmulHeuristicResult_t``."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


_TYPES: Final[Mapping[IntEnum, type[Any]]] = {
    **dict.fromkeys((Setting.TURNS_A, Setting.TURNS_B), ctypes.c_int32),
    Setting.EPILOGUE: ctypes.c_uint32,
    **dict.fromkeys((Setting.BIAS, Setting.AUXILIARY), ctypes.c_void_p),
    **dict.fromkeys((Setting.AUXILIARY_LEADING, Setting.AUXILIARY_STRIDE), ctypes.c_int64),
}
_ALIGNMENTS: Final = (Preference.OF_A, Preference.OF_B, Preference.OF_C, Preference.OF_D)
_NOT_SUPPORTED: Final = 15


class LibraryObject:
    """An object of the library's, which goes with this one."""

    def __init__(self, create: Callable[..., None], destroy: Callable[..., object], *arguments: Any) -> None:
        self.pointer = ctypes.c_void_p()
        create(ctypes.byref(self.pointer), *arguments)
        # Not when Python ends: the driver may have gone before.
        weakref.finalize(self, destroy, self.pointer).atexit = False


class CublasLt:
    """The library with a handle of its own; ``entry_points`` are its functions, by their names in C.

    Raises ConfigurationError where the library is not found, or the device is not to be had.
    """

    def __init__(self, entry_points: Any = None) -> None:
        self._entry_points = nvidia_library("cublasLt", "cuBLAS") if entry_points is None else entry_points
        self.multiply: Callable[..., int] = self._entry_points.cublasLtMatmul
        self.handle = self._made("cublasLtCreate", "cublasLtDestroy")

    def descriptor(self, compute: Compute, scale: CudaType, settings: Mapping[Setting, int]) -> LibraryObject:
        """Return what a product is: what its sums are made in, and how else it is configured."""
        made = self._made("cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy", *map(ctypes.c_int, (compute, scale)))
        for name, value in settings.items():
            self._set("cublasLtMatmulDescSetAttribute", made, name, _TYPES[name](value))
        return made

    def layout(
        self, element: CudaType, rows: int, columns: int, leading: int, count: int, stride: int
    ) -> LibraryObject:
        """Return how ``count`` matrices lie, their columns ``leading`` elements apart and themselves ``stride``."""
        sizes = ctypes.c_int(element), ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(leading)
        made = self._made("cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy", *sizes)
        if count > 1:
            set_one = "cublasLtMatrixLayoutSetAttribute"
            self._set(set_one, made, LayoutSetting.COUNT, ctypes.c_int32(count))
            self._set(set_one, made, LayoutSetting.STRIDE, ctypes.c_int64(stride))
        return made

    def algorithm(
        self, descriptor: LibraryObject, layouts: Sequence[LibraryObject], workspace: int, alignments: Sequence[int]
    ) -> Any | None:
        """Return the algorithm that the library holds to be the fastest; None where it cannot do such a product.

        Layouts and alignments are those of A, B, C and D; ``workspace`` are the bytes that there are.
        """
        wanted = self._made("cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy")
        set_one = "cublasLtMatmulPreferenceSetAttribute"
        self._set(set_one, wanted, Preference.WORKSPACE, ctypes.c_uint64(workspace))
        for name, aligned in zip(_ALIGNMENTS, alignments, strict=True):
            self._set(set_one, wanted, name, ctypes.c_uint32(aligned))
        found, count = HeuristicResult(), ctypes.c_int()
        given = (self.handle, descriptor, *layouts, wanted)
        pointers = [one.pointer for one in given]
        status = self._entry_points.cublasLtMatmulAlgoGetHeuristic(
            *pointers, ctypes.c_int(1), ctypes.byref(found), ctypes.byref(count)
        )
        if status == _NOT_SUPPORTED or (not status and (not count.value or found.status)):
            return None
        self.check("cublasLtMatmulAlgoGetHeuristic", status)
        return found.algorithm

    def check(self, name: str, status: int) -> None:
        """Raise ConfigurationError where a function has not returned 0."""
        if status:
            words = self._entry_points.cublasLtGetStatusString
            words.restype = ctypes.c_char_p
            raise ConfigurationError(f"cuBLASLt: {name} gave {status}, {words(ctypes.c_int(status)).decode()}")

    def _made(self, create: str, destroy: str, *arguments: Any) -> LibraryObject:
        def checked(*given: Any) -> None:
            self.check(create, getattr(self._entry_points, create)(*given))

        return LibraryObject(checked, getattr(self._entry_points, destroy), *arguments)

    def _set(self, function: str, owner: LibraryObject, name: IntEnum, value: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        given = owner.pointer, ctypes.c_int(name), ctypes.byref(value), size
        self.check(function, getattr(self._entry_points, function)(*given))
