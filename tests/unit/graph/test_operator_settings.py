"""Settings of operators: strategies taken away, and what has no effect here."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel import ops
from mpiparallel.errors import ConfigurationError, StrategyError


def test_none_takes_strategies_away() -> None:
    operator = ops.MatMul().shard(((2, 1), (1, 1)), ((2, 1),))
    assert operator.shard(None) is operator
    assert (operator.strategy, operator.out_strategy) == (None, None)


def test_an_out_strategy_is_not_given_alone() -> None:
    with pytest.raises(StrategyError, match=r"MatMul: out_strategy \(\(2, 1\),\) is given alone; give in_strategy too"):
        ops.MatMul().shard(None, ((2, 1),))


def test_what_mindspores_planner_is_told_has_no_effect_and_is_said_once(remarks: Any) -> None:
    operator = ops.MatMul()
    for _ in range(2):
        assert operator.add_prim_attr("keep_alive", True) is operator
    assert operator.set_device("CPU").set_prim_instance_name("m").set_stage(0) is operator
    assert [line.split(":")[0] for line in remarks()] == [
        "MatMul.add_prim_attr",
        "MatMul.set_device",
        "MatMul.set_prim_instance_name",
    ]
    with pytest.raises(
        ConfigurationError, match="an operator is in the stage of its cell; set its pipeline_stage to 1"
    ):
        operator.set_stage(1)


def test_an_operator_prints_how_it_was_made_without_its_strategy() -> None:
    assert repr(ops.ReduceSum(keep_dims=True).shard(((2, 1),))) == "ReduceSum(keep_dims=True)"
