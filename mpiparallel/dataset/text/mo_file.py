"""The compiled message catalogue of GNU gettext; its manual has the format under "The Format of GNU MO Files"."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from mpiparallel.errors import DatasetError

_MAGIC = 0x950412DE


def read_messages(path: Path) -> dict[str, str]:
    """Return message to translation; plural forms are left out and contexts are cut off.

    A message that stands without a context too has the translation that it has there.

    Raises:
        DatasetError: if the file is no catalogue or is damaged.
    """
    data = path.read_bytes()
    try:
        return _messages(data)
    except (struct.error, UnicodeDecodeError, LookupError) as error:
        raise DatasetError(f"{path}: the message catalogue is damaged ({error}); install its package again") from error


def _messages(data: bytes) -> dict[str, str]:
    order = "<" if struct.unpack_from("<I", data)[0] == _MAGIC else ">"
    magic, _, count, sources, targets = struct.unpack_from(f"{order}5I", data)
    if magic != _MAGIC:
        raise LookupError("it does not begin with the magic number 950412de")
    messages: dict[bytes, bytes] = {}
    for index in range(count):
        source_length, source_start = struct.unpack_from(f"{order}2I", data, sources + 8 * index)
        target_length, target_start = struct.unpack_from(f"{order}2I", data, targets + 8 * index)
        if max(source_start + source_length, target_start + target_length) > len(data):
            raise LookupError(f"message {index} lies behind the end of the file")
        message = data[source_start : source_start + source_length]
        messages[message] = data[target_start : target_start + target_length]
    charset = re.search(rb"charset=([\w-]+)", messages.get(b"", b""))
    encoding = charset[1].decode("ascii") if charset else "ascii"
    without_context_last = sorted(messages.items(), key=lambda item: b"\x04" not in item[0])
    return {
        message.rpartition(b"\x04")[2].decode(encoding): translation.decode(encoding)
        for message, translation in without_context_last
        if message and b"\0" not in message
    }
