"""The BLAS of NumPy: whether its kernels suit the processor, and its threads the number of ranks."""

from __future__ import annotations

from collections.abc import Iterator

from mpiparallel.cluster.processor import openblas_core_type, threads_per_rank
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding

_CORE_TYPE = "OPENBLAS_CORETYPE"
_THREADS = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def find_blas(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield the kind of BLAS and what its kernels are made for."""
    answer = machine.probe("blas")
    pools = answer.objects
    if answer.failure:
        asked = machine.variables.get(_CORE_TYPE)
        crashed = asked is not None and "SIG" in answer.failure
        what = f"a product of NumPy {answer.complaint}" + (f" under {_CORE_TYPE}={asked}" if crashed else "")
        mend = f"unset {_CORE_TYPE}" if crashed else f"{machine.python} -m pip install --force-reinstall numpy"
        yield Finding("BLAS", "error", what, mend)
    elif not pools:
        yield Finding(
            "BLAS", "note", "NumPy uses a BLAS that threadpoolctl does not know; its threads stay as they are"
        )
    else:
        pool = pools[0]
        name = f"{pool['internal_api']} {pool['version'] or ''}".strip()
        yield _kernels(machine, name, str(pool["architecture"] or ""))


def _kernels(machine: ExaminedMachine, name: str, kernels: str) -> Finding:
    best = openblas_core_type(machine.text("proc/cpuinfo"))
    if not name.startswith("openblas") or best is None or kernels == best:
        return Finding("BLAS", "ok", f"{name}{f' with its {kernels} kernels' if kernels else ''}")
    if _CORE_TYPE in machine.variables:
        what = f"{name} has {kernels} kernels because of {_CORE_TYPE}; those for {best} are about twice as fast here"
        return Finding("BLAS", "warning", what, f"unset {_CORE_TYPE}")
    what = f"{name} takes this processor for {kernels}; mpiparallel run sets the faster {best}, a bare mpirun does not"
    return Finding("BLAS", "note", what, f"export {_CORE_TYPE}={best}")


def find_threads(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield whether the user's own numbers of threads leave each rank its share of the cores."""
    share = threads_per_rank(len(machine.cores), machine.ranks)
    given = {name: machine.variables[name] for name in _THREADS if machine.variables.get(name)}
    wrong = {name: value for name, value in given.items() if not _is_count(value)}
    many = {name: value for name, value in given.items() if name not in wrong and _first(value) > share}
    if wrong:
        yield Finding("threads", "error", f"{_shown(wrong)}: no number of threads", f"unset {' '.join(wrong)}")
    if many:
        what = f"{_shown(many)}, more than {share} for each of {machine.ranks} ranks on {len(machine.cores)} cores"
        yield Finding(
            "threads", "warning", f"{what}; ranks then wait for each other's threads", f"unset {' '.join(many)}"
        )
    if not wrong and not many:
        told = f"{_shown(given)}, set by you" if given else f"{share} for each rank, set by mpiparallel run"
        yield Finding("threads", "ok", told)


def _is_count(value: str) -> bool:
    # OpenMP allows a list, a number for each level of nesting.
    return all(word.strip().isdigit() and 0 < int(word) < 100_000 for word in value[:100].split(","))


def _first(value: str) -> int:
    return int(value.partition(",")[0])


def _shown(values: dict[str, str]) -> str:
    return ", ".join(f"{name}={value[:40]}" for name, value in values.items())
