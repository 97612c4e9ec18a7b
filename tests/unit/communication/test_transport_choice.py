"""One rule says how arrays of GPUs travel, from facts that all members know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mpiparallel.communication.transport.choice import choose_way
from mpiparallel.communication.transport.facts import MemberFacts
from mpiparallel.errors import ConfigurationError

ONE = MemberFacts(0, "a", "0000:01:00.0", 22707, False, "auto")


def members(*changes: dict[str, Any]) -> list[MemberFacts]:
    """Return members that have a card each, but for changes."""
    return [
        replace(replace(ONE, device=f"gpu {number}", card=f"card {number}"), **change)
        for number, change in enumerate(changes)
    ]


@pytest.mark.parametrize(
    ("facts", "name", "why"),
    [
        (members({}, {}), "nccl", "every rank has a GPU of its own"),
        (members({}, {"host": 1, "card": "card 0"}), "nccl", "every rank has a GPU of its own"),
        (members({}, {"device": "gpu 0", "card": "card 0"}), "ipc", "members 0 and 1 share a GPU"),
        (members({}, {"device": "gpu 0"}, {}), "staging", "no CUDA IPC: members 0 and 2 have two GPUs"),
        (members({}, {"device": "gpu 0", "host": 1}), "staging", "no CUDA IPC: members 0 and 1 are on two hosts"),
        (members({}, {"card": "card 0"}), "staging", "members 0 and 1 have parts of one card"),
        (members({}, {"nccl": 0}), "staging", "member 1 has no NCCL of 2.18 or later"),
        (members({}, {"nccl": 22800}), "staging", "members have NCCL 22707 and 22800"),
        (members({"aware": True, "nccl": 0}, {"aware": True}), "mpi", "member 0 has no NCCL"),
        (members({"nccl": 0}, {"aware": True}), "staging", "member 0's MPI was not seen to take GPU arrays"),
        (members({"asked": "staging"}, {}), "staging", "MPIPARALLEL_TRANSPORT asks for it"),
        (members({}, {"asked": "staging"}), "nccl", "every rank has a GPU of its own"),
        (members({}), "staging", "a rank alone"),
    ],
)
def test_the_quickest_way_that_nothing_speaks_against(facts: list[MemberFacts], name: str, why: str) -> None:
    way = choose_way(facts)
    assert (way.name, why in way.why) == (name, True), way


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("nccl", "cannot be had: members 0 and 1 share a GPU; unset it"),
        ("ipc6", "is none of auto, nccl, ipc, mpi, staging"),
    ],
)
def test_a_way_that_cannot_be_had_is_refused(asked: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        choose_way(members({"asked": asked}, {"device": "gpu 0"}))
