"""Whatever stands in the file of a manifest: one of our errors refuses it, soon, and in little memory."""

from __future__ import annotations

import random
import resource
import signal
from pathlib import Path

import pytest

from mpiparallel.checkpoint.catalogue import catalogue, uncommitted
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import MpiParallelError
from tests.conformance.mpi_launcher import library
from tests.reliability import states
from tests.reliability.child import exit_status
from tests.reliability.counts import count, record
from tests.reliability.files.sealed_manifest import content_of, damaged_text, mutated, sealed
from tests.reliability.mpi_job import MpiJob
from tests.reliability.subject import load, saved

RANKS = 2
MOST_BYTES = 256 << 20
# Of the processor.
MOST_SECONDS = 30


def test_only_our_errors_come_of_any_manifest(tmp_path: Path) -> None:
    folder, tries = tmp_path / "checkpoints", count(20_000, 2000)
    manifest = saved(folder, RANKS, states.small(RANKS), 7)
    path, verdicts = folder / f"{manifest.name}{MANIFEST_SUFFIX}", tmp_path / "verdicts"
    status = exit_status(lambda: attack(path, tries, verdicts), seconds=600)
    assert status == 0, f"a manifest ended the process (status {status}): it is still in {path}"
    refused, accepted = map(int, verdicts.read_text().split())
    assert refused + accepted == tries
    assert refused > tries // 2
    record("manifest changed on purpose", tries=tries, refused=refused, harmless=accepted, other_errors=0)


def attack(path: Path, tries: int, verdicts: Path) -> None:
    """Open so many changed manifests; errors of other classes, long waits and much memory end the process."""
    chance, truth, content = random.Random(14), path.read_bytes(), content_of(path)
    limit = data_bytes() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for number in range(tries):
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        path.write_bytes(damaged_text(truth, chance) if number % 4 == 0 else sealed(mutated(content, chance)))
        refused += is_refused(path)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < MOST_BYTES, f"{grown} bytes of memory were used"
    verdicts.write_text(f"{refused} {tries - refused}")


def is_refused(path: Path) -> bool:
    """Try all that begins with a manifest. What can be loaded must be what was saved."""
    catalogue(path.parent)
    uncommitted(path.parent)
    try:
        manifest = Manifest.load(path)
        wanted = {name: entry.layout for name, entry in manifest.tensors.items()}
        found = run_world(max(1, min(manifest.rank_count, 4)), load, path.parent, manifest, wanted)
    except MpiParallelError:
        return True
    for rank, arrays in enumerate(found):
        for name, array in arrays.items():
            tensor = states.Tensor(manifest.tensors[name].layout, manifest.tensors[name].dtype)
            truth = states.part(states.whole(name, tensor, 7), tensor.layout.box(rank))
            assert array.tobytes() == truth.tobytes(), f'rank {rank} loads other content of "{name}"'
    return False


def data_bytes() -> int:
    """The memory of this process that counts against RLIMIT_DATA."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
    return int(line.split()[1]) * 1024


@pytest.mark.mpi
def test_no_pickle_is_made_or_read(interpreter: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    with MpiJob(interpreter, 2, "tests.reliability.ranks.pickle_ranks", notes, tmp_path / "checkpoints") as job:
        status = job.end()
        assert status == 0, job.output()
        assert sorted(job.output().split("\n")) == ["", "rank 0 refuses pickles", "rank 1 refuses pickles"]
    record(f"saves and loads with pickles refused: {library(interpreter)}", saves=2, pickles=0)
