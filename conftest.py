"""The package's files are imported as users import them, before pytest looks into one for examples.

Where a folder's own module imports a file, pytest would import that file once more, and its classes would be others
than those of the package.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

_ROOT = Path(__file__).parent


def pytest_collect_file(file_path: Path) -> None:
    if file_path.is_relative_to(_ROOT / "mpiparallel") and file_path.suffix == ".py" and file_path.stem != "__main__":
        parts = file_path.relative_to(_ROOT).with_suffix("").parts
        import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
