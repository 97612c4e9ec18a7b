"""The protobuf message of MindSpore's checkpoints, read and written piece by piece.

protobuf's own parser needs all of a message in memory, and takes none of more than 2 GiB. But a checkpoint is a
sequence of values with a length each. So here only what is around the content of the tensors is read and made. Source:
``checkpoint.proto`` of MindSpore, no package, proto2::

    message Checkpoint  { message Value { required string tag = 1;
                                          oneof value { TensorProto tensor = 2; MapTensorProto maptensor = 3; } }
                          repeated Value value = 1; }
    message TensorProto { repeated int64 dims = 1; required string tensor_type = 2; required bytes tensor_content = 3; }

Two fields of ``Checkpoint`` are ours, ``int64 rank = 50001`` and ``int64 ranks = 50002``: whose slices are in the file.
MindSpore passes over them, as protobuf does over every field that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from mpiparallel.checkpoint.formats.extent_file import Extent, read_at
from mpiparallel.errors import CheckpointError

_WINDOW = 1 << 16
# UTF-8 has up to four bytes for each of the 4096 characters of a name.
_LONGEST_TAG = 4 * 4096
_LONGEST_TYPE = 16
_MOST_DIMS = 32
_MOST_VALUES = 1 << 20
# Field number * 8 + wire type, as protobuf writes it: 0 for a number, 2 for a length and as many bytes.
_VALUE = _TAG = 0x0A
_TENSOR = _TYPE = 0x12
_MAP_TENSOR = _CONTENT = 0x1A
_DIM = 0x08
OWN_NUMBERS: Final[Mapping[str, int]] = MappingProxyType({"rank": 50001, "ranks": 50002})
"""The numbers that MindSpore passes over, with their fields."""
_OWN_NAMES = {field << 3: name for name, field in OWN_NUMBERS.items()}


class CheckpointValue(NamedTuple):
    """One value of a checkpoint: all of a tensor, or as many of its bytes as fit in one message."""

    tag: str
    dims: tuple[int, ...]
    tensor_type: str
    content: Extent


def head_of_value(tag: str, dims: tuple[int, ...], tensor_type: str, nbytes: int) -> bytes:
    """Return what comes before the ``nbytes`` bytes of a tensor's content.

    >>> head_of_value("w", (300,), "Bool", 300).hex(" ")
    '0a be 02 0a 01 77 12 b8 02 08 ac 02 12 04 42 6f 6f 6c 1a ac 02'
    """
    name, kind = tag.encode(), tensor_type.encode()
    tensor = b"".join(bytes([_DIM]) + _varint(dim) for dim in dims)
    tensor += bytes([_TYPE]) + _varint(len(kind)) + kind + bytes([_CONTENT]) + _varint(nbytes)
    value = bytes([_TAG]) + _varint(len(name)) + name + bytes([_TENSOR]) + _varint(len(tensor) + nbytes) + tensor
    return bytes([_VALUE]) + _varint(len(value) + nbytes) + value


def own_number(name: str, number: int) -> bytes:
    """Return one of ``OWN_NUMBERS``, from 0 to 2**63 - 1, as a field of the whole message.

    >>> own_number("rank", 3).hex(" ")
    '88 b5 18 03'
    """
    return _varint(OWN_NUMBERS[name] << 3) + _varint(number)


def read_values(
    path: Path, descriptor: int, length: int, numbers: MutableMapping[str, int]
) -> Iterator[CheckpointValue]:
    """Yield the values in the first ``length`` bytes of a file; no content is read. ``numbers`` gets ``OWN_NUMBERS``.

    Raises ``CheckpointError`` at the first byte that MindSpore would not have written, ``OSError`` if reading fails.
    """
    reader = _Reader(path, descriptor, length)
    count = 0
    while reader.position < length:
        count += 1
        if count > _MOST_VALUES:
            raise CheckpointError(f"{path}: has more than {_MOST_VALUES} values; no checkpoint of MindSpore does")
        key = reader.number()
        own = _OWN_NAMES.get(key)
        if own is None:
            reader.check_key(key, _VALUE, "a value")
            yield _read_value(reader, length)
        elif own in numbers:
            raise reader.refusal(f"its {own} is told twice")
        else:
            numbers[own] = reader.number()


def _read_value(reader: _Reader, length: int) -> CheckpointValue:
    end = reader.end_of_part(length)
    reader.expect(_TAG, "its tag")
    tag = reader.text(_LONGEST_TAG, end)
    key = reader.number()
    if key == _MAP_TENSOR:
        raise reader.refusal(f'"{tag}" is a MapTensor, which has no fixed shape: leave it out')
    if key != _TENSOR or reader.end_of_part(end) != end:
        raise reader.refusal(f'"{tag}" is followed by no tensor')
    dims: list[int] = []
    key = reader.number()
    while key == _DIM and len(dims) < _MOST_DIMS:
        dims.append(reader.number())
        key = reader.number()
    if key != _TYPE:
        raise reader.refusal(f'"{tag}" has more than {_MOST_DIMS} dims, or no type after them')
    kind = reader.text(_LONGEST_TYPE, end)
    reader.expect(_CONTENT, "its content")
    if reader.end_of_part(end) != end:
        raise reader.refusal(f'"{tag}" has something after its content')
    content = Extent(reader.position, end - reader.position)
    reader.position = end
    return CheckpointValue(tag, tuple(dims), kind, content)


class _Reader:
    """Numbers and texts of a file from ``position`` on, read by way of a small window."""

    def __init__(self, path: Path, descriptor: int, length: int) -> None:
        self.position = 0
        self._path = path
        self._descriptor = descriptor
        self._length = length
        self._start = 0
        self._window = b""

    def number(self) -> int:
        """Return the varint at the position, from 0 to 2**63 - 1, in as few bytes as it can be written in."""
        value = 0
        for shift in range(0, 63, 7):
            byte = self._bytes(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if not byte and shift:
                    break
                return value
        raise self.refusal("a number is negative or written in too many bytes")

    def text(self, longest: int, end: int) -> str:
        """Return the text at the position, which ends before ``end``."""
        stop = self.end_of_part(end)
        if stop - self.position > longest:
            raise self.refusal(f"a text has {stop - self.position} bytes, more than {longest}")
        try:
            return self._bytes(stop - self.position).decode()
        except UnicodeDecodeError as error:
            raise self.refusal("a text is not UTF-8") from error

    def end_of_part(self, end: int) -> int:
        """Return where the part ends whose length is at the position; it must lie before ``end``."""
        length = self.number()
        if length > end - self.position:
            raise self.refusal(f"{length} bytes should follow, but only {max(0, end - self.position)} do")
        return self.position + length

    def expect(self, key: int, noun: str) -> None:
        """Pass over the key of a field. Raises ``CheckpointError`` if there is another."""
        self.check_key(self.number(), key, noun)

    def check_key(self, found: int, key: int, noun: str) -> None:
        """Raise ``CheckpointError`` unless the key that was ``found`` is ``key``."""
        if found != key:
            raise self.refusal(f"the key {found:#x} stands where {noun}, {key:#x}, should")

    def refusal(self, reason: str) -> CheckpointError:
        """Return the error for what is not right near the position."""
        return CheckpointError(
            f"{self._path}: near byte {self.position}: {reason}; the file is no MindSpore checkpoint but, for "
            "instance, a strategy file, or is encrypted or damaged: restore it"
        )

    def _bytes(self, count: int) -> bytes:
        if count > self._length - self.position:
            raise self.refusal("the file ends in the middle of a value")
        first = self.position - self._start
        if first < 0 or first + count > len(self._window):
            window = bytearray(min(_WINDOW, self._length - self.position))
            read_at(self._descriptor, memoryview(window), self.position)
            self._start, self._window, first = self.position, bytes(window), 0
        self.position += count
        return self._window[first : first + count]


def _varint(number: int) -> bytes:
    low = bytearray()
    while number > 0x7F:
        low.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(low) + bytes([number])
