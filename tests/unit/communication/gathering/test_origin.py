"""Where a process comes from: its own host, session, folder and number, and whether another may be of its job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpiparallel.communication.gathering.origin import Origin

OWN = Origin("vm", 7, "/job/device1", 11)


def test_an_origin_is_that_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Origin.own() == Origin(os.uname().nodename, os.getsid(0), str(tmp_path.resolve()), os.getpid())


@pytest.mark.parametrize(
    ("other", "is_related"),
    [
        (Origin("other", 8, "/elsewhere/a", 1), True),
        (Origin("vm", 7, "/elsewhere/a", 1), True),
        (Origin("vm", 8, "/job/device1", 1), True),
        (Origin("vm", 8, "/job/device2", 1), True),
        (Origin("vm", 8, "/job", 1), True),
        (Origin("vm", 8, "/job/device1/a/b", 1), True),
        (Origin("vm", 8, "/elsewhere/device1", 1), False),
        (Origin("vm", 8, "/job/device2/a", 1), False),
    ],
)
def test_processes_are_of_one_job_by_host_session_or_folder(other: Origin, is_related: bool) -> None:
    assert (OWN.is_related(other), other.is_related(OWN)) == (is_related, is_related)
