"""What mpirun says of a host that it has lost, and of a process that it saw die."""

from __future__ import annotations

import pytest

from mpiparallel.launch.watching.host_loss import KilledProcess, killed_process, lost_host, lost_some_host

SSH = "Connection to n3 closed by remote host.\n"
CONTROL = "[mpiexec@n0] control_cb (/mpich/pmiserv_cb.c:280): assert (!closed) failed\n"
KILLED = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 107 RUNNING AT n3\n=   EXIT CODE: 9\n"


@pytest.mark.parametrize(
    ("output", "host"),
    [
        ("", None),
        ("  Remote daemon: [prterun-n0-157@0,3] on node n3\n", "n3"),
        ("  Remote host:   n3\n  Daemon exit status: 255\n", "n3"),
        (SSH, "n3"),
        (f"before\n{SSH}after\n", "n3"),
        (f"{SSH}{SSH.replace('n3', 'n1')}", "n3"),
        # What a program prints in the middle of a line is no word of mpirun.
        (f"it said: {SSH}", None),
        ("  Remote host:   n3\n  Port: 7\n", None),
        ("Remote daemon: [prterun-n0-157@0,3] on node n3\n", None),
    ],
)
def test_the_first_host_that_mpirun_or_ssh_says_it_has_lost_is_the_lost_one(output: str, host: str | None) -> None:
    assert lost_host(output) == host


@pytest.mark.parametrize(
    ("output", "is_lost"),
    [("", False), (CONTROL, True), (f"before\n{CONTROL}", True), (f"it said {CONTROL}", False), (SSH, False)],
)
def test_a_host_is_lost_where_mpiexec_says_that_a_proxy_has_closed(output: str, is_lost: bool) -> None:
    assert lost_some_host(output) is is_lost


@pytest.mark.parametrize(
    ("output", "killed"),
    [
        ("", None),
        (KILLED, KilledProcess("n3", 107, 9)),
        (KILLED + KILLED.replace("107", "108"), KilledProcess("n3", 107, 9)),
        (KILLED.replace("BAD TERMINATION", "TERMINATION"), None),
        (KILLED.replace("=   EXIT CODE: 9\n", ""), None),
    ],
)
def test_the_first_process_that_mpiexec_saw_end_badly_is_told(output: str, killed: KilledProcess | None) -> None:
    assert killed_process(output) == killed
