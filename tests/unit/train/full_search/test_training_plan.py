"""Plans: in words, in files, and as configurations."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel import context, nn
from mpiparallel.context.settings import current_configuration, take_strategies
from mpiparallel.errors import StrategyFileError
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.train.full_search.candidates import Openness, candidates
from mpiparallel.train.full_search.training_plan import Plan

FULL = Plan(4, 2, 8, "1f1b", (0, 2), True, {"net/MatMul": ((1, 2), (2, 1))})
SAID: dict[str, Any] = {
    "devices": 4,
    "stages": 2,
    "micro_batches": 8,
    "schedule": "1f1b",
    "recomputes": [0, 2],
    "shards": True,
    "strategies": {"net/MatMul": [[1, 2], [2, 1]]},
}


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(4), "no stages, the batch in one piece, nothing recomputed, without optimizer shards"),
        (
            Plan(4, 1, 2, "1f1b", (3,), True),
            "no stages, 2 micro-batches, 1 layer recomputed, with optimizer shards",
        ),
        (FULL, "2 stages by 1f1b, 8 micro-batches, 2 layers recomputed, with optimizer shards"),
    ],
)
def test_a_plan_is_told_in_words(plan: Plan, words: str) -> None:
    assert str(plan) == words


def test_a_plan_is_the_same_after_it_was_in_a_file() -> None:
    assert FULL.json == SAID
    found = Plan.of_json(SAID)
    assert found == FULL
    assert found.strategies == FULL.strategies
    assert hash(found) == hash(FULL)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"devices": True}, "devices"),
        ({"stages": 2.0}, "stages"),
        ({"micro_batches": "8"}, "micro_batches"),
        ({"schedule": None}, "schedule"),
        ({"recomputes": (0, 2)}, "recomputes"),
        ({"recomputes": [0, True]}, "recomputes"),
        ({"recomputes": [0, "1"]}, "recomputes"),
        ({"shards": 1}, "shards"),
        ({"strategies": []}, "strategies"),
        ({"stages": None, "shards": None}, "stages, shards"),
        ({"more": 1}, "devices, stages, micro_batches, schedule, recomputes, shards, strategies, more"),
    ],
)
def test_what_no_search_has_written_is_refused_by_its_name(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(StrategyFileError) as caught:
        Plan.of_json({**SAID, **changed})
    assert str(caught.value) == f"plan: {named} is not as a search writes it; search once more"


@pytest.mark.parametrize(("stages", "schedule"), [(1, ""), (2, "1f1b")])
def test_a_configuration_by_a_plan_has_its_stages_shards_and_strategies(stages: int, schedule: str) -> None:
    given = ParallelConfiguration(device_num=4, seed=7, stage_ranks=((0,), (1, 2, 3)))
    made = Plan(4, stages, 8, "1f1b", (), True, {"b": ((2,),), "a": ((1,),)}).configured(given)
    assert (made.pipeline_stages, made.pipeline_schedule, made.stage_ranks) == (stages, schedule, ())
    assert made.enable_parallel_optimizer
    assert made.loaded_strategies == (("a", ((1,),)), ("b", ((2,),)))
    assert (made.device_num, made.seed) == (4, 7)


def test_what_a_plan_says_is_set_as_a_user_would_set_it() -> None:
    context.set_auto_parallel_context(
        parallel_mode="auto_parallel", device_num=4, auto_parallel_search_mode="everything"
    )
    take_strategies("", (("a", ((1,),)), ("b", ((1,),))), 4)
    cell = nn.PipelineCell(nn.SequentialCell([nn.ReLU() for _ in range(3)]), "auto", stages="auto")
    Plan(4, 2, 8, "1f1b", (0, 2), True, {"c": ((4,),), "b": ((2,),)}).take(cell)
    now = current_configuration()
    assert (now.pipeline_stages, now.pipeline_schedule, now.enable_parallel_optimizer) == (2, "1f1b", True)
    assert now.search_mode == "recursive_programming"
    assert now.loaded_strategies == (("a", ((1,),)), ("b", ((2,),)), ("c", ((4,),)))
    assert cell.micro_size == 8
    context.set_auto_parallel_context(auto_parallel_search_mode="optimal")
    Plan(4).take(None)
    now = current_configuration()
    assert (now.pipeline_stages, now.pipeline_schedule, now.enable_parallel_optimizer) == (1, "", False)
    assert now.search_mode == "optimal"


def test_all_plans_of_two_ranks_come_the_plainest_first() -> None:
    every = candidates(ParallelConfiguration(device_num=2), Openness(4, 2, 1, True, True))
    assert every == (
        Plan(2),
        Plan(2, shards=True),
        *(Plan(2, 2, count, schedule) for count in (2, 4) for schedule in ("gpipe", "1f1b", "zb_h1")),
    )
    of_user = ParallelConfiguration(device_num=2, enable_parallel_optimizer=True)
    assert all(one.shards for one in candidates(of_user, Openness(4, 2, 1, True, True)))


@pytest.mark.parametrize(
    ("settings", "openness", "stages", "counts"),
    [
        # No more stages than layers, and only as many as divide the ranks.
        ({"device_num": 6}, Openness(8, 3, 1, False, True), [1, 2, 3], [1]),
        ({"device_num": 6}, Openness(8, 9, 4, False, True), [1, 2, 3, 6], [4]),
        ({"device_num": 4}, Openness(8, 9, 4, False, False), [1], [4]),
        ({"device_num": 4, "pipeline_stages": 2}, Openness(8, 9, 1, True, True), [2], [2, 4, 8]),
        ({"device_num": 4, "pipeline_stages": 4}, Openness(64, 4, 1, True, False), [4], [4, 8, 16, 32]),
        ({"device_num": 4}, Openness.of(None, 8), [1], [1]),
    ],
)
def test_stages_and_micro_batches_are_those_that_are_left_open(
    settings: dict[str, Any], openness: Openness, stages: list[int], counts: list[int]
) -> None:
    found = candidates(ParallelConfiguration(**settings), openness)
    assert sorted({one.stages for one in found}) == stages
    assert sorted({one.micro_batches for one in found}) == counts


def test_schedules_of_several_chunks_need_layers_for_each() -> None:
    def schedules(layers: int) -> set[str]:
        asked = ParallelConfiguration(device_num=2, pipeline_stages=2)
        return {one.schedule for one in candidates(asked, Openness(6, layers, 6, False, True))}

    assert schedules(3) == {"gpipe", "1f1b", "zb_h1"}
    assert schedules(4) == {"gpipe", "1f1b", "zb_h1", "interleaved_1f1b", "zb_v", "zb_v_lean", "v_half"}
