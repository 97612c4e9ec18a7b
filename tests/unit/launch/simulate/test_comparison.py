"""Ways to cut a network side by side: the quickest that fits has a star, and what a step is made of adds up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.simulate.comparison import Compared, compared, comparison_text
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.search.machine.machine import Machine


def way(name: str, seconds: float, missing: float = 0.0, bubble: float = 0.0) -> Compared:
    parts = {"matrix products": 0.5, "other operators": 0.25, "communication within hosts": 0.125, "update": 0.125}
    memory = SimpleNamespace(total=3 * 10**9, kinds={"weights": 2 * 10**9, "activations": 10**9})
    forecast: Any = SimpleNamespace(
        seconds=seconds,
        missing_memory=missing,
        bubble=bubble,
        slowest=SimpleNamespace(parts=parts),
        fullest=SimpleNamespace(memory=memory),
    )
    return Compared(name, forecast)


HEAD = "         step  computing  moving  bubble   a rank  weights  activations"


@pytest.mark.parametrize(
    ("ways", "marks"),
    [
        ([way("written", 2.0), way("batch", 1.0)], ["", "*"]),
        ([way("written", 2.0), way("batch", 1.0, missing=1.0)], ["*", "does not fit"]),
        ([way("written", 2.0, missing=1.0), way("batch", 1.0, missing=2.0)], ["does not fit", "does not fit"]),
        # Of equally quick ones the first.
        ([way("written", 1.0), way("batch", 1.0, missing=-5.0)], ["*", ""]),
    ],
)
def test_the_quickest_that_fits_has_a_star(ways: list[Compared], marks: list[str]) -> None:
    head, *lines = comparison_text(ways).splitlines()
    assert head == HEAD
    for line, one, mark in zip(lines, ways, marks, strict=True):
        assert line.split() == [
            one.name,
            *f"{one.forecast.seconds:g} s 750 ms 250 ms 0 % 3.00 GB 2.00 GB 1.00 GB".split(),
            *mark.split(),
        ]


def test_waiting_is_told_as_a_share() -> None:
    ways = [way("written", 2.0, bubble=0.125), way("batch", 3.0, bubble=0.6)]
    assert [" 12 %  3.00 GB" in line or " 60 %  3.00 GB" in line for line in comparison_text(ways).splitlines()] == [
        *(False, True, True)
    ]


def network(**changes: Any) -> Any:
    return SimpleNamespace(configuration=ParallelConfiguration(**changes))


@pytest.mark.parametrize(
    ("changes", "name", "told"),
    [
        (
            {"mode": ParallelMode.DATA_PARALLEL},
            "batch",
            "--compare batch: in data_parallel mode each rank has the whole network, which is cut in no other way; set "
            "parallel_mode to semi_auto_parallel or auto_parallel in the script",
        ),
        (
            {"mode": ParallelMode.SEMI_AUTO_PARALLEL, "pipeline_stages": 2},
            "batch+optimizer",
            "--compare batch+optimizer: stages of a pipeline are compared by their schedule alone, as by 1f1b",
        ),
        (
            {"mode": ParallelMode.SEMI_AUTO_PARALLEL},
            "1f1b",
            "--compare 1f1b: the script has no pipeline_stages to schedule; leave it out",
        ),
    ],
)
def test_a_way_that_there_cannot_be_is_refused_word_for_word(
    changes: dict[str, Any], name: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mpiparallel.launch.simulate.comparison.forecast_of", lambda network, machine: None)
    with pytest.raises(ConfigurationError) as caught:
        compared(network(**changes), [name], Machine())
    assert str(caught.value) == told


def test_each_way_is_compared_once_and_the_written_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpiparallel.launch.simulate.comparison.forecast_of", lambda network, machine: None)
    ways = compared(network(mode=ParallelMode.SEMI_AUTO_PARALLEL), ["written", "written"], Machine())
    assert [one.name for one in ways] == ["written"]
