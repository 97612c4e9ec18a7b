"""What a device tells of itself, what it shares with other processes, and who has its memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.gpu.ledger import DeviceLedger, HeldMemory
from mpiparallel.backend.gpu.links import DeviceLinks
from mpiparallel.backend.gpu.shared_block import AddressedBytes, SharedBlocks, memory_space
from mpiparallel.backend.gpu.wait import before_waiting, forget_watches, watch_device
from mpiparallel.errors import CommunicationError


class Runtime:
    """CUDA's runtime with two devices; it writes down what it is asked."""

    def __init__(self, status: int = 0) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._status = status

    def getDeviceProperties(self, device: int) -> dict[str, bytes]:  # noqa: N802
        return {"uuid": bytes([device, 255])}

    def deviceGetPCIBusId(self, device: int) -> str:  # noqa: N802
        return f"0000:1{device}:00.0"

    def memGetInfo(self) -> tuple[int, int]:  # noqa: N802
        return 3, 7

    def streamQuery(self, pointer: int) -> int:  # noqa: N802
        self.asked.append(("query", pointer))
        return self._status

    def check_status(self, status: int) -> None:
        self.asked.append(("check", status))


def links(runtime: Any) -> DeviceLinks:
    return DeviceLinks(SimpleNamespace(runtime=runtime), 1)


def test_a_device_has_its_own_number_card_and_memory() -> None:
    found = links(Runtime())
    assert (found.uuid, found.card, found.memory_bytes) == ("01ff", "0000:11:00.0", 7)


@pytest.mark.parametrize(("is_there", "version"), [(True, 22707), (False, 0)])
def test_nccl_is_none_where_its_library_cannot_be_loaded(
    is_there: bool, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nccl = SimpleNamespace(available=is_there, get_version=lambda: 22707)
    for name in ("cupy", "cupy.cuda"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", nccl)
    found = links(Runtime())
    assert (found.nccl, found.nccl_version) == (nccl if is_there else None, version)


@pytest.mark.parametrize(("status", "checked"), [(0, [("check", 0)]), (600, []), (719, [("check", 719)])])
def test_work_that_is_under_way_is_no_failure_of_a_device(status: int, checked: list[Any]) -> None:
    runtime = Runtime(status)
    links(runtime).check(SimpleNamespace(ptr=5))
    assert runtime.asked == [("query", 5), *checked]


def test_the_seconds_of_work_lie_between_events_before_and_after_it() -> None:
    told: list[Any] = []

    class Event:
        def record(self, stream: str) -> None:
            told.append(("record", stream))

        def synchronize(self) -> None:
            told.append("waits")

    cuda = SimpleNamespace(Event=Event, get_elapsed_time=lambda first, last: 250.0 if first is not last else 0.0)
    watch_device(lambda: told.append("looks"))
    try:
        assert DeviceLinks(cuda, 0).seconds("s", lambda: told.append("work")) == 0.25
    finally:
        forget_watches()
    assert told == [("record", "s"), "work", ("record", "s"), "looks", "waits"]


def test_watches_are_called_in_their_order_until_they_are_forgotten() -> None:
    told: list[int] = []
    for number in range(3):
        watch_device(lambda number=number: told.append(number))  # type: ignore[misc]
    before_waiting()
    forget_watches()
    before_waiting()
    assert told == [0, 1, 2]


def test_blocks_are_made_named_opened_and_given_back_by_cuda() -> None:
    calls = {"malloc": 64, "free": None, "ipcGetMemHandle": b"name", "ipcOpenMemHandle": 128, "ipcCloseMemHandle": None}
    asked: list[tuple[str, Any]] = []

    def answering(name: str) -> Any:
        return lambda argument: asked.append((name, argument)) or calls[name]

    blocks = SharedBlocks(SimpleNamespace(**{name: answering(name) for name in calls}))
    assert (blocks.allocate(9), blocks.name(64), blocks.open(b"other")) == (64, b"name", 128)
    blocks.close(128)
    blocks.free(64)
    assert asked == [
        ("malloc", 9),
        ("ipcGetMemHandle", 64),
        ("ipcOpenMemHandle", b"other"),
        ("ipcCloseMemHandle", 128),
        ("free", 64),
    ]


def test_what_cuda_refuses_is_told_with_the_call_and_the_mend() -> None:
    def refuse(argument: int) -> int:
        raise RuntimeError("out of memory")

    with pytest.raises(CommunicationError) as caught:
        SharedBlocks(SimpleNamespace(malloc=refuse)).allocate(9)
    assert str(caught.value) == (
        "memory of the GPU cannot be shared between processes (malloc): out of memory; "
        "MPIPARALLEL_TRANSPORT=staging does without"
    )


def test_bytes_at_an_address_are_described_as_array_libraries_want_it() -> None:
    assert AddressedBytes(4096, 12).__cuda_array_interface__ == {
        "shape": (12,),
        "typestr": "|u1",
        "data": (4096, False),
        "strides": None,
        "version": 3,
    }
    assert memory_space() == f"{os.getpid()} of {Path('/proc/self/ns/pid').readlink()}"


def test_a_ledger_has_what_is_large_and_alive_and_belongs_to_somebody() -> None:
    ledger = DeviceLedger()

    def array(nbytes: int) -> Any:
        return np.empty(nbytes, np.uint8)[:]

    sizes = {"least": 1 << 16, "small": (1 << 16) - 1, "largest": 1 << 18, "": 1 << 18}
    kept = {holder: array(nbytes) for holder, nbytes in sizes.items()}
    for holder, one in kept.items():
        ledger.note(one, holder)
    assert ledger.largest() == [HeldMemory(1 << 18, "largest"), HeldMemory(1 << 16, "least")]
    del kept["largest"], one
    assert ledger.largest() == [HeldMemory(1 << 16, "least")]


@pytest.mark.parametrize(
    ("wanted", "free", "words"),
    [
        (999_900_000, 1_000_000_000, "an array wants 999.9 MB, 1.00 GB of 80.00 GB are free"),
        (1_375_000_000, 1_750_000, "an array wants 1.38 GB, 1.8 MB of 80.00 GB are free"),
        (999_999_999, 0, "an array wants 1000.0 MB, 0.0 MB of 80.00 GB are free"),
        (1_000_000_000, 0, "an array wants 1.00 GB, 0.0 MB of 80.00 GB are free"),
    ],
)
def test_bytes_are_told_in_the_unit_that_suits_them(wanted: int, free: int, words: str) -> None:
    told = DeviceLedger().out_of_memory(wanted, "", free, 80_000_000_000)
    assert told == f"out of GPU memory: {words}; take a smaller batch, or more ranks"


def test_the_largest_holders_are_listed_where_memory_is_out() -> None:
    ledger, kept = DeviceLedger(), [np.empty(number << 20, np.uint8)[:] for number in (1, 3)]
    for number, one in enumerate(kept):
        ledger.note(one, f"weight {number}")
    assert ledger.out_of_memory(2_000_000, "bias", 0, 10_000_000) == (
        "out of GPU memory: bias wants 2.0 MB, 0.0 MB of 10.0 MB are free; the largest holders here: weight 1 3.1 MB, "
        "weight 0 1.0 MB; take a smaller batch, or more ranks"
    )
