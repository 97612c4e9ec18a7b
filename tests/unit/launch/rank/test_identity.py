"""Who a rank is by its launcher and the order of the job, and by which names scripts ask for it."""

from __future__ import annotations

import pytest

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.processor import openblas_core_type, read_core_type
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.errors import LaunchError
from mpiparallel.launch.rank import identity as module
from mpiparallel.launch.rank.identity import identity, in_order, name_rank

ONE_OF_THREE = Environment(1, 3, 1, 2, 5)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_rank_of_another_job_than_its_launcher_says_is_refused(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "read", lambda: ONE_OF_THREE)
    with pytest.raises(LaunchError) as caught:
        identity(ranks, None)
    assert str(caught.value) == (
        f"this rank is one of 3, the job has {ranks}: mpirun and the MPI library of mpi4py do not belong together; "
        "install one MPI only"
    )


@pytest.mark.parametrize(("order", "rank"), [(None, 1), (RankOrder((1, 2, 0)), 2)])
def test_who_a_rank_is_comes_with_the_number_that_mpi_calls_it_by(
    order: RankOrder | None, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Environment, "read", lambda: ONE_OF_THREE)
    assert identity(3, order) == (Environment(rank, 3, 1, 2, 5), 1)


def test_an_order_changes_the_number_alone_and_is_of_as_many_ranks() -> None:
    assert in_order(ONE_OF_THREE, RankOrder((1, 2, 0))) == Environment(2, 3, 1, 2, 5)
    with pytest.raises(LaunchError) as caught:
        in_order(ONE_OF_THREE, RankOrder((1, 0)))
    assert str(caught.value) == "the rank order 1,0 has 2 ranks, the job 3; start the job anew"


TABLE = RankTable((Server("a", tuple(Device(7 - rank, f"1.1.1.{rank}", rank) for rank in range(3))),))


@pytest.mark.parametrize(("table", "device"), [(TABLE, "6"), (None, "1")])
@pytest.mark.parametrize("core_type", [None, "SkylakeX"])
def test_scripts_are_told_rank_size_device_and_the_kernels_of_this_processor(
    table: RankTable | None, device: str, core_type: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "read_core_type", lambda variables: core_type)
    variables = {"RANK_ID": "9", "OTHER": "x"}
    name_rank(variables, ONE_OF_THREE, table)
    told = {"RANK_ID": "1", "RANK_SIZE": "3", "DEVICE_ID": device, "OTHER": "x"}
    assert variables == told | ({} if core_type is None else {"OPENBLAS_CORETYPE": core_type})


def test_the_kernels_are_those_of_the_processor_that_the_system_tells_of() -> None:
    with open("/proc/cpuinfo") as file:  # noqa: PTH123
        assert read_core_type({}) == openblas_core_type(file.read())
