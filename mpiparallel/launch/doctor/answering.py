"""The doctor on another host: started there over ssh, it answers questions on stdin, a line of JSON each."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mpiparallel.launch.doctor.examination import examine
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.host_facts import facts_of
from mpiparallel.launch.doctor.registry import CHECKS

_SECONDS_TO_CONNECT = 2.0


def main() -> None:
    """Greet, then answer until stdin ends."""
    _say({"host": socket.gethostname()})
    for line in sys.stdin:
        question = json.loads(line)
        _say(_ANSWERS[question["ask"]](question))


def _clock(question: Mapping[str, Any]) -> dict[str, Any]:
    return {"clock": time.time()}


def _examine(question: Mapping[str, Any]) -> dict[str, Any]:
    log_dir, checkpoint_dir = (Path(question[name]) for name in ("log_dir", "checkpoint_dir"))
    machine = ExaminedMachine(os.environ, question["ranks"], log_dir, checkpoint_dir)
    found = examine(machine, [check for check in CHECKS if not check.here_only], question["seconds"])
    return {
        "facts": facts_of(machine),
        "findings": [asdict(finding) for finding in found],
        "sees_token": Path(question["token"]).exists(),
    }


def _connect(question: Mapping[str, Any]) -> dict[str, Any]:
    """Tell which addresses of the launcher's host can be reached: that which ssh came from, and those it gives."""
    caller = os.environ.get("SSH_CONNECTION", "").split()[:1]
    tried = list(dict.fromkeys([*caller, *question["addresses"]]))
    for address in tried:
        try:
            socket.create_connection((address, question["port"]), _SECONDS_TO_CONNECT).close()
        except OSError:
            continue
        return {"reached": address, "tried": tried}
    return {"reached": "", "tried": tried}


_ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "clock": _clock,
    "connect": _connect,
    "examine": _examine,
}


def _say(words: Mapping[str, Any]) -> None:
    print(json.dumps({"doctor": True, **words}), flush=True)


if __name__ == "__main__":
    main()
