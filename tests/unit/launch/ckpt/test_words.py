"""What the subcommands of ``mpiparallel ckpt`` print, line by line, with the numbers that are in the files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.checkpoint.catalogue import newest
from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.formats.registry import write_file
from mpiparallel.launch.plan.report import amount
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import LAYOUTS, save, whole

Run = Callable[..., tuple[int, str, str]]
Parsed = Callable[..., dict[str, Any]]


def shards(folder: str = "saved", name: str = "net-1_77") -> int:
    return sum(path.stat().st_size for path in Path(folder).glob(f"rank_*/{name}.h5"))


STATE = sum(whole(name, 77).nbytes for name in LAYOUTS)


def test_ls_has_a_row_for_each_with_the_time_of_its_save(run: Run, parsed: Parsed) -> None:
    entries = parsed("ls", "saved")["checkpoints"]
    rows = [line.split() for line in run("ls", "saved")[1].splitlines()]
    assert rows[0] == ["checkpoint", "epoch", "step", "ranks", "tensors", "on", "disk", "saved", "files"]
    for entry, row, step in zip(entries, rows[1:], (76, 77), strict=True):
        saved = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["saved"])).split()
        size = amount(shards(name=f"net-1_{step}")).split()
        assert row == [f"net-1_{step}", "1", str(step), "8", "5", *size, *saved, "8", "there"]


def test_ls_tells_how_much_is_left_of_saves_that_did_not_end(run: Run) -> None:
    for rank in (1, 2):
        Path(f"saved/rank_{rank}/net-1_78.h5").write_bytes(b"torn" * rank)
    mend = "mpiparallel ckpt prune saved --leftovers deletes them"
    assert run("ls", "saved")[1].splitlines()[-1] == (
        f"left by saves that did not end, or run now: 2 files, 12 B; {mend}"
    )


def test_show_tells_ranks_tensors_and_bytes_in_its_second_line(run: Run) -> None:
    first, second, third, *_, last = run("show", "saved")[1].splitlines()
    saved = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(newest("saved").saved))
    assert first == f"saved/net-1_77: epoch 1, step 77, saved {saved}"
    assert second == f"8 ranks, 5 tensors, {amount(STATE)}; 8 shards, {amount(shards())} on disk"
    assert third == "training: seed 5"
    assert last == "ranks that have it in their file, slice by slice"
    Path("saved/rank_5/net-1_77.h5").unlink()
    assert run("show", "saved")[1].splitlines()[-1] == f"{last}, ! where that is missing or damaged"


def test_show_of_a_file_tells_its_tensors_and_attributes(run: Run) -> None:
    arrays = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(2, np.int8)}
    write_file("one.h5", infos_of(arrays), arrays.items(), {"step": 3, "note": "x" * 61, "kept": "x" * 60})
    first, second, *rest = run("show", "one.h5")[1].splitlines()
    assert first == "one.h5: 2 tensors, 26 B"
    told = dict(one.split(" ", 1) for one in second.removeprefix("attributes: ").split(", "))
    assert (told["step"], told["note"], told["kept"]) == ("3", "x" * 60 + "...", "x" * 60)
    assert rest == ["├── b  int8     [2]", "└── w  float32  [2, 3]"]


@pytest.mark.parametrize(
    ("parts", "replicas", "who"),
    [
        (8, 1, " | ".join(map(str, range(8)))),
        (9, 1, " | ".join([*map(str, range(8)), "... 9 slices"])),
        (1, 8, ",".join(map(str, range(8)))),
        (1, 9, ",".join([*map(str, range(8)), "... 9 ranks"])),
    ],
)
def test_show_names_eight_slices_and_ranks_and_counts_the_others(run: Run, parts: int, replicas: int, who: str) -> None:
    save(Path("many"), layouts={"w": Layout((72,), DeviceMatrix((parts, replicas)), ((0,),))})
    (line,) = (line for line in run("show", "many")[1].splitlines() if line.startswith("└── w"))
    assert line.endswith(f"  {who}")


def test_verify_counts_what_it_has_read(run: Run, parsed: Parsed) -> None:
    line = f"saved/net-1_77: sound. 8 shards, 5 tensors, {amount(shards())} read\n"
    assert run("verify", "saved")[1] == line
    told = parsed("verify", "saved")
    assert (told["files"], told["bytes"], told["loadable"], told["problems"]) == (8, shards(), True, [])
    Path("one").mkdir()
    Path("one/s.ckpt").write_bytes(b"strategy")
    save(Path("one"), layouts={"w": Layout((4,), DeviceMatrix((1,)), ((),))}, companions=[Path("one/s.ckpt")])
    read = amount(shards("one"))
    assert run("verify", "one")[1] == f"one/net-1_77: sound. 1 shard and 1 other file, 1 tensor, {read} read\n"
    assert parsed("verify", "one")["files"] == 2


@pytest.mark.parametrize(("count", "more"), [(50, []), (51, ["  and 1 more; --json tells all"])])
def test_verify_and_diff_name_fifty_and_count_the_others(run: Run, count: int, more: list[str]) -> None:
    for name, number in (("a", 0), ("b", 1)):
        arrays = {f"w{index:02}": np.full(2, number) for index in range(count)}
        write_file(f"{name}.npz", infos_of(arrays), arrays.items(), {})
    lines = run("diff", "a.npz", "b.npz")[1].splitlines()
    assert lines[0] == f"DIFFERENT: a.npz and b.npz differ in {count} of {count} tensors"
    assert len(lines) == 2 + 50 + len(more)
    assert lines[2 + 50 :] == more
    layouts = {f"w{index:02}": Layout((2,), DeviceMatrix((1,)), ((),)) for index in range(count)}
    save(Path("many"), layouts=layouts)
    Path("many/rank_0/net-1_77.h5").unlink()
    lines = run("verify", "many")[1].splitlines()
    assert lines[1:3] == ["  rank_0/net-1_77.h5: is missing", f"lost, in no sound file: {count} slices"]
    assert sum(line.endswith(", of ranks 0") or line.endswith(", of rank 0") for line in lines) == 50
    assert lines[53:-1] == more


def test_diff_tells_what_differs_word_by_word(run: Run, parsed: Parsed) -> None:
    first = {
        "a": np.array([1.0, 2.0, 3.0]),
        "b": np.zeros(2),
        "c": np.zeros(2, np.float32),
        "d": np.array([1.0, np.inf]),
        "e": np.zeros(2, np.float32),
        "only": np.zeros(1),
    }
    second = {
        "a": np.array([1.0, 2.5, 2.0]),
        "b": np.zeros(3),
        "c": np.zeros(2),
        "d": np.array([1.0, 2.0]),
        "e": np.ones(2),
    }
    for name, arrays in (("a.npz", first), ("b.npz", second)):
        write_file(name, infos_of(arrays), arrays.items(), {})
    lines = [line.split(None, 1) for line in run("diff", "a.npz", "b.npz")[1].splitlines()[2:]]
    told = {name: words for name, words in lines}
    assert told["a"] == "2 of 3 elements differ, by at most 1, first at [1]"
    assert told["b"] == "shape (2,) against (3,)"
    assert told["c"] == "float32 against float64, values equal"
    assert "1 of 2 elements differ, " in told["d"]
    assert ", 1 of them infinite or no number, first at [1]" in told["d"]
    assert told["e"] == "float32 against float64, 2 of 2 elements differ, by at most 1, first at [0]"
    assert told["only"] == "only in first"
    found = {one["name"]: one for one in parsed("diff", "a.npz", "b.npz", code=1)["tensors"]}
    assert (found["a"]["elements"], found["a"]["differing"], found["a"]["largest"]) == (3, 2, 1.0)
    assert (found["d"]["largest"], found["d"]["not_finite"]) == (0.0, 1)
    assert (found["b"]["elements"], found["only"]["second"]) == (None, None)
    assert found["only"]["first"]["shape"] == [1]


def test_diff_of_equal_states_tells_of_digests_and_cuts(run: Run) -> None:
    names = "equal: saved/net-1_77 and saved/net-1_77 have the same 5 tensors, bit for bit"
    line = run("diff", "saved", "saved")[1]
    assert line.startswith(names)
    assert "cut otherwise" not in line
    arrays = {"w": np.zeros(2)}
    write_file("a.npz", infos_of(arrays), arrays.items(), {})
    assert run("diff", "a.npz", "a.npz")[1].startswith("equal: a.npz and a.npz have the same 1 tensor, bit for bit")


@pytest.mark.parametrize(
    ("box", "head"),
    [
        ([], "net.w float32 [12, 10]"),
        (["--box", "0:12"], "net.w float32 [12, 10]"),
        (["--box", "4:7,3:6"], "net.w float32 [12, 10], of it [4:7, 3:6]"),
        (["--box", "4:"], "net.w float32 [12, 10], of it [4:12, 0:10]"),
        (["--box", ":4"], "net.w float32 [12, 10], of it [0:4, 0:10]"),
        (["--box", "3:3"], "net.w float32 [12, 10], of it [3:3, 0:10]"),
        (["--box", "12:12"], "net.w float32 [12, 10], of it [12:12, 0:10]"),
    ],
)
def test_cat_tells_first_what_it_shows(run: Run, box: list[str], head: str) -> None:
    assert run("cat", "saved", "net.w", *box)[1].splitlines()[0] == head
    size = run("cat", "saved", "net.w", *box, "-o", "w.npy")[1]
    assert size == f"w.npy: {head}, {amount(np.load('w.npy').nbytes)}\n"


@pytest.mark.parametrize(
    ("shape", "box"), [((1000,), []), ((1001,), []), ((8, 1), []), ((3000,), ["--box", "5:2000"]), ((7, 8, 20), [])]
)
def test_cat_shows_what_numpy_shows_of_the_box(run: Run, shape: tuple[int, ...], box: list[str]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    write_file("one.npz", infos_of({"a": array}), [("a", array)], {})
    seen = array[5:2000] if box else array
    expected = np.array2string(seen, max_line_width=118, separator=", ", edgeitems=3)
    assert run("cat", "one.npz", "a", *box)[1].partition("\n")[2] == f"{expected}\n"


@pytest.mark.parametrize("box", ["0:13", "0:5,0:11", "7:6", ":,3:2", ":,:,:", "13:"])
def test_cat_refuses_a_box_that_does_not_lie_in_the_tensor(run: Run, box: str) -> None:
    said = "--box: tensor net.w has shape (12, 10); give start:stop within it for at most 2 dims"
    code, out, err = run("cat", "saved", "net.w", "--box", box)
    assert (code, out) == (2, "")
    assert said in err


def test_transform_recover_and_export_tell_what_they_made(run: Run, parsed: Parsed) -> None:
    lines = run("transform", "saved", "three", "-n", "3")[1].splitlines()
    assert lines == [
        f"saved/net-1_77: 8 -> 3 ranks, 5 tensors, {amount(shards('three'))}",
        "committed: three/net-1_77.manifest.json",
    ]
    line = run("export", "saved", "all.npz")[1]
    told = parsed("merge", "saved", "all.h5")
    assert line == f"all.npz: 5 tensors, {amount(told['bytes'])}, as npz\n"
    assert told["bytes"] == STATE
    size = Path("saved/rank_3/net-1_77.h5").stat().st_size
    Path("saved/rank_3/net-1_77.h5").unlink()
    assert (
        run("recover", "saved")[1].splitlines()[0] == f"saved/net-1_77: rebuilt 1 shard, {amount(size)}, as committed"
    )
    assert run("recover", "saved")[1] == "saved/net-1_77: all shards are sound; there was nothing to rebuild\n"


def test_recover_tells_what_it_took_from_a_damaged_file_itself(run: Run) -> None:
    save(Path("bare"), layouts={"w": Layout.replicated((4,), DeviceMatrix((2,)))})
    Path("bare/rank_1/net-1_77.h5").unlink()
    assert run("recover", "bare")[1].splitlines()[1] == "  rank 1 from rank 0 (1 tensor)"


def test_prune_tells_what_it_deletes_and_that_there_is_nothing(run: Run, parsed: Parsed) -> None:
    freed = parsed("prune", "saved", "--keep", "1", "--dry-run")["bytes"]
    what = f"1 checkpoint and 0 files of unended saves, {amount(freed)}"
    assert freed >= shards(name="net-1_76")
    assert run("prune", "saved", "--keep", "1", "--dry-run")[1] == f"saved: would delete {what}\n  net-1_76\n"
    assert run("prune", "saved", "--keep", "1")[1] == f"saved: deleted {what}\n  net-1_76\n"
    assert run("prune", "saved", "--keep", "1")[1] == "saved: nothing to delete\n"
    Path("saved/rank_0/.partial-x").write_bytes(b"torn")
    assert run("prune", "saved", "--leftovers")[1].splitlines() == [
        "saved: nothing to delete",
        "spared 1 file of a save that may be running; prune again in 10 minutes",
    ]
