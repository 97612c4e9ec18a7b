from __future__ import annotations

import json

import pytest

from mpiparallel.launch.doctor.checks.host_name import find_host_name
from tests.unit.launch.doctor.faked_machine import FakedMachine

NAMED = 'echo \'{"name": "node1"}\'; '


def said(**facts: object) -> str:
    return f"{NAMED} echo '{json.dumps(facts)}'"


@pytest.mark.parametrize(
    ("shell", "state", "what"),
    [
        (said(addresses=["10.0.0.1", "fd00::1"], seconds=0.1), "ok", "node1, 10.0.0.1, fd00::1"),
        (said(failure="Name or service not known", seconds=0.1), "warning", '"node1" has no address'),
        (said(addresses=["10.0.0.1"], seconds=4.0), "warning", "takes 4.0 s"),
        ("kill -SEGV $$", "warning", "SIGSEGV"),
    ],
)
def test_own_name_must_have_an_address(faked: FakedMachine, shell: str, state: str, what: str) -> None:
    (finding,) = find_host_name(faked(probes={"host_name": shell}))
    assert (finding.state, what in finding.what) == (state, True), finding
    assert state == "ok" or "/etc/hosts" in finding.mend


def test_name_server_that_does_not_answer_is_an_error(faked: FakedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpiparallel.launch.doctor.checks.host_name._SECONDS", 0.5)
    (finding,) = find_host_name(faked(probes={"host_name": NAMED + "sleep 60"}))
    assert (finding.state, 'looking up "node1" has not ended within 0.5 s' in finding.what) == ("error", True)
