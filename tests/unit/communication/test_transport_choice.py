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


NO_NCCL = "no NCCL: member {} has no NCCL of 2.18 or later (pip install 'mpiparallel[cuda12x]')"
NO_IPC = "no CUDA IPC: members 0 and {} have two GPUs"
NO_MPI = "no CUDA-aware MPI: member {}'s MPI was not seen to take GPU arrays (ask the doctor)"


@pytest.mark.parametrize(
    ("facts", "way"),
    [
        (members({"nccl": 21800}, {"nccl": 21800}), ("nccl", "every rank has a GPU of its own")),
        (members({}, {"nccl": 21799}), ("staging", "; ".join([NO_NCCL.format(1), NO_IPC.format(1), NO_MPI.format(0)]))),
        (
            members({"aware": True}, {"aware": True}, {"nccl": 0}),
            ("staging", "; ".join([NO_NCCL.format(2), NO_IPC.format(1), NO_MPI.format(2)])),
        ),
        (
            members({}, {"device": "gpu 0"}, {"device": "gpu 0"}),
            ("ipc", "no NCCL: members 0 and 1 share a GPU"),
        ),
        (
            members({"aware": True}, {"aware": True}, {"aware": True, "card": "card 1"}),
            ("mpi", f"no NCCL: members 1 and 2 have parts of one card; {NO_IPC.format(1)}"),
        ),
        (
            members({"aware": True}, {"nccl": 22800, "aware": True}),
            ("mpi", f"no NCCL: members have NCCL 22707 and 22800; {NO_IPC.format(1)}"),
        ),
        (
            members({}),
            ("staging", f"no NCCL: a rank alone; no CUDA IPC: a rank alone; {NO_MPI.format(0)}"),
        ),
        (members({"aware": True}), ("mpi", "no NCCL: a rank alone; no CUDA IPC: a rank alone")),
        *(
            (
                members({"asked": asked, "aware": True, **one}, {"aware": True, **one}),
                (asked, "MPIPARALLEL_TRANSPORT asks for it"),
            )
            for asked, one in (("nccl", {}), ("ipc", {"device": "gpu 0"}), ("mpi", {}), ("staging", {}))
        ),
    ],
)
def test_a_way_is_told_with_all_that_speaks_against_quicker_ones(
    facts: list[MemberFacts], way: tuple[str, str]
) -> None:
    assert choose_way(facts) == way


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (
            members({"asked": "ipc"}, {}),
            "MPIPARALLEL_TRANSPORT=ipc cannot be had: members 0 and 1 have two GPUs; unset it",
        ),
        (
            members({"asked": "mpi", "aware": True}, {}),
            "MPIPARALLEL_TRANSPORT=mpi cannot be had: member 1's MPI was not seen to take GPU arrays (ask the doctor); "
            "unset it",
        ),
        (members({"asked": "nccl"}), "MPIPARALLEL_TRANSPORT=nccl cannot be had: a rank alone; unset it"),
        (
            members({"asked": "ib"}),
            "MPIPARALLEL_TRANSPORT='ib' in the environment is none of auto, nccl, ipc, mpi, staging",
        ),
    ],
)
def test_what_was_asked_for_is_refused_with_the_reason(facts: list[MemberFacts], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        choose_way(facts)
    assert str(caught.value) == words
