"""A forecast as text: its first lines, what fits, and rows that are folded into one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.launch.simulate.report import cuts_text, fit, fold, head, several, table

GIGA = 10**9


def forecast(**changes: Any) -> Any:
    """A step of 2 s on 8 ranks of two hosts, of which 1.5 s are products, with 3 GB a rank."""
    time = SimpleNamespace(busy=1.75)
    told = {
        "ranks": 8,
        "hosts": 2,
        "machine": SimpleNamespace(hosts=2, ranks_per_host=4, memory=float("inf")),
        "mode": "semi_auto_parallel",
        "trains": True,
        "samples": 5000,
        "seconds": 2.0,
        "bound": ("matrix products", 0.75),
        "slowest": SimpleNamespace(
            parts={"matrix products": 1.5, "other operators": 0.25, "communication": 0.0}, time=time
        ),
        "stages": [SimpleNamespace(recomputing=0.0)],
        "fullest": SimpleNamespace(
            memory=SimpleNamespace(total=3 * GIGA, kinds={"weights": 2 * GIGA, "states": 0, "activations": GIGA})
        ),
        "missing_memory": 0.0,
        "schedule": "gpipe",
        "bubble": 0.125,
    }
    return SimpleNamespace(**{**told, **changes})


HEAD = [
    "train.py: a training step of 5,000 samples on 8 ranks, 2 hosts of 4, semi_auto_parallel",
    "step         2 s, 2,500 samples/s; most of it (75 %) is matrix products",
    "        1.5 s matrix products, 250 ms other operators, 250 ms waiting",
    "memory   3.00 GB a rank",
    "        2.00 GB weights, 1.00 GB activations",
]


def test_a_forecast_begins_with_ranks_time_and_memory() -> None:
    assert list(head(forecast(), "train.py")) == HEAD


@pytest.mark.parametrize(
    ("changes", "line", "told"),
    [
        ({"trains": False, "samples": 0}, 0, "train.py: a run on 8 ranks, 2 hosts of 4, semi_auto_parallel"),
        ({"samples": 0}, 1, "step         2 s; most of it (75 %) is matrix products"),
        (
            {"ranks": 1, "hosts": 1},
            0,
            "train.py: a training step of 5,000 samples on 1 rank, 1 host of 4, semi_auto_parallel",
        ),
        ({"hosts": 1}, 1, "step         2 s, 2,500 samples/s; most of it (75 %) is matrix products"),
        ({"seconds": 3.0}, 1, "step         3 s, 1,667 samples/s; most of it (75 %) is matrix products"),
        ({"hosts": 3}, 1, "  (the cluster file has 2 hosts; more of the same are assumed)"),
        (
            {"hosts": 3, "machine": SimpleNamespace(hosts=1, ranks_per_host=4, memory=float("inf"))},
            1,
            "step         2 s, 2,500 samples/s; most of it (75 %) is matrix products",
        ),
        (
            {"stages": [SimpleNamespace(recomputing=0.0), SimpleNamespace(recomputing=0.5)]},
            3,
            "        500 ms of it computes once more what is not kept, to save memory",
        ),
        (
            {"stages": [SimpleNamespace(recomputing=0.0)] * 2},
            -1,
            "stages         2 by gpipe; they are idle for 12 % of the step",
        ),
    ],
)
def test_what_is_not_as_usual_has_its_words(changes: dict[str, Any], line: int, told: str) -> None:
    assert list(head(forecast(**changes), "train.py"))[line] == told


@pytest.mark.parametrize(
    ("memory", "missing", "told"),
    [
        (float("inf"), 0.0, ""),
        (4e9, 0.0, " of 4.00 GB"),
        (4e9, -1e9, " of 4.00 GB"),
        (2e9, 1e9, ": does not fit, 1.00 GB more than the 2.00 GB it has"),
    ],
)
def test_memory_is_compared_with_what_a_rank_has(memory: float, missing: float, told: str) -> None:
    machine = SimpleNamespace(hosts=1, ranks_per_host=1, memory=memory)
    assert fit(forecast(machine=machine, missing_memory=missing)) == told


def test_names_that_differ_by_numbers_of_layers_are_folded_where_they_are_alike() -> None:
    names = ["net/0/MatMul", "net/1/MatMul", "net/a1/MatMul", "1.weight", "22.weight", "net/2/Add", "MatMul-3"]
    folded = fold(names, str, lambda name: name.startswith("22"))
    assert [one.title for one in folded] == [
        "net/*/MatMul  x2",
        "net/a1/MatMul",
        "1.weight",
        "22.weight",
        "net/2/Add",
        "MatMul-3",
    ]
    assert [list(one.rows) for one in folded][:2] == [["net/0/MatMul", "net/1/MatMul"], ["net/a1/MatMul"]]


def test_columns_stand_to_their_sides_and_lines_end_with_words() -> None:
    assert list(table([("a", "1", "x"), ("bcd", "23", "")], "<><")) == ["a     1  x", "bcd  23"]


@pytest.mark.parametrize(("count", "told"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks"), (4096, "4,096 ranks")])
def test_only_one_thing_has_no_plural(count: int, told: str) -> None:
    assert several(count, "rank") == told


def test_cuts_are_written_as_users_do() -> None:
    assert [cuts_text(cuts) for cuts in ((), ((),), ((8, 1), (1, 2)))] == ["", "()", "(8,1) (1,2)"]
