"""Loops compiled by numba, an optional extra, and kept for other processes, which run them without it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, Final

import numpy as np

from mpiparallel.backend.cache_folder import cache_folder, keep
from mpiparallel.compatibility.remark import remark
from mpiparallel.dataclass import dataclass
from mpiparallel.dtype import bfloat16

_OFF = ("0", "off", "no", "false")
_MADE_BY = ("jit.py", "loop_compiler.py", "machine_code.py", "half_conversion.py")
"""What is written there is part of each compiled loop."""
UNALIGNED: Final = "unaligned"
"""In the kind of an array: an element of it may begin at any byte."""
_DIGEST = 16
_PATIENCE = 10.0
_NAP = 0.01


def wanted(variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether loops may be compiled: not where ``MPIPARALLEL_JIT`` is 0, off, no or false.

    >>> wanted({"MPIPARALLEL_JIT": "0"})
    False
    """
    return variables.get("MPIPARALLEL_JIT", "").lower() not in _OFF


@dataclass
class Compiler:
    """What turns the source of a function named ``kernel`` into machine code, once for each kind of arguments."""

    _codes: dict[tuple[str, tuple[str, ...]], Any] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)

    def bind(self, source: str, arguments: tuple[Any, ...]) -> Callable[[], object] | None:
        """Return a call of the compiled function with these arguments: integers, and arrays of one dim in a row.

        It is None where the function cannot be compiled or run here.
        """
        kinds = tuple(map(_kind, arguments))
        with self._lock:
            if (source, kinds) not in self._codes:
                self._codes[source, kinds] = _code(source, kinds)
            code = self._codes[source, kinds]
        return None if code is None else code.bind(arguments)

    def converts(self, dtype: np.dtype[Any]) -> bool:
        """Return whether loops read and write floats of 16 bits of a dtype."""
        from mpiparallel.backend.machine_code import converts_float16

        return dtype == bfloat16 or converts_float16()


def is_there() -> bool:
    """Return whether loops would be compiled, without loading what compiles them."""
    return wanted() and _is_installed()


@cache
def _is_installed() -> bool:
    return find_spec("numba") is not None


def compiler() -> Compiler | None:
    """Return the compiler; None where numba is not installed or not wanted."""
    return _load() if wanted() else None


@cache
def _load() -> Compiler | None:
    try:
        from mpiparallel.backend.machine_code import knows_all_of_a_loop  # an optional extra, for the first loop
    except ImportError:
        return None
    if not knows_all_of_a_loop():
        remark("loops are not compiled: this numba is too old; pip install 'numba>=0.62', or set MPIPARALLEL_JIT=0")
        return None
    return Compiler()


def _kind(argument: Any) -> str:
    if isinstance(argument, int):
        return "int"
    return str(argument.dtype.str if argument.flags.aligned else f"{argument.dtype.str} {UNALIGNED}")


def _code(source: str, kinds: Sequence[str]) -> Any:
    """Return the machine code of a source, from the user's cache where it is there; None where it cannot be had."""
    from mpiparallel.backend.machine_code import loaded

    path = cache_folder() / f"loop_{_digest(repr((_compiled_by(), source, kinds)).encode()).hex()}.o"
    code = _kept(path)
    if code is None:
        with _locked(path.with_suffix(".lock")):
            code = _kept(path) or _compiled(source, kinds, path)
    return None if code is None else loaded(code)


def _compiled(source: str, kinds: Sequence[str], path: Path) -> bytes | None:
    try:
        from mpiparallel.backend.loop_compiler import compiled_loop  # half a second, for numba
    except ImportError:
        return None
    code = compiled_loop(source, kinds)
    keep(path, _digest(code) + code)
    return code


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process of a host compile what all its ranks need; wait a while for one that does, and not for ever."""
    with ExitStack() as opened:
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_own(path.parent):
                file = opened.enter_context(path.open("ab"))
                opened.callback(_remove, path)
                until = time.monotonic() + _PATIENCE
                while not _lock(file) and time.monotonic() < until:
                    time.sleep(_NAP)
        yield


def _lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _is_own(folder: Path) -> bool:
    return folder.stat().st_uid == os.getuid()


def _kept(path: Path) -> bytes | None:
    """Return the code in a file of the user's own; None where there is none, or it is damaged."""
    try:
        content = path.read_bytes() if _is_own(path.parent) else b""
    except OSError:
        return None
    digest, code = content[:_DIGEST], content[_DIGEST:]
    return code if _digest(code) == digest else None


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()


@cache
def _compiled_by() -> tuple[object, ...]:
    from importlib.metadata import version

    from mpiparallel.backend.machine_code import host_description

    own = (Path(__file__).with_name(name).read_bytes() for name in _MADE_BY)
    return version("numba"), host_description(), _digest(b"".join(own))
