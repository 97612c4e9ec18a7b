"""What is told of the own name of a machine, word by word."""

from __future__ import annotations

import json

import pytest

from mpiparallel.launch.doctor.checks.host_name import find_host_name
from tests.unit.launch.doctor.faked_machine import FakedMachine, told

NAMED = 'echo \'{"name": "node1"}\'; '
MEND = 'echo "127.0.1.1 node1" >> /etc/hosts'
FOUR = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]


def said(**facts: object) -> str:
    return f"{NAMED} echo '{json.dumps(facts)}'"


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        (said(addresses=FOUR, seconds=1.0), ("ok", "node1, 10.0.0.1, 10.0.0.2, 10.0.0.3", "")),
        (said(addresses=FOUR[:1], seconds=0.0), ("ok", "node1, 10.0.0.1", "")),
        (
            said(addresses=FOUR[:1], seconds=1.05),
            ("warning", 'looking up "node1" takes 1.1 s; MPI waits for it at each start', MEND),
        ),
        (
            said(failure="Name or service not known", seconds=9.0),
            (
                "warning",
                '"node1" has no address (Name or service not known); some MPI libraries then do not start',
                MEND,
            ),
        ),
        (
            f"{NAMED} exit 3",
            ("error", 'looking up "node1" ended with exit code 3; MPI waits for it at each start', MEND),
        ),
        (
            "echo broken >&2; exit 4",
            (
                "warning",
                "asking for it ended with exit code 4: broken",
                'echo "127.0.1.1 $(hostname)" >> /etc/hosts',
            ),
        ),
    ],
)
def test_name_addresses_and_what_is_wrong_with_them_are_told(
    faked: FakedMachine, shell: str, line: tuple[str, str, str]
) -> None:
    assert told(find_host_name(faked(probes={"host_name": shell}))) == [("host name", *line)]
