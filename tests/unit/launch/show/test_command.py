"""``mpiparallel show`` of a network: what stands below what, by what is asked for, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.launch.cli import main
from mpiparallel.launch.show import reasons as answering
from mpiparallel.launch.show.page import page
from mpiparallel.launch.simulate import job
from mpiparallel.launch.simulate.json_output import document
from mpiparallel.search.forecast.forecast import Forecast
from mpiparallel.search.forecast.reason import Alternative, Reason
from tests.unit.launch.show.made_forecast import forecast, operator, parameter, stage

HEAD, TREE = "train.py: a training step of 64 samples on {} ranks", "└─ {}  (2,1)  ->  8/2 x 6  500 ms"


def answer(node: Any) -> Reason:
    """Return an answer with one alternative, but of bias with none."""
    others = () if node.name == "bias" else (Alternative(((1, 2),), 3.0, 8),)
    return Reason(node.name, "by hand", ((2, 1),), 2.0, 8, others, len(others), len(others))


class Compiled:
    """Takes the place of compiling and pricing: the network has the operators a, b and bias, all on weights."""

    def __init__(self) -> None:
        self.forecast: Forecast = forecast()
        self.is_forecast = False
        self.sought: list[tuple[list[str], float]] = []

    def simulated(self, *words: Any) -> Any:
        weight = SimpleNamespace(parameter=object(), spec=SimpleNamespace(shape=(8, 6), size=48))
        kind = SimpleNamespace(kind="compute")
        nodes = [
            SimpleNamespace(name=name, is_forward=True, operator=kind, inputs=[weight]) for name in ("a", "b", "bias")
        ]
        empty = [[] for _ in self.forecast.stages[1:]]
        stages = [SimpleNamespace(graph=SimpleNamespace(nodes=some)) for some in (nodes, *empty)]
        return SimpleNamespace(staged=SimpleNamespace(stages=stages))

    def forecast_of(self, *words: Any) -> Forecast:
        self.is_forecast = True
        return self.forecast

    def reasons_of(self, network: Any, nodes: Any, machine: Any, seconds: float) -> list[Reason]:
        self.sought.append(([node.name for node in nodes], seconds))
        return [answer(node) for node in nodes]


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiled:
    """A network of two stages, with a script beside it."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    made = Compiled()
    made.forecast = forecast(
        stage(0, [operator(0, "a")], parameters=(parameter(0, "u", 1),)), stage(1, [operator(1, "b")])
    )
    monkeypatch.setattr(job, "simulated", made.simulated)
    monkeypatch.setattr(job, "forecast_of", made.forecast_of)
    monkeypatch.setattr(answering, "reasons_of", made.reasons_of)
    return made


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["show", "train.py", "-n", "4", *words]) == 0
    return capsys.readouterr().out


def first_lines(text: str) -> list[str]:
    """Return how each part begins; parts have an empty line between them."""
    return [part.splitlines()[0] for part in text.split("\n\n")]


LINES = "GPipe: a step of 4 s, of which a stage is idle 25 %; milliseconds by the cost model"
HELD = "u [8, 6] float32: kept as 8/2 x 6, used as 8 x 6; 96 B a rank"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--why", "a"), ["a: (2,1)", LINES]),
        (("--why", "b", "--why", "a"), ["b: (2,1)", "a: (2,1)", LINES]),
        (("--parameter", "u"), [HELD, LINES]),
        (("--parameter", "u", "--why", "a"), ["a: (2,1)", HELD, LINES]),
        (("--html", "net.html"), ["page: net.html"]),
        (("--html", "net.html", "--why", "a"), ["a: (2,1)", "page: net.html"]),
    ],
)
def test_answers_stand_first_then_holders_and_the_time_lines_or_the_page(
    words: tuple[str, ...], parts: list[str], compiled: Compiled, capsys: pytest.CaptureFixture[str]
) -> None:
    assert first_lines(shown(capsys, *words)) == parts


def test_without_a_question_the_tree_of_the_network_stands_above_the_time_lines(
    compiled: Compiled, capsys: pytest.CaptureFixture[str]
) -> None:
    head, first, second, lines = first_lines(shown(capsys))
    assert head.startswith(HEAD.format(4))
    assert (first, second, lines) == ("stage 0, ranks 0 to 1", "stage 1, ranks 2 to 3", LINES)


def test_of_one_stage_no_time_lines_follow_the_tree_or_a_holder(
    compiled: Compiled, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled.forecast = forecast(stage(0, [operator(0, "a")], parameters=(parameter(0, "u", 1),)))
    assert shown(capsys).endswith(f"network\n{TREE.format('a')}\n")
    assert first_lines(shown(capsys, "--parameter", "u")) == [HELD]


@pytest.mark.parametrize(
    ("words", "is_forecast"),
    [((), False), (("--parameter", "u"), True), (("--html", "net.html"), True), (("--json",), True)],
)
def test_an_answer_alone_about_one_stage_is_given_without_a_forecast(
    words: tuple[str, ...], is_forecast: bool, compiled: Compiled, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled.forecast = forecast(stage(0, [operator(0, "a")], parameters=(parameter(0, "u", 1),)))
    text = shown(capsys, "--why", "a", *words)
    assert compiled.is_forecast == is_forecast
    assert is_forecast or first_lines(text) == ["a: (2,1)"]


@pytest.mark.parametrize(
    ("asked", "answered", "sought"),
    [
        ([], ["a", "b"], [([], 60.0), (["a", "b", "bias"], 10.0)]),
        (["b"], ["b", "a"], [(["b"], 60.0), (["a", "bias"], 10.0)]),
        # What was asked is answered on the page also where nothing else can be tried.
        (["bias"], ["bias", "a", "b"], [(["bias"], 60.0), (["a", "b"], 10.0)]),
    ],
)
def test_the_page_has_what_was_asked_first_and_of_the_others_those_with_alternatives(
    asked: list[str],
    answered: list[str],
    sought: list[tuple[list[str], float]],
    compiled: Compiled,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown(capsys, "--html", "net.html", *(word for name in asked for word in ("--why", name)))
    answers = [answer(SimpleNamespace(name=name)) for name in answered]
    assert Path("net.html").read_text(encoding="utf-8") == page(compiled.forecast, "train.py", answers)
    # A question gets a minute, and all that the page adds by itself ten seconds.
    assert compiled.sought == sought


@pytest.mark.parametrize(
    ("words", "why", "file"),
    [((), [], None), (("--why", "a"), ["a"], None), (("--html", "net.html", "--why", "b"), ["b"], "net.html")],
)
def test_json_has_the_forecast_the_answers_and_where_the_page_is(
    words: tuple[str, ...],
    why: list[str],
    file: str | None,
    compiled: Compiled,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = json.loads(shown(capsys, "--json", *words))
    assert ([one["operator"] for one in found.pop("why")], found.pop("page")) == (why, file)
    assert found == json.loads(json.dumps(document(compiled.forecast)))
    assert Path("net.html").exists() == (file is not None)


def test_a_script_in_another_folder_is_called_by_its_own_name(
    compiled: Compiled, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("inner").mkdir()
    Path("inner/train.py").write_text("")
    assert main(["show", "inner/train.py", "-n", "4"]) == 0
    assert capsys.readouterr().out.startswith(HEAD.format(4))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "show: give either a script, as in `mpiparallel show train.py -n 8`, or --pipeline"),
        (
            ["train.py", "-n", "2", "--pipeline", "1f1b"],
            "show: give either a script, as in `mpiparallel show train.py -n 8`, or --pipeline",
        ),
        (["train.py"], "show: for how many ranks? give -n N"),
        (["train.py", "-n", "4", "--why", "A"], "--why A: the network has no such operator; it has a, for one"),
        (
            ["train.py", "-n", "4", "--parameter", "z"],
            "--parameter z: the network has no such parameter; it has u, for one",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(
    words: list[str], told: str, compiled: Compiled, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"mpiparallel: error: {told}"
