"""What a program is told once: one line, by one rank, through logging."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.compatibility.remark import remark

Remarks = Callable[[], list[str]]


def test_a_line_is_said_once_and_another_line_too(remarks: Remarks) -> None:
    for line in ("first", "first", "second", "first"):
        remark(line)
    assert remarks() == ["first", "second"]


def test_threads_that_play_ranks_say_it_once_together(remarks: Remarks) -> None:
    threads = [threading.Thread(target=remark, args=("the same",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert remarks() == ["the same"]


@pytest.mark.parametrize(("rank", "said"), [("0", 1), ("3", 0), ("nonsense", 1)])
def test_of_the_ranks_of_a_launcher_rank_0_speaks(
    rank: str, said: int, remarks: Remarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", {"RANK": rank, "LOCAL_RANK": rank}.get(name, "4"))
    remark("of one rank")
    assert len(remarks()) == said


def test_an_argument_without_effect_is_named_with_its_value_and_the_reason(remarks: Remarks) -> None:
    no_effect("set_context", "max_device_memory", "30GB", "arrays take what they need", default="")
    assert remarks() == ["set_context: max_device_memory='30GB' has no effect here: arrays take what they need"]


@pytest.mark.parametrize(("value", "default", "said"), [(1, 1, 0), (True, 1, 1), (None, None, 0), ([2], [2], 0)])
def test_nothing_is_said_of_the_default(value: object, default: object, said: int, remarks: Remarks) -> None:
    no_effect("f", "x", value, "why", default=default)
    assert len(remarks()) == said


def test_without_logging_set_up_the_line_stands_on_stderr() -> None:
    program = "from mpiparallel.compatibility.remark import remark; remark('a line')"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "mpiparallel: a line\n")
