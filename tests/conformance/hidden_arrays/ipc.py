"""CUDA's memory between processes without CUDA: blocks are files, which ranks in threads and in processes open alike.

Its owner writes to memory of its own; others see it as it was when the owner's host last waited for the device. What
has not been written is no number.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.conformance.hidden_arrays.stream import DEVICE

_NAME_BYTES = 64


class BlockError(AssertionError):
    """What CUDA leaves undefined: a block that is given back while others see it, or seen by the wrong ones."""


@dataclass(eq=False)
class Block:
    """Memory that a rank has allocated, and the file by which others see it, once it has been named."""

    memory: np.ndarray[Any, Any]
    owner: tuple[int, int]
    file: Path | None = None

    def show(self) -> None:
        """Let the others see what it holds."""
        if self.file is not None:
            seen = np.memmap(self.file, np.uint8, "r+")
            seen[...] = self.memory


@dataclass(eq=False)
class View:
    """A block of another, as it was opened."""

    memory: np.ndarray[Any, Any]
    file: Path
    mark: Path


_BLOCKS: dict[int, Block] = {}
_VIEWS: dict[int, View] = {}


def _rank() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def _allocate(byte_count: int) -> int:
    DEVICE.must_not_capture("memory is allocated")
    memory = np.full(byte_count, 0xFF, np.uint8)
    _BLOCKS[memory.ctypes.data] = Block(memory, _rank())
    return int(memory.ctypes.data)


def _name(address: int) -> bytes:
    block = _BLOCKS[address]
    if block.file is None:
        block.file = Path(tempfile.mkdtemp(prefix="mpi_ipc_")) / "block"
        block.memory.tofile(block.file)
        weakref.finalize(block, _remove, block.file)
        DEVICE.shown.append(block)
    name = str(block.file.parent).encode()
    if len(name) > _NAME_BYTES:
        raise BlockError(f"a name has {_NAME_BYTES} bytes, no room for {name!r}")
    return name.ljust(_NAME_BYTES, b"\0")


def _open(name: bytes) -> int:
    file = Path(name.rstrip(b"\0").decode()) / "block"
    if any(one.file == file and one.owner == _rank() for one in _BLOCKS.values()):
        raise RuntimeError("cudaErrorDeviceUninitialized: who has made a block cannot open it")
    memory = np.memmap(file, np.uint8, "r")
    mark = file.with_name(f"seen by {os.getpid()} at {memory.ctypes.data}")
    mark.touch()
    _VIEWS[memory.ctypes.data] = View(memory, file, mark)
    return int(memory.ctypes.data)


def _close(address: int) -> None:
    view = _VIEWS.pop(address)
    if not view.file.exists():
        raise BlockError("a block is closed after its owner has given it back")
    view.mark.unlink()


def _free(address: int) -> None:
    block = _BLOCKS.pop(address)
    if block.file is None:
        return
    if any(block.file.parent.glob("seen by *")):
        raise BlockError("a block is given back while others see it")
    DEVICE.shown.remove(block)
    _remove(block.file)


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
    if file.parent.exists() and not any(file.parent.iterdir()):
        file.parent.rmdir()


def blocks_left() -> int:
    """Return how many blocks the ranks of this process have, or see."""
    return len(_BLOCKS) + len(_VIEWS)


def forget_blocks() -> None:
    """Let all blocks go that ranks have left, as the end of a process does."""
    for view in _VIEWS.values():
        view.mark.unlink(missing_ok=True)
    for block in _BLOCKS.values():
        if block.file is not None:
            _remove(block.file)
    _VIEWS.clear()
    _BLOCKS.clear()


def memory_seen(interface: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return the memory at an address, which is a block's."""
    address = interface["data"][0]
    found = _BLOCKS.get(address) or _VIEWS.get(address)
    if found is None or interface["shape"] != found.memory.shape:
        raise BlockError(f"{interface['shape']} bytes at {address:#x} are no block of the device")
    return np.asarray(found.memory)


def runtime_of_blocks() -> dict[str, Any]:
    """Return the functions of CUDA's runtime for blocks."""
    return {
        "malloc": _allocate,
        "free": _free,
        "ipcGetMemHandle": _name,
        "ipcOpenMemHandle": _open,
        "ipcCloseMemHandle": _close,
    }
