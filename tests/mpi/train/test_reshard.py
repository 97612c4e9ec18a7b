"""Model.reshard on real ranks: the losses are those of a training that never moved, and the job ends well."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi

TRAINED = {
    0: [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12],
    1: [1, 2, 3, 4, 8, 9, 10],
    2: range(1, 13),
    3: [1, 2, 8, 9, 10],
}


@pytest.mark.sample
def test_a_training_goes_on_on_other_ranks_as_if_it_had_not_moved(mpi_run) -> None:
    output = mpi_run(4, Path(__file__).with_name("reshard_ranks.py"))
    for number, steps in TRAINED.items():
        assert f"number {number} trained steps {','.join(map(str, steps))}." in output, output


def test_processes_that_are_started_join_a_training(mpi_run) -> None:
    output = mpi_run(2, Path(__file__).with_name("spawn_ranks.py"))
    for number, steps in {0: range(1, 10), 1: range(1, 10), 2: range(4, 13), 3: range(4, 7)}.items():
        assert f"number {number} trained steps {','.join(map(str, steps))}." in output, output


def test_ranks_whose_programs_end_while_others_train_let_nobody_wait_and_cannot_be_called(mpi_run) -> None:
    output = mpi_run(4, Path(__file__).with_name("ended_ranks.py"))
    assert output.count("its program has ended, so it cannot train") >= 2, output
    # The last call comes after one that ended, and trains 3 epochs of 4 steps more.
    assert output.count("trained 20 steps.") == 2, output
