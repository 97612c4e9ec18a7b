"""The package's files are imported as users import them, before pytest looks into one for examples.

Where a folder's own module imports a file, pytest would import that file once more, and its classes would be others
than those of the package.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.conformance.package_trees import PACKAGE, module_of


def pytest_collect_file(file_path: Path) -> None:
    if file_path.is_relative_to(PACKAGE) and file_path.suffix == ".py" and file_path.stem != "__main__":
        import_module(module_of(file_path))
