"""The samples as downloaded, only their imports changed, in a copy; ``make test-samples SAMPLES=DIR`` runs them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.conformance.made_up_data import write_images, write_sentences
from tests.conformance.mpi_launcher import interpreters, library
from tests.tutorials.correction import with_import_changed
from tests.tutorials.reader import Reader, losses
from tests.tutorials.record import Record
from tests.tutorials.sample_runs import RUNS, Run

pytestmark = [pytest.mark.mpi, pytest.mark.samples]

_PLACE = Path("docs") / "sample_code"
_ACCUMULATED = 6
_SECONDS = 3600.0


def branches() -> dict[str, Path]:
    """The folders of samples by branch: the one that MPIPARALLEL_SAMPLES names, or those of its branches."""
    named = os.environ.get("MPIPARALLEL_SAMPLES")
    if not named:
        return {}
    root = Path(named).resolve()
    inner = {path.name: path / _PLACE for path in sorted(root.iterdir()) if (path / _PLACE).is_dir()}
    name = root.parents[1].name if root.parts[-2:] == _PLACE.parts else root.name
    return inner or {name: root}


def cases() -> list[tuple[str, Path, Run]]:
    """Each run of each branch that has its program, those of a sample one after the other."""
    found = [(branch, folder, run) for branch, folder in branches().items() for run in RUNS]
    return [
        (branch, folder, run.as_in(folder / run.sample))
        for branch, folder, run in found
        if (folder / run.sample / run.program).exists()
        and not (run.instead and (folder / run.sample / run.instead).exists())
    ]


@pytest.fixture(scope="module", params=interpreters(), ids=library)
def python(request: pytest.FixtureRequest) -> Path:
    """The interpreter whose MPI library is tested."""
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Path:
    """A folder for the copies of the samples, which runs of one sample share."""
    return tmp_path_factory.mktemp(f"samples_{library(python)}")


def copied(folder: Path, sample: str, place: Path) -> Path:
    """Return the copy of a sample in ``place``, with its imports changed; the one that is there if it is."""
    copy = place / sample
    if not copy.exists():
        shutil.copytree(folder / sample, copy)
        for path in copy.rglob("*.py"):
            path.write_text(with_import_changed(path.read_text(encoding="utf-8")), encoding="utf-8")
        for path in copy.glob("rank_table_*.json"):
            path.write_text(on_this_host(path.read_text(encoding="utf-8")), encoding="utf-8")
    return copy


def on_this_host(table: str) -> str:
    """Return a rank table with an address of this host for each server."""
    numbers = count(1)
    return re.sub(r'(?<="server_id": ")[^"]*', lambda _: f"127.0.0.{next(numbers)}", table)


@contextmanager
def changed(place: Path, run: Run) -> Iterator[None]:
    """Replace the words of the programs in ``place`` that the run is to have otherwise, and put them back."""
    before = {file: (place / file).read_text(encoding="utf-8") for file, _, _ in run.changed}
    for file, old, new in run.changed:
        text = (place / file).read_text(encoding="utf-8")
        assert old in text
        (place / file).write_text(text.replace(old, new), encoding="utf-8")
    yield
    for file, text in before.items():
        (place / file).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The words of commands that are data."""
    folder = tmp_path_factory.mktemp("data")
    sizes = {"images": 1, "many_images": _ACCUMULATED}
    return {name: write_images(folder / name, -(-batches * 2 * 32 // 5)) for name, batches in sizes.items()}


@pytest.fixture
def record(request: pytest.FixtureRequest, python: Path) -> Iterator[Record]:
    """What is written of a run when it has ended."""
    one = Record(request.node, library(python))
    yield one
    one.write()


@pytest.mark.parametrize(
    ("branch", "folder", "run"),
    [pytest.param(*case, id=f"{case[0]}-{case[2].sample}-{case[2].program}") for case in cases()],
)
def test_a_sample_runs_as_it_stands(
    branch: str, folder: Path, run: Run, copies: Path, python: Path, data: dict[str, Path], record: Record
) -> None:
    record.says(sample=run.sample, command=run.command, branch=branch, shows=run.shows)
    place = copied(folder, run.sample, copies / branch)
    reader = Reader({}, run.sample, (), place, python, _SECONDS)
    sentences = write_sentences(copies / f"{run.steps}_steps.txt", run.steps)
    words = run.command.format(sentences=sentences, **data)
    with changed(place, run):
        output = reader.commands(f"{words} || true", 0)
    texts = [(place / log).read_text(encoding="utf-8", errors="replace") for log in run.logs]
    assert all((place / file).exists() for file in run.files)
    if run.refusal:
        assert re.search(run.refusal.pattern, "\n".join([output, *texts]))
    elif texts:
        told = [losses(text) for text in texts]
        assert all(one[-1] < one[0] for one in told), "\n".join([output, *texts])
