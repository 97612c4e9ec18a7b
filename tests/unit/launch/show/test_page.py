"""The page of a network: what is said above it, and what its picture knows of operators, moves and parameters."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest

from mpiparallel.launch.show.page import page
from mpiparallel.search.forecast.forecast import Forecast
from mpiparallel.search.forecast.reason import Reason
from mpiparallel.search.forecast.timeline import StageTime
from mpiparallel.search.machine.machine import Machine
from tests.unit.launch.show.made_forecast import GIGA, forecast, move, operator, parameter, stage

BEGIN = '<script type="application/json" id="data">'


def data_of(text: str) -> dict[str, Any]:
    """Return what the page's script is given, as a browser reads it: up to the end of the element."""
    found: dict[str, Any] = json.loads(text.partition(BEGIN)[2].partition("</script>")[0])
    return found


def data(made: Forecast, *reasons: Reason) -> dict[str, Any]:
    return data_of(page(made, "train.py", reasons))


def tiles(made: Forecast) -> dict[str, str]:
    return {tile["name"]: tile["value"] for tile in data(made)["tiles"]}


def test_above_the_picture_stand_hosts_time_bound_communication_memory_and_idle_stages() -> None:
    assert tiles(forecast()) == {
        "2 hosts of 2": "semi_auto_parallel",
        "a step by the cost model": "4 s",
        "most of it, 60 %": "matrix products",
        # Within hosts 0.75 s, and between them 0.25 s.
        "communication": "1 s",
        "memory of a rank": "3.00 GB of 4.00 GB",
        "2 stages by gpipe": "25 % idle",
    }


@pytest.mark.parametrize(("busy", "told"), [(1.0, "75 % idle"), (4.0, "0 % idle"), (0.0, "100 % idle")])
def test_stages_are_idle_for_what_they_do_not_work_of_a_step(busy: float, told: str) -> None:
    time = StageTime(busy, 4.0 - busy)
    assert tiles(forecast(stage(0, time=time), stage(1, time=time)))["2 stages by gpipe"] == told


def test_of_one_stage_on_one_host_there_is_no_time_line_and_nothing_of_stages() -> None:
    made = forecast(stage(0), schedule="")
    assert list(tiles(made)) == [
        "1 host of 2",
        "a step by the cost model",
        "most of it, 60 %",
        "communication",
        "memory of a rank",
    ]
    assert data(made)["timeLines"] == ""


def test_the_time_lines_of_stages_are_one_picture_under_the_name_of_the_schedule() -> None:
    drawn = data(forecast())["timeLines"]
    assert drawn.startswith("<svg")
    assert all(word in drawn for word in ("GPipe", "stage 0", "stage 1"))


@pytest.mark.parametrize(
    ("memory", "told", "is_bad"),
    [
        (3.0 * GIGA, "3.00 GB of 3.00 GB", False),
        (3.0 * GIGA - 1, "3.00 GB of 3.00 GB", True),
        (2.0 * GIGA, "3.00 GB of 2.00 GB", True),
        (inf, "3.00 GB", False),
    ],
)
def test_memory_is_marked_only_where_a_rank_has_less_than_it_needs(memory: float, told: str, is_bad: bool) -> None:
    made = data(forecast(machine=Machine(hosts=2, ranks_per_host=2, memory=memory)))
    marked = [tile["name"] for tile in made["tiles"] if "bad" in tile]
    assert made["tiles"][4]["value"] == told
    assert marked == (["memory of a rank"] if is_bad else [])


def test_an_operator_knows_its_sources_in_its_own_stage_by_their_places() -> None:
    first = stage(0, [operator(0, "a"), operator(0, "b", "a")])
    second = stage(1, [operator(1, "c", "b"), operator(1, "d", "c", "b", "a")])
    found = data(forecast(first, second))["operators"]
    assert [(one["name"], one["stage"], one["sources"]) for one in found] == [
        ("a", 0, []),
        ("b", 0, [0]),
        ("c", 1, []),
        ("d", 1, [2]),
    ]
    assert (found[0]["cuts"], found[0]["rule"], found[0]["moved_bytes"]) == ([[2, 1]], "by hand", 64)


def test_layers_that_are_alike_have_one_reason_and_others_none() -> None:
    names = ["net/0/MatMul", "net/Loss", "net/1/MatMul", "net/Head"]
    reasons = [Reason(name, "by hand", ((2, 1),), 2.0, 8, (), 0, 4) for name in ("net/Head", "net/0/MatMul")]
    made = data(forecast(stage(0, [operator(0, name) for name in names])), *reasons)
    assert [one["reason"] for one in made["operators"]] == [1, None, 1, 0]
    assert [(one["operator"], one["words"]) for one in made["reasons"]] == [
        ("net/Head", "By hand."),
        ("net/0/MatMul", "By hand."),
    ]


def test_a_move_names_its_operator_by_its_place_and_one_of_no_operator_has_minus_one() -> None:
    first = stage(0, [operator(0, "a"), operator(0, "b")], moves=(move("b"), move("optimizer")))
    second = stage(1, [operator(1, "b")], moves=(move("b", "backward"), move("a")))
    found = data(forecast(first, second))["moves"]
    assert [(one["operator"], one["phase"], one["owner"]) for one in found] == [
        ("b", "forward", 1),
        ("optimizer", "forward", -1),
        ("b", "backward", 2),
        ("a", "forward", -1),
    ]
    assert found[0]["group"] == {"size": 2, "hosts": 1, "ranks": "0, 1"}


def test_parameters_that_are_cut_alike_have_their_parts_in_common_of_which_sixteen_are_drawn() -> None:
    first = stage(0, parameters=(parameter(0, "u", 2), parameter(0, "v", 20)))
    second = stage(1, parameters=(parameter(1, "w", 2),))
    made = data(forecast(first, second))
    assert [(one["name"], one["parts"], one["part_count"]) for one in made["parameters"]] == [
        ("u", 0, 2),
        ("v", 1, 20),
        ("w", 0, 2),
    ]
    assert [len(one) for one in made["parts"]] == [2, 16]
    assert made["parts"][0] == [{"box": "[0:1]", "ranks": "0"}, {"box": "[1:2]", "ranks": "1"}]


def test_each_stage_is_told_with_ranks_work_memory_by_kind_and_collectives() -> None:
    first, second = data(forecast())["stages"]
    assert (first["ranks"], first["busy"], second["ranks"], second["busy"]) == ("0 to 1", 2.0, "2 to 3", 4.0)
    assert second["memory"] == {
        "kinds": {"weights": 2 * GIGA, "inputs": GIGA},
        "arena": GIGA,
        "fullest_at": "Loss",
        "total": 3 * GIGA,
    }
    (summed,) = first["collectives"]
    assert (summed["kind"], summed["phases"], summed["count"], summed["byte_count"]) == (
        "AllReduce",
        {"forward": 2},
        2,
        2000,
    )


def test_bars_are_drawn_against_the_slowest_stage_and_the_whole_step() -> None:
    made = data(forecast(stage(0), stage(1)))
    assert (made["busy"], made["seconds"]) == (4.0, 4.0)
    alone = data(forecast(stage(0)))
    # A stage that waits for half of its step is at work for the other half.
    assert (alone["busy"], alone["seconds"]) == (2.0, 4.0)
    assert made["hint"] == "What other cuts would cost is worked out by mpiparallel show --why with its name."


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("train.py", "train.py on 4 ranks"),
        ("</script>&.py", "&lt;/script&gt;&amp;.py on 4 ranks"),
        ("DATA.py", "DATA.py on 4 ranks"),
        ("TITLE.py", "TITLE.py on 4 ranks"),
    ],
)
def test_a_script_of_any_name_is_the_title_of_the_page_and_harms_nothing(name: str, title: str) -> None:
    text = page(forecast(), name, ())
    assert f"<title>{title}</title>" in text
    assert data_of(text)["title"] == f"{name} on 4 ranks"


def test_of_one_rank_the_title_has_no_plural() -> None:
    assert data(forecast(ranks=1))["title"] == "train.py on 1 rank"
