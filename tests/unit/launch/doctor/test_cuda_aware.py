"""The doctor's job of two ranks that try arrays in GPUs' memory, with stand-ins for CuPy and MPI."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Thread, local
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.transport import cuda_aware
from mpiparallel.launch.doctor.probes.cuda_aware import main

LIBRARY = "Open MPI v5"
RANK = local()
Change = Callable[[np.ndarray], None]


class World:
    """Two ranks in threads; what MPI makes of arrays may be changed."""

    def __init__(self, exchanged: Change, reduced: Change) -> None:
        self._exchanged, self._reduced = exchanged, reduced
        self._barrier = Barrier(2, timeout=60)
        self._given: list[Any] = [None, None]

    @property
    def rank(self) -> int:
        return int(RANK.number)

    def _gathered(self, one: Any) -> list[Any]:
        self._given[self.rank] = one
        self._barrier.wait()
        found = list(self._given)
        self._barrier.wait()
        return found

    def allreduce(self, one: Any, operation: Any) -> Any:
        return operation(self._gathered(one))

    def Sendrecv(self, sent: Any, target: int, recvbuf: Any, source: int) -> None:  # noqa: N802 -- MPI's name
        recvbuf[...] = self._gathered(sent.copy())[source]
        self._exchanged(recvbuf)

    def Allreduce(self, place: Any, array: Any, operation: Any) -> None:  # noqa: N802 -- MPI's name
        assert place == "in place"
        array[...] = operation(self._gathered(array.copy()), axis=0)
        self._reduced(array)


class Device:
    """A device that fills arrays no earlier than the host waits for it."""

    def __init__(self) -> None:
        self.number = -1

    def full(self, count: int, value: int, dtype: str) -> Any:
        made = np.full(count, 99, dtype)
        RANK.pending.append(lambda: made.fill(value))
        return made

    @property
    def cuda(self) -> Any:
        def synchronize() -> None:
            while RANK.pending:
                RANK.pending.pop()()

        return SimpleNamespace(
            Device=lambda number: SimpleNamespace(use=lambda: None),
            runtime=SimpleNamespace(getDeviceCount=lambda: 2),
            get_current_stream=lambda: SimpleNamespace(synchronize=synchronize),
        )


def nothing(array: Any) -> None:
    """Change nothing."""


def last_is_lost(array: Any) -> None:
    array[-1] = 0


def doubles_are_lost(array: Any) -> None:
    if array.dtype == np.float64:
        array[0] = 0


def run(monkeypatch: pytest.MonkeyPatch, exchanged: Change = nothing, reduced: Change = nothing) -> None:
    """Run both ranks."""
    mpi = SimpleNamespace(
        COMM_WORLD=World(exchanged, reduced),
        Get_library_version=lambda: f"{LIBRARY}\nand more",
        IN_PLACE="in place",
        LAND=all,
        SUM=np.sum,
        MAX=np.max,
    )
    monkeypatch.setitem(sys.modules, "cupy", Device())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)  # type: ignore[arg-type]

    def work(rank: int) -> None:
        RANK.number, RANK.pending = rank, []
        with suppress(SystemExit):
            main()

    ranks = [Thread(target=work, args=(rank,)) for rank in range(2)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join()


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda_aware, "cache_folder", lambda: tmp_path)


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return {name: value for line in lines for name, value in line.items()}


@pytest.mark.parametrize(
    ("exchanged", "reduced", "sent", "whole"),
    [
        (nothing, nothing, True, True),
        (last_is_lost, nothing, False, False),
        (nothing, last_is_lost, True, False),
        (nothing, doubles_are_lost, True, False),
    ],
)
def test_only_a_library_that_sends_and_reduces_is_proven(
    exchanged: Change,
    reduced: Change,
    sent: bool,
    whole: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(monkeypatch, exchanged, reduced)
    assert said(capsys) == {"sent": sent, "whole": whole, "kept": True}
    assert cuda_aware.proven_cuda_aware(LIBRARY) is whole


def test_a_library_that_ends_the_process_while_it_reduces_is_proven_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cuda_aware.keep_verdict(LIBRARY, True)

    def end(array: Any) -> None:
        raise SystemExit

    run(monkeypatch, reduced=end)
    assert said(capsys) == {"sent": True}
    assert not cuda_aware.proven_cuda_aware(LIBRARY)


def test_what_was_kept_before_reductions_were_tried_counts_no_more() -> None:
    cuda_aware.verdict_file(LIBRARY).write_text('{"library": "Open MPI v5", "whole": true}')
    assert not cuda_aware.proven_cuda_aware(LIBRARY)
