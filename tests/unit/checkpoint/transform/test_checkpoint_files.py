from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.checkpoint.transform.checkpoint_files import newest_files
from mpiparallel.errors import TransformError


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["net-1_9.ckpt", "net-1_10.ckpt"], "net-1_10.ckpt"),
        (["net-2_1.ckpt", "net-1_10.ckpt"], "net-2_1.ckpt"),
        (["a-b-1_2.h5", "z-1_1.h5"], "a-b-1_2.h5"),
        (["src_checkpoint0.ckpt"], "src_checkpoint0.ckpt"),
        (["net-1_2.npz", ".partial-x-9_9.npz", "notes.txt", "net.manifest.json"], "net-1_2.npz"),
        (["net-1_2.safetensors", "net.safetensors"], "net-1_2.safetensors"),
    ],
)
def test_the_highest_step_is_the_newest(tmp_path: Path, names: list[str], chosen: str) -> None:
    make(tmp_path, *(f"rank_{rank}/{name}" for rank in (0, 11) for name in names))
    make(tmp_path, "rank_x/net-9_9.ckpt", "rank_01/net-9_9.ckpt", "rank_3", "other/net-9_9.ckpt")
    assert newest_files(tmp_path) == {rank: tmp_path / f"rank_{rank}" / chosen for rank in (0, 11)}


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([], "has no checkpoint, that is rank_0"),
        (["rank_0/notes.txt"], "has no checkpoint, that is rank_0"),
        (["rank_0/net-1_2.ckpt", "rank_1/net-1_2.h5"], "are of two formats"),
        (["rank_0/net-1_2.ckpt", "rank_0/net-1_1.h5"], "are of two formats"),
        (
            ["rank_0/net-1_2.ckpt", "rank_1/net-1_1.ckpt"],
            "newest file of rank 0 is net-1_2.ckpt, that of rank 1 is",
        ),
        (["rank_0/net-1_2.ckpt", "rank_1/net.ckpt"], "not of one step"),
        (["rank_0/a-1_2.ckpt", "rank_0/b-1_2.ckpt"], "a-1_2.ckpt and b-1_2.ckpt may both be meant"),
        (["rank_0/a.ckpt", "rank_0/b.ckpt"], "a.ckpt and b.ckpt may both be meant"),
    ],
)
def test_what_is_not_one_step_of_all_ranks_is_refused(tmp_path: Path, names: list[str], reason: str) -> None:
    make(tmp_path, *names)
    with pytest.raises(TransformError, match=reason):
        newest_files(tmp_path)


def test_shards_that_no_manifest_names_are_passed_over(tmp_path: Path) -> None:
    make(tmp_path, "net-1_2.manifest.json", "rank_0/net-1_2.h5", "rank_0/net-1_3.h5", "rank_1/net-1_2.h5")
    assert {path.name for path in newest_files(tmp_path).values()} == {"net-1_2.h5"}


@pytest.mark.parametrize("name", ["nowhere", "a\0b"])
def test_no_folder_is_told(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be read as a folder of checkpoints"):
        newest_files(name)


def test_a_link_to_the_folder_of_a_rank_is_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "elsewhere/net-1_2.ckpt", "in/rank_0/net-1_2.ckpt")
    (tmp_path / "in" / "rank_1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TransformError, match="rank_1: is a link, which is not followed"):
        newest_files(tmp_path / "in")


@pytest.mark.parametrize("newer", [(0, 1, 2), (0, 2), (1,), ()], ids=str)
def test_where_all_manifests_are_damaged_the_newest_step_of_which_there_are_files_counts(
    tmp_path: Path, newer: tuple[int, ...]
) -> None:
    """A rank that has only older files has lost its own; what no manifest names was not completed."""
    make(tmp_path, "net-1_2.manifest.json", "net-1_3.manifest.json")
    make(tmp_path, *(f"rank_{rank}/net-{step}.h5" for rank in range(3) for step in ("1_2", "1_4")))
    make(tmp_path, *(f"rank_{rank}/net-1_3.h5" for rank in newer))
    name, ranks = ("net-1_3.h5", newer) if newer else ("net-1_2.h5", range(3))
    assert newest_files(tmp_path) == {rank: tmp_path / f"rank_{rank}" / name for rank in ranks}
