"""What each kind of fault does, where it need not be seen from outside of its process."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.cluster.fault_plan import FaultPlan, PlannedFault
from mpiparallel.communication.fault_injection import full_disk
from mpiparallel.communication.fault_injection.actions import inject_fault
from mpiparallel.communication.fault_injection.flipped_bit import flip_newest_shard, newest_shard
from mpiparallel.communication.fault_injection.full_disk import fill_disk
from mpiparallel.errors import ConfigurationError


def fault(kind: str) -> PlannedFault:
    return FaultPlan.parse(f"{kind}@0:5").faults(1)[0]


class Listening:
    """A communicator of three that says what is called."""

    size = 3

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def barrier(self) -> None:
        self.told.append(("barrier",))

    def broadcast(self, array: Any, root: int) -> None:
        self.told.append(("broadcast", array.dtype, array.shape, root))

    def all_reduce(self, array: Any) -> None:
        self.told.append(("all_reduce", array.dtype, array.shape))


@pytest.mark.parametrize(
    ("kind", "operation", "called"),
    [
        ("wrong-operation", "barrier", ("broadcast", np.float32, (1,), 0)),
        ("wrong-operation", "all_reduce", ("barrier",)),
        ("wrong-dtype", "all_reduce", ("all_reduce", np.int16, (1,))),
        ("wrong-count", "all_reduce", ("all_reduce", np.float32, (999_983,))),
        ("wrong-root", "broadcast", ("broadcast", np.float32, (1,), 2)),
    ],
)
def test_a_wrong_collective_is_one_more_that_none_is_likely_to_make(
    tmp_path: Path, kind: str, operation: str, called: tuple[Any, ...]
) -> None:
    communicator: Any = Listening()
    inject_fault(fault(kind), operation, communicator, tmp_path)
    assert communicator.told == [called]
    inject_fault(fault(kind), operation, None, tmp_path)


class WorkingError(Exception):
    """A process has computed for so long."""


def test_a_loop_computes(tmp_path: Path) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        raise WorkingError

    before, begun = signal.signal(signal.SIGVTALRM, stop), time.process_time()
    try:
        # It counts what the process computes, not the time of the clock.
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.01)
        with pytest.raises(WorkingError):
            inject_fault(fault("loop"), "all_reduce", None, tmp_path)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert time.process_time() > begun


def commit(manifest: Path, content: bytes, moment: int) -> None:
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_bytes(content)
    os.utime(manifest, (moment, moment))


def manifest_of(*shards: str) -> bytes:
    return json.dumps({"manifest": {"shards": [{"file": name} for name in shards]}}).encode()


class Chosen(random.Random):
    """A chance that is none."""

    def __init__(self, bit: int) -> None:
        super().__init__()
        self.bit = bit
        self.of: list[int] = []

    def randrange(self, *limits: int) -> int:  # type: ignore[override]
        self.of += limits
        return self.bit


@pytest.mark.parametrize(("bit", "changed"), [(0, b"\x01\x00"), (7, b"\x80\x00"), (8, b"\x00\x01"), (15, b"\x00\x80")])
def test_a_flip_turns_over_the_bit_drawn_among_all_of_the_shard_and_back(
    tmp_path: Path, bit: int, changed: bytes
) -> None:
    shard = tmp_path / "rank_0" / "net.h5"
    shard.parent.mkdir()
    shard.write_bytes(bytes(2))
    commit(tmp_path / "net.manifest.json", manifest_of("rank_0/net.h5"), 1)
    for content in (changed, bytes(2)):
        chance = Chosen(bit)
        told = flip_newest_shard(tmp_path, 0, chance)
        assert told == f"{shard}: turned over bit {bit % 8} of byte {bit // 8}"
        assert (chance.of, shard.read_bytes()) == ([16], content)


def test_a_flip_on_purpose_is_told_and_is_the_same_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.h5").write_bytes(bytes(1000))
    commit(tmp_path / "net.manifest.json", manifest_of("net.h5"), 1)
    for _ in range(2):
        inject_fault(fault("flip"), "all_reduce", None, tmp_path)
    # What was turned over twice is as it was.
    assert (tmp_path / "net.h5").read_bytes() == bytes(1000)
    first, second = capsys.readouterr().err.splitlines()
    assert first == second
    assert first.startswith(f"mpiparallel: chaos: {tmp_path / 'net.h5'}: turned over bit ")
    inject_fault(fault("flip"), "all_reduce", None, tmp_path / "none")
    missing = f"{tmp_path / 'none'}: rank 0 has no committed shard there; name its folder by folder=PATH"
    assert capsys.readouterr().err == f"mpiparallel: chaos: {missing}\n"


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"3",
        b"[]",
        b"{}",
        b'{"manifest": 3}',
        b'{"manifest": {"shards": 3}}',
        b'{"manifest": {"shards": [{}, {}]}}',
        manifest_of("old.h5"),
        manifest_of("old.h5", "missing.h5"),
        manifest_of("old.h5", "empty.h5"),
    ],
)
def test_a_manifest_that_names_no_shard_with_content_of_a_rank_is_passed_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "old.h5").write_bytes(b"content")
    (tmp_path / "empty.h5").touch()
    commit(tmp_path / "new.manifest.json", content, 2)
    assert newest_shard(tmp_path, 1) is None
    commit(tmp_path / "old.manifest.json", manifest_of("other.h5", "old.h5"), 1)
    assert newest_shard(tmp_path, 1) == tmp_path / "old.h5"


@pytest.mark.parametrize(("depth", "is_found"), [("", True), ("a", True), ("a/b", True), ("a/b/c", False)])
def test_checkpoints_are_looked_for_up_to_two_folders_below(tmp_path: Path, depth: str, is_found: bool) -> None:
    commit(tmp_path / depth / "net.manifest.json", manifest_of("net.h5"), 1)
    (tmp_path / depth / "net.h5").write_bytes(b"x")
    assert newest_shard(tmp_path, 0) == (tmp_path / depth / "net.h5" if is_found else None)


class Kernel:
    """The calls of a C library; ``refuses`` names the one that fails with EINVAL."""

    def __init__(self, refuses: str) -> None:
        self.refuses = refuses
        self.told: list[tuple[Any, ...]] = []
        self.lines: list[tuple[int, ...]] = []

    def prctl(self, *arguments: int) -> int:
        return self._called("prctl", *arguments)

    def syscall(self, *arguments: Any) -> int:
        *numbers, program = arguments
        found = program._obj
        content = ctypes.string_at(found.instructions, 8 * found.length)
        self.lines = list(struct.iter_unpack("HBBI", content))
        return self._called("syscall", *numbers)

    def _called(self, name: str, *arguments: int) -> int:
        self.told.append((name, *arguments))
        if name != self.refuses:
            return 0
        ctypes.set_errno(errno.EINVAL)
        return -1


@contextmanager
def kernel_of(patch: pytest.MonkeyPatch, machine: str, refuses: str = "") -> Iterator[Kernel]:
    kernel = Kernel(refuses)
    with patch.context() as context:
        context.setattr(full_disk, "platform", SimpleNamespace(machine=lambda: machine))
        context.setattr(ctypes, "CDLL", lambda name, use_errno: kernel)
        yield kernel


def answer(lines: Sequence[tuple[int, ...]], machine: int, call: int) -> int:
    """Return what a filter says, as the kernel carries it out: loads, jumps if equal, and returns."""
    loaded, at = {0: call, 4: machine}, 0
    value = -1
    while True:
        code, if_equal, if_not, operand = lines[at]
        at += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            value = loaded[operand]
        else:
            assert code == 0x15
            at += if_equal if value == operand else if_not


# linux/audit.h, and asm/unistd.h: pwrite64, pwritev and pwritev2; write, writev, pread64, sendto and exit_group.
MACHINES = {
    "x86_64": (0xC000003E, 317, (18, 296, 328), (1, 20, 17, 44, 231)),
    "aarch64": (0xC00000B7, 277, (68, 70, 287), (64, 66, 67, 206, 94)),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_full_disk_refuses_writes_at_offsets_and_no_other_call(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    audit, seccomp, refused, allowed = MACHINES[machine]
    with kernel_of(monkeypatch, machine) as kernel:
        fill_disk()
    # PR_SET_NO_NEW_PRIVS, without which only root may; SECCOMP_SET_MODE_FILTER on all threads.
    assert kernel.told == [("prctl", 38, 1, 0, 0, 0), ("syscall", seccomp, 1, 1)]
    failing, passing = 0x00050000 | errno.ENOSPC, 0x7FFF0000
    assert [answer(kernel.lines, audit, call) for call in refused] == [failing] * 3
    assert {answer(kernel.lines, audit, call) for call in allowed} == {passing}
    # Another kind of processor has other numbers: 32-bit programs are left alone.
    assert {answer(kernel.lines, 0x40000003, call) for call in (*refused, *allowed)} == {passing}


def test_where_a_disk_cannot_be_filled_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with kernel_of(monkeypatch, "riscv64") as kernel, pytest.raises(ConfigurationError) as caught:
        fill_disk()
    assert str(caught.value) == "chaos full-disk: not for riscv64; leave that kind out of --chaos"
    assert kernel.told == []
    for refuses, calls in (("prctl", 1), ("syscall", 2)):
        with kernel_of(monkeypatch, "x86_64", refuses) as kernel, pytest.raises(ConfigurationError) as caught:
            fill_disk()
        words = "chaos full-disk: seccomp: Invalid argument; leave that kind out of --chaos"
        assert (str(caught.value), len(kernel.told)) == (words, calls)
