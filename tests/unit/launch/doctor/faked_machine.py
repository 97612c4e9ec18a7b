"""A machine whose files of facts, programs and environment are faked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding

FakedMachine = Callable[..., ExaminedMachine]
OPENMPI = 'echo \'{"vendor": "openmpi", "library": "Open MPI v5.0.11", "launcher": "FOLDER/mpirun"}\''
MPICH = 'echo \'{"vendor": "mpich", "library": "MPICH 5.0.2", "launcher": "FOLDER/mpiexec"}\''
AVX512 = "avx2 avx512f avx512dq avx512bw avx512vl avx512cd"


def cpuinfo(*flags: str) -> str:
    """Return the text of ``/proc/cpuinfo`` of an AMD processor, with the flags of each core."""
    return "".join(
        f"processor\t: {core}\nvendor_id\t: AuthenticAMD\nflags\t\t: {words}\n\n" for core, words in enumerate(flags)
    )


def program(folder: Path, name: str, shell: str) -> Path:
    """Write an executable ``name`` that runs the ``shell`` text, in which FOLDER is its own folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{shell.replace('FOLDER', str(folder))}\n")
    path.chmod(0o755)
    return path


def fake(
    folder: Path,
    files: Mapping[str, str] | None = None,
    programs: Mapping[str, str] | None = None,
    probes: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    **given: Any,
) -> ExaminedMachine:
    """Make a machine: ``files`` under its root, ``programs`` on its PATH, shell text in the place of its ``probes``.

    A probe called ``mpiparallel`` stands for the command itself. Probes that are not faked look at the real machine.
    """
    for name, text in (files or {}).items():
        (folder / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "root" / name).write_text(text)
    for name, shell in (programs or {}).items():
        program(folder / "bin", name, shell)
    modules = {name if name == "mpiparallel" else f"*probes.{name}": shell for name, shell in (probes or {}).items()}
    cases = "".join(f"{name}) {shell};;\n" for name, shell in modules.items())
    python = program(folder / "bin", "python", f'case "$2" in\n{cases}*) exec {sys.executable} "$@";;\nesac')
    paths = {"PATH": f"{folder}/bin:/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(folder)}
    arguments: dict[str, Any] = {
        "ranks": 2,
        "log_dir": folder,
        "checkpoint_dir": folder,
        "cores": frozenset((0, 1)),
        "python": str(python),
        "prefix": folder / "venv",
        "packages": (),
        "user": 1000,
        "root": folder / "root",
    }
    return ExaminedMachine({**paths, **(variables or {})}, **(arguments | given))


def only(findings: Iterable[Finding], subject: str) -> Finding:
    """Return the one finding about ``subject``."""
    found = list(findings)
    (finding,) = (finding for finding in found if finding.subject == subject)
    return finding


def told(findings: Iterable[Finding]) -> list[tuple[str, str, str, str]]:
    """Return all that a person reads of findings: subject, state, what was seen, and the line that mends it."""
    return [(one.subject, one.state, one.what, one.mend) for one in findings]
