"""Files that hold one protobuf message, read strictly and replaced in one step."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import DecodeError

from mpiparallel.checkpoint.files.durable_file import write_durably
from mpiparallel.checkpoint.files.regular_file import read_regular
from mpiparallel.errors import CheckpointError, StrategyFileError, reason

_MOST_BYTES: Final = 1 << 28


def path_of(name: Any, argument: str, noun: str) -> Path:
    """Return ``name`` as a path. Raises ``StrategyFileError``, which asks for a ``noun``, if it is none."""
    if not isinstance(name, str | Path):
        raise StrategyFileError(f"{argument} is a {type(name).__name__}; give the path of a {noun}")
    return Path(name)


def read_content(path: Path, noun: str, setting: str) -> bytes:
    """Return the bytes of ``path``.

    Raises ``StrategyFileError`` if it cannot be read, which asks for a ``noun``, written where ``setting`` says.
    """
    try:
        return read_regular(Path(os.path.realpath(path)), _MOST_BYTES)
    except (CheckpointError, OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise StrategyFileError(
            f"{path}: cannot be read ({reason(error)}); give the path of a {noun}, which training writes where "
            f"{setting} says"
        ) from None


def read_message(message_class: Any, path: Path, noun: str, setting: str) -> Any:
    """Return the message in ``path``, which should be a ``noun``, and is written where ``setting`` says.

    Raises ``StrategyFileError`` if the file cannot be read, is damaged, or says more than the schema does.
    """
    content = read_content(path, noun, setting)
    message = message_class()
    try:
        message.ParseFromString(content)
    except (DecodeError, UnicodeDecodeError) as error:
        raise StrategyFileError(
            f"{path}: is no {noun}, or is damaged ({error}); write it again, or give the path of one"
        ) from error
    missing = message.FindInitializationErrors()
    if missing:
        raise StrategyFileError(f"{path}: lacks {', '.join(missing)}; it is no {noun}, or was cut off: write it again")
    message.DiscardUnknownFields()
    if message.ByteSize() != len(content):
        raise StrategyFileError(
            f"{path}: {len(content) - message.ByteSize()} of its {len(content)} bytes fit no field of a {noun}; "
            f"it is damaged, or of a newer format: write it again"
        )
    return message


def new_name(name: Any, known: Collection[str]) -> str:
    """Return ``name`` of a message. Raises ``StrategyFileError`` if it is no text or already among ``known``."""
    if not isinstance(name, str):  # protobuf gives bytes where they are not UTF-8
        raise StrategyFileError(f"the name {name!r} is not UTF-8; the file is damaged: write it again")
    if name in known:
        raise StrategyFileError(f'the name "{name}" occurs twice; the file is damaged: write it again')
    return name


def write_content(path: Path, content: bytes) -> None:
    """Replace what is in ``path``, and make its folder. Raises ``StrategyFileError``."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, content)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise StrategyFileError(
            f"{path}: cannot be written ({error}); choose a folder that you may write to"
        ) from error
