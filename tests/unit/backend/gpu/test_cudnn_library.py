"""cuDNN's frontend: none where it is not installed, and words that help where it cannot be loaded."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

from mpiparallel.backend.gpu.cudnn_library import find_cudnn
from mpiparallel.errors import ConfigurationError


@pytest.fixture
def importing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the import of a module end so."""

    def end(result: Any) -> None:
        def imported(name: str) -> Any:
            assert name == "cudnn"
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(importlib, "import_module", imported)

    return end


def test_the_frontend_is_found_where_it_is_and_none_where_it_is_not(importing: Any) -> None:
    module = ModuleType("cudnn")
    importing(module)
    assert find_cudnn() is module
    importing(ModuleNotFoundError("No module named 'cudnn'", name="cudnn"))
    assert find_cudnn() is None


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("no  module\n'torch'", name="torch"),
        ImportError("no  module\n'torch'"),
        OSError("no  module\n'torch'"),
        RuntimeError("no  module\n'torch'"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_frontend_that_cannot_be_loaded_is_told_with_what_to_install(importing: Any, error: Exception) -> None:
    importing(error)
    with pytest.raises(ConfigurationError) as caught:
        find_cudnn()
    assert str(caught.value) == (
        "cuDNN's frontend is installed and cannot be loaded: no module 'torch'; pip install 'mpiparallel[cudnn12x]' "
        "(or cudnn13x), or pip uninstall nvidia-cudnn-frontend"
    )
    assert caught.value.__cause__ is error
