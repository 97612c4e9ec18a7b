"""What each kind of injected fault does to its process."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from mpiparallel.cluster.fault_plan import PlannedFault
from mpiparallel.communication.fault_injection.flipped_bit import flip_newest_shard
from mpiparallel.communication.fault_injection.full_disk import fill_disk
from mpiparallel.communication.protocol import Communicator

EXIT_CODE: Final = 13
"""With which ``exit`` leaves."""
_ODD_COUNT = 999_983


def inject_fault(fault: PlannedFault, operation: str, communicator: Communicator | None, folder: Path) -> None:
    """Let ``fault`` strike this process, which is about to call ``operation`` on ``communicator``.

    A ``wrong-...`` collective is one more, of this rank alone, before the one that is due; ``folder`` is that of
    ``flip``.
    """
    if fault.kind == "exception":
        raise RuntimeError(f"chaos: {fault}")
    if fault.kind == "flip":
        chance = random.Random(f"{fault.rank} {fault.count}")
        print(f"mpiparallel: chaos: {flip_newest_shard(folder, fault.rank, chance)}", file=sys.stderr, flush=True)
    elif fault.kind in _WRONG:
        if communicator is not None:
            _WRONG[fault.kind](operation, communicator)
    else:
        _ALONE[fault.kind]()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _crash() -> None:
    ctypes.string_at(0)


def _exit() -> None:
    os._exit(EXIT_CODE)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _leave() -> None:
    sys.exit(0)


def _loop() -> None:
    while True:
        pass


def _call_another(operation: str, communicator: Communicator) -> None:
    if operation == "barrier":
        communicator.broadcast(np.zeros(1, np.float32), 0)
    else:
        communicator.barrier()


def _call_another_dtype(operation: str, communicator: Communicator) -> None:
    communicator.all_reduce(np.zeros(1, np.int16))


def _call_another_count(operation: str, communicator: Communicator) -> None:
    communicator.all_reduce(np.zeros(_ODD_COUNT, np.float32))


def _call_another_root(operation: str, communicator: Communicator) -> None:
    communicator.broadcast(np.zeros(1, np.float32), communicator.size - 1)


_ALONE: Mapping[str, Callable[[], None]] = {
    "kill": _kill,
    "segfault": _crash,
    "exit": _exit,
    "stop": _stop,
    "leave": _leave,
    "loop": _loop,
    "full-disk": fill_disk,
}
_WRONG: Mapping[str, Callable[[str, Communicator], None]] = {
    "wrong-operation": _call_another,
    "wrong-dtype": _call_another_dtype,
    "wrong-count": _call_another_count,
    "wrong-root": _call_another_root,
}
