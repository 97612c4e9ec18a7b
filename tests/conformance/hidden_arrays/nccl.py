"""NCCL between ranks that have no GPU: real ranks, threads or processes of a host, which meet in a folder.

A call reads what it sends when it is given, and writes what arrives only when its stream is waited for; until then the
target holds no numbers. What NCCL would answer with a hang, or with wrong numbers, raises here: calls of members that
differ, memory of the host, and a result that is used before its stream was waited for (see ``stream``).
"""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from tests.conformance.hidden_arrays.array import OWNERS
from tests.conformance.hidden_arrays.stream import DEVICE, HiddenStream

_TYPES = {0: "i1", 1: "u1", 2: "i4", 3: "u4", 4: "i8", 5: "u8", 6: "f2", 7: "f4", 8: "f8"}
_REDUCE = {0: np.add, 1: np.multiply, 2: np.maximum, 3: np.minimum}
_NAP = 0.0005
_PATIENCE = 60.0


class NcclMismatchError(AssertionError):
    """Calls of members that differ: NCCL would wait for ever, or add up what does not belong together."""


class HostMemoryError(AssertionError):
    """An address that is none of a device's memory."""


class NcclError(RuntimeError):
    """What CuPy raises for an error of NCCL."""


Header = list[Any]


class Board:
    """What members have posted, in files that are there as a whole or not at all."""

    def __init__(self, folder: Path, member: int, size: int) -> None:
        self.folder = folder
        self.member = member
        self.size = size

    def post(self, key: str, header: Header, content: bytes) -> None:
        """Post under a key."""
        draft = self.folder / f".{key}.{self.member}"
        draft.write_bytes(json.dumps(header).encode() + b"\n" + content)
        draft.rename(self.folder / f"{key}.{self.member}")

    def taken(self, key: str, member: int) -> tuple[Header, bytes] | None:
        """Return what a member has posted, None where it has not yet."""
        try:
            head, _, content = (self.folder / f"{key}.{member}").read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        return json.loads(head), content

    def die(self) -> None:
        """Let the devices of the others know that they wait in vain; their hosts do not hear of it."""
        (self.folder / f"dead.{self.member}").touch()

    def is_dead(self, member: int) -> bool:
        """Return whether a member has died."""
        return (self.folder / f"dead.{member}").exists()


class NcclTransfer:
    """A call that was given to a stream: ``needed`` are the members whose posts under ``key`` it wants."""

    def __init__(
        self,
        communicator: NcclCommunicator,
        key: str,
        header: Header,
        needed: list[int],
        land: Callable[[dict[int, bytes]], None],
    ) -> None:
        self._communicator = communicator
        self._key, self._header, self._needed = key, header, needed
        self._land: Callable[[dict[int, bytes]], None] | None = land

    def has_ended(self) -> bool:
        if self._land is None or self._communicator.aborted:
            return True
        posts = {member: self._communicator.board.taken(self._key, member) for member in self._needed}
        found: dict[int, bytes] = {}
        for member, post in posts.items():
            if post is None:
                return False
            if post[0] != self._header:
                raise NcclMismatchError(
                    f"member {member} calls {post[0]}, member {self._communicator.board.member} {self._header}"
                )
            found[member] = post[1]
        land, self._land = self._land, None
        land(found)
        return True

    def end(self) -> None:
        start = time.monotonic()
        while not self.has_ended():
            if any(self._communicator.board.is_dead(member) for member in self._needed):
                return
            if time.monotonic() - start > _PATIENCE:
                raise NcclMismatchError(f"{self._header}: members {self._needed} have not all called it")
            time.sleep(_NAP)


def memory_at(address: int, count: int, code: int) -> np.ndarray[Any, Any]:
    """Return the elements of a device's memory at an address."""
    dtype = np.dtype(_TYPES[code])
    length = count * dtype.itemsize
    # A list at once: other ranks, which are threads, make arrays meanwhile.
    owners = [reference.key for reference in OWNERS.valuerefs()]
    if length and not any(start <= address and address + length <= stop for start, stop, _ in owners):
        raise HostMemoryError(f"{length} bytes at {address:#x} are not in the device's memory")
    return np.frombuffer((ctypes.c_char * max(length, 1)).from_address(address), dtype, count)


class NcclCommunicator:
    """The members of a group, by the folder that their id names; ``log`` has what this one was asked for."""

    made: ClassVar[list[NcclCommunicator]] = []

    def __init__(self, size: int, identity: bytes, rank: int) -> None:
        if len(identity) != 128:
            raise NcclError("an id has 128 bytes")
        self.board = Board(Path(identity.rstrip(b"\0").decode()), rank, size)
        self.log: list[tuple[Any, ...]] = []
        self.aborted = self.destroyed = False
        self._calls = 0
        self._pairs: dict[tuple[int, int], int] = {}
        self.made.append(self)

    def allReduce(self, sent: int, received: int, count: int, code: int, operation: int, stream: int) -> None:  # noqa: N802
        self._collective(["allReduce", count, code, operation], sent, received, count, code, stream, operation, None)

    def reduce(self, sent: int, received: int, count: int, code: int, operation: int, root: int, stream: int) -> None:
        header = ["reduce", count, code, operation, root]
        self._collective(header, sent, received if self._is(root) else 0, count, code, stream, operation, None)

    def reduceScatter(self, sent: int, received: int, count: int, code: int, operation: int, stream: int) -> None:  # noqa: N802
        header = ["reduceScatter", count, code, operation]
        self._collective(header, sent, received, count, code, stream, operation, self.board.member)

    def allGather(self, sent: int, received: int, count: int, code: int, stream: int) -> None:  # noqa: N802
        target, size = memory_at(received, count * self.board.size, code), self.board.size

        def land(posts: dict[int, bytes]) -> None:
            for member in range(size):
                target[member * count : (member + 1) * count] = np.frombuffer(posts[member], target.dtype)

        self._give(["allGather", count, code], memory_at(sent, count, code), target, stream, land)

    def broadcast(self, sent: int, received: int, count: int, code: int, root: int, stream: int) -> None:
        source, target = memory_at(sent, count, code), memory_at(received, count, code)

        def land(posts: dict[int, bytes]) -> None:
            target[...] = np.frombuffer(posts[root], target.dtype)

        self._give(["broadcast", count, code, root], source, target, stream, land)

    def send(self, sent: int, count: int, code: int, peer: int, stream: int) -> None:
        _must_be_grouped("send")
        source = memory_at(sent, count, code)

        def begin() -> None:
            self.log.append(("send", count, code, peer, stream))
            _use(_stream(stream), source, is_written=False)
            self.board.post(self._pair(self.board.member, peer), ["send", count, code], source.tobytes())

        DEVICE.give(_stream(stream), begin, ("send", sent, count, code, peer))

    def recv(self, received: int, count: int, code: int, peer: int, stream: int) -> None:
        _must_be_grouped("recv")
        target = memory_at(received, count, code)

        def land(posts: dict[int, bytes]) -> None:
            target[...] = np.frombuffer(posts[peer], target.dtype)

        def begin() -> None:
            self.log.append(("recv", count, code, peer, stream))
            key = self._pair(peer, self.board.member)
            self._begin(NcclTransfer(self, key, ["send", count, code], [peer], land), target, _stream(stream))

        DEVICE.give(_stream(stream), begin, ("recv", received, count, code, peer))

    def check_async_error(self) -> None:
        """Report nothing: who has died NCCL does not know."""

    def abort(self) -> None:
        self.aborted = True

    def destroy(self) -> None:
        self.destroyed = True

    def _is(self, member: int) -> bool:
        return self.board.member == member

    def _collective(
        self,
        header: Header,
        sent: int,
        received: int,
        count: int,
        code: int,
        stream: int,
        operation: int,
        block: int | None,
    ) -> None:
        whole = count if block is None else count * self.board.size
        source = memory_at(sent, whole, code)
        target = memory_at(received, count, code) if received else None

        def land(posts: dict[int, bytes]) -> None:
            parts = [np.frombuffer(posts[member], source.dtype) for member in range(self.board.size)]
            total = parts[0].copy()
            with np.errstate(all="ignore"):
                for part in parts[1:]:
                    _REDUCE[operation](total, part, out=total)
            if target is not None:
                target[...] = total if block is None else total[block * count : (block + 1) * count]

        self._give(header, source, target, stream, land)

    def _give(self, header: Header, source: Any, target: Any, stream: int, land: Callable[..., None]) -> None:
        where = _stream(stream)
        is_in_a_graph = DEVICE.recorded is not None

        def begin() -> None:
            self._calls += 1
            # NCCL wants a call in a graph on all its ranks, or on none.
            told = [*header, "in a graph"] if is_in_a_graph else header
            self.log.append((*told, stream))
            self.board.post(f"call{self._calls}", told, source.tobytes())
            _use(where, source, is_written=False)
            transfer = NcclTransfer(self, f"call{self._calls}", told, list(range(self.board.size)), land)
            self._begin(transfer, target, where)

        DEVICE.give(where, begin, (*header, source.ctypes.data))

    def _begin(self, transfer: NcclTransfer, target: Any, stream: HiddenStream) -> None:
        if target is not None and target.size:
            _use(stream, target, is_written=True)
            target.view(np.uint8)[...] = 0xFF
        stream.transfers.append(transfer)

    def _pair(self, source: int, target: int) -> str:
        number = self._pairs[source, target] = self._pairs.get((source, target), 0) + 1
        return f"pair{source}to{target}no{number}"


def _use(stream: HiddenStream, array: np.ndarray[Any, Any], *, is_written: bool) -> None:
    """Count a use of memory; the calls before are not waited for: the stream does them in their order."""
    before, stream.transfers = stream.transfers, []
    stream.uses([array], [array] if is_written else [])
    stream.transfers = before


_GROUP = threading.local()


def _group_start() -> None:
    _GROUP.is_open = True


def _group_end() -> None:
    _GROUP.is_open = False


def _must_be_grouped(call: str) -> None:
    if not getattr(_GROUP, "is_open", False):
        raise NcclMismatchError(f"{call} outside of a group: the device would wait for its peer before it goes on")


def _stream(pointer: int) -> HiddenStream:
    found = next((one for one in DEVICE.streams() if one.ptr == pointer), None)
    if found is None:
        raise NcclError("this is none of the device's streams")
    return found


def hidden_nccl(folder: Path | None) -> Any:
    """Return what takes the place of ``cupy.cuda.nccl``; without a folder NCCL cannot be loaded."""

    def get_unique_id() -> bytes:
        made = tempfile.mkdtemp(prefix=f"nccl_{os.getpid()}_", dir=folder)
        return made.encode().ljust(128, b"\0")

    return SimpleNamespace(
        available=folder is not None,
        get_version=lambda: 23203,
        get_unique_id=get_unique_id,
        groupStart=_group_start,
        groupEnd=_group_end,
        NcclCommunicator=NcclCommunicator,
        NcclError=NcclError,
    )
