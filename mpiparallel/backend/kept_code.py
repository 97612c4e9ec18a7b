"""Where numba keeps compiled code for other processes: a file for each function and kind of arguments.

Needs numba: a module that imports this one is imported only where numba is there.
"""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import numba
from numba.core.serialize import dumps

from mpiparallel.backend.cache_folder import keep

_NO_CODE = (OSError, EOFError, ImportError, AttributeError, ValueError, IndexError, pickle.UnpicklingError)


class CodeFolder:
    """The compiled code of a function of which the source has a ``stamp``, in files whose names begin with ``name``.

    numba itself numbers the files, and keeps the numbers in one that each process reads, changes and writes again. Of
    two at once one then finds under its number the code for other arguments, which it calls.
    """

    def __init__(self, folder: Path, name: str, stamp: object) -> None:
        self._folder = folder
        self._name = name
        self._stamp = stamp

    def load(self, key: object) -> Any:
        """Return what was saved for a kind of arguments; None where nothing was, or it is damaged."""
        try:
            return pickle.loads(self._path(key).read_bytes())
        except _NO_CODE:
            return None

    def save(self, key: object, data: object) -> None:
        """Save what is compiled for a kind of arguments; where it cannot be written, it is compiled anew next time."""
        keep(self._path(key), dumps(data))

    def flush(self) -> None:
        """Forget all that was saved."""
        for path in self._folder.glob(f"{self._name}.*.nbc"):
            path.unlink(missing_ok=True)

    def _path(self, key: object) -> Path:
        said = repr((numba.__version__, self._stamp, key)).encode()
        return self._folder / f"{self._name}.{hashlib.blake2b(said, digest_size=16).hexdigest()}.nbc"


def kept(function: Any) -> Any:
    """Let what numba compiles of ``function`` be kept, and return it. Raises RuntimeError where that cannot be."""
    function.enable_caching()
    cache = function._cache
    cache._cache_file = CodeFolder(
        Path(cache.cache_path), cache._impl.filename_base, cache._impl.locator.get_source_stamp()
    )
    return function
