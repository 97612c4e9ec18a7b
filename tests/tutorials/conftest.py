"""The listings, somebody who follows them in one folder for each MPI library, and the file of what came of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import interpreters, library
from tests.tutorials.listing import Listing
from tests.tutorials.reader import Reader
from tests.tutorials.reading import listings_at_hand
from tests.tutorials.record import OUTCOME, Record


@pytest.fixture(scope="session")
def listings() -> dict[str, Listing]:
    """All listings by path; the test is skipped where there are no tutorials."""
    return listings_at_hand()


@pytest.fixture(scope="module", params=interpreters()[:1], ids=library)
def python(request: pytest.FixtureRequest) -> Path:
    """The interpreter whose MPI library is tested, the first; the short documents are followed with all."""
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Path:
    """One folder for a whole tutorial, as for somebody who follows it."""
    return tmp_path_factory.mktemp(library(python))


@pytest.fixture
def reader(
    request: pytest.FixtureRequest, listings: dict[str, Listing], folder: Path, python: Path
) -> Iterator[Reader]:
    """Who follows the listings that the mark ``tutorial`` of the test names; what came of it is recorded."""
    mark = request.node.get_closest_marker("tutorial")
    document, *names = mark.args
    one = Reader(listings, document, names, folder, python)
    record = Record(request.node, library(python))
    yield one
    record.says(document=document, listings=names, shows=request.node.originalname, ranks=one.ranks)
    record.write()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Let a fixture know how its test ended."""
    report = yield
    if report.when == "call":
        item.stash[OUTCOME] = report.outcome
    return report
