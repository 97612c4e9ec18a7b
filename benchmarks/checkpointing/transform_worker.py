"""One conversion in a process of its own: ``python transform_worker.py '{"way": ..., "source": ..., ...}'``.

It says in JSON how long it took and by how much the resident memory of the largest process has grown.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PIECE = 4 << 20


def main() -> None:
    """Convert as told."""
    told = json.loads(sys.argv[1])
    convert = {"copy": _copy, "ours": _ours, "mindspore": _theirs}[told["way"]](told)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, start = _status("VmRSS"), time.perf_counter()
    convert()
    seconds = time.perf_counter() - start
    peak = _status("VmHWM")
    if told["processes"] > 1:
        peak = max(peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
    sys.stdout.write(json.dumps({"seconds": seconds, "grown": peak - before}) + "\n")


def _ours(told: dict[str, Any]) -> Callable[[], object]:
    from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoints

    return lambda: transform_checkpoints(
        told["source"],
        told["target"],
        "new",
        told["source_strategy"],
        told["target_strategy"],
        process_num=told["processes"],
    )


def _theirs(told: dict[str, Any]) -> Callable[[], object]:
    import mindspore

    return lambda: mindspore.transform_checkpoints(
        told["source"], told["target"], "new", told["source_strategy"], told["target_strategy"]
    )


def _copy(told: dict[str, Any]) -> Callable[[], object]:
    def copy() -> None:
        buffer = memoryview(bytearray(_PIECE))
        for source in sorted(Path(told["source"]).rglob("*.ckpt")):
            target = Path(told["target"]) / source.parent.name
            target.mkdir(parents=True)
            given, taken = os.open(source, os.O_RDONLY), os.open(target / source.name, os.O_WRONLY | os.O_CREAT)
            while count := os.readv(given, [buffer]):
                os.write(taken, buffer[:count])
            os.fsync(taken)
            os.close(given)
            os.close(taken)

    return copy


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
