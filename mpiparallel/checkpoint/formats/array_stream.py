"""What is written to a file of another format, array by array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import NamedArrays
from mpiparallel.checkpoint.files.durable_file import replacing
from mpiparallel.errors import CheckpointError

_LONGEST_NAME = 4096


def in_order(path: Path, infos: Mapping[str, TensorSpec], arrays: NamedArrays) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield ``arrays``, in C order, which are those of ``infos``. Raises ``CheckpointError`` at the first that is not.

    One array is alive at a time, as long as nobody else holds it.
    """
    expected = iter(infos.items())
    for name, array in arrays:
        known, info = next(expected, ("", None))
        if info is None or (name, array.shape, array.dtype) != (known, info.shape, info.dtype):
            announced = f'"{known}", {info.dtype} {info.shape}' if info else "the end"
            raise CheckpointError(
                f'{path}: array "{name}", {array.dtype} {array.shape}, came where {announced} was announced; '
                "write the arrays in the order of their infos"
            )
        # ascontiguousarray makes 0-d arrays 1-d.
        yield name, np.ascontiguousarray(array).reshape(array.shape)
    rest = [name for name, _ in expected]
    if rest:
        raise CheckpointError(f'{path}: array "{rest[0]}" and {len(rest) - 1} more were announced, but never came')


@contextmanager
def replacing_with(path: Path, needed: int) -> Iterator[int]:
    """Give the descriptor of a file of ``needed`` bytes that takes the place of ``path`` when the body ends well.

    Raises ``CheckpointError`` where the disk is full or fails, or ``path`` is no regular file.
    """
    try:
        with replacing(path) as descriptor:
            yield descriptor
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be written ({error}); it needs {needed} bytes in a writable folder: free some, or choose "
            "another folder"
        ) from error


def content_of(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array in C order, little-endian as all our machines are."""
    return array.reshape(-1).view(np.uint8).data


def check_name(path: Path, name: object) -> str:
    """Return ``name`` of an array or attribute. Raises ``CheckpointError`` where a file of ours could not hold it."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        shown = repr(name)[:80]
        raise CheckpointError(
            f"{path}: {shown} cannot name an array; use a name of 1 to {_LONGEST_NAME} characters, "
            "none of them a control character"
        )
    return name
