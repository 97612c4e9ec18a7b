"""Live state that moves between devices that are not there: NumPy's slices are the truth."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import (
    CommunicationError,
    ConfigurationError,
    MpiParallelError,
    RankFailureError,
    ReshardError,
)
from mpiparallel.parallel import device_space
from mpiparallel.parallel.device_space import DeviceExecutor, DeviceSpace, moves_on_devices
from mpiparallel.reshard import Movement, ReshardOptions
from tests.conformance.cuda_emulator.emulator import NO_COMPILER, EmulatedKernels, compiler
from tests.conformance.hidden_arrays.array import HiddenArray, LeakError
from tests.conformance.hidden_arrays.backend import hidden_backend
from tests.conformance.hidden_arrays.nccl import NcclCommunicator
from tests.conformance.hidden_arrays.ranks import gpus_of_their_own, travel_by
from tests.conformance.hidden_arrays.stream import DEVICE
from tests.conformance.resharding.faulty_moves import VICTIM
from tests.conformance.resharding.reshard_cases import MODES, Case, Seeded, any_case
from tests.conformance.resharding.reshard_claims import assert_state
from tests.conformance.resharding.reshard_states import RANKS, state

WAYS = ("staging", "nccl", "ipc", "mpi")
MANY_WINDOWS = 4096
DTYPES = {"?", "i1", "i2", "i4", "i8", "u1", "u2", "u8", "f2", "f4", "f8", "bfloat16", "F", "D"}


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        yield patch


class Moving:
    """A rank's arrays on its device, and their move."""

    def __init__(self, communicator: Communicator, case: Case, kernels: Any = None) -> None:
        self.case, self.communicator = case, communicator
        self.backend: Any = hidden_backend(kernels)
        self.given = {
            name: self.backend.from_host(np.ascontiguousarray(part).reshape(part.shape))
            for name, part in case.given(communicator.rank).items()
        }
        options = ReshardOptions(**case.options)
        assert moves_on_devices(self.backend, options, communicator)
        space = DeviceSpace(self.backend, options, communicator)
        self.movement = Movement(dict(self.given), case.source, case.target, communicator, options, space=space)

    def check(self) -> None:
        """What the rank holds is what its layouts say, and what was given is as it was."""
        for arrays, layouts in ((self.movement.arrays, self.movement.layouts), (self.given, self.case.source)):
            held: dict[str, Any] = {name: self.backend.to_host(array) for name, array in arrays.items()}
            assert_state(self.case, held, layouts, self.communicator.rank)


def moves(communicator: Communicator, case: Case, kernels: Any = None) -> int:
    """Move there and back; return how many arrays the host has read meanwhile."""
    moving = Moving(communicator, case, kernels)
    reads = DEVICE.reads
    report = moving.movement.forward()
    reads = DEVICE.reads - reads
    assert report.executors == ("device",)
    assert moving.movement.layouts == case.target
    moving.check()
    assert all(isinstance(array, HiddenArray) for array in moving.movement.arrays.values())
    moving.movement.back()
    moving.check()
    return reads


@pytest.mark.parametrize("scratch", [64 << 20, MANY_WINDOWS], ids=["one window", "many windows"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_a_state_moves_from_device_to_device_bit_for_bit(
    device: pytest.MonkeyPatch, way: str, mode: str, scratch: int
) -> None:
    travel_by(device, way)
    case = state(mode=mode, scratch_bytes=scratch, wave_bytes=1, digest=True)
    run_world(RANKS, moves, case, hosts=case.hosts)


def random_moves(most_ranks: int) -> list[Case]:
    drawn = (any_case(Seeded(seed), most_ranks, executor="auto") for seed in range(400))
    return [case for case in drawn if all(one.dtype in DTYPES for one in case.tensors.values())][:25]


def test_random_states_move_bit_for_bit(device: pytest.MonkeyPatch) -> None:
    travel_by(device, "nccl")
    cases = random_moves(5)
    assert len(cases) > 10
    for case in cases:
        run_world(case.size, moves, case, hosts=case.hosts)


class OneAtATime:
    """Emulated kernels that threads share."""

    def __init__(self, kernels: EmulatedKernels) -> None:
        self._kernels, self._lock = kernels, threading.Lock()

    def bind(self, *given: Any) -> Any:
        with self._lock:
            launch = self._kernels.bind(*given)

        def run() -> None:
            with self._lock:
                launch()

        return run


@pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
def test_kernels_pack_check_and_unpack_what_array_libraries_would(device: pytest.MonkeyPatch, tmp_path: Path) -> None:
    travel_by(device, "nccl")
    kernels = EmulatedKernels(tmp_path)
    case = state(scratch_bytes=MANY_WINDOWS, digest=True)
    run_world(RANKS, moves, case, OneAtATime(kernels), hosts=case.hosts)
    kernels.close()
    assert len(kernels.texts) > 3


def test_the_host_reads_nothing_of_a_device_but_checksums(device: pytest.MonkeyPatch) -> None:
    travel_by(device, "nccl")
    for verify, reads in ((True, 1), (False, 0)):
        assert run_world(RANKS, moves, state(verify=verify)) == [reads] * RANKS
    assert {call[0] for one in NcclCommunicator.made for call in one.log} == {"send", "recv"}


def refused(communicator: Communicator, case: Case) -> str:
    """Move with a fault in place; return what is said, after the state was found to be the old one."""
    moving = Moving(communicator, case)
    try:
        moving.movement.forward()
    except ReshardError as error:
        DEVICE.room = 1 << 40
        moving.check()
        assert moving.movement.layouts == case.source
        return str(error)
    return "came through"


def test_a_planted_copy_to_the_host_is_found(device: pytest.MonkeyPatch) -> None:
    travel_by(device, "nccl")
    packing = DeviceExecutor._packing

    def by_the_host(self: DeviceExecutor, pairs: Any, direction: str) -> Any:
        for place, piece in pairs:
            if piece.size:
                place[...] = np.asarray(piece)
        return packing(self, pairs, direction)

    device.setattr(DeviceExecutor, "_packing", by_the_host)
    with pytest.raises(LeakError):
        run_world(RANKS, refused, state())


def test_a_bit_that_flips_on_its_way_is_told_on_all_ranks_and_nothing_moves(device: pytest.MonkeyPatch) -> None:
    travel_by(device, "nccl")
    arrived = device_space._Checks._of

    def damaged(self: Any, runtime: Any, windows: Any) -> Any:
        kernels = arrived(self, runtime, windows)
        if not hasattr(self, "sent") or not windows or runtime.communicator.rank != VICTIM:
            return kernels
        content = next(iter(windows.values()))

        def flip() -> None:
            content[-1:] = content[-1:] ^ np.uint8(64)

        return [flip, *kernels]

    device.setattr(device_space._Checks, "_of", damaged)
    for told in run_world(RANKS, refused, state()):
        assert "bytes arrived damaged" in told
        assert "the old state of all others is intact" in told
    assert set(run_world(RANKS, refused, state(verify=False))) == {"came through"}


def test_a_device_without_room_ends_the_move_on_all_ranks_and_nothing_moves(device: pytest.MonkeyPatch) -> None:
    travel_by(device, "nccl")

    def without_room(communicator: Communicator, case: Case) -> str:
        moving = Moving(communicator, case)
        if communicator.rank == VICTIM:
            DEVICE.room = 100
        try:
            moving.movement.forward()
        except ReshardError as error:
            DEVICE.room = 1 << 40
            moving.check()
            return str(error)
        return "came through"

    for told in run_world(RANKS, without_room, state()):
        assert f"rank {VICTIM}: out of GPU memory" in told


def readied(communicator: Communicator) -> DeviceSpace:
    space = DeviceSpace(hidden_backend(), ReshardOptions(), communicator)
    space.get_ready()
    return space


def test_what_is_no_array_of_a_device_or_lies_otherwise_is_said_what_to_do_with(device: pytest.MonkeyPatch) -> None:
    travel_by(device, "nccl")

    def told(communicator: Communicator) -> list[str | None]:
        space, backend = DeviceSpace(hidden_backend(), ReshardOptions(), communicator), hidden_backend()
        matrix = backend.from_host(np.ones((2, 3), np.float32))
        return [space.problem(one) for one in (np.ones(3), [1.0], matrix, matrix.T)]

    wanted = "and the other ranks' arrays are on GPUs; give Backend.from_host(...)"
    order = "an array on a GPU moves in C order; give a copy"
    assert run_world(1, told) == [[f"got a ndarray, {wanted}", f"got a list, {wanted}", None, order]]


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (ConfigurationError("no such way"), ReshardError, "arrays of GPUs cannot travel: no such way"),
        (CommunicationError("NCCL refused"), ReshardError, "arrays of GPUs cannot travel: NCCL refused"),
        (RankFailureError("rank 1 has died"), RankFailureError, "rank 1 has died"),
    ],
)
def test_where_arrays_cannot_travel_that_is_an_error_of_the_move_and_a_death_is_not(
    error: Exception, kind: type[Exception], said: str, device: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any) -> Any:
        raise error

    travel_by(device, "nccl")
    device.setattr(device_space, "open_transport", refuse)

    def job(communicator: Communicator) -> None:
        with pytest.raises(MpiParallelError) as caught:
            readied(communicator)
        assert (type(caught.value), str(caught.value)) == (kind, said)

    run_world(1, job)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(CommunicationError("NCCL refused"), ReshardError), (RankFailureError("died"), RankFailureError)],
)
def test_a_refusal_while_messages_are_bound_is_an_error_of_the_move_and_a_death_is_not(
    error: Exception, kind: type[Exception], device: pytest.MonkeyPatch
) -> None:
    travel_by(device, "nccl")
    case = state()

    def job(communicator: Communicator) -> None:
        def refuse(*given: Any) -> Any:
            raise error

        opened = device_space.open_transport

        def opening(*given: Any) -> Any:
            transport = opened(*given)
            transport.exchange = refuse
            return transport

        with pytest.MonkeyPatch.context() as patch:
            if communicator.rank == 0:
                patch.setattr(device_space, "open_transport", opening)
            communicator.barrier()
            moving = Moving(communicator, case)
            with pytest.raises(kind) as caught:
                moving.movement.forward()
            communicator.barrier()
        assert str(error) in str(caught.value)

    run_world(RANKS, job, hosts=case.hosts)


def test_an_executor_is_made_once_the_transport_is_open(device: pytest.MonkeyPatch) -> None:
    travel_by(device, "nccl")

    def job(communicator: Communicator) -> None:
        space: Any = DeviceSpace(hidden_backend(), ReshardOptions(), communicator)
        with pytest.raises(ReshardError) as caught:
            space.executor("device", None, None, None)
        assert str(caught.value) == "the transport between the devices was not opened; call get_ready before"

    run_world(1, job)


def kinds(communicator: Communicator) -> list[bool]:
    gpu: Any = hidden_backend()
    own: Any = gpu if communicator.rank else NumpyBackend()
    shared = ReshardOptions(executor="shared")
    return [
        moves_on_devices(gpu, ReshardOptions(), communicator),
        moves_on_devices(own, ReshardOptions(), communicator),
        moves_on_devices(gpu, shared, communicator),
    ]


def test_all_ranks_move_on_devices_or_none_does(device: pytest.MonkeyPatch) -> None:
    travel_by(device, "nccl")
    assert run_world(3, kinds) == [[True, False, False]] * 3
