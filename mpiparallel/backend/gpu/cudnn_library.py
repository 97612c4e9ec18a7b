"""cuDNN's frontend: an optional extra, imported when a device first convolves, or is examined."""

from __future__ import annotations

import importlib
from typing import Any

from mpiparallel.errors import ConfigurationError


def find_cudnn() -> Any:
    """Return cuDNN's frontend, None where it is not installed.

    Raises ConfigurationError where it is, and cannot be loaded.
    """
    try:
        return importlib.import_module("cudnn")
    except ModuleNotFoundError as error:
        if error.name == "cudnn":
            return None
        raise _not_loaded(error) from error
    except (ImportError, OSError, RuntimeError) as error:
        raise _not_loaded(error) from error


def _not_loaded(error: Exception) -> ConfigurationError:
    why = " ".join(str(error).split())
    return ConfigurationError(
        f"cuDNN's frontend is installed and cannot be loaded: {why}; pip install 'mpiparallel[cudnn12x]' (or "
        "cudnn13x), or pip uninstall nvidia-cudnn-frontend"
    )
