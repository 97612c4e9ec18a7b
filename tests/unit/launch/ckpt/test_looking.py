"""``mpiparallel ckpt`` ls, show, verify, diff and cat: what they print, in text and JSON, and how they end."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.formats.registry import write_file
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import LAYOUTS, RANKS, flip, held, save, whole

Run = Callable[..., tuple[int, str, str]]
Parsed = Callable[..., dict[str, Any]]


def test_ls_lists_what_was_committed_and_what_was_not(run: Run, parsed: Parsed) -> None:
    Path("saved/rank_1/net-1_78.h5").write_bytes(b"torn")
    Path("saved/net-1_1.manifest.json").write_text("{}")
    Path("saved/rank_2/net-1_76.h5").unlink()
    told = parsed("ls", "saved")
    assert [(entry["name"], entry["missing"]) for entry in told["checkpoints"]] == [
        ("net-1_76", ["rank_2/net-1_76.h5"]),
        ("net-1_77", []),
    ]
    entry = told["checkpoints"][1]
    assert (entry["prefix"], entry["epoch"], entry["step"], entry["ranks"], entry["tensors"], entry["files"]) == (
        "net", 1, 77, RANKS, len(LAYOUTS), RANKS
    )  # fmt: skip
    assert entry["bytes"] == sum(path.stat().st_size for path in Path("saved").rglob("net-1_77.h5"))
    assert [entry["name"] for entry in told["damaged"]] == ["net-1_1"]
    assert told["uncommitted"] == [{"file": "rank_1/net-1_78.h5", "bytes": 4}]
    code, out, _ = run("ls", "saved")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["checkpoint", "net-1_76", "net-1_77", "damaged:", "left"]
    assert "1 of 8 missing" in out
    assert "mpiparallel ckpt prune saved --leftovers" in out


def test_ls_of_a_rank_s_own_folder_lists_those_of_all(run: Run) -> None:
    assert run("ls", "saved/rank_3")[1].splitlines()[1:] == run("ls", "saved")[1].splitlines()[1:]


def test_ls_of_an_empty_folder_says_so(run: Run, parsed: Parsed) -> None:
    Path("empty").mkdir()
    assert run("ls", "empty")[:2] == (0, "empty: no checkpoint was completed here\n")
    assert parsed("ls", "empty")["checkpoints"] == []


def test_show_says_how_each_tensor_is_cut_and_who_holds_what(run: Run, parsed: Parsed) -> None:
    Path("saved/rank_5/net-1_77.h5").unlink()
    told = parsed("show", "saved")
    assert (told["name"], told["ranks"], told["training"]) == ("net-1_77", RANKS, {"seed": 5})
    tensors = {tensor["name"]: tensor for tensor in told["tensors"]}
    assert tensors.keys() == LAYOUTS.keys()
    for name, layout in LAYOUTS.items():
        assert (tensors[name]["dtype"], tensors[name]["shape"]) == (whole(name, 77).dtype.name, [*layout.global_shape])
        seen = [rank for part in tensors[name]["slices"] for rank in part["files"]]
        assert sorted(seen) == list(range(RANKS))
        for part in tensors[name]["slices"]:
            for rank in part["ranks"]:
                box = layout.box(rank)
                assert (part["start"], part["stop"]) == ([*box.start], [*box.stop])
    problems = {shard["rank"]: shard["problem"] for shard in told["shards"]}
    assert problems == {**dict.fromkeys(range(RANKS)), 5: "rank_5/net-1_77.h5: is missing"}
    code, out, _ = run("show", "saved/net-1_77")
    assert code == 0
    (line,) = [line for line in out.splitlines() if "float64" in line]
    assert line.split("  ")[-1] == "0,4 | 2,6 | 1,5! | 3,7"
    assert "! rank_5/net-1_77.h5: is missing" in out
    assert "training: seed 5" in out


def test_show_takes_patterns(run: Run, parsed: Parsed) -> None:
    told = parsed("show", "saved", "--only", "net.*", "--only", "tab*")
    assert [tensor["name"] for tensor in told["tensors"]] == ["net.b", "net.w", "table"]
    assert "no tensor that --only names" in run("show", "saved", "--only", "x")[2]


@pytest.mark.parametrize("suffix", ["h5", "ckpt", "safetensors", "npz"])
def test_show_cat_and_diff_take_files_of_any_format(run: Run, parsed: Parsed, suffix: str) -> None:
    arrays = {"net.w": whole("net.w", 77), "b": np.arange(3.0)}
    write_file(f"one.{suffix}", infos_of(arrays), arrays.items(), {})
    told = parsed("show", f"one.{suffix}")
    assert {tensor["name"]: tensor["shape"] for tensor in told["tensors"]} == {"net.w": [12, 10], "b": [3]}
    assert not told["is_checkpoint"]
    assert parsed("cat", f"one.{suffix}", "b")["values"] == [0, 1, 2]
    verdicts = {
        tensor["name"]: tensor["verdict"] for tensor in parsed("diff", "saved", f"one.{suffix}", code=1)["tensors"]
    }
    assert (verdicts["net.w"], verdicts["b"], verdicts["table"]) == ("equal", "only in second", "only in first")
    assert "float64" in run("show", f"one.{suffix}")[1]


def test_the_picture_shows_every_way_of_cutting_and_what_is_lost(run: Run) -> None:
    for rank in (1, 5):
        Path(f"saved/rank_{rank}/net-1_77.h5").unlink()
    code, out, _ = run("show", "saved", "--svg", "who.svg")
    assert (code, out.splitlines()[-1]) == (0, "picture: who.svg")
    root = ElementTree.parse("who.svg").getroot()
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    # moment1.net.w and the tensor without elements are cut as the table is.
    assert {"table", "and 2 more cut alike", "net.w", "net.b"} <= set(texts)
    assert {"0 4", "1 5", "2 6", "3 7"} <= set(texts)
    frames = [element for element in root.iter("{http://www.w3.org/2000/svg}rect") if element.get("stroke-dasharray")]
    # A slice of each of the three panels, and the bars of two ranks.
    assert len(frames) == 3 + 2
    assert "give a name that ends in .svg" in run("show", "saved", "--svg", "who.png")[2]
    assert "--svg no/who.svg: No such file" in run("show", "saved", "--svg", "no/who.svg")[2]


@pytest.mark.parametrize(("count", "told"), [(1, []), (2, ["and 1 more cut alike"]), (4, ["and 3 more cut alike"])])
def test_the_picture_says_how_many_more_are_cut_like_the_one_that_it_shows(
    run: Run, count: int, told: list[str]
) -> None:
    arrays = {f"w{number}": np.zeros((2, 2)) for number in range(count)}
    write_file("some.h5", infos_of(arrays), arrays.items(), {})
    assert run("show", "some.h5", "--svg", "some.svg")[0] == 0
    texts = ElementTree.parse("some.svg").getroot().iter("{http://www.w3.org/2000/svg}text")
    assert [text.text for text in texts if "alike" in (text.text or "")] == told


def test_names_in_the_picture_are_no_markup(run: Run) -> None:
    write_file("one.h5", infos_of({"<a&b>": np.zeros(2)}), [("<a&b>", np.zeros(2))], {})
    assert run("show", "one.h5", "--svg", "one.svg")[0] == 0
    texts = [
        element.text for element in ElementTree.parse("one.svg").getroot().iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "<a&b>" in texts


def test_verify_says_first_whether_it_is_sound(run: Run, parsed: Parsed) -> None:
    code, out, _ = run("verify", "saved")
    assert (code, out.splitlines()[0].split(". ")[0]) == (0, "saved/net-1_77: sound")
    assert parsed("verify", "saved")["sound"]
    flip(Path("saved/rank_3/net-1_77.h5"), 0.5)
    code, out, _ = run("verify", "saved")
    first, second, last = out.splitlines()
    assert code == 1
    assert first == (
        "saved/net-1_77: NOT sound. 1 of 8 shards missing or damaged; nothing is lost, replicas have it all"
    )
    assert second.startswith("  rank_3/net-1_77.h5: ")
    assert last == "to mend: mpiparallel ckpt recover saved/net-1_77"
    told = parsed("verify", "saved", code=1)
    assert (told["sound"], told["loadable"], told["lost"]) == (False, True, [])
    assert [(problem["file"], problem["rank"]) for problem in told["problems"]] == [("rank_3/net-1_77.h5", 3)]
    assert run("verify", "saved/net-1_76")[0] == 0


def test_verify_lists_what_is_lost(run: Run, parsed: Parsed) -> None:
    for rank in (3, 7):
        shutil.rmtree(f"saved/rank_{rank}")
    told = parsed("verify", "saved", code=1)
    assert not told["loadable"]
    assert {(entry["tensor"], tuple(entry["ranks"])) for entry in told["lost"]} == {
        (name, (3, 7)) for name in LAYOUTS if name != "empty"
    }
    out = run("verify", "saved")[1]
    assert "some slices are lost" in out
    assert '"net.w" [6, 5] to [12, 10], of ranks 3, 7' in out
    assert "to mend: put the files back from a copy, or load an older one (mpiparallel ckpt ls saved)" in out


def test_diff_ends_with_1_where_values_differ_and_0_where_only_cuts_do(run: Run, parsed: Parsed) -> None:
    changed = held("net.w", 77, 1).copy()
    changed[0, 0] += 2
    save(Path("other"), changed={rank: {"net.w": changed} for rank in (1, 5)})
    save(
        Path("recut"),
        layouts={name: Layout.replicated(layout.global_shape, DeviceMatrix((1,))) for name, layout in LAYOUTS.items()},
    )
    told = parsed("diff", "saved", "other", code=1)
    (tensor,) = [tensor for tensor in told["tensors"] if tensor["verdict"] != "equal"]
    assert (tensor["name"], tensor["differing"], tensor["largest"], tensor["first_at"]) == ("net.w", 1, 2.0, [0, 5])
    out = run("diff", "saved", "other")[1]
    assert out.splitlines()[0] == "DIFFERENT: saved/net-1_77 and other/net-1_77 differ in 1 of 5 tensors"
    assert "1 of 120 elements differ, by at most 2, first at [0, 5]" in out
    code, out, _ = run("diff", "saved", "recut")
    assert code == 0
    assert "the same 5 tensors, bit for bit" in out
    assert "5 of them cut otherwise" in out
    assert parsed("diff", "saved", "recut")["equal"]


@pytest.mark.parametrize("name", ["net.w", "net.b", "table"])
def test_cat_prints_what_numpy_prints_of_the_whole(run: Run, name: str) -> None:
    code, out, _ = run("cat", "saved", name)
    expected = np.array2string(whole(name, 77), max_line_width=118, separator=", ", edgeitems=3)
    assert (code, out.partition("\n")[2]) == (0, f"{expected}\n")


@pytest.mark.parametrize("shape", [(2000,), (1001, 1), (7, 200), (6, 5, 50), (8, 7, 3, 9)])
def test_of_a_large_tensor_only_the_corners_are_read_and_printed(run: Run, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    write_file("large.npz", infos_of({"a": array}), [("a", array)], {})
    expected = np.array2string(array, max_line_width=118, separator=", ", edgeitems=3)
    assert run("cat", "large.npz", "a")[1].partition("\n")[2] == f"{expected}\n"


def test_cat_takes_a_box(parsed: Parsed) -> None:
    told = parsed("cat", "saved", "net.w", "--box", "4:7,3:6")
    assert told["values"] == whole("net.w", 77)[4:7, 3:6].tolist()
    assert told["box"] == {"start": [4, 3], "stop": [7, 6]}
    assert parsed("cat", "saved", "net.w", "--box", "11:")["values"] == whole("net.w", 77)[11:].tolist()
    assert parsed("cat", "saved", "net.w", "--box", ":,:1")["values"] == whole("net.w", 77)[:, :1].tolist()
    assert parsed("cat", "saved", "empty")["values"] == []


def test_cat_writes_what_numpy_loads(run: Run, parsed: Parsed) -> None:
    assert run("cat", "saved", "table", "-o", "table.npy")[0] == 0
    np.testing.assert_array_equal(np.load("table.npy"), whole("table", 77), strict=True)
    told = parsed("cat", "saved", "net.w", "--box", "1:3,2:9", "-o", "box.npy")
    assert told["file"] == "box.npy"
    np.testing.assert_array_equal(np.load("box.npy"), whole("net.w", 77)[1:3, 2:9], strict=True)
    assert run("cat", "saved", "empty", "-o", "empty.npy")[0] == 0
    assert np.load("empty.npy").shape == (0, 4)


def test_values_that_json_does_not_know_are_texts_and_pairs(parsed: Parsed) -> None:
    arrays = {"f": np.float32([1, np.inf, -np.inf, np.nan]), "c": np.complex64([1 + 2j]), "b": np.bool_([True])}
    write_file("one.h5", infos_of(arrays), arrays.items(), {})
    assert parsed("cat", "one.h5", "f")["values"] == [1, "inf", "-inf", "nan"]
    assert parsed("cat", "one.h5", "c")["values"] == [[1, 2]]
    assert parsed("cat", "one.h5", "b")["values"] == [True]


def pictured(name: str) -> list[str]:
    texts = ElementTree.parse(name).getroot().iter("{http://www.w3.org/2000/svg}text")
    return ["".join(text.itertext()) for text in texts]


def test_the_picture_of_a_tensor_without_elements_says_so(run: Run) -> None:
    write_file("one.h5", infos_of({"none": np.zeros((0, 3))}), [("none", np.zeros((0, 3)))], {})
    assert run("show", "one.h5", "--svg", "one.svg")[0] == 0
    assert "(no elements)" in pictured("one.svg")


def test_the_picture_says_how_many_ways_of_cutting_it_leaves_out(run: Run) -> None:
    layouts = {f"w{ranks}": Layout((60 * (20 - ranks),), DeviceMatrix((ranks,)), ((0,),)) for ranks in range(1, 15)}
    save(Path("many"), layouts=layouts)
    assert run("show", "many", "--svg", "many.svg")[0] == 0
    # The largest are shown.
    texts = pictured("many.svg")
    assert {name for name in layouts if name in texts} == {f"w{ranks}" for ranks in range(1, 13)}
    assert "2 more ways of cutting are not shown" in texts


@pytest.mark.parametrize(("ranks", "told"), [(3, "0 1 2"), (40, "…")])
def test_of_more_ranks_than_a_part_has_room_for_the_picture_shows_some_and_an_ellipsis(
    run: Run, ranks: int, told: str
) -> None:
    save(Path("wide"), layouts={"w": Layout.replicated((8,), DeviceMatrix((ranks,)))})
    assert run("show", "wide", "--svg", "wide.svg")[0] == 0
    assert told in " ".join(pictured("wide.svg"))
    assert ("…" in " ".join(pictured("wide.svg"))) == (ranks > 3)


def test_ranks_that_have_written_nothing_are_no_problem(run: Run, parsed: Parsed) -> None:
    save(Path("bare"), layouts={"w": Layout.replicated((4, 4), DeviceMatrix((4,)))}, remove_redundancy=True)
    assert [(shard["file"], shard["problem"]) for shard in parsed("show", "bare")["shards"]] == [
        ("rank_0/net-1_77.h5", None)
    ]
    assert re.search(r"^4 ranks, 1 tensor, .*; 1 shard, ", run("show", "bare")[1], re.MULTILINE)


def test_show_names_other_files_and_says_how_many_problems_it_leaves_out(run: Run) -> None:
    Path("many").mkdir()
    Path("many/s.ckpt").write_bytes(b"strategy")
    layouts = {"w": Layout((20,), DeviceMatrix((10,)), ((0,),))}
    save(Path("many"), layouts=layouts, companions=[Path("many/s.ckpt")])
    for rank in range(10):
        Path(f"many/rank_{rank}/net-1_77.h5").unlink()
    lines = run("show", "many")[1].splitlines()
    assert "with s.ckpt" in lines
    assert [line for line in lines if line.startswith("! ")] == [
        *(f"! rank_{rank}/net-1_77.h5: is missing" for rank in range(8)),
        "! and 2 ranks more",
    ]


def test_verify_says_what_replicas_that_differ_mean(run: Run) -> None:
    with pytest.warns(UserWarning, match="should be equal"):
        save(Path("other"), changed={5: {"net.w": held("net.w", 77, 5) + 1}})
    code, out, _ = run("verify", "other")
    assert code == 1
    assert out.splitlines()[0] == "other/net-1_77: NOT sound. The shards are whole, but there are 1 other problem"
    assert out.splitlines()[-1].startswith("unequal replicas: the ranks had drifted apart before they saved")


def test_diff_says_in_words_how_each_tensor_differs(run: Run) -> None:
    first = {"a": np.zeros(3), "s": np.zeros(3), "d": np.arange(4, dtype="f4"), "n": np.float32([1, 2])}
    second = {"b": np.zeros(3), "s": np.zeros((3, 1)), "d": np.arange(4, dtype="f8"), "n": np.float32([np.nan, 2])}
    for name, arrays in (("one.npz", first), ("two.npz", second)):
        write_file(name, infos_of(arrays), arrays.items(), {})
    code, out, _ = run("diff", "one.npz", "two.npz")
    assert code == 1
    assert [line.split(maxsplit=1) for line in out.splitlines()[2:]] == [
        ["a", "only in first"],
        ["b", "only in second"],
        ["d", "float32 against float64, values equal"],
        ["n", "1 of 2 elements differ, by at most 0, 1 of them infinite or no number, first at [0]"],
        ["s", "shape (3,) against (3, 1)"],
    ]


def test_diff_shows_50_and_says_how_many_more_differ(run: Run) -> None:
    for name, value in (("one.npz", 0.0), ("two.npz", 1.0)):
        arrays = {f"w{number:02}": np.full(1, value) for number in range(53)}
        write_file(name, infos_of(arrays), arrays.items(), {})
    lines = run("diff", "one.npz", "two.npz")[1].splitlines()
    assert lines[0].endswith("differ in 53 of 53 tensors")
    assert (lines[-2].split()[0], lines[-1]) == ("w49", "  and 3 more; --json tells all")


def test_diff_says_which_tensor_cannot_be_read(run: Run, parsed: Parsed) -> None:
    save(Path("other"), 78)
    for rank in (1, 5):
        flip(Path(f"other/rank_{rank}/net-1_78.h5"), 0.5)
    tensors = parsed("diff", "saved", "other", code=1)["tensors"]
    unread = {tensor["name"] for tensor in tensors if tensor["verdict"] == "unreadable"}
    assert unread
    lines = run("diff", "saved", "other")[1].splitlines()
    told = {line.split()[0] for line in lines if line.endswith("cannot be read; mpiparallel ckpt verify says why")}
    assert told == unread


def test_more_elements_than_can_be_read_are_asked_for_with_a_box(run: Run) -> None:
    arrays = {"a": np.zeros((1 << 20) + 1, np.int8), "deep": np.zeros((2,) * 20 + (2,), np.int8)}
    write_file("large.npz", infos_of(arrays), arrays.items(), {})
    code, out, err = run("cat", "large.npz", "a", "--json")
    assert (code, out) == (2, "")
    assert "--json: a has 1048577 elements there; choose at most 1048576 with --box, or write a file with -o" in err
    code, out, err = run("cat", "large.npz", "deep")
    assert (code, out) == (2, "")
    assert "deep has 2097152 elements there; choose at most 1048576 with --box" in err
    assert run("cat", "large.npz", "a", "--json", "--box", "0:2")[0] == 0


def test_parts_that_are_too_small_for_numbers_have_none_in_the_picture(run: Run) -> None:
    save(Path("fine"), layouts={"w": Layout((80,), DeviceMatrix((40,)), ((0,),))})
    assert run("show", "fine", "--svg", "fine.svg")[0] == 0
    namespace = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse("fine.svg").getroot()
    titles = [title.text for title in root.iter(f"{namespace}title") if (title.text or "").startswith("[")]
    assert titles == [f"[{2 * rank}:{2 * rank + 2}]: ranks {rank}" for rank in range(40)]
    assert not list(root.iter(f"{namespace}tspan"))


def test_verify_says_that_slices_which_no_file_ever_had_are_lost(run: Run) -> None:
    manifest = Manifest.load("saved/net-1_77.manifest.json")
    shards = tuple(None if rank in (3, 7) else shard for rank, shard in enumerate(manifest.shards))
    Path("saved/net-1_77.manifest.json").unlink()
    replace(manifest, shards=shards).write("saved")
    code, out, _ = run("verify", "saved")
    assert (code, out.splitlines()[0]) == (1, "saved/net-1_77: NOT sound. some slices are in no shard")
    assert '"net.w" [6, 5] to [12, 10], of ranks 3, 7' in out
