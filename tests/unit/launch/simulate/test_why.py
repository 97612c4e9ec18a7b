"""``mpiparallel show --why`` in data and hybrid parallel and in stages: what it names is what a script takes so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.cli import main
from mpiparallel.launch.show import reasons
from mpiparallel.launch.show.reasons import asked as meant
from mpiparallel.launch.show.reasons import reason_words
from mpiparallel.search.forecast.reason import Alternative, Reason

DATA = """
import numpy as np
from mpiparallel import Model, context, nn
from mpiparallel.dataset import NumpySlicesDataset
context.set_auto_parallel_context({settings})
class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Dense(64, 256, has_bias=False), nn.Dense(256, 64, has_bias=False)
        {cut}
    def construct(self, x):
        return self.narrow(self.wide(x))
network = Network()
data = NumpySlicesDataset((np.zeros((32, 64), np.float32),) * 2, ["x", "y"], shuffle=False).batch(32)
Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), 0.1)).train(1, data)
"""
STAGES = """
import numpy as np
from mpiparallel import Model, context, nn
from mpiparallel.dataset import NumpySlicesDataset
context.set_auto_parallel_context(
    parallel_mode="semi_auto_parallel",
    full_batch=True,
    pipeline_stages=2,
    pipeline_config={{"pipeline_scheduler": "gpipe"}},
)
network = nn.SequentialCell(*(nn.Dense(256, 256, has_bias=False) for _ in range(2)))
network[0].pipeline_stage, network[1].pipeline_stage = 0, 1
{cut}
net = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), 4)
data = NumpySlicesDataset((np.zeros((512, 256), np.float32),) * 2, ["x", "y"], shuffle=False).batch(512)
Model(net, optimizer=nn.SGD(net.trainable_params(), 0.1)).train(1, data)
"""


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what gives the JSON, or the text, that a command answers of a script."""

    def run(command: str, script: str, *words: str) -> Any:
        path = tmp_path / "train.py"
        path.write_text(script, encoding="utf-8")
        assert main([command, str(path), *words]) == 0, capsys.readouterr().err
        out = capsys.readouterr().out
        return json.loads(out) if "--json" in words else out

    return run


def test_in_data_parallel_other_cuts_cost_what_they_do_where_the_batches_are_one(told: Any) -> None:
    plain = 'parallel_mode="data_parallel", gradients_mean=True'
    script = DATA.format(settings=plain, cut="")
    asked = ("-n", "4", "--why", "wide/MatMul")
    (reason,) = told("show", script, "--json", *asked)["why"]
    assert reason["seconds"] == told("simulate", script, "-n", "4", "--json")["seconds"]
    assert "data_parallel: each rank computes the whole of it on its own batch; the gradient of" in reason["rule"]
    assert "wide.weight is summed over 4 ranks, which all update it" in reason["rule"]
    found = {str(one["strategy"]): one["seconds"] for one in reason["alternatives"] if "semi_auto" in one["how"]}
    cut = "self.wide.matmul.shard(((1, 1), (4, 1)))"
    written = DATA.format(settings='parallel_mode="semi_auto_parallel", full_batch=False', cut=cut)
    assert found["[[1, 1], [4, 1]]"] == pytest.approx(told("simulate", written, "-n", "4", "--json")["seconds"])
    (shards,) = (one for one in reason["alternatives"] if not one["strategy"])
    sharded = DATA.format(settings=f"{plain}, enable_parallel_optimizer=True", cut="")
    assert shards["seconds"] == pytest.approx(told("simulate", sharded, "-n", "4", "--json")["seconds"])
    assert "The best alternative, " in told("show", script, *asked)


def test_a_parameter_that_is_each_ranks_own_is_said_to_be_and_has_no_other_cuts(told: Any) -> None:
    cut = "self.wide.weight.layerwise_parallel = True"
    script = DATA.format(settings='parallel_mode="hybrid_parallel"', cut=cut)
    (reason,) = told("show", script, "--json", "-n", "4", "--why", "wide/MatMul")["why"]
    assert "wide.weight is layerwise_parallel, each rank's own, and its gradient is not summed" in reason["rule"]
    assert [one["how"] for one in reason["alternatives"]] == ["with the parallel optimizer, for all weights"]


def test_in_stages_an_operator_is_cut_otherwise_for_all_micro_batches(told: Any) -> None:
    (reason,) = told("show", STAGES.format(cut=""), "-n", "8", "--json", "--why", "1/MatMul")["why"]
    assert reason["rule"] == "no strategy: cut by the batch, its first dim; in stage 1 of 2, on ranks 4 to 7"
    assert reason["tried"] == reason["possible"] == len(reason["alternatives"]) > 5
    for one in (reason["alternatives"][0], reason["alternatives"][-1]):
        cut = f"network[1].matmul.shard({tuple(map(tuple, one['strategy']))})"
        found = told("simulate", STAGES.format(cut=cut), "-n", "8", "--json")
        assert one["seconds"] == pytest.approx(found["seconds"], rel=1e-12)


def test_in_stages_the_time_lines_stand_below_the_network_and_below_an_answer(told: Any) -> None:
    script = STAGES.format(cut="")
    for asked in ((), ("--why", "1/MatMul")):
        *_, first, second, legend = told("show", script, "-n", "8", *asked).splitlines()
        assert first.startswith("stage 0  F0")
        # It waits for what the first stage has of the first micro-batch.
        assert second.startswith("stage 1  .")
        assert "F forward" in legend
    assert "stage 0" not in told("show", DATA.format(settings='parallel_mode="semi_auto_parallel"', cut=""), "-n", "4")


OPERATORS = ("MatMul", "network/0/MatMul", "network/1/MatMul", "network/1/wide/MatMul", "network/wide/Add")
NAMED = {
    "Add": ["network/wide/Add"],
    "MatMul": ["MatMul"],
    "1/MatMul": ["network/1/MatMul"],
    "network/*": ["network/0/MatMul", "network/1/wide/MatMul", "network/wide/Add"],
    "wide/*": ["network/1/wide/MatMul", "network/wide/Add"],
    "Mat*": ["MatMul", "network/0/MatMul", "network/1/wide/MatMul"],
    "network/wide/Add": ["network/wide/Add"],
}


def compiled() -> Any:
    operator = SimpleNamespace(kind="compute")
    nodes = [SimpleNamespace(name=name, is_forward=True, operator=operator) for name in OPERATORS]
    return SimpleNamespace(staged=SimpleNamespace(stages=[SimpleNamespace(graph=SimpleNamespace(nodes=nodes))]))


@pytest.mark.parametrize("name", NAMED)
def test_operators_are_named_whole_by_their_ends_or_by_patterns_and_of_layers_the_first(name: str) -> None:
    assert [node.name for node in meant(compiled(), [name])] == NAMED[name]


def test_a_name_of_no_operator_is_refused_with_one_that_there_is() -> None:
    with pytest.raises(ConfigurationError, match=r"--why wide/Matmul: .* no such operator; it has .*MatMul, for one"):
        meant(compiled(), ["wide/Matmul"])


def test_a_parameter_is_told_with_who_holds_what_of_it(told: Any) -> None:
    settings = 'parallel_mode="semi_auto_parallel", full_batch=True'
    script = DATA.format(settings=settings, cut="self.wide.matmul.shard(((1, 1), (2, 1)))")
    head, *parts = told("show", script, "-n", "4", "--parameter", "wide.weight").splitlines()
    # It is 256 x 64 numbers of 4 bytes, of which a rank has a half.
    assert re.fullmatch(r"wide\.weight \[256, 64\] \S+: kept as .*; 32\.8 kB a rank", head)
    assert len(parts) == 2
    assert all(" on ranks " in part for part in parts)
    assert told("show", script, "-n", "4", "--parameter", "wi*.weight").count("kept as") == 1


def test_a_parameter_that_there_is_not_is_refused_with_one_that_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(DATA.format(settings='parallel_mode="semi_auto_parallel"', cut=""), encoding="utf-8")
    assert main(["show", str(path), "-n", "2", "--parameter", "wide.wait"]) == 2
    assert "--parameter wide.wait: the network has no such parameter; it has wide.weight" in capsys.readouterr().err
    assert main(["show", str(path)]) == 2
    assert "show: for how many ranks? give -n N" in capsys.readouterr().err


def test_the_page_holds_the_operators_and_the_reasons_for_those_on_weights(told: Any, tmp_path: Path) -> None:
    html = tmp_path / "net.html"
    assert f"page: {html}" in told("show", STAGES.format(cut=""), "-n", "4", "--html", str(html))
    text = html.read_text(encoding="utf-8")
    assert "<title>train.py on 4 ranks</title>" in text
    data, _ = json.JSONDecoder().raw_decode(text, text.index('{"title":'))
    assert [stage["ranks"] for stage in data["stages"]] == ["0 to 1", "2 to 3"]
    assert data["tiles"][-1]["name"] == "2 stages by gpipe"
    products = [one for one in data["operators"] if one["name"].endswith("MatMul")]
    assert products
    for one in products:
        assert data["reasons"][one["reason"]]["operator"].endswith("MatMul")
    assert {one["name"] for one in data["parameters"]} >= {"0.weight", "1.weight"}


@pytest.mark.parametrize(
    ("tried", "alternatives", "words"),
    [
        (0, (), "By hand."),
        (3, (), "By hand. None of the 3 alternatives that were tried can be beside the others."),
        (2, (2.0,), r"By hand. The best alternative, .*, takes as long, all else as it is."),
        (2, (3.0,), r"The best alternative, .*, makes a step 1 s \(50 %\) slower, all else as it is."),
        (1, (1.0,), r"makes a step 1 s \(50 %\) quicker, .* Of 2 alternatives 1 were tried."),
    ],
)
def test_an_answer_says_what_the_best_alternative_would_cost(
    tried: int, alternatives: tuple[float, ...], words: str
) -> None:
    others = tuple(Alternative(((2, 1),), seconds, 8) for seconds in alternatives)
    assert re.search(f"{words}$", reason_words(Reason("MatMul", "by hand", ((1, 2),), 2.0, 8, others, tried, 2)))


def test_of_many_parts_of_a_parameter_as_many_are_told_as_the_page_shows_and_how_many_more_there_are(
    told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What other cuts would cost takes long on so many ranks.
    monkeypatch.setattr(reasons, "heaviest", lambda network: [])
    settings = 'parallel_mode="semi_auto_parallel", full_batch=True'
    script = DATA.format(settings=settings, cut="self.wide.matmul.shard(((1, 1), (64, 1)))")
    html = tmp_path / "net.html"
    words = ("--parameter", "wide.weight", "--html", str(html))
    _, *parts, last, _, page = told("show", script, "-n", "64", *words).splitlines()
    assert page == f"page: {html}"
    assert re.fullmatch(rf"  and {64 - len(parts)} parts more", last)
    assert all(" on ranks " in part for part in parts)
    text = html.read_text(encoding="utf-8")
    data, _ = json.JSONDecoder().raw_decode(text, text.index('{"title":'))
    (wide,) = (one for one in data["parameters"] if one["name"] == "wide.weight")
    shown = [f"  {part['box']}  on ranks {part['ranks']}" for part in data["parts"][wide["parts"]]]
    assert (wide["part_count"], shown) == (64, parts)


def test_the_page_marks_memory_that_a_rank_does_not_have(told: Any, tmp_path: Path) -> None:
    html, cluster = tmp_path / "net.html", tmp_path / "cluster.json"
    for memory, is_bad in (("0.00001", True), ("1000", False)):
        cluster.write_text(f'{{"hosts": 1, "ranks_per_host": 1, "memory_gb": {memory}}}', encoding="utf-8")
        script = DATA.format(settings='parallel_mode="stand_alone"', cut="")
        told("show", script, "-n", "1", "--html", str(html), "--cluster", str(cluster))
        text = html.read_text(encoding="utf-8")
        data, _ = json.JSONDecoder().raw_decode(text, text.index('{"title":'))
        (tile,) = (one for one in data["tiles"] if one["name"] == "memory of a rank")
        assert (tile.get("bad") == "1") == is_bad


def test_each_stage_is_told_with_its_work_and_its_waiting(told: Any) -> None:
    text = told("simulate", STAGES.format(cut=""), "-n", "2")
    assert len(re.findall(r"stage \d.* at work, .* waiting, .* a rank", text)) == 2
