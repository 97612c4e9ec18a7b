"""Names and links that lead out of the folder of a checkpoint: nothing outside is opened, changed or deleted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.catalogue import CheckpointFiles, catalogue, newest, remove, remove_files, uncommitted
from mpiparallel.checkpoint.maintenance.shard_recovery import recover
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import MpiParallelError
from tests.reliability import states
from tests.reliability.child import exit_status
from tests.reliability.counts import record
from tests.reliability.files.sealed_manifest import content_of, sealed
from tests.reliability.subject import complaints, load, save, saved

RANKS = 2
STATE = states.small(RANKS)
NAMES = [
    "../outside/rank_0/net-1_7.h5",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a\0b",
    "a\nb",
    "n" * 4096,
    "rank_0/../../outside/x.h5",
]
# What happens to files; the first argument of each is a path.
EVENTS = {
    *("open", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.listdir"),
    *("os.scandir", "os.chmod", "os.utime", "shutil.rmtree", "shutil.move"),
}


def named_shard(folder: Path, outside: Path, name: str) -> None:
    rewrite(folder, lambda content: content["shards"][0].update(file=name))


def absolute_shard(folder: Path, outside: Path, name: str) -> None:
    rewrite(folder, lambda content: content["shards"][0].update(file=f"{outside}/rank_0/net-1_7.h5{name[:0]}"))


def named_prefix(folder: Path, outside: Path, name: str) -> None:
    rewrite(folder, lambda content: content.update(prefix=name))


def named_tensor(folder: Path, outside: Path, name: str) -> None:
    def change(content: Any) -> None:
        content["tensors"][name] = content["tensors"].pop("net.w1")
        said = [shard["arrays"] for shard in content["shards"] if isinstance(shard["arrays"], dict)]
        for arrays in said:  # a rank that names an earlier one has the arrays of that one
            arrays[name] = arrays.pop("net.w1")

    rewrite(folder, change)


def linked(path: str) -> Callable[[Path, Path, str], None]:
    """Return what puts a link to the like outside in the place of a file or folder of the checkpoint."""

    def link(folder: Path, outside: Path, name: str) -> None:
        spare = folder / "spare"
        (folder / path).rename(spare)
        (folder / path).symlink_to(outside / path)

    return link


ATTACKS: Mapping[str, tuple[Callable[[Path, Path, str], None], list[str]]] = {
    "name of a shard": (named_shard, NAMES),
    "absolute name of a shard": (absolute_shard, [""]),
    "prefix": (named_prefix, NAMES),
    "name of a tensor": (named_tensor, NAMES),
    "linked shard": (linked("rank_0/net-1_7.h5"), [""]),
    "linked folder of a rank": (linked("rank_0"), [""]),
    "linked manifest": (linked("net-1_7.manifest.json"), [""]),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_outside_the_folder_is_touched(attack: str, tmp_path: Path) -> None:
    change, names = ATTACKS[attack]
    for number, name in enumerate(names):
        folder, outside = tmp_path / str(number) / "checkpoints", tmp_path / str(number) / "outside"
        # The like outside is sound, so that whoever goes there finds what they look for.
        for place in (folder, outside):
            saved(place, RANKS, STATE, 7)
            (place / "rank_0" / ".partial-old").write_bytes(b"partial")
            (place / "rank_0" / "net-1_3.h5").write_bytes(b"never committed")
        change(folder, outside, name)
        before = sorted((path, path.read_bytes()) for path in outside.rglob("*") if path.is_file())
        # The hook cannot be taken out again, so it is put into a fork.
        assert exit_status(lambda folder=folder: use_all(folder)) == 0, f"{attack}: {name!r}; see above"
        assert sorted((path, path.read_bytes()) for path in outside.rglob("*") if path.is_file()) == before
    record(f"way out of the folder: {attack}", tries=len(names), opened_outside=0)


def rewrite(folder: Path, change: Callable[[Any], None]) -> None:
    path = folder / f"net-1_7{MANIFEST_SUFFIX}"
    content = content_of(path)
    change(content)
    path.write_bytes(sealed(content))


def use_all(folder: Path) -> None:
    """Do all that can be done with a folder of checkpoints; end with an error if anything outside it was touched."""
    touched: list[str] = []
    inside = folder.resolve()
    programs = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[3], Path("/proc"), Path("/sys")]
    allowed = [inside, *(place.resolve() for place in programs)]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and isinstance(arguments[0], str | bytes):
            path = reached(event, arguments)
            # Whether the folder itself is on disk is for the folder above to say.
            syncs_name = event == "open" and path == inside.parent
            if not syncs_name and not any(path.is_relative_to(place) for place in allowed):
                touched.append(f"{event} {path}")

    sys.addaudithook(watch)
    for operation in OPERATIONS:
        try:
            operation(folder)
        except MpiParallelError:
            continue
        finally:
            assert not touched, f"{operation.__name__}: {touched}"


def reached(event: str, arguments: tuple[Any, ...]) -> Path:
    """Return the path of what is touched, links followed; a link itself where the last part of the path is not."""
    path = Path(os.fsdecode(arguments[0]))
    if event == "open" and not arguments[2] & os.O_NOFOLLOW:
        return path.resolve()
    return path.parent.resolve() / path.name


def list_it(folder: Path) -> None:
    catalogue(folder)
    newest(folder)


def verify_it(folder: Path) -> None:
    complaints(folder, "net-1_7")


def load_it(folder: Path) -> None:
    manifest = Manifest.load(folder / f"net-1_7{MANIFEST_SUFFIX}")
    wanted = {name: entry.layout for name, entry in manifest.tensors.items()}
    found = run_world(RANKS, load, folder, manifest, wanted)
    for rank, truth in enumerate(states.held(STATE, rank, 7) for rank in range(RANKS)):
        assert states.differing({name: found[rank][name] for name in truth}, truth) == []


def recover_it(folder: Path) -> None:
    recover(folder, "net-1_7")


def save_there(folder: Path) -> None:
    run_world(RANKS, save, folder, STATE, 8)


def tidy_up(folder: Path) -> None:
    remove_files(uncommitted(folder))


def delete_it(folder: Path) -> None:
    remove(folder, [CheckpointFiles.of(Manifest.load(folder / f"net-1_7{MANIFEST_SUFFIX}"))])


OPERATIONS = (list_it, verify_it, load_it, recover_it, save_there, tidy_up, delete_it)
