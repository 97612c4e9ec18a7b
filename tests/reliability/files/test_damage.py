"""Files of a checkpoint are cut, overwritten, exchanged, lost: it is found, and what is loaded is right or nothing."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX, Manifest
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.reliability import states
from tests.reliability.counts import count, record
from tests.reliability.subject import complaints, load_sound, saved

RANKS = 4
PAGE = 4096


class Scene(NamedTuple):
    """A folder with the checkpoint to be damaged, and others like it to take files from."""

    folder: Path
    manifest: Manifest
    older_step: Manifest
    other_run: Path

    def shard(self, rank: int) -> Path:
        return self.folder / f"rank_{rank}" / f"{self.manifest.name}.h5"

    def manifest_file(self) -> Path:
        return self.folder / f"{self.manifest.name}{MANIFEST_SUFFIX}"

    def any_file(self, chance: random.Random) -> Path:
        return chance.choice([self.manifest_file(), *map(self.shard, range(RANKS))])


# What is done to a checkpoint; it returns the files that are no longer what was committed.
Damage = Callable[[Scene, random.Random], list[Path]]


def cut_short(scene: Scene, chance: random.Random) -> list[Path]:
    path = scene.any_file(chance)
    os.truncate(path, chance.randrange(path.stat().st_size))
    return [path]


def bytes_behind(scene: Scene, chance: random.Random) -> list[Path]:
    path = scene.any_file(chance)
    with path.open("ab") as file:
        file.write(chance.randbytes(chance.choice([1, 64, PAGE])))
    return [path]


def page_of_zeros(scene: Scene, chance: random.Random) -> list[Path]:
    path = scene.any_file(chance)
    content = bytearray(path.read_bytes())
    # A page may be zeros already, and the file still whole.
    while True:
        page = slice(start := chance.randrange(len(content)) // PAGE * PAGE, min(start + PAGE, len(content)))
        if any(content[page]):
            break
    content[page] = bytes(page.stop - page.start)
    path.write_bytes(content)
    return [path]


def page_of_another(scene: Scene, chance: random.Random) -> list[Path]:
    """A page of the same place in another rank's shard, as a file system that mixes up its blocks would leave it."""
    one, other = (scene.shard(rank) for rank in chance.sample(range(RANKS), 2))
    content, foreign = bytearray(one.read_bytes()), other.read_bytes()
    pages = range(0, min(len(content), len(foreign)), PAGE)
    different = [start for start in pages if content[start : start + PAGE] != foreign[start : start + PAGE]]
    start = chance.choice(different)
    content[start : start + PAGE] = foreign[start : start + PAGE]
    one.write_bytes(content)
    return [one]


def ranks_exchanged(scene: Scene, chance: random.Random) -> list[Path]:
    one, other = (scene.shard(rank) for rank in chance.sample(range(RANKS), 2))
    spare = one.with_suffix(".spare")
    one.rename(spare)
    other.rename(one)
    spare.rename(other)
    return [one, other]


def rank_twice(scene: Scene, chance: random.Random) -> list[Path]:
    one, other = (scene.shard(rank) for rank in chance.sample(range(RANKS), 2))
    shutil.copyfile(one, other)
    return [other]


def shard_of_another_step(scene: Scene, chance: random.Random) -> list[Path]:
    path = scene.shard(chance.randrange(RANKS))
    shutil.copyfile(path.with_name(f"{scene.older_step.name}.h5"), path)
    return [path]


def shard_of_another_run(scene: Scene, chance: random.Random) -> list[Path]:
    path = scene.shard(chance.randrange(RANKS))
    shutil.copyfile(scene.other_run / path.relative_to(scene.folder), path)
    return [path]


def manifest_of_another_step(scene: Scene, chance: random.Random) -> list[Path]:
    shutil.copyfile(scene.folder / f"{scene.older_step.name}{MANIFEST_SUFFIX}", scene.manifest_file())
    return [scene.manifest_file()]


def manifest_of_another_run(scene: Scene, chance: random.Random) -> list[Path]:
    shutil.copyfile(scene.other_run / scene.manifest_file().name, scene.manifest_file())
    return [scene.shard(rank) for rank in range(RANKS)]


def lost(scene: Scene, chance: random.Random) -> list[Path]:
    path = scene.shard(chance.randrange(RANKS))
    path.unlink()
    return [path]


def lost_folder(scene: Scene, chance: random.Random) -> list[Path]:
    path = scene.shard(chance.randrange(RANKS))
    shutil.rmtree(path.parent)
    return [path]


def folder_in_its_place(scene: Scene, chance: random.Random) -> list[Path]:
    path = scene.any_file(chance)
    path.unlink()
    path.mkdir()
    return [path]


def pipe_in_its_place(scene: Scene, chance: random.Random) -> list[Path]:
    path = scene.any_file(chance)
    path.unlink()
    os.mkfifo(path)
    return [path]


# Full counts, and those of every test run.
DAMAGES: Mapping[Damage, tuple[int, int]] = {
    cut_short: (500, 50),
    bytes_behind: (100, 10),
    page_of_zeros: (200, 20),
    page_of_another: (100, 10),
    ranks_exchanged: (50, 6),
    rank_twice: (50, 6),
    shard_of_another_step: (50, 4),
    shard_of_another_run: (50, 4),
    manifest_of_another_step: (1, 1),
    manifest_of_another_run: (1, 1),
    lost: (50, 4),
    lost_folder: (50, 4),
    folder_in_its_place: (50, 5),
    pipe_in_its_place: (50, 5),
}


@pytest.fixture(scope="module", params=[False, True], ids=["each slice twice", "each slice once"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A checkpoint that is whole, an older one beside it, and one of the same name of another run."""
    folder, other = tmp_path_factory.mktemp("checkpoints"), tmp_path_factory.mktemp("other")
    state = states.replicated(RANKS)
    older = saved(folder, RANKS, state, 6, request.param)
    manifest = saved(folder, RANKS, state, 7, request.param)
    saved(other, RANKS, other_values(state), 7, request.param)
    return Scene(folder, manifest, older, other)


def other_values(state: states.State) -> states.State:
    """Return a state of equal names, shapes and dtypes, whose cut differs, so that each rank has other bytes."""
    devices = DeviceMatrix((RANKS // 2, 2), ranks=tuple(reversed(range(RANKS))))
    return {
        name: states.Tensor(Layout(t.layout.global_shape, devices, t.layout.tensor_map), t.dtype)
        for name, t in state.items()
    }


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_what_is_damaged_is_found(whole: Scene, damage: Damage, tmp_path: Path) -> None:
    state, chance = states.replicated(RANKS), random.Random(damage.__name__)
    tries, right = count(*DAMAGES[damage]), 0
    for number in range(tries):
        scene = whole._replace(folder=tmp_path / str(number))
        shutil.copytree(whole.folder, scene.folder)
        harmed = damage(scene, chance)
        told = complaints(scene.folder, scene.manifest.name)
        for path in harmed:
            assert any(str(path) in message for message in told), f"SILENT: {path} is not noticed; told {told}"
        right += not load_sound(scene.folder, scene.manifest.name, RANKS, state)
        shutil.rmtree(scene.folder)
    record(
        f"file of a checkpoint damaged: {damage.__name__.replace('_', ' ')}",
        tries=tries,
        load_right=right,
        load_refused=tries - right,
        silent=0,
    )
