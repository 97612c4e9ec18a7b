from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from mpiparallel.launch.rank.process_tree import children_of, kill_children
from tests.conformance import patience

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
PARENT = """
import os, signal, subprocess, sys
child = "import signal; from mpiparallel.launch.rank.process_tree import die_with_parent; die_with_parent(); "
child += "print('asked', flush=True); signal.pause()"
process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True)
print(process.stdout.readline().strip(), process.pid, flush=True)
signal.pause()
"""
ORPHAN = """
import os
from mpiparallel.launch.rank.process_tree import die_with_parent
parents = iter([1 << 20, 1])
os.getppid = lambda: next(parents)
die_with_parent()
"""


def test_who_asks_to_die_with_its_parent_does() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        word, child = parent.stdout.readline().split()
        lived = int(child) in children_of(parent.pid)
        parent.kill()
    assert (word, lived) == ("asked", True)
    patience.wait_until(lambda: not _lives(int(child)))


def test_who_is_orphaned_while_it_asks_to_die_with_its_parent_ends_at_once() -> None:
    assert patience.run([sys.executable, "-c", ORPHAN], env=ENVIRONMENT).returncode == 128 + signal.SIGKILL


def test_children_alone_are_killed_not_their_own() -> None:
    words = ["sh", "-c", 'sh -c "sleep 600 & echo \\$\\$ \\$!; wait"; echo $?']
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child, grandchild = map(int, process.stdout.readline().split())
        kill_children(process.pid)
        patience.wait_until(lambda: not _lives(child))
        lived = _lives(grandchild)
        os.kill(grandchild, signal.SIGKILL)
        assert (lived, process.stdout.read()) == (True, f"{128 + signal.SIGKILL}\n")


def test_a_child_that_has_ended_is_none_though_nobody_has_waited_for_it() -> None:
    with subprocess.Popen(["sleep", "600"]) as living, subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        found = children_of(os.getpid())
        living.kill()
    assert (living.pid in found, ended.pid in found) == (True, False)
    assert children_of(ended.pid) == []


def _lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
