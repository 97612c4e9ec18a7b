"""``mpiparallel simulate``: what a program would take on ranks that are not there, held to arithmetic and to ranks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, LaunchError
from mpiparallel.launch.cli import main
from mpiparallel.launch.simulate.comparison import comparison_text
from mpiparallel.launch.simulate.rank_count_search import SimulatedRanks, cheapest, finding_text
from mpiparallel.launch.simulate.report import _collectives
from mpiparallel.search.forecast.move import Collectives, ToldGroup

MLP = """
import numpy as np
from mpiparallel import Model, context, nn
from mpiparallel.communication import get_group_size, init
from mpiparallel.dataset import NumpySlicesDataset
init()
ranks = get_group_size()
context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True{settings})
class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Dense(64, 256, has_bias=False), nn.Dense(256, 64, has_bias=False)
        if ranks > 1:
            self.wide.matmul.shard(((ranks // 2, 1), (2, 1)))
            self.narrow.matmul.shard(((ranks // 2, 2), (1, 2)))
    def construct(self, x):
        return self.narrow(self.wide(x))
network = Network()
data = NumpySlicesDataset((np.zeros((4096, 64), np.float32),) * 2, ["x", "y"], shuffle=False).batch(4096)
Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), 0.1)).train(1, data)
print("trained")
"""


@pytest.fixture
def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Return what gives the forecast of a script of this text."""

    def run(script: str, *words: str) -> dict[str, Any]:
        path = tmp_path / "train.py"
        path.write_text(script, encoding="utf-8")
        assert main(["simulate", str(path), "--json", *words]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run


def test_the_page_tells_what_a_step_is_made_of_and_which_collectives_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(MLP.format(settings=""))
    pages = {}
    for ranks in ("1", "4"):
        assert main(["simulate", str(tmp_path / "train.py"), "-n", ranks]) == 0
        pages[ranks] = capsys.readouterr().out
        # Six products of 4096 x 64 x 256 against losses of 4096 x 64.
        assert re.search(r"most of it \(9\d %\) is matrix products\n +[\d.]+ ms matrix products, ", pages[ranks])
        assert ("\nno communication\n" in pages[ranks]) == (ranks == "1")
        assert ("communication of the first rank " in pages[ranks]) == (ranks == "4")
    assert " AllReduce " in pages["4"]


def test_what_recomputation_costs_is_what_a_step_takes_longer(simulated: Callable[..., dict[str, Any]]) -> None:
    plain = simulated(MLP.format(settings=""), "-n", "1")
    again = simulated(MLP.format(settings="").replace("data = ", "network.recompute()\ndata = "), "-n", "1")
    (stage,) = again["stages"]
    assert plain["stages"][0]["recomputing"] == 0 < stage["recomputing"] < again["seconds"]
    assert again["seconds"] - plain["seconds"] == pytest.approx(stage["recomputing"])


def test_a_program_that_leaves_all_open_is_simulated_as_it_will_be_trained(
    simulated: Callable[..., dict[str, Any]],
) -> None:
    script = MLP.format(settings=', auto_parallel_search_mode="everything", pipeline_stages=2').replace("semi_", "")
    found = simulated(script.replace("if ranks > 1", "if False"), "-n", "2")
    assert [stage["rank_count"] for stage in found["stages"]] == [1, 1]
    assert found["schedule"]
    assert 0 < found["bubble"] < 1
    first, second = (stage["time"]["actions"] for stage in found["stages"])
    # All forwards, then all backwards; the first stage has no input to differentiate by.
    names = [name for name, _, _ in first]
    count = sum(name.startswith("F") for name in names)
    assert names[: 2 * count] == [f"{kind}{number}" for kind in "FW" for number in range(count)]
    assert count > 1
    assert {*names[2 * count : -1]} <= {"R", "U"}
    assert names[-1] == "U"
    for number in range(count):
        ended = max(end for name, _, end in first if name == f"F{number}")
        assert ended <= min(begin for name, begin, _ in second if name == f"F{number}")
    ends = [one["time"]["busy"] + one["time"]["waiting"] for one in found["stages"]]
    assert [one[-1][2] for one in (first, second)] == pytest.approx(ends)


def test_memory_and_communication_are_what_arithmetic_says(simulated: Callable[..., dict[str, Any]]) -> None:
    (stage,) = simulated(MLP.format(settings=""), "-n", "4096")["stages"]
    assert stage["memory"]["kinds"]["weights"] == 2 * 64 * 256 * 4 // 2
    # Two moments of each weight, and a few numbers.
    assert 0 <= stage["memory"]["kinds"]["optimizer states"] - 2 * 64 * 256 * 4 < 100
    # The narrow product is summed over the two ranks that share its two rows, and each keeps one for the loss.
    (forward,) = (one for one in stage["moves"] if one["phase"] == "forward" and "narrow" in one["operator"])
    assert (forward["kind"], forward["group"]["ranks"], forward["byte_count"]) == ("ReduceScatter", "0, 1", 2 * 64 * 4)
    # Each gradient is summed over the 2,048 ranks that have rows of the batch: 512 hosts of 8.
    gradients = [one for one in stage["moves"] if one["phase"] == "gradients"]
    assert [one["byte_count"] for one in gradients] == [64 * 256 * 4 // 2] * 2
    assert {(one["group"]["size"], one["group"]["hosts"]) for one in gradients} == {(2048, 512)}


def test_show_tells_the_same_as_json_with_the_reasons_that_are_asked_for(
    simulated: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forecast = simulated(MLP.format(settings=""), "-n", "4")
    assert main(["show", str(tmp_path / "train.py"), "-n", "4", "--why", "wide/MatMul", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (reason,) = shown.pop("why")
    assert reason["strategy"] == [[2, 1], [2, 1]]
    assert shown == {**forecast, "page": None}


def test_it_is_the_memory_that_real_ranks_take(simulated: Callable[..., dict[str, Any]]) -> None:
    settings = ", enable_parallel_optimizer=True, parallel_optimizer_config={'parallel_optimizer_threshold': 0}"

    def train(communicator: Any) -> tuple[int, int, int]:
        context.set_auto_parallel_context(
            parallel_mode="semi_auto_parallel",
            full_batch=True,
            enable_parallel_optimizer=True,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        )
        wide, narrow = nn.Dense(64, 256, has_bias=False), nn.Dense(256, 64, has_bias=False)
        wide.matmul.shard(((2, 1), (2, 1)))
        narrow.matmul.shard(((2, 2), (1, 2)))
        network = nn.SequentialCell(wide, narrow)
        optimizer = nn.Adam(network.trainable_params(), 0.1)
        data = NumpySlicesDataset((np.zeros((4096, 64), np.float32),) * 2, ["x", "y"], shuffle=False).batch(4096)
        model = Model(network, nn.MSELoss(), optimizer)
        model.train(1, data)
        (compiled,) = model.train_network.program.programs
        parameters = compiled.local.parameters.values()
        held = [(value.parameter.requires_grad, value.parameter.asnumpy().nbytes) for value in parameters]
        return (
            sum(size for trained, size in held if trained),
            sum(size for trained, size in held if not trained),
            compiled.program.arena_bytes,
        )

    weights, states, arena = run_world(4, train)[0]
    (stage,) = simulated(MLP.format(settings=settings), "-n", "4")["stages"]
    kinds = stage["memory"]["kinds"]
    assert (kinds["weights"], kinds["optimizer states"], stage["memory"]["arena"]) == (weights, states, arena)


def test_nothing_is_written_printed_or_trained(
    simulated: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "strategy.json"
    script = MLP.format(settings=f", strategy_ckpt_save_file={str(saved)!r}")
    assert simulated(f'print("hello")\n{script}', "-n", "4")["trains"]
    assert [one.name for one in tmp_path.iterdir()] == ["train.py"]


def test_the_data_need_not_be_there(simulated: Callable[..., dict[str, Any]]) -> None:
    script = """
import numpy as np
import mpiparallel.dataset as ds
from mpiparallel import Model, context, nn
from mpiparallel.communication import get_group_size, get_rank
context.set_context(device_target="GPU")
context.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
data = ds.Cifar10Dataset("/nowhere", "train", num_shards=get_group_size(), shard_id=get_rank())
data = data.map(lambda x: x.reshape(-1).astype(np.float32), "image").map(np.int32, "label").batch(16)
network = nn.Dense(3072, 10)
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
Model(network, loss, nn.Momentum(network.trainable_params(), 0.1, 0.9)).train(1, data)
"""
    assert simulated(script, "-n", "8")["samples"] == 8 * 16
    given = ("--input", "image=64,3072:float32", "--input", "label=64:int32")
    assert simulated(script, "-n", "8", *given)["samples"] == 8 * 64


def test_the_stages_of_a_pipeline_wait_for_each_other(simulated: Callable[..., dict[str, Any]]) -> None:
    script = """
import numpy as np
from mpiparallel import Model, context, nn
from mpiparallel.dataset import NumpySlicesDataset
config = {"pipeline_scheduler": "gpipe"}
context.set_auto_parallel_context(
    parallel_mode="semi_auto_parallel", full_batch=True, pipeline_stages=2, pipeline_config=config
)
network = nn.SequentialCell(*(nn.Dense(256, 256, has_bias=False) for _ in range(2)))
network[0].pipeline_stage, network[1].pipeline_stage = 0, 1
net = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), 4)
data = NumpySlicesDataset((np.zeros((512, 256), np.float32),) * 2, ["x", "y"], shuffle=False).batch(512)
Model(net, optimizer=nn.SGD(net.trainable_params(), 0.1)).train(1, data)
"""
    found = simulated(script, "-n", "8")
    assert (found["schedule"], [one["ranks"] for one in found["stages"]]) == ("gpipe", ["0 to 3", "4 to 7"])
    sends = [one for one in found["stages"][0]["moves"] if one["kind"] == "Send"]
    # A micro-batch of 128 rows, of which a rank has a quarter.
    assert [one["byte_count"] for one in sends] == [32 * 256 * 4] * 4
    busy = [one["time"]["busy"] for one in found["stages"]]
    assert found["seconds"] == max(one["time"]["busy"] + one["time"]["waiting"] for one in found["stages"])
    assert found["bubble"] == pytest.approx(1 - sum(busy) / (2 * found["seconds"]))
    assert 0 < found["bubble"] < 1


@pytest.mark.parametrize("name", ["batch", "batch+optimizer", "recursive_programming", "written+optimizer"])
def test_other_cuts_stand_beside_its_own(simulated: Callable[..., dict[str, Any]], name: str) -> None:
    found = simulated(MLP.format(settings=""), "-n", "8", "--compare", name)
    assert list(found) == ["written", name]
    whole = 2 * 64 * 256 * 4
    kinds = {cut: found[cut]["stages"][0]["memory"]["kinds"] for cut in found}
    assert kinds["written"]["weights"] == whole // 2
    expected = {"batch": whole, "batch+optimizer": whole // 8, "written+optimizer": whole // 8}
    if name in expected:
        assert kinds[name]["weights"] == expected[name]
    else:
        assert found[name]["seconds"] <= found["written"]["seconds"]


BAD = {
    "no values while tracing": (
        MLP.format(settings="").replace("self.narrow(self", "float(x.sum()) * self.narrow(self"),
        "train.py:17: construct takes float()",
    ),
    "a branch on values": (
        MLP.format(settings="").replace(
            "return self.narrow(self", "if x.sum() > 0: x = -x\n        return self.narrow(self"
        ),
        "train.py:17: construct branches on the values of a tensor while the network is traced",
    ),
    "no memory": (
        MLP.format(settings=", search_memory_gb=1e-6").replace("semi_", "").replace("if ranks > 1", "if False"),
        "a rank may hold 1e-06 GB, and nothing fits; what comes closest, with",
    ),
    "a file is written": ("open('log.txt', 'w')", "train.py:1: a simulation writes no file"),
    "data are missing": ("open('data.bin')", "train.py:1: [Errno 2] No such file or directory: 'data.bin'; if these"),
    "nothing is trained": ("x = 1", "ended, but trained no network"),
    "it exits": ("raise SystemExit(3)", "train.py:1: the script ended by exit(3) before it trained"),
    "other ranks": (
        MLP.format(settings=", device_num=2").replace("ranks = get_group_size()", "ranks = 2"),
        "it compiles for 2 ranks, though 4 are simulated",
    ),
    "a message": (
        "import numpy as np\nfrom mpiparallel.communication import world\nworld.current().send(np.ones(1), 1)",
        "train.py:3: send: in a simulation there is no other rank",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_simulated_is_told_by_its_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, words = BAD[case]
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(script, encoding="utf-8")
    assert main(["simulate", "train.py", "-n", "4"]) == 2
    assert words in capsys.readouterr().err


def test_the_text_says_what_bounds_a_step_and_what_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, cluster = tmp_path / "train.py", tmp_path / "cluster.json"
    script.write_text(MLP.format(settings=""), encoding="utf-8")
    cluster.write_text('{"hosts": 2, "ranks_per_host": 2, "memory_gb": 0.002}', encoding="utf-8")
    assert main(["simulate", str(script), "-n", "4", "--cluster", str(cluster)]) == 0
    out = capsys.readouterr().out
    assert "train.py: a training step of 4,096 samples on 4 ranks, 2 hosts of 2, semi_auto_parallel" in out
    assert "most of it (" in out
    assert "does not fit" in out
    assert "(2,1) (2,1)" in out
    assert "are assumed" not in out
    assert main(["simulate", str(script), "--find", "--most", "1", "--cluster", str(cluster)]) == 2
    assert "--find: nothing fits; 1 ranks come closest, with" in capsys.readouterr().err
    cluster.write_text('{"hosts": 2,\n "launch_us": "x"}', encoding="utf-8")
    assert main(["simulate", str(script), "-n", "4", "--cluster", str(cluster)]) == 2
    assert f'{cluster}:2: launch_us: "x" must be a number above 0' in capsys.readouterr().err


def test_the_text_says_which_hosts_are_assumed_and_what_is_computed_once_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, cluster = tmp_path / "train.py", tmp_path / "cluster.json"
    script.write_text(MLP.format(settings="").replace("data = ", "network.recompute()\ndata = "), encoding="utf-8")
    cluster.write_text('{"hosts": 2, "ranks_per_host": 2}', encoding="utf-8")
    assert main(["simulate", str(script), "-n", "8", "--cluster", str(cluster)]) == 0
    out = capsys.readouterr().out
    assert "(the cluster file has 2 hosts; more of the same are assumed)" in out
    assert re.search(r"\n +\S+ \w?s of it computes once more what is not kept, to save memory\n", out)


def tried(ranks: int, seconds: float, missing: float, samples: int = 8) -> SimulatedRanks:
    found = {"seconds": seconds, "samples": samples, "memory": 1e9 + missing, "missing_memory": missing}
    return SimulatedRanks(ranks, found)


def test_what_does_not_fit_is_left_out_and_equal_costs_go_to_fewer_ranks() -> None:
    rows = [tried(1, 4.0, 5e8), tried(2, 3.0, 0.0), tried(4, 1.5, -1e8), tried(8, 1.0, -2e8)]
    assert cheapest([*rows, SimulatedRanks(16, None, "refused")]).ranks == 2


def test_where_nothing_fits_it_says_by_how_much_and_what_comes_closest() -> None:
    with pytest.raises(ConfigurationError, match=r"2 ranks come closest, with 1\.25 GB a rank, 250 MB too much"):
        cheapest([tried(1, 4.0, 5e8), tried(2, 3.0, 2.5e8)])


def test_where_no_number_of_ranks_could_be_simulated_the_last_problem_is_told() -> None:
    told = ("no room", "no links", "train.py:3: refused")
    with pytest.raises(LaunchError, match=r"--find: train\.py:3: refused"):
        cheapest([SimulatedRanks(1 << number, None, problem) for number, problem in enumerate(told)])
    with pytest.raises(LaunchError, match="there is no power of two to try"):
        cheapest([])


def test_the_table_of_all_numbers_of_ranks_marks_the_cheapest_and_says_what_is_wrong_with_others() -> None:
    rows = [tried(1, 4.0, 5e8), tried(2, 2.0, 0.0), tried(1024, 0.5, -1e8, 0), SimulatedRanks(2048, None, "refused")]
    head, *lines = finding_text(rows, rows[1]).splitlines()
    assert head.split() == ["ranks", "step", "samples/s", "rank-seconds/sample", "a", "rank"]
    first, second, third, fourth = map(str.split, lines)
    assert (first[0], first[3], first[-4:]) == ("1", "2", ["500", "MB", "too", "much"])
    # 8 samples in 2 seconds of 2 ranks.
    assert (second[0], second[3:5], second[-1]) == ("2", ["4", "0.5"], "*")
    # Where samples are not known, the seconds of ranks are those of a step.
    assert (third[0], third[3]) == ("1,024", "512")
    assert fourth == ["2,048", "refused"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--find", "--compare", "batch"], "--compare: goes with --ranks; --find has the script's strategies"),
        (["-n", "2", "--most", "4"], "--most: goes with --find"),
        ([], "simulate: give either --ranks N or --find"),
        (["-n", "2", "--input", "x=4:int32", "--input", "x=8:int32"], "--input x: it is given twice; give each colum"),
        (["-n", "2", "--compare", "fastest"], "--compare fastest: it is none of written, batch, .*no strategy file"),
        (["-n", "2", "--compare", "1f1b"], "--compare 1f1b: the script has no pipeline_stages to schedule; leave it"),
        (["-n", "2", "--compare", "other.json"], "other.json: no operator of the network is in it; use this network"),
    ],
)
def test_words_that_do_not_go_together_are_refused(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(MLP.format(settings=""), encoding="utf-8")
    write_strategy("other.json", StrategyRecord.of({}, {"MatMul-op7": ((2, 1), (1, 1))}))
    assert main(["simulate", "train.py", *words]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_network_that_is_whole_on_each_rank_is_compared_with_no_other_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    text = MLP.format(settings="").replace("semi_auto_parallel", "data_parallel").replace("full_batch=True", "")
    script.write_text(text.replace("if ranks > 1", "if False"), encoding="utf-8")
    assert main(["simulate", str(script), "-n", "2", "--compare", "batch"]) == 2
    assert "--compare batch: in data_parallel mode each rank has the whole network" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["image", "image=4,4", "image=4,4:float31", "image=-4:int32"])
def test_what_is_no_column_of_a_batch_is_refused_with_what_one_looks_like(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "train.py", "-n", "2", "--input", text])
    assert ended.value.code == 2
    assert f'"{text}" is no column of a batch; give NAME=SHAPE:DTYPE' in capsys.readouterr().err


def test_ways_to_cut_are_told_in_a_table_with_a_star_at_the_quickest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(MLP.format(settings=""), encoding="utf-8")
    assert main(["simulate", str(script), "-n", "8", "--compare", "batch+optimizer"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (head,) = (place for place, line in enumerate(lines) if "computing" in line)
    written, batch = (lines[head + place] for place in (1, 2))
    assert (written.split()[0], batch.split()[0]) == ("written", "batch+optimizer")
    # Two weights of 64 x 256, of which a rank has a half, or an eighth.
    assert "65.5 kB" in written
    assert "16.4 kB" in batch
    assert sorted(line.endswith("*") for line in (written, batch)) == [False, True]


def test_the_star_is_at_the_quickest_of_those_that_fit_with_room_or_without() -> None:
    def row(name: str, seconds: float, missing: float) -> Any:
        memory = SimpleNamespace(kinds={"weights": 1, "activations": 1}, total=2)
        parts = {"matrix products": seconds, "other operators": 0.0}
        forecast = SimpleNamespace(
            seconds=seconds,
            bubble=0.0,
            missing_memory=missing,
            slowest=SimpleNamespace(parts=parts),
            fullest=SimpleNamespace(memory=memory),
        )
        return SimpleNamespace(name=name, forecast=forecast)

    rows = [row("full", 3.0, 0.0), row("large", 1.0, 5.0), row("small", 2.0, -5.0)]
    _, *lines = comparison_text(rows).splitlines()
    assert [line.endswith("*") for line in lines] == [False, False, True]
    assert [line.endswith("does not fit") for line in lines] == [False, True, False]


SEARCHED = """#!/bin/sh
echo "$@" >> asked
if [ "$5" = --ranks=1 ]; then echo "train.py:3: too large" >&2; exit 2; fi
echo '{"seconds": 2.0, "samples": 8, "memory": 1e9, "missing_memory": 0.0}'
"""


@pytest.fixture
def searching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a script stand for the simulations in processes of their own: one rank is too few, more are as quick."""
    monkeypatch.chdir(tmp_path)
    Path("python").write_text(SEARCHED)
    Path("python").chmod(0o755)
    Path("train.py").write_text("")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))


@pytest.mark.usefixtures("searching")
def test_each_number_of_ranks_is_simulated_with_the_words_of_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--input", "x=4,2:int32", "--input", "n=:float32", "train.py", "--arguments", "--epochs", "3"]
    assert main(["simulate", "--find", "--most", "4", *words]) == 0
    asked = [line.split() for line in Path("asked").read_text().splitlines()]
    assert [line[4] for line in asked] == ["--ranks=1", "--ranks=2", "--ranks=4"]
    assert {tuple(line[5:]) for line in asked} == {
        ("--input=x=4,2:int32", "--input=n=:float32", "train.py", "--arguments", "--epochs", "3")
    }
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["1", "train.py:3:", "too", "large"]
    assert [line.endswith("*") for line in lines] == [False, True, False]


@pytest.mark.usefixtures("searching")
def test_up_to_1024_ranks_of_a_module_are_tried_for_the_cluster_that_is_named() -> None:
    Path("cluster.json").write_text('{"hosts": 2, "ranks_per_host": 2}')
    assert main(["simulate", "--find", "--cluster", "cluster.json", "-m", "train"]) == 0
    asked = [line.split() for line in Path("asked").read_text().splitlines()]
    assert [line[4] for line in asked] == [f"--ranks={1 << power}" for power in range(11)]
    assert {tuple(line[5:]) for line in asked} == {("-m", "--cluster=cluster.json", "train", "--arguments")}


@pytest.mark.usefixtures("searching")
def test_as_json_a_search_tells_the_cheapest_and_what_was_found_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--find", "--most", "2", "--json", "train.py"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["cheapest"] == 2
    assert (told["tried"]["1"], told["tried"]["2"]["seconds"]) == ("train.py:3: too large", 2.0)


@pytest.mark.parametrize(
    ("count", "shown", "last"),
    [
        (0, 0, "stage 1: no communication"),
        (2, 2, "1 backward"),
        (12, 12, "11 backward"),
        (13, 12, "  and 1 other group; --json has all"),
        (14, 12, "  and 2 other groups; --json has all"),
        (25, 12, "  and 13 other groups; --json has all"),
    ],
)
def test_twelve_groups_that_communicate_are_told_and_the_others_counted(count: int, shown: int, last: str) -> None:
    found = tuple(
        Collectives("all_reduce", ToldGroup(2, 1, "0-1"), {"backward": number}, number, 1000, 0.5)
        for number in range(count)
    )
    stage: Any = SimpleNamespace(collectives=found)
    lines = list(_collectives(stage, "stage 1: "))
    assert sum(line.startswith("  all_reduce ") for line in lines) == shown
    assert lines[-1].endswith(last)
    assert len(lines) == 1 + shown + (count > 12)
