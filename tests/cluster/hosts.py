"""Hosts of a cluster as tests use them: run commands on them, and make them fail."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance import patience

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code (-9 for SIGKILL), what it printed, and how long it ran."""

    code: int
    output: str
    errors: str
    seconds: float


class Running:
    """A command that runs on a host; what it prints goes to files, so that no orphan can hold up its end."""

    def __init__(self, hosts: Hosts, process: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        self.process = process
        self.begun = time.monotonic()
        self._hosts = hosts
        self._output = output
        self._errors = errors

    @property
    def output(self) -> str:
        """What it has printed to stdout so far."""
        return self._output.read_text(errors="replace")

    @property
    def errors(self) -> str:
        """What it has printed to stderr so far."""
        return self._errors.read_text(errors="replace")

    def ended(self, timeout: float) -> Ended:
        """Wait for its end; the test fails if that is not within ``timeout`` seconds of a quiet machine."""
        waiting = patience.Patience(timeout)
        while self.process.poll() is None and waiting.is_left():
            time.sleep(_POLL_SECONDS)
        code = self.process.poll()
        if code is None:
            left = {host: sorted(self._hosts.processes(host).values()) for host in self._hosts.names}
            self._hosts.restore()
            self.process.wait()
            pytest.fail(f"not ended within {timeout:g} s; on the hosts: {left}\n{self.output}\n{self.errors}")
        return Ended(code, self.output, self.errors, time.monotonic() - self.begun)


class Hosts:
    """The hosts of a script such as ssh_cluster.sh, which it holds up until ``close``, or the death of this process."""

    def __init__(self, script: Path, folder: Path, names: Sequence[str]) -> None:
        self.folder = folder
        self.names = tuple(names)
        self._script = script
        self._settings = {"CLUSTER_DIR": str(folder / "hosts"), "CLUSTER_PREFIX": f"{script.stem[:3]}{os.getpid()}"}
        self._residents: dict[str, set[int]] = {}
        self._commands = 0
        self._holder = subprocess.Popen(
            [script, "hold", *names],
            env={**os.environ, **self._settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        said = self._holder.stdout.readline() if self._holder.stdout else ""
        if not said.startswith("up:"):
            raise RuntimeError(f"{script.name} hold {' '.join(names)}: {said}{self._holder.communicate()[0]}")
        for host in names:
            self._residents[host] = set(self.processes(host))

    def begin(
        self,
        command: Sequence[object],
        host: str = "n0",
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Running:
        """Start ``command`` inside ``host``, in ``folder``; PATH, LANG, HOME, TMPDIR and ``environment`` are set."""
        self._commands += 1
        output, errors = (self.folder / f"{self._commands}.{name}" for name in ("output", "errors"))
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            process = subprocess.Popen(
                [self._script, "run", "-h", host, *map(str, command)],
                env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **self._settings, **(environment or {})},
                cwd=folder or self.folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        return Running(self, process, output, errors)

    def run(
        self,
        command: Sequence[object],
        host: str = "n0",
        timeout: float = 60.0,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Ended:
        """Run ``command`` inside ``host`` to its end; the test fails if that is not within ``timeout`` seconds."""
        return self.begin(command, host, environment, folder).ended(timeout)

    def processes(self, host: str, *words: str) -> dict[int, str]:
        """Return the command lines in ``host`` that hold all of ``words``, by their pids as seen from outside."""
        try:
            namespace = Path(f"/proc/{self._first_process(host)}/ns/pid").readlink()
        except OSError:
            return {}
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    if line and (entry / "ns/pid").readlink() == namespace and all(word in line for word in words):
                        found[int(entry.name)] = line
        return found

    def left_after(self, seconds: float, *words: str) -> dict[str, list[str]]:
        """Wait until no process on any host has all of ``words``, at most so long; return those that are left."""
        waiting = patience.Patience(seconds)
        while True:
            lines = {host: sorted(self.processes(host, *words).values()) for host in self.names}
            left = {host: found for host, found in lines.items() if found}
            if not left or not waiting.is_left():
                return left
            time.sleep(_POLL_SECONDS)

    def crash(self, host: str) -> None:
        """Power ``host`` off: all its processes die at once."""
        self._act("crash", host)

    def start(self, host: str) -> None:
        """Power ``host`` on again, and wait until its services answer."""
        self._act("start", host)
        self._residents[host] = set(self.processes(host))

    def cut(self, host: str) -> None:
        """Unplug the network of ``host``; its processes go on."""
        self._act("cut", host)

    def heal(self, host: str) -> None:
        """Plug the network of ``host`` in again."""
        self._act("heal", host)

    def restore(self) -> None:
        """Bring every host back to how it came up: powered on, connected, nothing but its services running."""
        for host in self.names:
            self.heal(host)
            for pid in self.processes(host):
                if pid not in self._residents[host]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            if not self.processes(host):
                self.start(host)

    def close(self) -> None:
        """Take all down; nothing of the hosts is left."""
        patience.communicated(self._holder)

    def hostfile(self, slots: int = 2) -> Path:
        """Write a hostfile of all hosts, ``slots`` ranks on each, and return its path."""
        path = self.folder / f"hostfile_{slots}"
        path.write_text("".join(f"{host} slots={slots}\n" for host in self.names))
        return path

    def _first_process(self, host: str) -> int:
        return int((self.folder / "hosts" / host / "init.pid").read_text())

    def _act(self, action: str, host: str) -> None:
        patience.run(
            [self._script, action, host],
            env={**os.environ, **self._settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )
