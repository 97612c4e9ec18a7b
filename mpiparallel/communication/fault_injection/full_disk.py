"""A disk that is full for one process: its writes at offsets fail with ENOSPC, in the kernel.

Checkpoints are written that way, logs, pipes and sockets are not, so the rank can still say what happened to it. It
cannot be undone. The system call seccomp(2) does it. A limit on the size of files (RLIMIT_FSIZE) would give EFBIG, and
fall on logs and on the memory that ranks share too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import NamedTuple

from mpiparallel.errors import ConfigurationError


class _Machine(NamedTuple):
    """The numbers by which the kernel knows a kind of processor and its calls."""

    audit: int
    seccomp: int
    writes: tuple[int, ...]


# pwrite64, pwritev, pwritev2
_MACHINES = {
    "x86_64": _Machine(0xC000003E, 317, (18, 296, 328)),
    "aarch64": _Machine(0xC00000B7, 277, (68, 70, 287)),
}
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_ALL_THREADS = 1
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_CALL_AT, _AUDIT_AT = 0, 4
_INSTRUCTION = "HBBI"
_ALLOW = 0x7FFF0000
_FAIL = 0x00050000


class _Program(ctypes.Structure):
    """struct sock_fprog of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def fill_disk() -> None:
    """Let every pwrite of this process fail with ENOSPC from now on, on all its threads.

    Raises ConfigurationError where the kernel or the processor cannot do that.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise ConfigurationError(f"chaos full-disk: not for {platform.machine()}; leave that kind out of --chaos")
    library = ctypes.CDLL(None, use_errno=True)
    instructions = _filter(machine)
    memory = ctypes.create_string_buffer(instructions, len(instructions))
    program = _Program(len(instructions) // struct.calcsize(_INSTRUCTION), ctypes.addressof(memory))
    failed = library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if failed or library.syscall(machine.seccomp, _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(program)):
        reason = os.strerror(ctypes.get_errno())
        raise ConfigurationError(f"chaos full-disk: seccomp: {reason}; leave that kind out of --chaos")


def _filter(machine: _Machine) -> bytes:
    """Return the instructions (struct sock_filter) that let the writes fail and everything else be done."""
    writes = machine.writes
    lines = [
        (_LOAD, 0, 0, _AUDIT_AT),
        (_JUMP_IF_EQUAL, 0, len(writes) + 1, machine.audit),
        (_LOAD, 0, 0, _CALL_AT),
        *((_JUMP_IF_EQUAL, len(writes) - place, 0, number) for place, number in enumerate(writes)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL | errno.ENOSPC),
    ]
    return b"".join(struct.pack(_INSTRUCTION, *line) for line in lines)
