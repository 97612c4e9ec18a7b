"""Pickles of dicts of arrays, read without giving them the power to call anything else."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from mpiparallel.errors import DatasetError

# NumPy has moved this function between modules; an array of the running NumPy names the one to call.
_RECONSTRUCT = np.zeros(0).__reduce__()[0]
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
}


class _ArrayUnpickler(pickle.Unpickler):
    """Knows the three names that an array is rebuilt with, and no other."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the object of an allowed name.

        Raises:
            pickle.UnpicklingError: if the name is not allowed.
        """
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which may run code of a stranger")
        return _ALLOWED[module, name]


def read_pickled_dict(path: Path) -> dict[str, Any]:
    """Return the dict pickled in ``path``, of arrays, numbers, text and lists, with its keys as text.

    Pickles of Python 2 are read too. A pickle can call any function by its name; here only NumPy's arrays and dtypes
    have a name.

    Raises:
        DatasetError: if the file cannot be read, or holds anything else.
    """
    try:
        with path.open("rb") as stream:
            loaded = _ArrayUnpickler(stream, encoding="latin1").load()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except Exception as error:
        # Damaged pickles raise nearly every type there is.
        raise DatasetError(f"{path}: is no pickle of arrays: {error}; take it from the original archive") from error
    if not isinstance(loaded, dict):
        raise DatasetError(f"{path}: holds a {type(loaded).__name__}, not a dict; take it from the original archive")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in loaded.items()}
