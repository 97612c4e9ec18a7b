"""``mpiparallel plan``: what it reads, what it refuses, and that its numbers are those of the plans of all ranks."""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.manifest_entries import ShardEntry, TensorEntry
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.launch.cli import main
from mpiparallel.launch.plan import command
from mpiparallel.launch.plan.forecast import Relabeled
from mpiparallel.launch.plan.report import _relabeled, amount
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.plan import plan_reshard
from tests.conformance import patience

SHAPES = {"dense.weight": (24, 12), "dense.bias": (24,), "step": ()}
MATPLOTLIB = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib, of the extra plot")


def layouts(data_parallel: int, model_parallel: int, *, swapped: bool = False) -> dict[str, Layout]:
    """Return a column-cut dense layer over an axis of data and one of model parallelism, in this order or the other."""
    shape = (model_parallel, data_parallel) if swapped else (data_parallel, model_parallel)
    devices, cut = DeviceMatrix(shape), (0 if swapped else 1,)
    return {
        "dense.weight": Layout(SHAPES["dense.weight"], devices, (cut, ())),
        "dense.bias": Layout(SHAPES["dense.bias"], devices, (cut,)),
        "step": Layout((), devices, ()),
    }


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, held in (
        ("src.json", layouts(2, 4)),
        ("src.ckpt", layouts(2, 4)),
        ("dst.json", layouts(3, 2)),
        ("dst.ckpt", layouts(3, 2)),
        ("swap.json", layouts(2, 4, swapped=True)),
    ):
        write_strategy(name, StrategyRecord.of(held, {}))
    Path("saved").mkdir()
    entries = {tensor: TensorEntry(layout, "<f8") for tensor, layout in layouts(2, 4).items()}
    shards = (ShardEntry(f"rank_{rank}/net-1_2.h5", 4096, "0" * 32, {}) for rank in range(8))
    Manifest("net", 1, 2, entries, tuple(shards)).write("saved")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["plan", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def moved(source: dict[str, Layout], target: dict[str, Layout], itemsize: int) -> int:
    """Return the bytes that all ranks send, from their plans."""
    pairs = {tensor: (source[tensor], target[tensor]) for tensor in source}
    plans = [plan_reshard(pairs, rank) for rank in range(16)]
    return sum(transfer.box.size * itemsize for plan in plans for transfer in plan.sends)


@pytest.mark.parametrize(
    "words",
    [
        ["src.json", "dst.json"],
        ["src.ckpt", "dst.json"],
        ["src.json", "dst.ckpt"],
        ["src.ckpt", "dst.ckpt", "--shapes", "src.json"],
        ["src.ckpt", "dst.ckpt", "--shapes", "saved", "--dtype", "float64"],
        ["saved", "dst.ckpt"],
        ["saved/net-1_2.manifest.json", "dst.ckpt"],
    ],
)
def test_any_file_of_a_strategy_gives_the_bytes_of_the_plans(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    itemsize = 8 if any(word.startswith("saved") for word in words) else 4
    found = told(capsys, *words)
    assert found["moved"] == moved(layouts(2, 4), layouts(3, 2), itemsize)
    assert (found["source_ranks"], found["target_ranks"]) == (8, 6)
    assert found["state"] == (24 * 12 + 24 + 1) * itemsize
    assert found["per_rank"]["holds_after"]["most"] == (12 * 12 + 12 + 1) * itemsize
    assert sum(map(sum, found["matrix"])) == found["moved"]


@pytest.mark.parametrize("words", [["12"], ["--ranks", "12"]])
def test_the_same_strategy_on_more_ranks_keeps_its_cuts(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "src.json", *words)
    assert found["target_ranks"] == 12
    assert found["moved"] == moved(layouts(2, 4), layouts(3, 4), 4) > 0


def test_optimizer_shards_take_the_number_of_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    sharded = {"w": Layout((24, 2), DeviceMatrix((8,)), ((), ()), optimizer_axes=(0,))}
    write_strategy("sharded.json", StrategyRecord.of(sharded, {}))
    found = told(capsys, "sharded.json", "6")
    assert found["per_rank"]["holds_after"]["most"] == 24 * 2 // 6 * 4


def test_a_tensor_without_replicas_gets_them(capsys: pytest.CaptureFixture[str]) -> None:
    write_strategy("cut.json", StrategyRecord.of({"w": Layout((24,), DeviceMatrix((4,)), ((0,),))}, {}))
    found = told(capsys, "cut.json", "8")
    assert (found["moved"], found["stays"]) == (24 * 4, 24 * 4)


def test_moments_are_cut_as_their_weights(capsys: pytest.CaptureFixture[str]) -> None:
    alone, adam = (told(capsys, "src.json", "dst.json", *words) for words in ((), ("--moments", "2")))
    assert adam["moved"] == 3 * alone["moved"]
    assert adam["tensors"] == 9


def test_the_text_says_which_part_of_what_ranks_hold_after_stays_and_which_moves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = told(capsys, "src.json", "dst.json")
    whole = found["moved"] + found["stays"]
    assert main(["plan", "src.json", "dst.json"]) == 0
    text = capsys.readouterr().out
    for word, size, after in (("stays", found["stays"], " of what"), ("moves", found["moved"], ", in")):
        assert re.search(rf"^{word} +{amount(size)} +{round(100 * size / whole)} %{after}", text, re.MULTILINE)


def test_relabeling_saves_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("scipy.optimize")
    before, after = (told(capsys, "src.json", "swap.json", *words) for words in ((), ("--relabel",)))
    assert before["moved"] == after["relabeled"]["moved_before"] > 0
    assert after["moved"] == 0
    assert after["relabeled"]["ranks"] == [0, 4, 1, 5, 2, 6, 3, 7]
    assert told(capsys, "src.json", "src.json", "--relabel")["relabeled"]["ranks"] == []


def test_the_text_says_what_other_ranks_save_and_which_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("scipy.optimize")
    before = told(capsys, "src.json", "swap.json")["moved"]
    for target, words in (
        ("swap.json", rf"relabel +{amount(before)}  100 % saved, in all of the above, by ranks 0 4 1 5 2 6 3 7"),
        ("src.json", r"relabel +no: other ranks for the target's places would save at most \d+%"),
    ):
        assert main(["plan", "src.json", target, "--relabel"]) == 0
        assert re.search(f"^{words}$", capsys.readouterr().out, re.MULTILINE)


def test_hosts_and_bandwidth_are_those_that_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "src.json", "12", "--ranks-per-host", "4", "--bandwidth", "2")
    assert (found["hosts"], found["within_hosts"]) == (3, 0)
    entering = sum(sum(row[8:]) for row in found["matrix"])
    leaving = max(sum(sum(row) for row in found["matrix"][start : start + 4]) for start in (0, 4))
    assert found["seconds"]["between"] == max(entering, leaving) / 2e9
    assert found["seconds"]["link_is_given"]


def test_the_text_says_what_moves_and_draws_who_sends_to_whom(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "src.json", "dst.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["src.json -> dst.json", "8 -> 6 ranks on 1 host, 3 tensors, 1.25 kB without replicas"]
    assert any("dense.weight" in line and "[24/4 x 12] on (2, 4) -> [24/2 x 12] on (3, 2)" in line for line in lines)
    assert any("measured now" in line for line in lines)
    rows = lines[lines.index("       0 1 2 3 4 5 6 7") + 1 :]
    assert len(rows) == 8
    found = told(capsys, "src.json", "dst.json")["matrix"]
    for row, values in zip(rows, found, strict=True):
        cells = f"{row[7:]:<16}"
        assert [cells[2 * column] != "·" for column in range(8)] == [value > 0 for value in values]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    program = "import sys; from mpiparallel.launch.cli import main; sys.exit(main(['plan', 'src.json', 'dst.json']))"
    ended = patience.run(
        [sys.executable, "-X", "utf8=0", "-c", program],
        capture_output=True,
        check=True,
        env={"PYTHONIOENCODING": "ascii", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert b"@@" in ended.stdout
    assert ended.stdout.isascii()


def test_a_state_that_stays_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "src.json", "src.json"]) == 0
    assert "no tensor moves" in capsys.readouterr().out


@MATPLOTLIB
@pytest.mark.parametrize(("name", "start"), [("map.png", b"\x89PNG"), ("map.svg", b"<?xml")])
def test_the_picture_is_drawn(name: str, start: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "src.json", "dst.json", "--picture", name]) == 0
    image = Path(name).read_bytes()
    assert image.startswith(start)
    # 13 by 6.2 inches of 110 pixels.
    assert name != "map.png" or struct.unpack(">II", image[16:24]) == (1430, 682)
    assert capsys.readouterr().out.endswith(f"picture: {name}\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["src.json"], "give either DST or --ranks N"),
        (["src.json", "dst.json", "--ranks", "6"], "give either DST or --ranks N"),
        *((["src.json", count], f"DST {count} is no number of ranks") for count in ("0", "-3", "3.5", "1000000000")),
        (["none.json", "dst.json"], "none.json: cannot be read"),
        (["src.json", "none.ckpt"], "none.ckpt: cannot be read"),
        (["src.json", "."], "holds no checkpoint that was completed"),
        (["src.ckpt", "dst.ckpt"], 'src.ckpt: parameter "dense.weight": its shape is not in the file; give --shapes'),
        (["damaged.json", "dst.json"], "damaged.json: is no JSON strategy file"),
        (["damaged.ckpt", "dst.json"], "damaged.ckpt: is no strategy file"),
        (["src.json", "other.json"], 'other.json: it has no "dense.bias", which src.json has'),
        (
            ["src.json", "larger.json"],
            'larger.json: parameter "dense.weight": it has shape (48, 12) in the file, not',
        ),
        (["empty.json", "dst.json"], "empty.json: it has no tensors"),
        (
            ["larger.json", "saved"],
            '"dense.weight" has shape (24, 12), in larger.json (48, 12); give two files of one network',
        ),
        (["src.json", "6"], 'src.json: "dense.bias" is cut [24/4] on (2, 4), which 6 ranks cannot hold'),
        (["adam.json", "12", "--moments", "2"], "--moments 2: the state of the optimizer is in the file already"),
        (["src.json", "dst.json", "--picture", "map.jpg"], "--picture map.jpg: give a name that ends in .png or .svg"),
        (["src.json", "dst.json", "--picture", "nowhere/map.png"], "there is no folder nowhere"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--picture" in words and find_spec("matplotlib") is None:
        pytest.skip("needs matplotlib, of the extra plot")
    Path("damaged.json").write_bytes(Path("src.json").read_bytes()[:-9])
    Path("damaged.ckpt").write_bytes(Path("src.ckpt").read_bytes()[:-9])
    weight = layouts(2, 4)["dense.weight"]
    write_strategy("other.json", StrategyRecord.of({"dense.weight": weight, "step": layouts(2, 4)["step"]}, {}))
    larger = Layout((48, 12), DeviceMatrix((2, 4)), ((1,), ()))
    write_strategy("larger.json", StrategyRecord.of({**layouts(2, 4), "dense.weight": larger}, {}))
    write_strategy("empty.json", StrategyRecord.of({}, {}))
    write_strategy("adam.json", StrategyRecord.of({**layouts(2, 4), "moment1.dense.weight": weight}, {}))
    assert main(["plan", *words]) == 2
    ended = capsys.readouterr()
    assert reason in ended.err
    assert ended.err.startswith("mpiparallel: error: ")
    assert ended.err.count("\n") == 1
    assert ended.out == ""


@pytest.mark.parametrize(
    "words", [["--bandwidth", "0"], ["--bandwidth", "nan"], ["--bandwidth", "fast"], ["--ranks-per-host", "0"]]
)
def test_numbers_that_are_none_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "src.json", "dst.json", *words])
    assert ended.value.code == 2
    assert f'"{words[1]}" is not a' in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_ends_it_in_silence() -> None:
    command = f"{sys.executable} -m mpiparallel plan src.json dst.json --json | head -n 2"
    ended = patience.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ('{\n "source": "src.json",\n', "")


def test_a_reader_that_is_gone_is_no_error_and_nothing_more_is_written_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        assert main(["plan", "src.json", "dst.json", "--json"]) == 0
        assert os.fstat(broken.fileno()).st_rdev == Path(os.devnull).stat().st_rdev
        print("more", file=broken, flush=True)


def test_sixteen_ranks_of_another_order_are_told_and_that_there_are_more() -> None:
    for count, more in ((16, ""), (17, " ...")):
        (line,) = _relabeled(Relabeled(tuple(range(count)), 4000, 0.05), 1000)
        assert line == (
            "relabel  3.00 kB  75 % saved, in all of the above, by ranks 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15" + more
        )


def test_a_picture_without_matplotlib_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    assert main(["plan", "src.json", "dst.json", "--picture", "map.png"]) == 2
    assert "matplotlib is not installed; pip install mpiparallel[plot]" in capsys.readouterr().err
    assert not Path("map.png").exists()
