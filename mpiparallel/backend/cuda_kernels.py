"""CUDA texts loaded on one device, each compiled once and kept on disk for other processes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from mpiparallel.backend.cache_folder import cache_folder, keep
from mpiparallel.backend.gpu.diagnosis import too_old_for_16_bits
from mpiparallel.backend.nvrtc import OPTIONS, Nvrtc
from mpiparallel.backend.protocol import AddressTable, Array
from mpiparallel.errors import ConfigurationError


class CudaKernels:
    """Kernels for ``architecture``, such as "sm_90".

    ``make_module`` makes CuPy's ``Module``, which loads them; ``to_device`` copies a host array.
    """

    def __init__(self, make_module: Callable[[], Any], architecture: str, to_device: Callable[[Any], Array]) -> None:
        self._make_module = make_module
        self._to_device = to_device
        self._architecture = architecture
        self._compiler: Nvrtc | None = None
        self._functions: dict[str, Any] = {}
        self._lock = Lock()

    def bind(self, name: str, text: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> Callable[[], object]:
        """Return a launch on the current stream of the function ``name`` of a text."""
        with self._lock:
            if name not in self._functions:
                module = self._make_module()
                module.load(self._machine_code(text))
                self._functions[name] = module.get_function(name)
        given = tuple(self._addresses(one) if isinstance(one, AddressTable) else one for one in arguments)
        return partial(_run, self._functions[name], (blocks,), (threads,), given, arguments)

    def _addresses(self, table: AddressTable) -> Array:
        return self._to_device(np.array([one.data.ptr for one in table.arrays], np.uint64))

    def _machine_code(self, text: str) -> bytes:
        if self._compiler is None:
            self._compiler = Nvrtc()
        path = _path(text, self._architecture, self._compiler.version)
        try:
            return path.read_bytes()
        except OSError:
            pass
        code = self._compiled(self._compiler, text)
        keep(path, code)
        return code

    def _compiled(self, compiler: Nvrtc, text: str) -> bytes:
        try:
            return compiler.compile(text, self._architecture).machine_code
        except ConfigurationError as error:
            too_old = too_old_for_16_bits(self._architecture.removeprefix("sm_"))
            if too_old is None:
                raise
            raise ConfigurationError(f"this GPU {too_old}") from error


def _run(
    function: Any, blocks: tuple[int], threads: tuple[int], given: tuple[Any, ...], _kept: tuple[Any, ...]
) -> object:
    """Launch a function; what it is given only the addresses of lives as long as the launch."""
    return function(blocks, threads, given)


def _path(text: str, architecture: str, version: str) -> Path:
    parts = "\x1f".join((text, architecture, version, *OPTIONS))
    return cache_folder() / f"kernel_{hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()}.cubin"
