"""The header of a ``.npy``, from a file that others may have made.

NumPy's own reader tries several grammars and dtypes of any depth on it; here only a plain dtype is taken.
Source: the docstring of ``numpy.lib.format``.
"""

from __future__ import annotations

import ast
import re
import struct
from typing import Any, NamedTuple

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CheckpointError

LONGEST_HEADER = 10_000
_MAGIC = b"\x93NUMPY"
# By version: how the length of the text is stored.
_LENGTHS = {(1, 0): struct.Struct("<H"), (2, 0): struct.Struct("<I"), (3, 0): struct.Struct("<I")}
_KEYS = {"descr", "fortran_order", "shape"}
_PLAIN_DTYPE = re.compile(r"[<>|=]?[?a-zA-Z][0-9]{0,2}")
_DTYPES = frozenset("?bhilqBHILQeEfdFD")
_MOST_DIMS = 32
_OPAQUE = ("<V2", "|V2")


class NumpyHeader(NamedTuple):
    """What a header of ``length`` bytes says of the array behind it."""

    info: TensorSpec
    in_fortran_order: bool
    length: int


def parse_header(where: str, content: bytes) -> NumpyHeader:
    """Return the header that ``content`` begins with.

    Raises ``CheckpointError``, which begins with ``where``, if there is none or the dtype is not one of ours.
    """
    text, length = _text(where, content)
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise CheckpointError(f"{where}: its header is no dict of Python; restore it") from error
    if not isinstance(found, dict) or found.keys() != _KEYS or not isinstance(found["fortran_order"], bool):
        raise CheckpointError(f"{where}: its header has not just {', '.join(sorted(_KEYS))}; restore it")
    shape, order = found["shape"], found["fortran_order"]
    if (
        not isinstance(shape, tuple)
        or len(shape) > _MOST_DIMS
        or not all(type(extent) is int and extent >= 0 for extent in shape)
    ):
        raise CheckpointError(f"{where} has shape {str(shape)[:80]}; restore it")
    return NumpyHeader(TensorSpec(shape, _dtype(where, found["descr"])), order and len(shape) > 1, length)


def check_dtype(where: str, dtype: np.dtype[Any]) -> None:
    """Raise ``CheckpointError`` unless arrays of this dtype can be stored and read."""
    if dtype.char not in _DTYPES or not dtype.isnative:
        raise CheckpointError(f"{where} has dtype {dtype}; use bool, integers, float or complex in native byte order")


def _text(where: str, content: bytes) -> tuple[str, int]:
    """Return the text of a header and where it ends."""
    start = len(_MAGIC) + 2
    version = _LENGTHS.get((content[start - 2], content[start - 1])) if len(content) >= start else None
    if not content.startswith(_MAGIC) or version is None or len(content) < start + version.size:
        raise CheckpointError(f"{where} is no array of NumPy; make the archive again")
    (length,) = version.unpack_from(content, start)
    start += version.size
    if length > min(LONGEST_HEADER, len(content) - start):
        raise CheckpointError(f"{where} announces a header of {length} bytes; restore it")
    try:
        return content[start : start + length].decode().strip(), start + length
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{where}: its header is no text; restore it") from error


def _dtype(where: str, descr: Any) -> np.dtype[Any]:
    if not isinstance(descr, str) or not _PLAIN_DTYPE.fullmatch(descr):
        raise CheckpointError(f"{where} has dtype {str(descr)[:80]}, not that of plain numbers; convert it")
    try:
        # NumPy writes two bytes without a meaning for what it does not know by itself.
        dtype = np.dtype(bfloat16) if descr in _OPAQUE else np.dtype(descr)
    except TypeError as error:
        raise CheckpointError(f"{where} has dtype {descr}, which NumPy does not know; restore it") from error
    check_dtype(where, dtype)
    return dtype
