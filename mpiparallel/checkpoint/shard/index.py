"""What a shard says about itself: an index of its arrays, and a footer that says where the index is.

The index is JSON. It has the attributes; of each array the name, dtype, shape, place, and the digests of its blocks;
and the digest of the skeleton. The skeleton is every byte before the footer that is neither an array's nor the index's.
The footer is the last 56 bytes. It has the magic, the version, the index's offset and length, XXH3-128 of the index,
and XXH3-64 of the rest of the footer. So each byte of a shard is under a digest.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from json.encoder import encode_basestring_ascii
from math import prod
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np
import xxhash

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import Attribute
from mpiparallel.checkpoint.shard.block_digest import DIGEST_LENGTH, block_count
from mpiparallel.dtype import dtype_text

_DTYPES = {
    name: np.dtype(name)
    for name in (
        "|b1",
        "|i1",
        "|u1",
        "<i2",
        "<u2",
        "<i4",
        "<u4",
        "<i8",
        "<u8",
        "<f2",
        "bfloat16",
        "<f4",
        "<f8",
        "<c8",
        "<c16",
    )
}
_ARRAY_FIELDS = {"name": str, "dtype": str, "shape": list, "dataset": str, "first": int, "offset": int, "blocks": str}
MAX_DIMS = 32
MAX_NAME_LENGTH = 1024
MAX_INDEX_LENGTH = 1 << 25
# Brackets and commas: they bound what the index takes in memory once it is parsed.
_MAX_INDEX_ITEMS = 1 << 20
_FORMAT = "mpiparallel shard"
_FOOTER = struct.Struct("<8sQQQ16s")
_MAGIC = b"\x93mpshard"
_VERSION = 1
FOOTER_LENGTH = _FOOTER.size + 8
# Smaller arrays are fused: to make a dataset takes longer than to write them.
FUSED_LENGTH = 64 * 1024


class ArrayLocation(NamedTuple):
    """Where an array is: from element ``first`` of HDF5 dataset ``dataset`` on, at byte ``offset`` of the file."""

    dataset: str
    first: int
    offset: int


class StoredArray(NamedTuple):
    """An array in a shard; ``table`` are the digests of its blocks."""

    info: TensorSpec
    place: ArrayLocation
    table: bytes

    @property
    def extent(self) -> tuple[int, int]:
        """Start and stop of its bytes in the file."""
        return self.place.offset, self.place.offset + self.info.byte_count


class IndexDraft:
    """An index whose digests are not known yet; its ``length`` in bytes is.

    Raises ``ValueError`` if the index is too long.
    """

    def __init__(
        self, attributes: Mapping[str, Attribute], infos: Mapping[str, TensorSpec], places: Mapping[str, ArrayLocation]
    ) -> None:
        attributes_text = json.dumps(attributes, separators=(",", ":"))
        self._start = f'{{"format":"{_FORMAT}","attributes":{attributes_text},"skeleton":"'
        self._arrays = {name: _described(name, info, places[name]) for name, info in infos.items()}
        content = self.encode(dict.fromkeys(infos, b""), bytes(16))
        # Two digits a byte.
        self.length = len(content) + 2 * sum(map(_table_length, infos.values()))
        if self.length > MAX_INDEX_LENGTH or _item_count(content) > _MAX_INDEX_ITEMS:
            raise ValueError(f"{len(infos)} arrays and {len(attributes)} attributes are too many for one file")

    def encode(self, tables: Mapping[str, bytes], skeleton: bytes) -> bytes:
        """Return the index with the table of each array and the digest of the skeleton."""
        entries = ",".join([f'{start}{tables[name].hex()}"}}' for name, start in self._arrays.items()])
        return f'{self._start}{skeleton.hex()}","arrays":[{entries}]}}'.encode()


class Index(NamedTuple):
    """What is in a shard; ``skeleton`` is the digest of all that is around the arrays."""

    attributes: Mapping[str, Attribute]
    arrays: Mapping[str, StoredArray]
    skeleton: bytes

    @classmethod
    def decode(cls, content: bytes | bytearray) -> Index:
        """Return the index that ``content`` is. Raises ``ValueError`` that says what is wrong with it."""
        if not content.isascii() or _item_count(content) > _MAX_INDEX_ITEMS:
            raise ValueError(f"is no ASCII text of at most {_MAX_INDEX_ITEMS} items")
        try:
            described = json.loads(content)
        except RecursionError as error:
            raise ValueError("is nested too deeply") from error
        fields = {"format": str, "attributes": dict, "skeleton": str, "arrays": list}
        (found,), (attributes,), (skeleton,), (entries,) = _columns([described], "the file", fields)
        if found != _FORMAT:
            raise ValueError(f'is of format "{found[:40]}", not "{_FORMAT}"')
        for name, value in attributes.items():
            check_attribute(name, value)
        arrays = _stored(entries)
        if len(arrays) != len(entries):
            raise ValueError("names an array twice")
        return cls(attributes, arrays, bytes.fromhex(skeleton))


def gaps(extents: Iterable[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """Return the stretches of bytes before ``end`` that are outside of all ``extents``, each as start and stop.

    Raises ``ValueError`` if extents overlap or are not all before ``end``.

    >>> gaps([(8, 9), (2, 5)], 9)
    [(0, 2), (5, 8)]
    """
    taken = [(0, 0), *sorted(extent for extent in extents if extent[0] != extent[1]), (end, end)]
    for before, after in pairwise(taken):
        if before[1] > after[0]:
            raise ValueError(f"puts two things at bytes {list(before)} and {list(after)}, of {end} in all")
    return [(before[1], after[0]) for before, after in pairwise(taken) if before[1] != after[0]]


class Footer(NamedTuple):
    """Where the index is and its digest."""

    offset: int
    length: int
    digest: bytes

    def encode(self) -> bytes:
        """Return the footer's bytes."""
        content = _FOOTER.pack(_MAGIC, _VERSION, *self)
        return content + xxhash.xxh3_64_digest(content)

    @classmethod
    def decode(cls, content: bytes) -> Footer:
        """Return the footer that ``content`` is. Raises ``ValueError`` that says what is wrong with it."""
        if len(content) != FOOTER_LENGTH or xxhash.xxh3_64_digest(content[:-8]) != content[-8:]:
            raise ValueError("has no sound footer")
        magic, version, offset, length, digest = _FOOTER.unpack(content[:-8])
        if (magic, version) != (_MAGIC, _VERSION):
            raise ValueError(f"has a footer of version {version}, not {_VERSION}")
        return cls(offset, length, digest)


def check_name(name: object) -> None:
    """Raise ``ValueError`` if an array cannot have that name."""
    if not isinstance(name, str) or not name or not name.isprintable() or len(name.encode()) > MAX_NAME_LENGTH:
        shown = repr(name) if len(repr(name)) <= 80 else f"{repr(name)[:77]}..."
        raise ValueError(
            f"{shown} cannot name an array; use a text of at most {MAX_NAME_LENGTH} bytes without control characters"
        )


def check_info(info: TensorSpec) -> None:
    """Raise ``ValueError`` if no array of that shape and dtype can be stored."""
    if dtype_text(info.dtype) not in _DTYPES:
        raise ValueError(f"has dtype {info.dtype}; use bool, integers, float or complex in little-endian byte order")
    if len(info.shape) > MAX_DIMS or min(info.shape, default=0) < 0:
        raise ValueError(f"has shape {info.shape!s:.200}; use at most {MAX_DIMS} dims")
    if prod([extent or 1 for extent in info.shape]) * info.dtype.itemsize >= 1 << 62:
        raise ValueError(f"has shape {info.shape!s:.200}, which no memory holds")


def check_attribute(name: object, value: object) -> None:
    """Raise ``ValueError`` if there can be no such attribute."""
    known = isinstance(name, str) and isinstance(value, (str, int, float)) and not isinstance(value, bool)
    if not known or (isinstance(value, int) and not -(1 << 63) <= value < 1 << 63):
        raise ValueError(
            f"attribute {name!r:.80} is {value!r:.80}; use a name with a text, a float or an integer of 64 bits"
        )


def _item_count(content: bytes | bytearray) -> int:
    return sum(map(content.count, (b",", b"[", b"{")))


def _described(name: str, info: TensorSpec, place: ArrayLocation) -> str:
    """Return the JSON of an array up to its digests."""
    shape = list(map(int, info.shape))
    return (
        f'{{"name":{encode_basestring_ascii(name)},"dtype":"{dtype_text(info.dtype)}","shape":{shape},"dataset":'
        f'"{place.dataset}","first":{place.first},"offset":{place.offset},"blocks":"'
    )


def _table_length(info: TensorSpec) -> int:
    return block_count(info.byte_count) * DIGEST_LENGTH


def _stored(entries: Sequence[object]) -> dict[str, StoredArray]:
    """Return the place of each array by its name, once it is sure that all entries are sound.

    There may be tens of thousands, so they are looked at field by field: what all have of one kind at once.
    """
    names, dtypes, shapes, datasets, firsts, offsets, blocks = _columns(entries, "an array", _ARRAY_FIELDS)
    for name in names:
        check_name(name)
    infos = _infos(names, dtypes, shapes)
    tables = list(map(bytes.fromhex, blocks))
    # Those that are alike are one object, and objects are told apart faster than what they say.
    lengths = {key: _table_length(info) for key, info in {id(info): info for info in infos}.items()}
    if list(map(len, tables)) != [lengths[key] for key in map(id, infos)]:
        rows = zip(names, infos, tables, strict=True)
        name, info, table = next(row for row in rows if len(row[2]) != lengths[id(row[1])])
        raise ValueError(f'says that array "{name}" has {len(table)} bytes of digests for {info.byte_count} bytes')
    if min((*firsts, *offsets), default=0) < 0 or not all(dataset.isprintable() for dataset in set(datasets)):
        places = zip(names, firsts, datasets, offsets, strict=True)
        name, first, dataset, offset = next(row for row in places if min(row[1::2]) < 0 or not row[2].isprintable())
        raise ValueError(f'says that array "{name}" is element {first} of {dataset!r:.80}, at byte {offset}')
    found = map(StoredArray, infos, map(ArrayLocation, datasets, firsts, offsets), tables)
    return dict(zip(names, found, strict=True))


def _infos(names: Sequence[str], dtypes: Sequence[str], shapes: Sequence[list[Any]]) -> list[TensorSpec]:
    """Return shape and dtype of each array; those that are alike are one."""
    if not _DTYPES.keys() >= set(dtypes) or not {int} >= set(map(type, chain.from_iterable(shapes))):
        rows = zip(names, dtypes, shapes, strict=True)
        name, dtype, shape = next(row for row in rows if row[1] not in _DTYPES or {int} < {int, *map(type, row[2])})
        raise ValueError(f'says that array "{name}" has dtype {dtype!r:.40} and shape {shape!r:.80}')
    alike = list(zip(dtypes, map(tuple, shapes), strict=True))
    known = {(dtype, shape): TensorSpec(shape, _DTYPES[dtype]) for dtype, shape in set(alike)}
    for info in known.values():
        check_info(info)
    return [known[one] for one in alike]


def _columns(described: Sequence[object], what: str, kinds: Mapping[str, type]) -> list[Sequence[Any]]:
    """Return what all of ``described`` have under each name in ``kinds``, once it is sure that it is of these."""
    for one in described:
        if type(one) is not dict or one.keys() != kinds.keys():
            raise ValueError(f"does not say {', '.join(kinds)} of {what}")
    rows: Iterable[Sequence[Any]] = map(itemgetter(*kinds), cast(Sequence[dict[str, Any]], described))
    columns: list[Sequence[Any]] = [*zip(*rows, strict=True)] or [()] * len(kinds)
    for (name, kind), column in zip(kinds.items(), columns, strict=True):
        if not {kind} >= set(map(type, column)):
            raise ValueError(f"gives {what} {name} that is no {kind.__name__}")
    return columns
