"""``mpiparallel ckpt`` recover, transform, merge, export and prune: what they do and say, and what they refuse."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.checkpoint.catalogue import newest
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import LAYOUTS, RANKS, contents, save, whole

Run = Callable[..., tuple[int, str, str]]
Parsed = Callable[..., dict[str, Any]]


def test_recover_mends_what_verify_found_and_names_the_source(run: Run, parsed: Parsed) -> None:
    committed = contents(Path("saved"))
    Path("saved/rank_3/net-1_77.h5").unlink()
    told = parsed("recover", "saved")
    assert [(entry["rank"], list(entry["sources"])) for entry in told["rebuilt"]] == [(3, ["7"])]
    assert contents(Path("saved")) == committed
    Path("saved/rank_3/net-1_77.h5").unlink()
    code, out, _ = run("recover", "saved/net-1_77.manifest.json")
    assert code == 0
    assert out.splitlines()[1:] == [
        "  rank 3 from rank 7 (5 tensors)",
        "    was: rank_3/net-1_77.h5: is missing",
    ]
    assert run("verify", "saved")[0] == 0
    assert "nothing to rebuild" in run("recover", "saved")[1]


def test_recover_tells_whose_digests_are_new_where_another_hdf5_arranges_shards_otherwise(
    run: Run, parsed: Parsed
) -> None:
    manifest = newest("saved")
    shards = [
        replace(shard, digest="0" * 32, size=1) if rank in (2, 3) else shard
        for rank, shard in enumerate(manifest.shards)
    ]
    for told in ("text", "JSON"):
        replace(manifest, shards=tuple(shards)).write("saved")
        if told == "JSON":
            assert parsed("recover", "saved")["renewed"] == [2, 3]
        else:
            code, out, _ = run("recover", "saved")
            assert code == 0
            words = "the manifest has new digests of the shards of ranks 2, 3: HDF5 arranges them otherwise here"
            assert words in out.splitlines()
        assert run("verify", "saved")[0] == 0


def test_recover_refuses_what_all_have_lost(run: Run) -> None:
    for rank in (3, 7):
        Path(f"saved/rank_{rank}/net-1_77.h5").unlink()
    code, out, err = run("recover", "saved")
    assert (code, out) == (2, "")
    assert "cannot be made whole, and nothing was changed: 4 slices are in no sound file" in err
    assert '"net.w" [6, 5] to [12, 10], of ranks 3, 7' in err


def test_recover_ends_with_1_where_a_strategy_file_is_lost(run: Run, parsed: Parsed) -> None:
    Path("saved/s.ckpt").write_bytes(b"strategy")
    save(Path("saved"), 79, companions=[Path("saved/s.ckpt")])
    Path("saved/s.ckpt").unlink()
    assert run("recover", "saved")[::2] == (1, "")
    assert parsed("recover", "saved", code=1)["remaining"] == ["s.ckpt: is missing"]
    assert "put them back from a copy" in run("verify", "saved")[1]


def test_transform_makes_a_checkpoint_for_other_ranks(run: Run, parsed: Parsed) -> None:
    told = parsed("transform", "saved", "three", "--ranks", "3")
    assert (told["ranks_before"], told["ranks"], told["name"]) == (RANKS, 3, "net-1_77")
    assert newest("three").layouts["net.w"].cuts == (3, 1)
    assert run("transform", "saved", "two", "--ranks", "2", "--cut", "whole")[0] == 0
    assert newest("two").layouts["net.w"].replica_count == 2
    assert run("transform", "saved", "sixteen", "-n", "16", "--cut", "same", "--remove-redundancy")[0] == 0
    assert newest("sixteen").layouts["net.w"].cuts == (2, 2)
    wanted = {
        name: Layout(layout.global_shape, DeviceMatrix((4,)), ((0,), *(() for _ in layout.global_shape[1:])))
        for name, layout in LAYOUTS.items()
    }
    write_strategy("four.json", StrategyRecord.of(wanted, {}))
    assert run("transform", "saved", "four", "--strategy", "four.json")[0] == 0
    assert newest("four").layouts == wanted
    for folder in ("three", "two", "sixteen", "four"):
        assert run("verify", folder)[0] == 0
        assert run("diff", "saved", folder)[0] == 0


def test_merge_and_export_write_whole_tensors(run: Run, parsed: Parsed) -> None:
    told = parsed("merge", "saved", "all.h5")
    assert (told["format"], told["tensors"]) == ("h5", len(LAYOUTS))
    assert run("diff", "saved", "all.h5")[0] == 0
    assert parsed("export", "saved", "some.npz", "--only", "net.*")["tensors"] == 2
    with np.load("some.npz") as archive:
        np.testing.assert_array_equal(archive["net.w"], whole("net.w", 77), strict=True)
    Path("saved/rank_0/net-1_77.h5").unlink()
    assert "rank 0 was replaced" in run("export", "saved", "all.ckpt")[1]
    assert parsed("export", "saved", "bare", "--format", "safetensors")["replaced"].keys() == {"0"}


def test_prune_deletes_old_ones_when_told(run: Run, parsed: Parsed) -> None:
    save(Path("saved"), 78)
    assert parsed("prune", "saved", "--keep", "2", "--dry-run")["removed"] == ["net-1_76"]
    assert Path("saved/net-1_76.manifest.json").exists()
    assert parsed("prune", "saved", "--keep", "2")["removed"] == ["net-1_76"]
    Path("saved/rank_0/.partial-x").write_bytes(b"")
    code, out, _ = run("prune", "saved", "--keep", "1", "--leftovers", "--prefix", "net")
    assert code == 0
    assert "deleted 1 checkpoint" in out
    assert "spared 1 file" in out
    assert [path.name for path in Path("saved").glob("*.json")] == ["net-1_78.manifest.json"]


def test_prune_names_what_saves_that_were_killed_have_left_once_it_is_old(run: Run) -> None:
    left = Path("saved/rank_0/.partial-x")
    left.write_bytes(b"torn")
    os.utime(left, (1e9, 1e9))
    code, out, _ = run("prune", "saved", "--leftovers", "--dry-run")
    assert (code, left.exists()) == (0, True)
    assert out.splitlines() == [
        "saved: would delete 0 checkpoints and 1 file of unended saves, 4 B",
        "  rank_0/.partial-x",
    ]
    assert run("prune", "saved", "--leftovers")[1].splitlines()[1:] == ["  rank_0/.partial-x"]
    assert not left.exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["ls", "nowhere"], "nowhere: cannot be read as a folder"),
        (["verify", "saved/net-1_9"], "saved/net-1_9: is neither a folder of checkpoints, nor one in a folder"),
        (["show", "four.txt"], "four.txt: is neither a folder of checkpoints"),
        (["cat", "saved", "nix"], 'saved/net-1_77: has no tensor "nix"; mpiparallel ckpt show lists them'),
        (["cat", "saved", "net.w", "--box", "0:99"], "has shape (12, 10)"),
        (["cat", "saved", "net.w", "--box", "5:4"], "has shape (12, 10)"),
        (["cat", "saved", "net.w", "--box", "0:1,0:1,0:1"], "at most 2 dims"),
        (["cat", "saved", "net.w", "-o", "no/w.npy"], "--output no/w.npy: No such file"),
        (["transform", "saved", "new"], "give either --strategy FILE or --ranks N"),
        (["transform", "saved", "new", "--ranks", "2", "--strategy", "s.json"], "give either"),
        (["transform", "saved", "new", "--strategy", "s.json", "--cut", "rows"], "goes with --ranks"),
        (["transform", "saved", "new", "--ranks", "2", "--replicate-missing"], "goes with --strategy"),
        (["transform", "saved", "new", "--ranks", "3", "--cut", "same"], "multiple of 4"),
        (["transform", "saved", "saved", "--ranks", "3"], "has a checkpoint net-1_77 already"),
        (["transform", "saved", "new", "--strategy", "s.json"], "s.json"),
        (["export", "saved", "all.zip"], "tells no format"),
        (["export", "saved", "no/all.h5"], "there is no folder no"),
        (["prune", "saved"], "say what to delete"),
    ],
)
def test_what_cannot_be_done_is_refused_with_2_and_changes_nothing(run: Run, words: list[str], reason: str) -> None:
    before = contents(Path())
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert reason in err
    assert contents(Path()) == before
    assert run(*words, "--json")[:2] == (2, "")
