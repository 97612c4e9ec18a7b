"""Who holds a folder is said in a mark, and what no process can have written there is nobody."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from typing import Any

import pytest

from mpiparallel.checkpoint.files.folder_holder import Holder
from mpiparallel.cluster.job_start import JobStart

HELD = Holder("one", JobStart("job", 1, "c/7", 2), "n7", "boot/1", 77, 5, 86_400.5, 9)
MOST = (1 << 62) - 1


def changed(**fields: Any) -> bytes:
    told = asdict(HELD)
    start = {**told["start"], **fields.pop("start", {})}
    return json.dumps({**told, "start": start, **fields}).encode()


def test_what_a_mark_says_comes_back() -> None:
    for holder in (HELD, Holder.here(), replace(HELD, start=JobStart(), space="", birth=0)):
        assert Holder.decoded(holder.encoded()) == holder


@pytest.mark.parametrize(
    "fields",
    [
        {"process": 0},
        {"process": MOST},
        {"birth": MOST},
        {"file": 0},
        {"since": 0.0},
        {"since": 99_999_999_999.0},
        {"training": ""},
        {"start": {"restarts": MOST, "requeues": 0}},
    ],
)
def test_what_a_process_can_have_written_is_a_holder(fields: dict[str, Any]) -> None:
    assert Holder.decoded(changed(**fields)) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"process": -1},
        {"process": MOST + 1},
        {"process": True},
        {"process": 7.0},
        {"birth": -1},
        {"birth": "5"},
        {"file": MOST + 1},
        {"since": -0.5},
        {"since": 1e11},
        {"since": 5},
        {"since": None},
        {"training": 3},
        {"training": "a\n"},
        {"host": "\x1b[2J"},
        {"host": None},
        {"space": ["boot"]},
        {"start": {"job": 7}},
        {"start": {"allocation": "\x07"}},
        {"start": {"restarts": -1}},
        {"start": {"requeues": MOST + 1}},
        {"start": {"more": 1}},
        {"more": 1},
    ],
)
def test_what_no_process_can_have_written_is_nobody(fields: dict[str, Any]) -> None:
    assert Holder.decoded(changed(**fields)) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"\xff", b'{"start": 1}', b"[" * 100_000])
def test_what_is_no_mark_is_nobody(content: bytes) -> None:
    assert Holder.decoded(content) is None


@pytest.mark.parametrize(
    ("fields", "is_same"),
    [
        ({"training": "two", "host": "n8", "since": 1.0, "file": 1, "start": JobStart()}, True),
        ({"space": "boot/2"}, False),
        ({"process": 78}, False),
        ({"birth": 6}, False),
    ],
)
def test_a_process_is_told_by_host_number_and_birth(fields: dict[str, Any], is_same: bool) -> None:
    assert HELD.is_same_process(replace(HELD, **fields)) is is_same


@pytest.mark.parametrize(
    ("start", "job"), [(JobStart("job", 1), ""), (JobStart("", 0, "c/7"), "SLURM job c/7, "), (JobStart(), "")]
)
def test_a_holder_is_told_with_its_job_its_process_and_since_when(start: JobStart, job: str) -> None:
    said = f"{job}process 77 of host 'n7', since 1970-01-02 00:00:00 UTC"
    assert str(replace(HELD, start=start)) == said


def test_this_process_lives_and_is_named_after_where_and_when_it_began() -> None:
    here = Holder.here()
    assert here.lives() is True
    assert (here.process, here.host) == (os.getpid(), os.uname().nodename)
    assert here.training == f"{here.space}/{here.process}/{here.birth}"
    assert here.is_sound
    assert here.birth > 0


@pytest.mark.parametrize(
    ("fields", "lives"),
    [
        ({"birth": 1}, False),
        ({"process": 4_194_304, "birth": 1}, False),
        ({"space": "elsewhere/1"}, None),
        ({"space": ""}, None),
    ],
)
def test_whether_another_process_lives_is_known_on_its_own_host_alone(
    fields: dict[str, Any], lives: bool | None
) -> None:
    assert replace(Holder.here(), **fields).lives() is lives
