"""The members of a ZIP file that others may have made: where each lies, and its content block by block."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from mpiparallel.checkpoint.formats.extent_file import read_at
from mpiparallel.errors import CheckpointError

_LONGEST_DIRECTORY = 1 << 24
_BLOCK = 1 << 20
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_LOCAL_MAGIC = b"PK\3\4"
# Encrypted, patched, strongly encrypted.
_UNREADABLE_FLAGS = 0x61
_UTF_8_FLAG = 0x800
# Deflate makes 1032 bytes of one at most.
_LARGEST_RATIO = 1032
_MALFORMED = (BadZipFile, NotImplementedError, ValueError, struct.error, OverflowError, EOFError)


class Member(NamedTuple):
    """A file in a ZIP file: ``stored_size`` bytes at ``offset``, which are ``size`` when they are inflated."""

    name: str
    offset: int
    stored_size: int
    size: int
    deflated: bool
    checksum: int


def read_directory(path: Path, descriptor: int) -> list[Member]:
    """Return the members of a ZIP file.

    Raises ``CheckpointError`` where it is none. It does so too for members that are encrypted, overlap, inflate to more
    than any content could, or whose names lead out of a folder. Raises ``OSError`` if reading fails.
    """
    with _DirectoryFile(os.dup(descriptor), "rb") as file:
        try:
            with ZipFile(file) as archive:
                infos, end = sorted(archive.infolist(), key=lambda info: info.header_offset), archive.start_dir
        except _MALFORMED as error:
            raise CheckpointError(f"{path}: is no ZIP file, or is damaged ({error}); restore the file") from error
    members = []
    for info in reversed(infos):
        members.append(_member(path, descriptor, info, end))
        end = info.header_offset
    return members[::-1]


def blocks(path: Path, descriptor: int, member: Member, step: int = _BLOCK) -> Iterator[bytes]:
    """Yield the content of a member, at most ``step`` bytes at a time.

    Raises ``CheckpointError`` where it is not what was compressed, ``OSError`` if reading fails.
    """
    stored = _stored_blocks(descriptor, member, step)
    return _inflated(path, member, stored, step) if member.deflated else stored


def _stored_blocks(descriptor: int, member: Member, step: int) -> Iterator[bytes]:
    for start in range(0, member.stored_size, step):
        block = bytearray(min(step, member.stored_size - start))
        read_at(descriptor, memoryview(block), member.offset + start)
        yield bytes(block)


def _inflated(path: Path, member: Member, stored: Iterator[bytes], step: int) -> Iterator[bytes]:
    refusal = CheckpointError(
        f'{path}: member "{member.name}" does not inflate to its {member.size} bytes; restore the file'
    )
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    made = 0
    for rest in stored:
        if inflater.eof:
            raise refusal
        full = True
        # A full block tells that there may be more, even if no input is left.
        while rest or full:
            try:
                inflated = inflater.decompress(rest, step)
            except zlib.error as error:
                raise refusal from error
            made += len(inflated)
            if made > member.size:
                raise refusal
            rest, full = inflater.unconsumed_tail, len(inflated) == step
            yield inflated
    if made != member.size or not inflater.eof or inflater.unused_data:
        raise refusal


def check_member_name(where: str, name: str) -> None:
    """Raise ``CheckpointError``, which begins with ``where``, if a file of that name could be put outside a folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise CheckpointError(f"{where}: the name leads out of the folder of an archive; choose another")


class _DirectoryFile(io.FileIO):
    """What ``ZipFile`` reads from: it would take a directory of any length into memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LONGEST_DIRECTORY:
            raise BadZipFile(f"a directory of {size} bytes")
        return super().read(-1 if size is None else size)


def _member(path: Path, descriptor: int, info: ZipInfo, following: int) -> Member:
    name = info.orig_filename
    where = f"{path}: member {name[:80]!r}"
    check_member_name(where, name)
    if info.flag_bits & _UNREADABLE_FLAGS or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise CheckpointError(f"{where} is encrypted or compressed by a rare method; use np.savez")
    deflated = info.compress_type == ZIP_DEFLATED
    if info.file_size > (_LARGEST_RATIO * info.compress_size if deflated else info.compress_size):
        raise CheckpointError(
            f"{where} would make {info.file_size} bytes of {info.compress_size}, which is impossible; restore the file"
        )
    if not deflated and info.file_size != info.compress_size:
        raise CheckpointError(f"{where} has {info.compress_size} bytes, not {info.file_size}; restore the file")
    offset = _content_offset(descriptor, info, following)
    if offset is None or offset + info.compress_size > following:
        raise CheckpointError(f"{where} is not where the directory says, or overlaps the next; restore the file")
    return Member(name, offset, info.compress_size, info.file_size, deflated, info.CRC)


def _content_offset(descriptor: int, info: ZipInfo, following: int) -> int | None:
    """Return where the content begins behind the local header, or None if there is no such header."""
    if not 0 <= info.header_offset <= following - _LOCAL_HEADER.size:
        return None
    header = bytearray(_LOCAL_HEADER.size)
    read_at(descriptor, memoryview(header), info.header_offset)
    magic, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    name = bytearray(name_length)
    start = info.header_offset + len(header)
    if magic != _LOCAL_MAGIC or start + name_length + extra_length > following:
        return None
    read_at(descriptor, memoryview(name), start)
    if name != info.orig_filename.encode("utf-8" if info.flag_bits & _UTF_8_FLAG else "cp437"):
        return None
    return int(start + name_length + extra_length)
