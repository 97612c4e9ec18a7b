"""How arrays of devices travel: every call of every way on real ranks, against NumPy; planted faults are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.dtype import bfloat16
from tests.conformance.hidden_arrays.nccl import NcclCommunicator
from tests.conformance.hidden_arrays.ranks import Rank, gpus_of_their_own, travel_by
from tests.gpu import test_training
from tests.gpu.test_training import NETWORKS, losses

WAYS = ("staging", "nccl", "ipc", "mpi")
DTYPES = (bool, np.int8, np.int16, np.uint16, np.int64, np.float16, bfloat16, np.float32, np.float64, np.complex64)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        yield patch


def values(rank: int, count: int, dtype: Any, seed: int = 0) -> Any:
    random = np.random.default_rng([seed, rank])
    found = random.integers(-4 if np.dtype(dtype).kind != "u" else 0, 5, count)
    if np.dtype(dtype).kind == "c":
        return (found + 1j * random.integers(-4, 5, count)).astype(dtype)
    return found.astype(dtype)


def reduced(parts: list[Any], operation: str) -> Any:
    dtype = parts[0].dtype
    ufunc = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}[operation]
    wide = [part.astype(np.float32) if dtype in (bfloat16, np.float16) else part for part in parts]
    total = wide[0].copy()
    for part in wide[1:]:
        total = ufunc(total, part).astype(total.dtype)
    return total.astype(dtype)


def reductions(communicator: Communicator, way: str, dtype: Any, operation: str) -> None:
    rank, size, count = Rank(communicator), communicator.size, 531
    assert rank.transport.name == way
    parts = [values(member, size * count, dtype) for member in range(size)]
    wanted = reduced(parts, operation)
    own = parts[communicator.rank]
    for start in (False, True):
        array = rank.array(own)
        block = rank.empty(count, dtype)
        calls = [rank.transport.all_reduce(array, operation)]
        calls.append(rank.transport.reduce_scatter(rank.array(own), block, operation))
        for call in calls:
            call.start()() if start else call.run()
        mine = slice(count * communicator.rank, count * (communicator.rank + 1))
        np.testing.assert_array_equal(rank.backend.to_host(array), wanted)
        np.testing.assert_array_equal(rank.backend.to_host(block), wanted[mine])
    array = rank.array(own)
    rank.transport.reduce(array, size - 1, operation).run()
    is_root = communicator.rank == size - 1
    np.testing.assert_array_equal(rank.backend.to_host(array), wanted if is_root else own)


def are_offered(dtype: Any, operation: str) -> bool:
    """Complex numbers have no order, and devices multiply none."""
    return np.dtype(dtype).kind != "c" or operation == "sum"


REDUCTIONS = [
    pytest.param(dtype, operation, id=f"{operation} of {np.dtype(dtype).name}")
    for dtype in DTYPES
    for operation in ("sum", "max", "prod")
    if are_offered(dtype, operation)
]


@pytest.mark.parametrize(("dtype", "operation"), REDUCTIONS)
@pytest.mark.parametrize("way", WAYS)
def test_reductions_are_numpys(device: pytest.MonkeyPatch, way: str, dtype: Any, operation: str) -> None:
    travel_by(device, way)
    run_world(2 if dtype != np.float32 else 4, reductions, way, dtype, operation)


def moves(communicator: Communicator, dtype: Any) -> None:
    rank, size, own = Rank(communicator), communicator.size, communicator.rank
    for count in (0, 1, 700):
        parts = [values(member, size * count, dtype) for member in range(size)]
        gathered, swapped = rank.empty(size * count, dtype), rank.empty(size * count, dtype)
        given = rank.array(parts[own][:count])
        for call in (
            rank.transport.all_gather(given, gathered),
            rank.transport.all_to_all(rank.array(parts[own]), swapped),
        ):
            call.run()
        sent = rank.array(parts[own])
        rank.transport.broadcast(sent, size - 1).run()
        whole = np.concatenate([part[:count] for part in parts])
        np.testing.assert_array_equal(rank.backend.to_host(gathered), whole)
        blocks = [np.split(part, size)[own] for part in parts]
        np.testing.assert_array_equal(rank.backend.to_host(swapped), np.concatenate(blocks))
        np.testing.assert_array_equal(rank.backend.to_host(sent), parts[-1])


@pytest.mark.parametrize("dtype", [bool, np.int16, bfloat16, np.float64, np.complex64])
@pytest.mark.parametrize("way", WAYS)
def test_what_only_moves_arrives_as_it_is(device: pytest.MonkeyPatch, way: str, dtype: Any) -> None:
    travel_by(device, way)
    run_world(3, moves, dtype)


def exchanges(communicator: Communicator, lengths: dict[tuple[int, int], int]) -> None:
    rank, own = Rank(communicator), communicator.rank
    content = {pair: np.arange(length, dtype=np.uint8) + 10 * pair[0] + pair[1] for pair, length in lengths.items()}
    sends = {to: rank.array(content[of, to]) for of, to in lengths if of == own}
    receives = {of: rank.empty(lengths[of, to], np.uint8) for of, to in lengths if to == own}
    call = rank.transport.exchange(sends, receives)
    for _ in range(2):
        call.run()
    for of, array in receives.items():
        np.testing.assert_array_equal(rank.backend.to_host(array), content[of, own])


@pytest.mark.parametrize("way", WAYS)
def test_messages_of_any_length_are_exchanged(device: pytest.MonkeyPatch, way: str) -> None:
    travel_by(device, way)
    run_world(3, exchanges, {(0, 1): 700, (1, 0): 3, (2, 0): 1500, (0, 0): 40, (1, 2): 0})


def nan_wins(communicator: Communicator, operation: str) -> list[float]:
    rank = Rank(communicator)
    array = rank.array(np.array([[1.0, np.nan, -0.0], [2.0, 1.0, 0.0]][communicator.rank], np.float32))
    rank.transport.all_reduce(array, operation).run()
    return [str(one) for one in rank.backend.to_host(array)]  # type: ignore[misc]


@pytest.mark.parametrize("way", WAYS)
def test_nan_wins_and_zeros_have_an_order_on_every_way(device: pytest.MonkeyPatch, way: str) -> None:
    travel_by(device, way)
    assert run_world(2, nan_wins, "max") == [["2.0", "nan", "0.0"]] * 2
    assert run_world(2, nan_wins, "min") == [["1.0", "nan", "-0.0"]] * 2


@pytest.mark.parametrize(("ranks", "optimizer_parallel"), [(2, False), (4, True)])
def test_a_transformer_trains_on_gpus_of_their_own_as_on_the_host(
    device: pytest.MonkeyPatch, ranks: int, optimizer_parallel: bool
) -> None:
    device.setattr(test_training, "STEPS", 2)
    (wanted,) = run_world(1, losses, "Transformer", "CPU", False)
    for found in run_world(ranks, losses, "Transformer", "GPU", optimizer_parallel):
        np.testing.assert_allclose(found, wanted, rtol=NETWORKS["Transformer"][2])
    assert {call[0] for one in NcclCommunicator.made for call in one.log} >= {"allReduce"}
