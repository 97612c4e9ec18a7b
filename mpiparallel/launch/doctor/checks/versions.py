"""Python and the libraries that ranks import: there, new enough, and they load."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding, Severity

# What is installed under one name is imported under another.
_MODULES = {"protobuf": "google.protobuf"}
_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)")


def find_versions(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield the versions of Python, of what mpiparallel needs, and of HDF5."""
    yield Finding("Python", "ok", f"{platform.python_version()}, {machine.python}")
    wanted = _requirements()
    modules = {name: _MODULES.get(name, name) for name in wanted}
    answer = machine.probe("libraries", *modules.values())
    found = {line["module"]: line for line in answer.objects}
    tried = [name for name in wanted if modules[name] in found]
    problems = {name: _problem(found[modules[name]], wanted[name], answer.complaint) for name in tried}
    for name, problem in problems.items():
        if problem:
            mend = f"{machine.python} -m pip install --force-reinstall '{name}>={wanted[name]}'"
            yield Finding(name, "error", f"{name} {problem}", mend)
    if well := [f"{name} {found[modules[name]]['version']}".rstrip() for name in tried if not problems[name]]:
        yield Finding("libraries", "ok", ", ".join(well))
    if untried := [name for name in wanted if name not in tried]:
        state: Severity = "note" if tried else "error"
        yield Finding("others", state, f"{', '.join(untried)} were not tried: {answer.complaint}")
    if found.get("h5py", {}).get("hdf5"):
        yield Finding("HDF5", "ok", f"{found['h5py']['hdf5']}, that of h5py")


def _requirements() -> dict[str, str]:
    """Return the least version of each library that the installed mpiparallel asks for."""
    try:
        lines = requires("mpiparallel") or []
    except PackageNotFoundError:
        lines = []
    matches = (_REQUIREMENT.match(line) for line in lines if "extra ==" not in line)
    return {match[1]: match[2] for match in matches if match}


def _problem(found: Mapping[str, str], least: str, complaint: str) -> str:
    """Return what is wrong with a library by what its import has told; the last one told of may have crashed."""
    if "failure" in found:
        return f"cannot be imported ({found['failure']})"
    if "version" not in found:
        return f"ends Python when it is imported: the probe {complaint}"
    if found["version"] and _numbers(found["version"]) < _numbers(least):
        return f"{found['version']} is too old, {least} is needed"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", version)[:3])
