from __future__ import annotations

import select
import subprocess
import sys

from tests.conformance import patience

BROKEN = """
import os, sys
from mpiparallel.communication.abort_hook import abort_on_uncaught_exception
abort_on_uncaught_exception(lambda error: os._exit(7))
sys.stdout.close()
raise ValueError
"""

PROGRAM = """
import os, sys
from mpiparallel.communication.abort_hook import let_last_words_through
sys.stderr.write("x" * 4096)
let_last_words_through()
os.write(1, b"through")
"""


def test_a_rank_waits_until_its_last_words_are_read() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], 60)[0]
        assert not select.select([process.stdout], [], [], 0.5)[0]
        assert process.stderr.read(4096) == b"x" * 4096
        assert process.stdout.read() == b"through"


def test_a_rank_whose_streams_are_closed_ends_the_job_all_the_same() -> None:
    assert patience.run([sys.executable, "-c", BROKEN], stderr=subprocess.DEVNULL).returncode == 7
