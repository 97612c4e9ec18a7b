"""A thousand jobs that are started, killed and resumed by one launcher leave nothing behind, there and on the host."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import patience
from tests.conformance.mpi_launcher import environment, library
from tests.reliability.counts import count, record
from tests.reliability.mpi_job import ROOT

pytestmark = pytest.mark.mpi

# The first jobs import modules and fill caches.
WARM_UP = 2
KILOBYTES_A_CYCLE = 8
MOST_KILOBYTES = 4096
SECONDS_A_CYCLE = 60.0
CODES = {"left alone": {0}, "preempted": {0, 85}, "killed": {0, 137}}
FLAT = ("descriptors", "threads", "temporary")
MOST_LOGS = 20


def test_start_kill_and_resume_leave_nothing_behind(interpreter: Path, quick_folder: Path) -> None:
    cycles = count(500, 4)
    quick_folder.mkdir()
    temporary = quick_folder / "temporary"
    temporary.mkdir()
    words = [str(interpreter), "-m", "tests.reliability.cycling_launcher"]
    done = patience.run(
        [*words, str(quick_folder), str(cycles), library(interpreter)],
        cwd=quick_folder,
        env={**environment(ROOT), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        errors="replace",
        seconds=SECONDS_A_CYCLE * cycles,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads(line) for line in (quick_folder / "cycles").read_text().splitlines()]
    assert len(found) == cycles
    for one in found:
        assert one["code"] in CODES[one["end"]], f"{one}\n{done.stdout}{done.stderr}"
        assert (one["ranks"], one["segments"], one["children"]) == (0, 0, 0), one
    warm = found[WARM_UP:]
    for name in FLAT:
        # A mpirun that was killed may still be taking its folder down.
        assert max(one[name] for one in warm) <= warm[0][name] + 1, [one[name] for one in found]
    assert max(one["logs"] for one in found) <= MOST_LOGS, [one["logs"] for one in found]
    check_memory(warm)
    ends = Counter(one["end"] for one in found if one["code"] or one["end"] == "left alone")
    record(
        f"jobs started by one launcher: {library(interpreter)}",
        jobs=cycles,
        killed=ends["killed"],
        preempted=ends["preempted"],
        over_before=cycles - ends.total(),
        left_alone=ends["left alone"],
        processes_left=0,
        segments_left=0,
        descriptors_more=warm[-1]["descriptors"] - warm[0]["descriptors"],
        kB_more=max(0, warm[-1]["kilobytes"] - warm[0]["kilobytes"]),
    )


def check_memory(warm: list[dict[str, Any]]) -> None:
    """See that memory does not grow with each job."""
    quarter = max(1, len(warm) // 4)
    early, late = (sorted(one["kilobytes"] for one in some) for some in (warm[:quarter], warm[-quarter:]))
    grown = late[len(late) // 2] - early[len(early) // 2]
    assert grown < max(MOST_KILOBYTES, KILOBYTES_A_CYCLE * len(warm)), [one["kilobytes"] for one in warm]
