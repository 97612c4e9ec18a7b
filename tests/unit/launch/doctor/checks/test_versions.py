from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError

import pytest

from mpiparallel.launch.doctor.checks import versions
from mpiparallel.launch.doctor.checks.versions import find_versions
from tests.unit.launch.doctor import faked_machine
from tests.unit.launch.doctor.faked_machine import FakedMachine, only

LIBRARIES = ("numpy", "mpi4py", "h5py", "google.protobuf", "ml_dtypes", "threadpoolctl", "xxhash", "shtab")


def told(**other: dict[str, str]) -> str:
    lines: list[dict[str, str]] = []
    for module in LIBRARIES:
        lines += [{"module": module}, {"module": module, "version": "99.1", **other.get(module, {})}]
    return "; ".join(f"echo '{json.dumps(line)}'" for line in lines)


def test_versions_are_told_in_one_line(faked: FakedMachine) -> None:
    findings = list(find_versions(faked(probes={"libraries": told(h5py={"hdf5": "2.0.0"})})))
    assert {finding.state for finding in findings} == {"ok"}
    assert "protobuf 99.1" in only(findings, "libraries").what
    assert only(findings, "HDF5").what.startswith("2.0.0")


@pytest.mark.parametrize(
    ("found", "what"),
    [
        ({"version": "1.21.6"}, "1.21.6 is too old, 1.26 is needed"),
        ({"failure": "ImportError: libblas.so.3"}, "cannot be imported (ImportError: libblas.so.3)"),
    ],
)
def test_library_that_does_not_load_or_is_too_old_is_an_error(
    faked: FakedMachine, found: dict[str, str], what: str
) -> None:
    findings = list(find_versions(faked(probes={"libraries": told(numpy=found)})))
    finding = only(findings, "numpy")
    assert (finding.state, finding.what) == ("error", f"numpy {what}")
    assert finding.mend.endswith("-m pip install --force-reinstall 'numpy>=1.26'")
    assert "numpy" not in only(findings, "libraries").what


def test_library_that_crashes_is_named_and_those_after_it_were_not_tried(faked: FakedMachine) -> None:
    crash = told().partition('; echo \'{"module": "h5py", "version"')[0] + "; kill -SEGV $$"
    findings = list(find_versions(faked(probes={"libraries": crash})))
    assert "was ended by SIGSEGV" in only(findings, "h5py").what
    assert [finding.subject for finding in findings if finding.state == "error"] == ["h5py"]
    assert only(findings, "others").state == "note"


def test_of_a_package_that_is_not_installed_only_python_is_told(
    faked: FakedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(versions, "requires", absent)
    machine = faked(probes={"libraries": "true"})
    found = [(finding.subject, finding.what) for finding in find_versions(machine)]
    assert found == [("Python", f"{platform.python_version()}, {machine.python}")]


def test_the_running_python_has_what_is_needed(faked: FakedMachine) -> None:
    assert {finding.state for finding in find_versions(faked())} == {"ok"}


def test_all_versions_are_told_word_by_word(faked: FakedMachine) -> None:
    machine = faked(probes={"libraries": told(h5py={"hdf5": "2.0.0"}, xxhash={"version": ""})})
    names = [{"google.protobuf": "protobuf"}.get(name, name) for name in LIBRARIES]
    python, libraries, hdf5 = faked_machine.told(find_versions(machine))
    assert python == ("Python", "ok", f"{platform.python_version()}, {machine.python}", "")
    assert libraries[:2] == ("libraries", "ok")
    assert sorted(libraries[2].split(", ")) == sorted(name if name == "xxhash" else f"{name} 99.1" for name in names)
    assert hdf5 == ("HDF5", "ok", "2.0.0, that of h5py", "")


@pytest.mark.parametrize(
    ("version", "is_old"), [("1.25.9", True), ("1.26", False), ("1.26.0.dev1", False), ("2", False)]
)
def test_a_version_is_held_against_the_least_number_by_number(faked: FakedMachine, version: str, is_old: bool) -> None:
    findings = list(find_versions(faked(probes={"libraries": told(numpy={"version": version})})))
    assert [finding.subject for finding in findings if finding.state == "error"] == ["numpy"] * is_old


def test_where_nothing_was_tried_all_are_told_with_why(faked: FakedMachine) -> None:
    machine = faked(probes={"libraries": "echo 'no memory' >&2; exit 3"})
    subject, state, what, mend = faked_machine.told(find_versions(machine))[-1]
    assert (subject, state, mend) == ("others", "error", "")
    assert what.endswith(" were not tried: ended with exit code 3: no memory")
    assert {"numpy", "protobuf"} <= set(what.partition(" were")[0].split(", "))


def test_a_library_that_ends_python_is_told_with_how(faked: FakedMachine) -> None:
    crash = told().partition('; echo \'{"module": "h5py", "version"')[0] + "; kill -SEGV $$"
    machine = faked(probes={"libraries": crash})
    (line,) = (line for line in faked_machine.told(find_versions(machine)) if line[0] == "h5py")
    assert line[1] == "error"
    assert line[2].startswith("h5py ends Python when it is imported: the probe was ended by SIGSEGV: {")
    assert line[3].startswith(f"{machine.python} -m pip install --force-reinstall 'h5py>=")
