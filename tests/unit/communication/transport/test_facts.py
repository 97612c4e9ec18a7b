"""What members tell each other of their devices arrives whole, and what a library was seen to do is kept for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport import cuda_aware
from mpiparallel.communication.transport.cuda_aware import keep_verdict, proven_cuda_aware, verdict_file
from mpiparallel.communication.transport.facts import MemberFacts, gather_facts
from mpiparallel.communication.transport.lengths import compare_lengths
from mpiparallel.errors import CommunicationError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cuda_aware, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def gathered(communicator: Communicator) -> list[MemberFacts]:
    rank = communicator.rank
    links: Any = SimpleNamespace(uuid=f"GPU-{rank}", card=f"0000:0{rank}:00.0", nccl_version=22700 + rank)
    return gather_facts(communicator, links)


@pytest.mark.parametrize(
    ("setting", "asked"), [(None, "auto"), ("NCCL", "nccl"), ("ib" * 16, "ib" * 16), ("ib" * 17, "ib" * 16)]
)
def test_all_members_know_the_facts_of_all(monkeypatch: pytest.MonkeyPatch, setting: str | None, asked: str) -> None:
    monkeypatch.delenv("MPIPARALLEL_TRANSPORT", raising=False)
    if setting is not None:
        monkeypatch.setenv("MPIPARALLEL_TRANSPORT", setting)
    keep_verdict("threads", True)
    wanted = [
        MemberFacts(host, f"GPU-{rank}", f"0000:0{rank}:00.0", 22700 + rank, True, asked)
        for rank, host in enumerate((0, 1, 0))
    ]
    assert run_world(3, gathered, hosts=[4, 9, 4]) == [wanted] * 3


def test_a_library_takes_arrays_of_gpus_only_where_that_was_seen(cache: Path) -> None:
    assert not proven_cuda_aware("Some MPI 1.0")
    assert keep_verdict("Some MPI 1.0", True)
    assert keep_verdict("Some MPI 2.0", False)
    assert [proven_cuda_aware(f"Some MPI {version}.0") for version in (1, 2, 3)] == [True, False, False]
    assert verdict_file("Some MPI 1.0").parent == cache
    assert len({verdict_file(f"Some MPI {version}.0") for version in (1, 2, 3)}) == 3


@pytest.mark.parametrize("content", ["", "[]", "{}", "7"])
def test_a_damaged_file_proves_nothing(cache: Path, content: str) -> None:
    cache.mkdir()
    verdict_file("Some MPI 1.0").write_text(content)
    assert not proven_cuda_aware("Some MPI 1.0")


def test_a_verdict_holds_for_the_machine_on_which_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keep_verdict("Some MPI 1.0", True)
    monkeypatch.setattr(cuda_aware.platform, "node", lambda: "another")
    assert not proven_cuda_aware("Some MPI 1.0")


def test_lengths_that_differ_are_refused_where_something_is_received() -> None:
    def compared(communicator: Communicator) -> str | None:
        own, other = communicator.rank, 1 - communicator.rank
        sends, receives = {other: np.zeros(3 + own, np.uint8)}, {other: np.zeros(4, np.uint8)}
        try:
            compare_lengths(communicator, sends, receives)
        except CommunicationError as error:
            return str(error)
        return None

    assert run_world(2, compared) == [
        None,
        "exchange: member 0 sends 3 bytes to member 1, which expects 4 bytes",
    ]
