"""A forecast as JSON: what is summed up of its stages, and each stage with when it does what."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest

from mpiparallel.launch.simulate.json_output import document
from mpiparallel.search.machine.machine import Machine
from tests.unit.launch.show.made_forecast import GIGA, PARTS, forecast, move, operator, parameter, stage


def test_what_is_summed_up_of_the_stages_stands_first() -> None:
    found = document(forecast())
    assert found.pop("stages")
    assert found == {
        "ranks": 4,
        "hosts": 2,
        "ranks_per_host": 2,
        "mode": "semi_auto_parallel",
        "trains": True,
        "samples": 64,
        "seconds": 4.0,
        # Of four seconds of the stage that works the longest 2.4 are products.
        "bound": {"by": "matrix products", "part": pytest.approx(0.6)},
        "memory": 3 * GIGA,
        "memory_limit": 4.0 * GIGA,
        "missing_memory": -1.0 * GIGA,
        "schedule": "gpipe",
        "bubble": 0.25,
    }


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"machine": Machine(ranks_per_host=2, memory=inf)}, {"memory_limit": None, "missing_memory": 0}),
        (
            {"machine": Machine(ranks_per_host=2, memory=2.0 * GIGA)},
            {"memory_limit": 2.0 * GIGA, "missing_memory": 1.0 * GIGA},
        ),
        ({"schedule": ""}, {"schedule": None}),
        ({"trains": False, "samples": 0}, {"trains": False, "samples": 0}),
    ],
)
def test_what_is_not_known_is_null_and_no_machine_lacks_memory_that_it_does_not_tell(
    changes: dict[str, Any], told: dict[str, Any]
) -> None:
    found = document(forecast(**changes))
    assert {name: found[name] for name in told} == told


def test_a_stage_is_told_whole_with_its_actions_by_their_short_names() -> None:
    made = stage(1, [operator(1, "a")], moves=(move("a"),), parameters=(parameter(1, "w", 1),))
    found = json.loads(json.dumps(document(forecast(stage(0), made))))["stages"][1]
    assert (found["ranks"], found["rank_count"], found["parts"]) == ("2 to 3", 2, PARTS)
    assert found["time"] == {"busy": 4.0, "waiting": 0.0, "hidden": 0.5, "actions": [["F0", 2.0, 4.0]]}
    assert found["memory"]["kinds"] == {"weights": 2 * GIGA, "inputs": GIGA}
    assert [one["name"] for one in found["operators"]] == ["a"]
    assert [one["byte_count"] for one in found["moves"]] == [1000]
    assert [one["parts"] for one in found["parameters"]] == [[{"box": "[0:1]", "ranks": "0"}]]
    assert [one["count"] for one in found["collectives"]] == [2]
