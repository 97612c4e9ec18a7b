"""What a parallel configuration says: which ranks each stage has, and into how many pieces a batch is cut."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.observed_configuration import ObservedConfiguration


def test_modes_have_mindspores_names_and_are_of_one_batch_or_of_one_for_each_rank() -> None:
    assert ParallelMode.MODE_LIST == (
        "stand_alone",
        "data_parallel",
        "hybrid_parallel",
        "semi_auto_parallel",
        "auto_parallel",
    )
    assert ParallelMode.OWN_BATCH == ("data_parallel", "hybrid_parallel")
    assert ParallelMode.ONE_BATCH == ("semi_auto_parallel", "auto_parallel")


def test_unless_told_one_rank_runs_alone_and_nothing_is_cut_written_or_averaged() -> None:
    plain = ParallelConfiguration()
    assert (plain.mode, plain.device_num, plain.rank, plain.full_batch) == ("stand_alone", 1, 0, True)
    switches = (plain.gradients_mean, plain.parameter_broadcast, plain.enable_parallel_optimizer, plain.strategy_of_all)
    assert switches == (False,) * 4
    assert (plain.allows_tf32, plain.convolves_in_tf32, plain.laid_out_anew) == (False,) * 3
    # MindSpore's own threshold of the parallel optimizer, in KiB, and shards over all replicas.
    assert (plain.optimizer_threshold, plain.optimizer_shard_size) == (64, -1)
    assert (plain.search_timeout, plain.search_memory, plain.pipeline_stages, plain.save_graphs) == (inf, inf, 1, 0)
    assert (plain.seed, plain.device_target, plain.device_id, plain.save_graphs_path) == (0, "CPU", None, ".")


@pytest.mark.parametrize(
    ("settings", "ranks"),
    [
        ({"device_num": 1}, [[0]]),
        ({"device_num": 6}, [[0, 1, 2, 3, 4, 5]]),
        ({"device_num": 6, "pipeline_stages": 3}, [[0, 1], [2, 3], [4, 5]]),
        ({"device_num": 4, "pipeline_stages": 4}, [[0], [1], [2], [3]]),
        ({"device_num": 4, "pipeline_stages": 2, "stage_ranks": ((3, 0, 1), (2,))}, [[3, 0, 1], [2]]),
    ],
)
def test_stages_have_equally_many_ranks_in_a_row_or_those_that_are_listed(
    settings: dict[str, Any], ranks: list[list[int]]
) -> None:
    configuration = ParallelConfiguration(**settings)
    assert list(map(list, configuration.ranks_of_stages)) == ranks
    assert configuration.stage_device_num == len(ranks[0])


@pytest.mark.parametrize(
    ("settings", "pieces"),
    [
        ({"device_num": 6}, 1),
        ({"device_num": 6, "full_batch": False}, 6),
        ({"device_num": 6, "full_batch": False, "pipeline_stages": 3}, 2),
        ({"device_num": 6, "full_batch": False, "input_cuts": ((3, 2), (1,))}, 3),
        ({"device_num": 6, "input_cuts": ((2,),)}, 2),
    ],
)
def test_ranks_are_fed_the_whole_batch_or_as_many_pieces_as_cut_its_rows(settings: dict[str, Any], pieces: int) -> None:
    assert ParallelConfiguration(**settings).batch_pieces == pieces


def test_an_observed_configuration_knows_what_was_asked_and_is_the_same_otherwise() -> None:
    plain = ParallelConfiguration("semi_auto_parallel", device_num=4, pipeline_stages=2, seed=5)
    observed = ObservedConfiguration.of(plain)
    assert observed.read == set()
    assert list(map(list, observed.ranks_of_stages)) == [[0, 1], [2, 3]]
    assert observed.read == {"device_num", "pipeline_stages", "stage_ranks"}
    assert observed.seed == 5
    assert "seed" in observed.read
    assert "mode" not in observed.read
    observed.read_all()
    assert observed.read == set(vars(plain))
