"""Names that MindSpore has too."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

import mpiparallel

pytest.importorskip("mindspore", reason="make test-interop-mindspore installs MindSpore")

pytestmark = pytest.mark.mindspore

PACKAGE = Path(mpiparallel.__file__).parent


@pytest.mark.parametrize("folder", ["dataset", "nn", "ops", "train"])
def test_no_file_has_the_name_of_a_function_or_class_of_mindspores(folder: str) -> None:
    theirs = importlib.import_module(f"mindspore.{folder}")
    ours = {path.stem for path in (PACKAGE / folder).glob("*.py")} - {"__init__"}
    shared = {name: getattr(theirs, name) for name in ours if hasattr(theirs, name)}
    assert [name for name, value in shared.items() if not inspect.ismodule(value)] == []
