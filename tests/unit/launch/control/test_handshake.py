"""Proofs of who is at the other end: good for one rank, at one place, in one direction, once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.handshake import Handshake

NONCE = "0123456789abcdef" * 2
HELLO: dict[str, Any] = {"rank": 1, "process": 2, "nonce": NONCE}


def test_what_a_rank_says_of_itself_is_read() -> None:
    found = Handshake.parsed(HELLO, "here", 4)
    assert (found.rank, found.process, found.place, found.nonce, found.answer) == (1, 2, "here", NONCE, "")
    assert Handshake.parsed({**HELLO, "rank": 0, "process": 0}, "here", 1).rank == 0
    assert Handshake.parsed({**HELLO, "rank": 3, "process": 3}, "here", 4).process == 3


WRONG: list[dict[str, Any]] = [
    *({"rank": wrong} for wrong in (-1, 4, True, "1", 1.0, None)),
    *({"process": wrong} for wrong in (-1, 4, True, "2", None)),
    *({"nonce": wrong} for wrong in ("", NONCE[:-1], NONCE + "0", NONCE[:-1] + "g", NONCE.upper(), 3, None)),
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_no_rank_of_the_job_says_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(LaunchError, match=r"^what calls is no rank of this job$"):
        Handshake.parsed({**HELLO, **wrong}, "here", 4)


@pytest.mark.parametrize("nonce", ["", NONCE[:-1], NONCE + "0", "z" * 32, 3])
def test_an_answer_that_is_no_random_number_is_not_the_launchers(nonce: object) -> None:
    first = Handshake.parsed(HELLO, "here", 4)
    with pytest.raises(LaunchError, match=r"^what listens there is not the launcher$"):
        first.answered(nonce)
    assert first.answered(NONCE).answer == NONCE


def test_random_numbers_of_both_sides_are_new_each_time() -> None:
    nonces = {Handshake.of(1, 1, "here").nonce for _ in range(10)}
    answers = {Handshake.of(1, 1, "here").answered().answer for _ in range(10)}
    assert len(nonces | answers) == 20
    assert {len(one) for one in nonces | answers} == {32}


def test_a_proof_holds_for_what_it_was_made_for_alone() -> None:
    made = Handshake(1, 2, "here", NONCE, NONCE)
    proof = made.proof("token", "hello")
    assert made.is_proven("token", "hello", proof)
    others = [
        replace(made, rank=2),
        replace(made, process=1),
        replace(made, place="there"),
        replace(made, nonce="0" * 32),
        replace(made, answer="0" * 32),
    ]
    assert not any(other.is_proven("token", "hello", proof) for other in others)
    assert not made.is_proven("other", "hello", proof)
    assert not made.is_proven("token", "challenge", proof)
    assert not any(
        made.is_proven("token", "hello", wrong) for wrong in ("", proof[:-1], "é\udc80", None, 3, proof.encode())
    )


def test_each_side_has_a_seal_of_its_own() -> None:
    made = Handshake(1, 2, "here", NONCE, NONCE)
    seals = {
        handshake.seal(token, side).closed(b"words")
        for handshake in (made, replace(made, rank=2))
        for token in ("token", "other")
        for side in ("rank", "launcher")
    }
    assert len(seals) == 8
    assert made.seal("token", "rank").opened(made.seal("token", "rank").closed(b"words")) == b"words"
    assert made.proof("token", "rank").encode() not in made.seal("token", "rank").closed(b"words")
