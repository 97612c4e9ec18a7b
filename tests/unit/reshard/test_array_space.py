"""The memory of the host as the place of a move: what it takes, how much it needs, and where new arrays are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.errors import CommunicationError, ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.array_space import HostSpace
from mpiparallel.reshard.bound_plan import bind
from mpiparallel.reshard.executors.datatypes import DatatypesExecutor
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.options import ReshardOptions
from mpiparallel.reshard.planning.plan import plan_reshard
from mpiparallel.reshard.tensor_digest import host_digest

HALVES = Layout((6,), DeviceMatrix((2,)), ((0,),))
COPIES = Layout((6,), DeviceMatrix((2,)), ((),))
DTYPES = {"w": np.dtype(np.int16), "k": np.dtype(np.int16)}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (ReshardOptions(scratch_bytes=8192), 2048),
        (ReshardOptions(scratch_bytes=(1 << 20) - 4), (1 << 18) - 1),
        (ReshardOptions(), 1 << 18),
        (ReshardOptions(verify=False), 0),
    ],
)
def test_checksums_take_a_quarter_of_the_scratch_memory_and_256_kibibytes_at_most(
    options: ReshardOptions, wanted: int
) -> None:
    assert HostSpace(options, alone()).checksum_bytes == wanted


def test_only_arrays_of_numpy_are_there() -> None:
    space = HostSpace(ReshardOptions(), alone())
    assert space.problem(np.float64(3)) == "got a float64, not a NumPy array; use numpy.asarray(...)"
    assert space.problem([1]) == "got a list, not a NumPy array; use numpy.asarray(...)"
    assert space.problem(np.zeros(())) is None


def test_a_digest_is_that_of_the_part() -> None:
    part, box = np.arange(3, dtype=np.int16), Box((3,), (6,))
    for scratch in (4096, 1 << 20):
        space = HostSpace(ReshardOptions(scratch_bytes=scratch), alone())
        assert space.digest(part, box, (6,)) == host_digest(part, box, (6,))


class Refusing:
    """A communicator whose shared memory one rank never gets."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._communicator, name)

    def share(self, nbytes: int) -> Any:
        return self._communicator.share(1 << 62 if self._communicator.rank == 1 else nbytes)


@pytest.mark.parametrize(
    ("asked", "executor", "taken", "blocks"),
    [("auto", "shared", "shared", 1), ("auto", "packed", "packed", 0), ("auto", "datatypes", "datatypes", 0)],
)
def test_new_arrays_are_made_for_what_is_not_kept(asked: Any, executor: str, taken: str, blocks: int) -> None:
    def make(communicator: Communicator) -> tuple[str, list[Any], int]:
        space = HostSpace(ReshardOptions(executor=asked), communicator)
        name, targets = space.targets(executor, {"w": HALVES, "k": COPIES}, DTYPES, {"k"})
        return name, [(key, one.shape, one.dtype.str[1:]) for key, one in targets.arrays.items()], len(targets.blocks)

    assert run_world(2, make) == [(taken, [("w", (3,), "i2")], blocks)] * 2


def test_where_shared_memory_cannot_be_had_arrays_are_private_unless_it_was_asked_for() -> None:
    def make(communicator: Communicator, asked: Any) -> tuple[str, int] | str:
        refusing: Any = Refusing(communicator)
        try:
            name, targets = HostSpace(ReshardOptions(executor=asked), refusing).targets(
                "shared", {"w": HALVES}, DTYPES, ()
            )
        except ReshardError as error:
            return str(error)
        return name, len(targets.blocks)

    assert run_world(2, make, "auto") == [("packed", 0)] * 2
    for said in run_world(2, make, "shared"):
        assert isinstance(said, str)
        assert said.startswith("not enough memory to share on a host: rank 1: Unable to allocate")
        assert said.endswith("; take executor='auto', or mode='bounded'")


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", ["packed", "datatypes", "shared"])
def test_each_executor_fills_targets_again_and_again_and_has_checksums_if_they_are_wanted(
    name: str, verify: bool
) -> None:
    pairs = {"w": (HALVES, COPIES)}

    def move(communicator: Communicator) -> list[Any]:
        rank = communicator.rank
        space = HostSpace(ReshardOptions(verify=verify), communicator)
        source = np.arange(3, dtype=np.int16) + 3 * rank
        taken, targets = space.targets(name, {"w": COPIES}, DTYPES, ())
        bound = bind(plan_reshard(pairs, rank), pairs, {"w": source}, targets.arrays, communicator)
        shape = TrafficShape(1.0, 6, 6, dense=False)
        executor = space.executor(taken, bound, shape, targets)
        executor.connect()
        found = []
        for _ in range(2):
            checked = executor.run()
            found.append((targets.arrays["w"].tolist(), len(checked.sent), len(checked.arrived)))
            source += 10
        executor.free()
        for block in targets.blocks:
            # The memory of the others is given back.
            with pytest.raises(CommunicationError):
                block.of(1 - rank)
        return found

    counted = (1, 1) if verify else (0, 0)
    wanted = [([0, 1, 2, 3, 4, 5], *counted), ([10, 11, 12, 13, 14, 15], *counted)]
    assert run_world(2, move) == [wanted] * 2


def test_structures_that_were_given_back_move_nothing_more() -> None:
    pairs = {"w": (HALVES, COPIES)}

    def move(communicator: Communicator) -> str:
        sources, targets = {"w": np.zeros(3, np.int16)}, {"w": np.zeros(6, np.int16)}
        bound = bind(plan_reshard(pairs, communicator.rank), pairs, sources, targets, communicator)
        executor = DatatypesExecutor(bound, communicator, None)
        executor.free()
        executor.connect()
        executor.free()
        with pytest.raises(CommunicationError) as caught:
            executor.run()
        return str(caught.value)

    assert run_world(2, move) == ["strided_exchange: it was freed; make a new one"] * 2
