"""CUDA texts compiled by g++ with sanitizers, and run on the CPU in three orders of threads."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.graph.expression.cuda.prelude import PRELUDE

HEADERS = Path(__file__).parent
FLAGS = ("-std=c++17", "-O0", "-g1", "-w", "-ffp-contract=off", "-fno-strict-aliasing")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
NO_COMPILER = "there is no g++ to compile CUDA texts for the CPU"


def compiler() -> str | None:
    """Return g++, where it is."""
    return shutil.which("g++")


class KernelFaultError(AssertionError):
    """A kernel that gives other results in another order of threads, or that a sanitizer stopped."""


@dataclass
class EmulatedKernels:
    """What binds texts as a GPU's kernels do; all that are bound are compiled at once, when the first is called."""

    folder: Path
    texts: dict[str, str] = field(default_factory=dict)
    launches: list[tuple[str, int, int, tuple[Any, ...]]] = field(default_factory=list)
    mutate: Callable[[str], str] = str
    _server: subprocess.Popen[bytes] | None = None
    _compiled: list[str] = field(default_factory=list)

    def bind(self, name: str, text: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> Callable[[], object]:
        """Remember a text and return its launch."""
        self.texts[name] = text
        self.launches.append((name, blocks, threads, arguments))
        return lambda: self._launch(name, blocks, threads, arguments)

    def close(self) -> None:
        """End the program that runs them."""
        if self._server is not None:
            self._server.communicate()

    def _launch(self, name: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> None:
        if name not in self._compiled:
            self.close()
            self._server = self._start()
        head = struct.pack("4i", self._compiled.index(name), blocks, threads, len(arguments))
        views = [_memory(one) for one in arguments if isinstance(one, np.ndarray)]
        message = [head]
        for one in arguments:
            if isinstance(one, np.ndarray):
                view = _memory(one)
                message.append(struct.pack("<iqq", 1, view.nbytes, one.ctypes.data % 64) + view.tobytes())
            else:
                message.append(struct.pack("<iq", 0, int(one)))
        differs, found = self._answer(name, b"".join(message), sum(view.nbytes for view in views))
        if differs:
            raise KernelFaultError(f"{name} gives other results in another order of threads:\n{self.texts[name]}")
        for view in views:
            own, found = found[: view.nbytes], found[view.nbytes :]
            if own != view.tobytes():
                view[...] = np.frombuffer(own, np.uint8)

    def _answer(self, name: str, message: bytes, size: int) -> tuple[int, bytes]:
        server = self._server
        assert server is not None
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(message)
            server.stdin.flush()
            answer = server.stdout.read(4 + size)
        except BrokenPipeError:
            answer = b""
        if len(answer) < 4 + size:
            server.kill()
            said = (self.folder / "said.txt").read_text(errors="replace")
            self._compiled, self._server = [], None
            server.communicate()
            raise KernelFaultError(f"{name} was stopped:\n{said}\n{self.texts[name]}")
        return struct.unpack("i", answer[:4])[0], answer[4:]

    def _start(self) -> subprocess.Popen[bytes]:
        self._compiled = list(self.texts)
        bodies = [self.mutate(text.removeprefix(PRELUDE)) for text in self.texts.values()]
        rows = [
            f"{{[](void** a) {{ call_with({name}, a); }}, {str('__sync' in body or 'over_' in body).lower()}}},"
            for name, body in zip(self.texts, bodies, strict=True)
        ]
        parts = ['#include "device.h"', self.mutate(PRELUDE), *bodies, '#include "server.h"']
        source, program = self.folder / "kernels.cpp", self.folder / "kernels"
        source.write_text("\n".join([*parts, "const Kernel kernels[] = {", *rows, "};", ""]))
        command = [compiler() or "g++", *FLAGS, *SANITIZERS, "-I", str(HEADERS), str(source), "-o", str(program)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        surroundings = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}
        with (self.folder / "said.txt").open("wb") as said:
            return subprocess.Popen(
                [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, env=surroundings
            )


def _memory(array: Any) -> Any:
    """Return the bytes of an array from its first to its last element."""
    reach = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True))
    flat = np.lib.stride_tricks.as_strided(array, (1 + reach // array.itemsize,), (array.itemsize,))
    return flat.view(np.uint8)


class EmulatedBackend(NumpyBackend):
    """NumPy's arrays with the kernels of a GPU; new memory holds what is no number."""

    name = "gpu"

    def __init__(self, kernels: EmulatedKernels) -> None:
        self.kernels = kernels

    def empty(self, byte_count: int) -> Any:
        """Return bytes that nobody should read."""
        memory = super().empty(byte_count)
        memory[...] = 0xFF
        return memory
