"""Trainings of real ranks: in folders of their own, as MindSpore's shell loops start them, and with an evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.trainings.saved_training import RANKS, committed

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("shards", ["h5", "ckpt"])
def test_ranks_save_load_and_resume_in_the_folders_in_which_they_work(mpi_run, tmp_path, shards) -> None:
    told = mpi_run(RANKS, Path(__file__).with_name("own_folder_ranks.py"), shards)
    # Two epochs, then two more under the same prefix; a training that begins anew beside them takes another.
    names = " ".join(sorted(f"{name}.{shards}" for name in ("net-2_3", "net-4_3", "net_1-4_3")))
    for rank in range(RANKS):
        # The optimizer's shards take up all replicas, so no two ranks hold the same.
        assert f"rank {rank} has {names}, equal to [{rank}]" in told
    assert committed(tmp_path) == ["net-2_3", "net-4_3", "net_1-4_3"]


def test_ranks_with_unequal_shares_measure_what_numpy_does(mpi_run) -> None:
    output = mpi_run(3, Path(__file__).with_name("evaluation_ranks.py"))
    for rank in range(3):
        assert f"rank {rank} evaluated" in output


def test_checkpoints_resume_and_reshard_of_stages_are_those_of_one_device(mpi_run) -> None:
    output = mpi_run(4, Path(__file__).with_name("moving_stages_ranks.py"))
    assert output.count("has gone through all of it") == 4, output
