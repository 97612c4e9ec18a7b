"""CUDA texts compiled by g++ with sanitizers, and run on the CPU in three orders of threads."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.protocol import AddressTable
from mpiparallel.graph.expression.cuda.prelude import PRELUDE
from tests.conformance.cuda_emulator.kept_file import kept_file

HEADERS = Path(__file__).parent
FLAGS = ("-std=c++17", "-g1", "-w", "-ffp-contract=off", "-fno-strict-aliasing")
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
    _program: Path | None = None

    def bind(self, name: str, text: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> Callable[[], object]:
        """Remember a text and return its launch."""
        arguments = tuple(map(_seen, arguments))
        self.texts[name] = text
        self.launches.append((name, blocks, threads, arguments))
        return lambda: self._launch(name, blocks, threads, arguments)

    def close(self) -> None:
        """End the program that runs them."""
        if self._server is not None:
            self._server.communicate()
            self._server = None

    def _launch(self, name: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> None:
        if name not in self._compiled:
            self.close()
            self._compile()
        if self._server is None:
            self._server = self._start()
        regions = _regions(arguments)
        message = [struct.pack("5i", self._compiled.index(name), blocks, threads, len(arguments), len(regions))]
        for start, stop in regions:
            message.append(struct.pack("<qq", stop - start, start % 64) + ctypes.string_at(start, stop - start))
        message += [_as_sent(one, regions) for one in arguments]
        sizes = [stop - start for start, stop in regions]
        differs, found = self._answer(name, b"".join(message), sum(sizes))
        if differs:
            raise KernelFaultError(f"{name} gives other results in another order of threads:\n{self.texts[name]}")
        for start, stop in regions:
            ctypes.memmove(start, found, stop - start)
            found = found[stop - start :]

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
            self._server = None
            server.communicate()
            raise KernelFaultError(f"{name} was stopped:\n{said}\n{self.texts[name]}")
        return struct.unpack("i", answer[:4])[0], answer[4:]

    def _compile(self) -> None:
        self._compiled = list(self.texts)
        bodies = [self.mutate(text.removeprefix(PRELUDE)) for text in self.texts.values()]
        rows = [
            f"{{[](void** a) {{ call_with({name}, a); }}, {str('__sync' in body or 'over_' in body).lower()}}},"
            for name, body in zip(self.texts, bodies, strict=True)
        ]
        parts = ['#include "device.h"', self.mutate(PRELUDE), *bodies]
        text = "\n".join([*parts, "const Kernel kernels[] = {", *rows, "};", ""])
        self._program = kept_file("cuda_program", (_made_of(), text), partial(self._make, text))

    def _make(self, text: str, program: Path) -> None:
        source = self.folder / "kernels.cpp"
        source.write_text(text)
        words = ["-O0", "-I", str(HEADERS), str(source), str(_runtime()), "-o", str(program)]
        _said_by_compiler(*FLAGS, *SANITIZERS, *words)

    def _start(self) -> subprocess.Popen[bytes]:
        surroundings = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}
        with (self.folder / "said.txt").open("wb") as said:
            return subprocess.Popen(
                [str(self._program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=surroundings,
            )


@cache
def _made_of() -> tuple[object, ...]:
    """Return what every program is made of, beside its kernels."""
    headers = [path.read_text() for path in sorted(HEADERS.glob("*.[ch]*"))]
    return FLAGS, SANITIZERS, _said_by_compiler("-dumpfullversion"), headers


@cache
def _runtime() -> Path:
    """Return what runs the kernels."""
    words = [*FLAGS, *SANITIZERS, "-O2", "-c", str(HEADERS / "runtime.cpp"), "-o"]
    return kept_file("cuda_emulator", _made_of(), lambda path: _said_by_compiler(*words, str(path)))


def _said_by_compiler(*words: str) -> str:
    done = subprocess.run([compiler() or "g++", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"g++ takes no CUDA text:\n{done.stderr[:4000]}")
    return done.stdout


def _seen(argument: Any) -> Any:
    """Return an argument of a launch with the memory of arrays that hide it."""
    if isinstance(argument, AddressTable):
        return AddressTable(tuple(map(_seen, argument.arrays)))
    return getattr(argument, "hidden", argument)


def _arrays(argument: Any) -> tuple[Any, ...]:
    """Return the arrays of an argument: those of a table, itself, or none."""
    if isinstance(argument, AddressTable):
        return argument.arrays
    return (argument,) if isinstance(argument, np.ndarray) else ()


def _regions(arguments: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the memory of all arrays, first to last byte; what overlaps is one region."""
    spans = sorted(_span(array) for one in arguments for array in _arrays(one))
    found: list[tuple[int, int]] = []
    for start, stop in spans:
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found


def _span(array: Any) -> tuple[int, int]:
    if not array.size:
        return array.ctypes.data, array.ctypes.data
    reach = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True))
    return array.ctypes.data, array.ctypes.data + reach + array.itemsize


def _as_sent(argument: Any, regions: Sequence[tuple[int, int]]) -> bytes:
    """Return an argument as the program reads it: eight bytes, or the places of arrays in the regions."""
    arrays = _arrays(argument)
    if not arrays:
        return struct.pack("<i8s", 0, np.asarray(argument).tobytes())
    kind = 2 if isinstance(argument, AddressTable) else 1
    places = []
    for array in arrays:
        address = array.ctypes.data
        index = bisect_right(regions, (address, sys.maxsize)) - 1
        places.append(struct.pack("<qq", index, address - regions[index][0]))
    return struct.pack("<iq", kind, len(arrays)) + b"".join(places)


class EmulatedBackend(NumpyBackend):
    """NumPy's arrays with the kernels of a GPU; new memory holds what is no number."""

    name = "gpu"

    def __init__(self, kernels: EmulatedKernels, convolves_in_tf32: bool = False) -> None:
        self.kernels = kernels
        self.convolves_in_tf32 = convolves_in_tf32

    def empty(self, byte_count: int, holder: str = "") -> Any:
        """Return bytes that nobody should read."""
        memory = super().empty(byte_count)
        memory[...] = 0xFF
        return memory
