"""What rank 0 starts: the process that runs mpirun for all, and what that has to say."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from mpiparallel.cluster.gathering.hand_started import HandStarted
from mpiparallel.communication.gathering.origin import Origin
from mpiparallel.errors import LaunchError

_PACKAGE_FOLDER = str(Path(__file__).parents[3])
_READ_BYTES = 65536


class MpirunStarter:
    """The process that starts mpirun for all processes of ``started``; it is none of this one's children."""

    def __init__(self, started: HandStarted, origin: Origin) -> None:
        self._started = started
        self._heard = b""
        self._words, own = os.pipe()
        try:
            command = [sys.executable, "-m", "mpiparallel.launch.gathering", *_arguments(started, origin), str(own)]
            subprocess.run(
                command, cwd="/", env=_environment(), stdin=subprocess.DEVNULL, pass_fds=[own], check=True, timeout=60
            )
        except (OSError, subprocess.SubprocessError) as error:
            os.close(self._words)
            raise LaunchError(f"init: mpirun could not be started ({error}); use {started.command}") from error
        finally:
            os.close(own)

    def check(self) -> None:
        """Raise LaunchError where the job could not be started; return at once otherwise."""
        words = self.last_words(0)
        if words is not None:
            raise LaunchError(f"init: the processes could not be made one job: {words}\n  use {self._started.command}")

    def last_words(self, seconds: float) -> str | None:
        """Return what there is to say of the end of the job, None where it has not ended within ``seconds``."""
        while select.select([self._words], [], [], seconds)[0]:
            piece = os.read(self._words, _READ_BYTES)
            if not piece:
                return self._heard.decode(errors="replace").strip() or "mpirun has ended"
            self._heard += piece
        return None


def _arguments(started: HandStarted, origin: Origin) -> list[str]:
    words = ["--ranks", str(started.size), "--digest", started.digest, "--seconds", str(started.seconds)]
    if started.table_path and not started.is_local:
        words += ["--rank-table", str(started.table_path)]
    return [*words, "--origin", json.dumps(asdict(origin)), "--words"]


def _environment() -> dict[str, str]:
    """Return this process's environment, in which another one finds this package too."""
    known = os.environ.get("PYTHONPATH", "")
    folders = [os.path.abspath(folder) for folder in known.split(os.pathsep) if folder]  # noqa: PTH100
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys([*folders, _PACKAGE_FOLDER]))}
