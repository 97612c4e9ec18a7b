"""Compiled code that several processes keep at once."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

KINDS = range(60)
WRITERS = 4


def test_code_is_found_by_its_own_arguments_though_several_write_at_once(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    from mpiparallel.backend.kept_code import CodeFolder

    def write(seed: int) -> None:
        folder = CodeFolder(tmp_path, "loop", "stamp")
        for kind in Random(seed).sample(KINDS, len(KINDS)):
            folder.save(("float", kind), kind)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, range(WRITERS)))
    finally:
        sys.setswitchinterval(interval)
    assert [CodeFolder(tmp_path, "loop", "stamp").load(("float", kind)) for kind in KINDS] == list(KINDS)
    # Nothing but the code is left, and none is found for another source.
    assert len(list(tmp_path.iterdir())) == len(KINDS)
    assert CodeFolder(tmp_path, "loop", "another stamp").load(("float", 0)) is None


def test_all_of_one_name_is_forgotten_and_nothing_of_another(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    from mpiparallel.backend.kept_code import CodeFolder

    loop, other = (CodeFolder(tmp_path, name, "stamp") for name in ("loop", "other"))
    for folder in (loop, other):
        for kind in range(3):
            folder.save(kind, f"code {kind}")
    loop.flush()
    assert [loop.load(kind) for kind in range(3)] == [None] * 3
    assert [other.load(kind) for kind in range(3)] == ["code 0", "code 1", "code 2"]


@pytest.mark.parametrize("content", [b"", b"no code", b"\x80\x04cnowhere\nname\n.", b"\x80\x04c", b"I1x\n."])
def test_what_is_damaged_is_as_if_it_were_not_there(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    from mpiparallel.backend.kept_code import CodeFolder

    folder = CodeFolder(tmp_path, "loop", "stamp")
    assert folder.load(1) is None
    folder.save(1, "code")
    (path,) = tmp_path.iterdir()
    assert (path.name.startswith("loop."), path.suffix) == (True, ".nbc")
    path.write_bytes(content)
    assert folder.load(1) is None


def test_code_of_another_numba_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    from mpiparallel.backend.kept_code import CodeFolder

    folder = CodeFolder(tmp_path, "loop", "stamp")
    folder.save(1, "code")
    monkeypatch.setattr(numba, "__version__", "0.0.1")
    assert folder.load(1) is None


def test_what_another_process_has_forgotten_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    from mpiparallel.backend.kept_code import CodeFolder

    folder = CodeFolder(tmp_path, "loop", "stamp")
    folder.save(1, "code")
    (kept,) = tmp_path.iterdir()
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter([self / "loop.gone.nbc", kept]))
    folder.flush()
    assert not kept.exists()
