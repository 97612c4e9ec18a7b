"""What is freed goes back to the system."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.backend import freed_memory
from mpiparallel.backend.freed_memory import give_back_freed_memory

PROGRAM = """
import sys
from pathlib import Path
from mpiparallel.backend.freed_memory import give_back_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

def bytes_of(kib):
    # Larger ones would be pages of their own, which go back at once.
    return [bytearray(64 << 10) for _ in range(kib >> 6)]

before = resident()
freed, kept = bytes_of(64 << 10), bytes_of(64)
full = resident()
del freed
give_back_freed_memory()
print((resident() - before) / (full - before))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_that_is_freed_below_what_is_kept_is_given_back() -> None:
    if not give_back_freed_memory():
        pytest.skip("the C library keeps what is freed")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.2


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Let the C library be another while this asks for it."""

    def put(made: Any) -> None:
        monkeypatch.setattr(ctypes, "CDLL", made)
        freed_memory._trim.cache_clear()

    yield put
    freed_memory._trim.cache_clear()


@pytest.mark.parametrize("error", [OSError("no such library"), TypeError("it takes a name"), None])
def test_a_c_library_that_cannot_give_back_is_said_to_keep_what_is_freed(library: Any, error: Exception | None) -> None:
    def opened(name: None) -> Any:
        if error is not None:
            raise error
        return SimpleNamespace()

    library(opened)
    assert give_back_freed_memory() is False


def test_the_c_library_is_told_to_keep_nothing(library: Any) -> None:
    kept: list[int] = []
    library(lambda name: SimpleNamespace(malloc_trim=Trim(kept)))
    assert give_back_freed_memory() is True
    assert kept == [0]


class Trim:
    """A function of a C library; it writes down what it is called with."""

    def __init__(self, calls: list[int]) -> None:
        self._calls = calls
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, kept: int) -> int:
        assert (self.argtypes, self.restype) == ([ctypes.c_size_t], ctypes.c_int)
        self._calls.append(kept)
        return 1
