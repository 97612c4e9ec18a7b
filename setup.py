"""The build: it asks git's tags for the version, and copies the folders that are to be read into the package.

In a checkout those lie beside it, and the version is that of the next release.
"""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from setuptools import setup
from setuptools.command.build_py import build_py

if TYPE_CHECKING:
    from setuptools_scm import ScmVersion

FOLDERS = ("clusters", "docs", "examples", "hostfiles", "launchers", "rank_tables")
"""As MANIFEST.in has them, for the archive of sources."""
NEXT = runpy.run_path("mpiparallel/launch/version.py")["VERSION"]
UNTAGGED = f"{NEXT}.dev0"


def version_of(found: ScmVersion) -> str:
    """Return the version of a tag, or of the commits since the last one; without any, that before the next release."""
    from setuptools_scm.version import guess_next_dev_version

    return found.format_with(f"{NEXT}.dev{{distance}}") if str(found.tag) == UNTAGGED else guess_next_dev_version(found)


class BuildWithFolders(build_py):
    """Copies the modules, and the folders beside them, and writes the version."""

    def run(self) -> None:
        """Copy all; nothing beside the modules where the package is used from its checkout."""
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib, "mpiparallel")
        for folder in FOLDERS:
            left_out = shutil.ignore_patterns("__pycache__", "reference")
            shutil.copytree(folder, package / "shipped" / folder, ignore=left_out, dirs_exist_ok=True)
        version = package / "launch" / "version.py"
        version.write_text(version.read_text().replace(f'"{NEXT}"', f'"{self.distribution.get_version()}"'))


setup(
    cmdclass={"build_py": BuildWithFolders},
    use_scm_version={"version_scheme": version_of, "local_scheme": "no-local-version", "fallback_version": UNTAGGED},
)
