"""NVIDIA's run-time compiler of CUDA C, called directly: no driver, no headers, and options of our own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from mpiparallel.backend.nvidia_library import nvidia_library
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError

OPTIONS: Final = (
    "-std=c++17",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--fmad=true",
    "-Xptxas=-v",
)
"""Numbers near 0 stay, divisions and square roots are rounded as NumPy's are; the log tells of registers."""


@dataclass(frozen=True)
class Compiled:
    """Machine code for one architecture, and what the assembler said of registers and spills."""

    machine_code: bytes
    log: str


class Nvrtc:
    """The compiler. Raises ConfigurationError where its library is not found."""

    def __init__(self) -> None:
        self._library = nvidia_library("nvrtc", "NVRTC, NVIDIA's run-time compiler")
        numbers = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", *map(ctypes.byref, numbers))
        self.version = ".".join(str(number.value) for number in numbers)

    def compile(self, text: str, architecture: str) -> Compiled:
        """Return a text compiled for an architecture such as "sm_90".

        Raises ConfigurationError with the compiler's words where it takes none of it.
        """
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text.encode(), b"mpiparallel.cu", 0, None, None)
        try:
            given = [option.encode() for option in (f"--gpu-architecture={architecture}", *OPTIONS)]
            failed = self._library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
            log = self._text(program, "ProgramLog").decode(errors="replace").rstrip("\0")
            if failed:
                raise ConfigurationError(f"NVRTC {self.version} refuses a kernel for {architecture}: {log}\n{text}")
            return Compiled(self._text(program, "CUBIN"), log)
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, kind: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{kind}Size", program, ctypes.byref(size))
        memory = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{kind}", program, memory)
        return memory.raw

    def _call(self, name: str, *arguments: Any) -> None:
        function: Callable[..., int] = getattr(self._library, name)
        code = function(*arguments)
        if code:
            words = self._library.nvrtcGetErrorString
            words.restype = ctypes.c_char_p
            raise ConfigurationError(f"NVRTC: {name} gave {code}, {words(code).decode()}")
