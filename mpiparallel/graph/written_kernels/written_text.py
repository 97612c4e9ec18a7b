"""A CUDA text that is written by hand: types and sizes are filled in, and equal texts have equal names."""

from __future__ import annotations

import hashlib
from string import Template
from typing import Any, Final

import numpy as np

from mpiparallel.dtype import is_narrow
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.runtime import Kernel, Runtime, do_nothing
from mpiparallel.graph.expression.cuda.prelude import PRELUDE
from mpiparallel.graph.expression.cuda.text import stored_type

BFLOAT16: Final = "bfloat16"
_LETTERS: Final = {"float32": "float", "float64": "double"}
_SAME: Final = """
typedef $type $stored; typedef $type $wide;
__device__ __forceinline__ $wide from_$stored($stored x) { return x; }
__device__ __forceinline__ $stored to_$stored($wide x) { return x; }
"""
_NARROW: Final = """
typedef unsigned short $stored; typedef float $wide;
__device__ __forceinline__ float from_$stored(unsigned short x) { return from_$name(x); }
__device__ __forceinline__ unsigned short to_$stored(float x) { return to_$name(x); }
"""


def has_written_kernels(runtime: Runtime, *dtypes: np.dtype[Any]) -> bool:
    """Return whether the device compiles CUDA texts, and these are floats that written ones compute with."""
    return runtime.backend.kernels is not None and all(map(_is_float, dtypes))


def _is_float(dtype: np.dtype[Any]) -> bool:
    return is_narrow(dtype) or dtype.name in _LETTERS


def element_type(dtype: np.dtype[Any], stored: str = "Stored", wide: str = "Wide") -> str:
    """Return the lines that define an element's stored type, its type in computations, and the conversions between
    both.

    >>> "typedef double Stored; typedef double Wide;" in element_type(np.dtype(np.float64))
    True
    """
    text = _NARROW if is_narrow(dtype) else _SAME
    return Template(text).substitute(name=dtype.name, type=_LETTERS.get(dtype.name, ""), stored=stored, wide=wide)


def index_name(dtype: np.dtype[Any]) -> str:
    """Return the type of integers in a text."""
    return stored_type(dtype)


def written_kernel(
    runtime: Runtime, source: str, places: dict[str, object], blocks: int, threads: int, *arguments: Any
) -> Kernel:
    """Return a launch of a text whose function is called ``KERNEL``; it knows ``$threads`` beside its places.

    Arguments are arrays, tables of addresses and NumPy's numbers. Raises ConfigurationError where the device compiles
    no texts.
    """
    body = Template(source).substitute(places, threads=threads)
    name = f"kernel_{hashlib.blake2b(f'{threads}{body}'.encode(), digest_size=8).hexdigest()}"
    head = f'extern "C" __global__ void __launch_bounds__({threads}, 1) {name}'
    text = f"{PRELUDE}\nnamespace in_{name} {{{body.replace('KERNEL', head)}}}\nusing in_{name}::{name};\n"
    kernels = runtime.backend.kernels
    if kernels is None:
        raise ConfigurationError(
            f"device {runtime.backend.name!r} compiles no CUDA texts; ask has_written_kernels first"
        )
    return kernels.bind(name, text, blocks, threads, arguments)


def run_after(steps: list[Kernel], kernel: Kernel) -> Kernel:
    """Return a kernel with what goes before it."""
    steps = [step for step in steps if step is not do_nothing]
    if not steps:
        return kernel

    def run() -> None:
        for step in steps:
            step()
        kernel()

    return run
