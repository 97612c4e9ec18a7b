"""Functions compiled by numba when they are first called, and kept on disk for the next process.

Needs numba: a module that imports this one is imported only where numba is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from mpiparallel.backend.kept_code import kept

# numba compiles again when the file of a function has changed, and does not see the tiles that it is made of.
_TILES = hashlib.blake2b(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*_tiles.py"))), digest_size=6
).hexdigest()


def compiled(function: Callable[..., None]) -> Any:
    """Return the function, compiled for each kind of arguments, without the interpreter's lock.

    It is kept beside its file or in the user's cache; where neither can be written each process compiles it.
    """
    function.__qualname__ = f"{function.__qualname__}_{_TILES}"
    dispatcher = numba.njit(error_model="numpy", nogil=True, no_cfunc_wrapper=True)(function)
    try:
        return kept(dispatcher)
    except RuntimeError:
        return dispatcher


inlined = numba.njit(error_model="numpy", nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)
"""Makes a function that compiled ones call."""
