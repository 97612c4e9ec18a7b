"""The build: it copies the folders that are to be read into the package; in a checkout they lie beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("clusters", "docs", "examples", "hostfiles", "launchers", "rank_tables")
"""As MANIFEST.in has them, for the archive of sources."""


class BuildWithFolders(build_py):
    """Copies the modules, and the folders beside them."""

    def run(self) -> None:
        """Copy all; nothing beside the modules where the package is used from its checkout."""
        super().run()
        if self.editable_mode:
            return
        for folder in FOLDERS:
            target = Path(self.build_lib, "mpiparallel", "shipped", folder)
            left_out = shutil.ignore_patterns("__pycache__", "reference")
            shutil.copytree(folder, target, ignore=left_out, dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithFolders})
