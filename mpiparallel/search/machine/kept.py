"""The measured machine that is kept in the user's cache folder."""

from __future__ import annotations

from pathlib import Path

from mpiparallel.backend.cache_folder import cache_folder
from mpiparallel.compatibility.remark import remark
from mpiparallel.errors import ConfigurationError
from mpiparallel.search.machine.cluster_file import load_machine, machine_json
from mpiparallel.search.machine.machine import Machine


def kept_path() -> Path:
    """Return where the measured machine is kept."""
    return cache_folder() / "machine.json"


def kept_machine() -> Machine:
    """Return the machine that was measured; without one, or where it cannot be read, the assumed one."""
    path = kept_path()
    if not path.is_file():
        return Machine()
    try:
        return load_machine(path)
    except (ConfigurationError, OSError) as error:
        remark(f"the measured machine is not used: {error}; measure it again by mpiparallel calibrate")
        return Machine()


def keep_machine(machine: Machine) -> Path:
    """Keep a measured machine, and return where."""
    path = kept_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(machine_json(machine), encoding="utf-8")
    return path
