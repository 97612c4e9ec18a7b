"""Somebody who follows a tutorial: types its listings into files of one folder, and runs them on real ranks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conformance import patience
from tests.conformance.mpi_launcher import environment, launcher
from tests.tutorials.correction import corrected, with_import_changed
from tests.tutorials.corrections import CORRECTIONS
from tests.tutorials.listing import Listing

_NAP = 0.2


class Reader:
    """A reader of ``document``, at work in ``folder`` with the MPI of ``python``; ``ranks`` is the most that he had.

    What he starts ends within ``seconds``, or he ends it.
    """

    def __init__(
        self,
        listings: Mapping[str, Listing],
        document: str,
        allowed: Collection[str],
        folder: Path,
        python: Path,
        seconds: float = patience.SECONDS,
    ) -> None:
        self.folder = folder
        self.ranks = 0
        self._listings = listings
        self._document = document
        self._allowed = set(allowed)
        self._python = python
        self._seconds = seconds

    def listing(self, name: str, *variants: str) -> str:
        """Return a listing as it can be run: its faults mended, its import changed."""
        assert name in self._allowed, f"the mark of this test does not name {name}"
        listing = self._listings[f"{self._document}/{name}"]
        wanted = [one for one in CORRECTIONS if one.listing == listing.path and one.variant in ("", *variants)]
        return with_import_changed(corrected(listing.text, wanted))

    def types(self, file: str, *parts: str) -> Path:
        """Write ``parts`` one after the other into ``file``, relative to the folder."""
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(parts), encoding="utf-8")
        return path

    def runs(self, size: int, file: str, *arguments: object, fails: bool = False, **variables: object) -> str:
        """Start ``file`` on ``size`` ranks, or with 0 without a launcher, in its own folder; return what they print."""
        path = self.folder / file
        launch = [launcher(self._python), "-n", str(size)] if size else []
        return self._ended(
            [*launch, str(self._python), path.name, *map(str, arguments)], size, path.parent, fails, variables
        )

    def commands(self, text: str, size: int, within: str = ".", fails: bool = False, **variables: object) -> str:
        """Run ``text`` by bash in a folder; it starts ``size`` ranks. Return what is printed."""
        return self._ended(["bash", "-c", text], size, self.folder / within, fails, variables)

    def _ended(self, command: list[str], size: int, within: Path, fails: bool, variables: Mapping[str, object]) -> str:
        self.ranks = max(self.ranks, size)
        root = Path(__file__).parents[2]
        surroundings = environment(root)
        surroundings["PATH"] = f"{self._python.parent}{os.pathsep}{surroundings['PATH']}"
        process = subprocess.Popen(
            command,
            cwd=within,
            env=surroundings | {name: str(value) for name, value in variables.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        output = patience.communicated(process, self._seconds)[0]
        _wait_for_session(process.pid, self._seconds)
        if (process.returncode != 0) != fails:
            pytest.fail(f"{command!r} ended with {process.returncode}:\n{output}")
        return output


def _wait_for_session(leader: int, seconds: float) -> None:
    """Wait until all processes that a shell has started in the background have ended, or kill them."""
    waiting = patience.Patience(seconds)
    while left := _of_session(leader):
        if not waiting.is_left():
            for process in left:
                os.kill(process, signal.SIGKILL)
            pytest.fail(f"{len(left)} processes that were started in the background did not end")
        time.sleep(_NAP)


def _of_session(leader: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        # A process may end while one looks at it. Its name, in parentheses, may have spaces.
        with suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


_LOSS = re.compile(r"epoch: \d+ step: \d+, loss is (\d[\d.]*(?:e[+-]\d+)?)")


def losses(text: str) -> list[float]:
    """Return the losses in ``text``, in their order, also where the lines of two ranks run into each other.

    >>> losses("epoch: 1 step: 73, loss is 6.45995epoch: 1 step: 73, loss is 1.5e-3")
    [6.45995, 0.0015]
    """
    return [float(found) for found in _LOSS.findall(text)]
