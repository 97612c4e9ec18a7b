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
