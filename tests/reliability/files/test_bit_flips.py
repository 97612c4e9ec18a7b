"""One bit of a committed checkpoint turns over, anywhere: it is found, and what is loaded is right or nothing."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from mpiparallel.checkpoint.strategy.group_file import write_group_info
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from tests.reliability import states
from tests.reliability.counts import count, record
from tests.reliability.subject import complaints, load_sound, saved

RANKS = 4
# Bytes at either end of a file, where it says what is in it.
ENDS = 4096


@pytest.mark.parametrize("remove_redundancy", [False, True], ids=["each slice twice", "each slice once"])
def test_no_bit_turns_over_unnoticed(tmp_path: Path, remove_redundancy: bool) -> None:
    flips = count(1000, 100)
    state = states.replicated(RANKS)
    companions = strategy_and_group_file(tmp_path, state)
    name = saved(tmp_path, RANKS, state, 7, remove_redundancy, companions).name
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert len(files) == RANKS + 1 + len(companions)
    chance, seen = random.Random(RANKS), Counter[str]()
    for _ in range(flips):
        path = chance.choice(files)
        position, bit = a_position(path, chance), 1 << chance.randrange(8)
        turn_over(path, position, bit)
        told, refused = complaints(tmp_path, name), load_sound(tmp_path, name, RANKS, state)
        turn_over(path, position, bit)
        where = f"bit {bit:#x} of byte {position} of {path}"
        assert told, f"SILENT: {where} is not noticed"
        check_message(told[0], path, where)
        seen[path.suffix] += 1
        seen["refused" if refused else "right"] += 1
    assert not complaints(tmp_path, name)
    assert not load_sound(tmp_path, name, RANKS, state)
    record(
        f"bit of a checkpoint turned over, {'each slice once' if remove_redundancy else 'each slice twice'}",
        flips=flips,
        in_shards=seen[".h5"],
        in_manifests=seen[".json"],
        in_strategy_and_group_files=seen[".ckpt"] + seen[".pb"],
        load_refused=seen["refused"],
        load_right=seen["right"],
        silent=0,
    )


def strategy_and_group_file(folder: Path, state: states.State) -> list[Path]:
    """Write the files that MindSpore has beside a checkpoint; they have no digest of their own."""
    paths = [folder / "src_strategy.ckpt", folder / "group_info.pb"]
    write_strategy(paths[0], StrategyRecord.of(states.layouts(state), {}))
    write_group_info(paths[1], [(0, 2), (1, 3), (0, 1, 2, 3)], [0, 2])
    return paths


def a_position(path: Path, chance: random.Random) -> int:
    """Draw a byte of a file; every other time one near its ends."""
    size = path.stat().st_size
    if chance.random() < 0.5:
        return chance.randrange(size)
    offset = chance.randrange(min(ENDS, size))
    return offset if chance.random() < 0.5 else size - 1 - offset


def turn_over(path: Path, position: int, bit: int) -> None:
    """Turn over one bit of a file, in place."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ bit]))


def check_message(message: str, path: Path, where: str) -> None:
    """See that a message names the file and, of a shard, the array or the part of the file."""
    assert str(path) in message, f"{where}: the message does not name the file: {message}"
    if path.suffix == ".h5":
        assert re.search('array "|around the arrays|index|footer', message), (
            f"{where}: the message does not say what: {message}"
        )
