"""Machine code in an object file, loaded by LLVM alone.

Needs llvmlite, which comes with numba: import this module where compiled loops run only.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import field
from functools import partial
from typing import Any, Final

import numpy as np
from llvmlite import binding

from mpiparallel.dataclass import dataclass

ENTRY: Final = "mpiparallel_loop"
"""The function that is called, with the address of an array of integers; it returns 0, or what went wrong."""

_FIRST_LLVM = (20,)
"""That of numba 0.62. Up to LLVM 15, and numba 0.61, there is no larger of two floats for x86."""
_SYMBOL = struct.Struct("<IBBHQQ")
_LINKED = frozenset(("", "_GLOBAL_OFFSET_TABLE_"))


@dataclass(frozen=True)
class MachineCode:
    """A function in the memory of this process, which lasts as long as its ``engine``."""

    function: Any
    engine: Any = field(repr=False)

    def bind(self, arguments: tuple[Any, ...]) -> partial[None]:
        """Return a call with these arguments, integers and arrays of one dim, which it keeps."""
        numbers: list[int] = []
        for one in arguments:
            numbers += (one.ctypes.data, one.size) if isinstance(one, np.ndarray) else (one,)
        given = np.array(numbers, np.int64)
        return partial(_call, self.function, given.ctypes.data, (self, given, arguments))


def _call(function: Any, given: int, kept: object) -> None:
    status = function(given)
    if status:
        raise RuntimeError(f"a compiled loop has ended with status {status}")


def knows_all_of_a_loop() -> bool:
    """Return whether LLVM translates all that a loop may do; where it does not it ends the process."""
    return bool(binding.llvm_version_info >= _FIRST_LLVM)


def host_description() -> str:
    """Return the processor for which machine code is made, and which LLVM makes it."""
    host = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return " ".join((binding.get_process_triple(), *host, *map(str, binding.llvm_version_info)))


def converts_float16() -> bool:
    """Return whether the processor converts float16 by itself; else loops would call what is not there."""
    features = binding.get_host_cpu_features()
    return bool(features.get("f16c") or features.get("neon"))


def host_target() -> Any:
    """Return what makes machine code for this processor."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
        codemodel="jitdefault",
    )


def loaded(code: bytes) -> MachineCode | None:
    """Return the function of an object file; None where it needs what neither Python nor the C library has."""
    library = ctypes.CDLL(None)
    # LLVM would end the process.
    if not all(hasattr(library, name) for name in _needed(code)):
        return None
    module = binding.parse_assembly("")
    engine = binding.create_mcjit_compiler(module, host_target())
    engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    return MachineCode(signature(engine.get_function_address(ENTRY)), engine)


def _needed(code: bytes) -> Iterator[str]:
    """Yield the names of what an object file does not have itself; the file must outlast its sections."""
    file = binding.object_file.ObjectFileRef.from_data(code)
    sections = {section.name(): section.data() for section in file.sections()}
    names = sections[b".strtab"]
    for place, _, _, section, _, _ in _SYMBOL.iter_unpack(sections[b".symtab"]):
        name = names[place : names.index(b"\0", place)].decode()
        if section == 0 and name not in _LINKED:
            yield name
