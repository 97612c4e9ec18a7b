"""What the libraries take of a rank's memory that compile and run its kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from mpiparallel.backend import jit
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import operand

_ELEMENTS = 1 << 14
_EXTENT = 768


def compile_elsewhere() -> None:
    """Let another process compile what ``library_bytes`` runs: this one would keep all that it compiles with."""
    if not jit.is_there() or "llvmlite" in sys.modules:
        return
    program = f"from {__name__} import library_bytes; library_bytes()"
    subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)


def library_bytes() -> float:
    """Return by how much this process grows as it runs its first kernels; 0 where the system does not say.

    It is little where they have been loaded before, and more where the loop is not kept and has to be compiled.

    >>> library_bytes() >= 0
    True
    """
    before = _resident()
    x = np.ones(_ELEMENTS, np.float32)
    term = operand(0, x.shape, x.dtype)
    expression_kernel(Runtime(), [term + term], [x], [x])()
    matrix = np.ones((_EXTENT, _EXTENT), np.float32)
    np.matmul(matrix, matrix, out=np.empty_like(matrix))
    return float(max(_resident() - before, 0))


def _resident() -> int:
    """Return the bytes of this process that are in memory."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
