"""What runs beside a rank in the environment of the peers: ``python peer_worker.py '{"task": ..., "loads": ...}'``.

It answers each line of its input with one line of JSON: the names of the methods that can run here, then, for ``run
NAME``, when that began and ended, for ``difference NAME`` a tensor that was loaded wrongly or the empty text.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))


def main() -> None:
    """Make each method ready, tell so, and do what is asked until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    import torch
    from checkpointing.methods import Task
    from checkpointing.torch_methods import LOADERS, SAVERS

    torch.set_num_threads(1)
    told = json.loads(sys.argv[1])
    known: dict[str, Any] = LOADERS if told["loads"] else SAVERS
    methods = {name: known[name](Task(**told["task"])) for name in told["methods"]}
    _say(answers, {"version": torch.__version__, "methods": list(methods)})
    for line in sys.stdin:
        command, _, name = line.strip().partition(" ")
        if command == "run":
            start = time.perf_counter()
            methods[name].run()
            _say(answers, [start, time.perf_counter()])
        elif command == "difference":
            _say(answers, methods[name].difference())
    os._exit(0)


def _say(answers: Any, answer: object) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
