"""The other hosts of a job: reached as mpirun reaches them, examined there, and compared with this one."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from mpiparallel.cluster.host_name import is_loopback
from mpiparallel.cluster.hostfile import Host
from mpiparallel.dataclass import dataclass
from mpiparallel.launch.control.address import own_addresses
from mpiparallel.launch.doctor.conversation import Conversation
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import STATES, Finding, Severity
from mpiparallel.launch.doctor.host_facts import facts_of
from mpiparallel.launch.doctor.ssh import NO_FOLDER, NO_PYTHON, mend_of, remote_program, ssh_argv

GROUP = "Hosts"
_AT_ONCE = 32
_SECONDS_TO_GREET = 15.0
_SECONDS_TO_EXAMINE = 45.0
_SECONDS_TO_ANSWER = 15.0
_CLOCK_TRIES = 5
_SKEW_SECONDS = 0.5
_MODULE = "mpiparallel.launch.doctor.answering"
# What must be equal, how bad it is if not, and the line that mends it.
_EQUAL: Mapping[str, tuple[Severity, str]] = {
    "mpiparallel": ("error", "{python} -m pip install mpiparallel=={here}, on {host}"),
    "mpi": ("error", "install the same MPI on all hosts, under the same path"),
    "python": ("warning", "use one Python on all hosts, under the same path"),
    "numpy": ("warning", "{python} -m pip install numpy=={here}, on {host}"),
    "kernels": ("note", "for sums that are equal to the last bit: export OPENBLAS_CORETYPE=Haswell"),
}
_NOUNS = {"mpi": "MPI library", "kernels": "BLAS kernels"}


@dataclass(frozen=True)
class _Home:
    """What other hosts are held against and asked to find: this machine, its facts, a file and a port of it."""

    machine: ExaminedMachine
    facts: Mapping[str, str]
    token: Path
    port: int


def examine_hosts(hosts: Sequence[Host], machine: ExaminedMachine) -> list[Finding]:
    """Return what is found on ``hosts`` and between them and ``machine``, in their order."""
    with _home(machine) as home, ThreadPoolExecutor(min(_AT_ONCE, max(1, len(hosts)))) as pool:
        found = pool.map(lambda host: list(_visit(host, home)), hosts)
        return [finding for findings in found for finding in findings]


@contextmanager
def _home(machine: ExaminedMachine) -> Iterator[_Home]:
    token = machine.log_dir / f".mpiparallel_doctor_{secrets.token_hex(8)}"
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    # Nobody has to accept: the system answers a connection for us.
    with socket.create_server(("", 0), family=family, backlog=1024, dualstack_ipv6=both) as listener:
        with suppress(OSError):
            token.touch()
        try:
            yield _Home(machine, facts_of(machine), token, listener.getsockname()[1])
        finally:
            with suppress(OSError):
                token.unlink()


def _visit(host: Host, home: _Home) -> Iterator[Finding]:
    if is_here(host):
        yield _finding(host, "host", "ok", "is this machine")
        return
    machine = home.machine
    program = remote_program(machine.python, _MODULE, Path.cwd(), machine.variables)
    start = time.monotonic()
    try:
        with Conversation(
            ssh_argv(host.name, program, machine.mpi.vendor, machine.variables), machine.variables
        ) as host_end:
            if host_end.hear(_SECONDS_TO_GREET) is None:
                yield _unreached(host, home, *host_end.ending())
                return
            yield from _compared(host, home, host_end, time.monotonic() - start)
    except OSError as error:
        what = f"ssh cannot be started ({error.strerror})"
        yield _finding(host, "ssh", "error", what, "apt-get install openssh-client")


def is_here(host: Host) -> bool:
    """Tell whether ``host`` is the machine itself, by a loopback address or its own name."""
    name = socket.gethostname()
    return host.is_local or host.name in (name, name.partition(".")[0])


def _unreached(host: Host, home: _Home, code: int | None, said: str) -> Finding:
    python = home.machine.python
    if code is None:
        what, mend = f"has not answered within {_SECONDS_TO_GREET:g} s", f"ssh -v {host.name} true"
        return _finding(host, "ssh", "error", f"{what}{f': {said}' if said else ''}", mend)
    if code == NO_FOLDER:
        what = f"has no folder {Path.cwd()}, where the ranks would start"
        return _finding(host, "folder", "error", what, "start the job in a folder that all hosts share")
    if code == NO_PYTHON:
        what = f"has no {python}, which mpirun would start there"
        return _finding(host, "Python", "error", what, "install the environment there, under the same path")
    if code == 1 and "No module named" in said:
        what = f"{python} there lacks mpiparallel, or has another version ({said})"
        mend = f"{python} -m pip install mpiparallel=={home.facts['mpiparallel']}, on {host.name}"
        return _finding(host, "mpiparallel", "error", what, mend)
    what = said or f"ssh ended with exit code {code}"
    return _finding(host, "ssh", "error", what, mend_of(said, host.name))


def _compared(host: Host, home: _Home, there: Conversation, seconds: float) -> Iterator[Finding]:
    skew, error = _skew(there)
    addresses = [address for address in own_addresses() if not is_loopback(address)]
    way_back = there.ask({"ask": "connect", "addresses": addresses, "port": home.port}, _SECONDS_TO_ANSWER)
    machine = home.machine
    question = {
        "ask": "examine",
        "ranks": host.slots,
        "log_dir": str(machine.log_dir),
        "checkpoint_dir": str(machine.checkpoint_dir),
        "token": str(home.token),
        "seconds": _SECONDS_TO_EXAMINE / 2,
    }
    answer = there.ask(question, _SECONDS_TO_EXAMINE)
    if skew is None or way_back is None or answer is None:
        what = f"answers ssh, but not the doctor's questions: {there.ending()[1] or 'it says nothing'}"
        yield _finding(host, "host", "error", what, f"ssh {host.name}, and run mpiparallel doctor there")
        return
    # Adding 0.0 turns -0.0 into 0.0.
    told = f"clock {round(skew, 2) + 0.0:+.2f} s, {answer['facts']['mpi'] or 'no MPI'}"
    yield _finding(host, "host", "ok", f"answers in {seconds:.1f} s, {told}")
    if abs(skew) > _SKEW_SECONDS + error:
        mend = f"chronyc makestep, on {host.name} or here"
        yield _finding(host, "clock", "warning", f"is {skew:+.1f} s off this machine's", mend)
    yield from _differences(host, home, answer["facts"])
    if not way_back["reached"]:
        what = f"cannot connect back to {', '.join(way_back['tried']) or 'this machine'}: mpirun would wait for ever"
        mend = "open the TCP ports between the hosts in their firewalls"
        yield _finding(host, "way back", "error", what, mend)
    if not answer["sees_token"] and home.token.exists():
        what = f"does not share {machine.log_dir}: logs and checkpoints of its ranks stay there"
        yield _finding(host, "logs", "warning", what, "--log-dir DIR, a folder that all hosts share")
    for found in answer["findings"]:
        yield _received(host, found)


def _skew(there: Conversation) -> tuple[float | None, float]:
    """Return how far the other clock is ahead, in seconds, by the quickest of a few questions, and its uncertainty."""
    best: tuple[float | None, float] = (None, float("inf"))
    for _ in range(_CLOCK_TRIES):
        before = time.time()
        answer = there.ask({"ask": "clock"}, _SECONDS_TO_ANSWER)
        after = time.time()
        if answer is None:
            return None, 0.0
        if after - before < 2 * best[1]:
            best = answer["clock"] - (before + after) / 2, (after - before) / 2
    return best


def _differences(host: Host, home: _Home, there: Mapping[str, str]) -> Iterator[Finding]:
    for name, (state, mend) in _EQUAL.items():
        here = home.facts[name]
        if there.get(name) != here:
            noun = _NOUNS.get(name, name)
            what = f"is {there.get(name) or 'not there'}, here it is {here or 'not there'}"
            filled = mend.format(python=home.machine.python, here=here, host=host.name)
            yield _finding(host, noun, state, what, filled)


def _received(host: Host, found: Mapping[str, object]) -> Finding:
    words = {name: str(found.get(name, "")) for name in ("subject", "what", "mend", "group")}
    state: Severity = next((state for state in STATES if state == found.get("state")), "warning")
    return Finding(state=state, host=host.name, **words)


def _finding(host: Host, subject: str, state: Severity, what: str, mend: str = "") -> Finding:
    return Finding(subject, state, what, mend, GROUP, host.name)
