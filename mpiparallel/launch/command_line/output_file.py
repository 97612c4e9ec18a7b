"""A file that a command writes because its user named it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mpiparallel.checkpoint.files.durable_file import replacing, write_at
from mpiparallel.errors import ConfigurationError

EXECUTABLE = 0o777


@contextmanager
def output_file(option: str, path: Path, mode: int = 0o666) -> Iterator[int]:
    """Give the descriptor of a file that takes the place of ``path``, which ``option`` named, when the body ends well.

    Raises ConfigurationError where it cannot be written, or something is there that is no regular file.
    """
    try:
        with replacing(path, mode) as descriptor:
            yield descriptor
    except OSError as error:
        raise ConfigurationError(f"{option} {path}: {error.strerror}; give a file that can be written") from error


def write_output(option: str, path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write ``content`` to the file that ``option`` named; see `output_file`."""
    with output_file(option, path, mode) as descriptor:
        write_at(descriptor, memoryview(content), 0)
