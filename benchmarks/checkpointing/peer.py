"""A process of another environment beside a rank, for the methods that are only there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from checkpointing.methods import Span, Task, Unsuited

_WORKER = Path(__file__).with_name("peer_worker.py")
_OF_THE_RANK = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "MPI_")


class Peer:
    """The process beside this rank; its methods are warm when this returns."""

    def __init__(self, python: str, task: Task, methods: Sequence[str], loads: bool) -> None:
        if not Path(python).exists():
            raise Unsuited(f"no {python}: make .venv-torch/.interop")
        told = json.dumps({"task": asdict(task), "methods": list(methods), "loads": loads})
        variables = {name: value for name, value in os.environ.items() if not name.startswith(_OF_THE_RANK)}
        self._child = subprocess.Popen(
            [python, str(_WORKER), told], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, text=True
        )
        self.version: str = self.answer()["version"]

    def ask(self, question: str) -> Any:
        """Return the answer to a line."""
        if self._child.stdin is not None:
            self._child.stdin.write(f"{question}\n")
            self._child.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        """Return the next line that it says. Raises Unsuited when it has ended."""
        line = self._child.stdout.readline() if self._child.stdout else ""
        if not line:
            raise Unsuited(f"the process of the peer ended with exit code {self.close()}; see above what it said")
        return json.loads(line)

    def close(self) -> int:
        """End the process; return its exit code."""
        self._child.communicate()
        return self._child.returncode


class InPeer:
    """A method that runs in the process beside this rank."""

    def __init__(self, peer: Peer, name: str) -> None:
        self._peer, self._name = peer, name

    def run(self) -> Span:
        return Span(*self._peer.ask(f"run {self._name}"))

    def difference(self) -> str:
        found: str = self._peer.ask(f"difference {self._name}")
        return found

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass
