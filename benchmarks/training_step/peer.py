"""The same network trained by PyTorch in a child process of another environment, which runs steps when told to."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("torch_worker.py")
BENCHMARKS = str(Path(__file__).parents[1])


class PeerError(RuntimeError):
    """The peer cannot be started, or it ended."""


class TorchPeer:
    """A child process with one thread, warm when this returns; ``variants`` are the ways in which it can run a step.

    ``peer`` is what the program ``worker`` takes, by default that of a training step. Raises PeerError when
    the process ends, with what it said.
    """

    def __init__(self, python: str | Path, peer: Mapping[str, Any], worker: Path | None = None) -> None:
        self._python = str(python)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": BENCHMARKS}
        try:
            self._child = subprocess.Popen(
                [self._python, str(worker or WORKER), json.dumps(dict(peer))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                text=True,
            )
        except OSError as error:
            raise PeerError(
                f"the peer's Python {self._python} cannot be started ({error}); give --peer_python"
            ) from error
        ready = self._answer()
        self.version: str = ready["version"]
        self.variants: list[str] = ready["variants"]

    def run(self, variant: str, steps: int) -> list[float]:
        """Return the seconds of each of so many steps."""
        if self._child.stdin is not None:
            self._child.stdin.write(f"{variant} {steps}\n")
            self._child.stdin.flush()
        seconds: list[float] = self._answer()
        return seconds

    def close(self) -> int:
        """End the child; return its exit code."""
        self._child.communicate()
        return self._child.returncode

    def _answer(self) -> Any:
        line = self._child.stdout.readline() if self._child.stdout else ""
        if not line:
            raise PeerError(
                f"the peer in PyTorch ended with exit code {self.close()}: see its message above; "
                f"{self._python} must have torch, as `make test-interop` installs it in .venv-torch"
            )
        return json.loads(line)


def free_port() -> int:
    """Return a TCP port of this host that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
