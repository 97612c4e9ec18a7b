"""Where a thread is: the line of the user's that has called a library, told as briefly as it can be found."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

import mpiparallel
from mpiparallel.cluster.flight.call_sites import place_of, place_of_main_thread

PACKAGE = Path(mpiparallel.__file__).parent


def frame_in(*files: str) -> FrameType:
    """Return the frame of a function whose callers are in ``files``, the innermost first; each is in its line 3."""
    found: list[FrameType] = []

    def innermost() -> None:
        found.append(sys._getframe().f_back)  # type: ignore[arg-type]

    work = innermost
    for file in files:
        names: dict[str, Any] = {"inner": work}
        exec(compile("\n\ndef work(): inner()\n", file, "exec"), names)
        work = names["work"]
    work()
    return found[0]


@pytest.mark.parametrize(
    ("files", "place"),
    [
        (["/home/me/train.py"], "train.py:3"),
        ([f"{PACKAGE}/nn/cell.py", "/home/me/train.py"], "train.py:3"),
        ([json.__file__, f"{PACKAGE}/nn/cell.py", "/home/me/model.py", "/home/me/train.py"], "model.py:3"),
        (["<frozen runpy>", "/home/me/train.py"], "train.py:3"),
        (["CWD/inner/train.py"], "inner/train.py:3"),
    ],
)
def test_the_innermost_line_that_is_no_librarys_is_told(
    files: list[str], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_of(frame_in(*(file.replace("CWD", str(Path.cwd())) for file in files))) == place


def test_where_all_is_a_library_the_innermost_line_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = frame_in(f"{PACKAGE}/nn/cell.py")
    # Without its callers, which are those of this test.
    alone: Any = SimpleNamespace(f_code=frame.f_code, f_lineno=frame.f_lineno, f_back=None)
    assert place_of(alone) == "cell.py:3"


def test_the_main_thread_is_in_this_file() -> None:
    file, _, line = place_of_main_thread().rpartition(":")
    assert file.endswith("test_call_sites.py")
    assert int(line) == sys._getframe().f_lineno - 2


def test_a_folder_that_is_gone_leaves_the_name_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert place_of(frame_in("/home/me/train.py")) == "train.py:3"
