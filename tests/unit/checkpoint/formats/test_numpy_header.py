"""The header of a ``.npy`` is what NumPy's own writer makes, in each of its versions."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

from mpiparallel.checkpoint.formats.numpy_header import parse_header
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CheckpointError

WHERE = "one.npz: member w"
NATIVE = "use bool, integers, float or complex in native byte order"
SOUND = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}"


def npy(array: np.ndarray[Any, Any], version: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions that old releases do not read
        np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def header(text: str | bytes, length: int | None = None, version: bytes = b"\1\0") -> bytes:
    content = text if isinstance(text, bytes) else text.encode()
    told = len(content) if length is None else length
    return b"\x93NUMPY" + version + told.to_bytes(2, "little") + content


def refusal_of(content: bytes) -> str:
    with pytest.raises(CheckpointError) as caught:
        parse_header(WHERE, content)
    assert str(caught.value).startswith(WHERE)
    return str(caught.value).removeprefix(WHERE)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize(
    ("array", "in_fortran_order"),
    [
        (np.zeros((2, 3), np.float32), False),
        (np.zeros((2, 3), np.int16, order="F"), True),
        (np.zeros(5, np.complex64), False),
        (np.array(True), False),
        (np.zeros((1,) * 32), False),
    ],
)
def test_what_numpy_writes_in_any_version_is_read(
    version: tuple[int, int], array: np.ndarray[Any, Any], in_fortran_order: bool
) -> None:
    content = npy(array, version)
    found = parse_header(WHERE, content)
    assert (found.info.shape, found.info.dtype) == (array.shape, array.dtype)
    assert found.in_fortran_order == in_fortran_order
    assert content[found.length :] == array.tobytes("F" if in_fortran_order else "C")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_a_header_that_is_cut_short_is_refused_at_any_length(version: tuple[int, int]) -> None:
    content = npy(np.zeros(3), version)
    start = 10 if version == (1, 0) else 12
    for length in range(len(content) - 24):
        said = refusal_of(content[:length])
        if length < start:
            assert said == " is no array of NumPy; make the archive again"
        else:
            assert said == f" announces a header of {len(content) - 24 - start} bytes; restore it"


@pytest.mark.parametrize("version", [b"\1\1", b"\0\0", b"\4\0", b"\0\1"])
def test_a_version_that_numpy_does_not_have_is_refused(version: bytes) -> None:
    assert refusal_of(header(SOUND, version=version) + bytes(24)) == " is no array of NumPy; make the archive again"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\xff" + SOUND.encode(), ": its header is no text; restore it"),
        ("1", ": its header has not just descr, fortran_order, shape; restore it"),
        ("(", ": its header is no dict of Python; restore it"),
        ("f()", ": its header is no dict of Python; restore it"),
        ("{[]: 1}", ": its header is no dict of Python; restore it"),
        (SOUND.replace("}", ", 'more': 1}"), ": its header has not just descr, fortran_order, shape; restore it"),
        (SOUND.replace("'descr': '<f8', ", ""), ": its header has not just descr, fortran_order, shape; restore it"),
        (SOUND.replace("False", "0"), ": its header has not just descr, fortran_order, shape; restore it"),
        (SOUND.replace("(3,)", "[3]"), " has shape [3]; restore it"),
        (SOUND.replace("(3,)", "(True,)"), " has shape (True,); restore it"),
        (SOUND.replace("(3,)", "(3.0,)"), " has shape (3.0,); restore it"),
        (SOUND.replace("(3,)", "(3, -1)"), " has shape (3, -1); restore it"),
        (SOUND.replace("(3,)", str((1,) * 33)), f" has shape {str((1,) * 33)[:80]}; restore it"),
        (SOUND.replace("<f8", ">f8"), f" has dtype >f8; {NATIVE}"),
        (SOUND.replace("<f8", "<U1"), f" has dtype <U1; {NATIVE}"),
        (SOUND.replace("<f8", "<M8"), f" has dtype datetime64; {NATIVE}"),
        (SOUND.replace("<f8", "|O"), f" has dtype object; {NATIVE}"),
        (SOUND.replace("<f8", "|V3"), f" has dtype |V3; {NATIVE}"),
        (SOUND.replace("<f8", "<f8,<f8"), " has dtype <f8,<f8, not that of plain numbers; convert it"),
        (SOUND.replace("<f8", "f8888"), " has dtype f8888, not that of plain numbers; convert it"),
        (SOUND.replace("<f8", "x" * 99), f" has dtype {80 * 'x'}, not that of plain numbers; convert it"),
        (SOUND.replace("<f8", "<f9"), " has dtype <f9, which NumPy does not know; restore it"),
    ],
)
def test_what_a_header_may_not_say_is_told(text: str | bytes, said: str) -> None:
    assert refusal_of(header(text) + bytes(24)) == said


@pytest.mark.parametrize("descr", ["<V2", "|V2"])
def test_two_bytes_without_a_meaning_are_bfloat16(descr: str) -> None:
    text = SOUND.replace("<f8", descr)
    assert parse_header(WHERE, header(text)).info.dtype == np.dtype(bfloat16)


@pytest.mark.parametrize("dtype", ["?", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "f2", "f4", "f8"])
def test_each_plain_dtype_is_read(dtype: str) -> None:
    assert parse_header(WHERE, npy(np.zeros(1, dtype), (1, 0))).info.dtype == np.dtype(dtype)


def test_an_array_of_one_dim_has_no_order() -> None:
    found = parse_header(WHERE, header(SOUND.replace("False", "True")))
    assert (found.in_fortran_order, found.length) == (False, 10 + len(SOUND) - 1)
