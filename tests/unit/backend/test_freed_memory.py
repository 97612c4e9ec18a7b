"""What is freed goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
