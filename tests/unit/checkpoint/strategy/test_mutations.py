"""Mutated strategy and group files, a tenth of what ``make soak`` tries: they say something sound, or are refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.strategy.group_file import read_group_info
from mpiparallel.checkpoint.strategy.merged_stages import merge_records, stages_of
from mpiparallel.checkpoint.strategy.replica_groups import restore_parameter_group_info, write_replica_groups
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.checkpoint.transform.rank_list import rank_list_for_transform
from mpiparallel.errors import MpiParallelError, StrategyFileError
from tests.reliability.counts import count, record

GENUINE = Path(__file__).parents[3] / "fixtures" / "mindspore"
MUTATIONS = count(60_000, 6_000)
TARGET = GENUINE / "e2e_8to4" / "dst_strategy.ckpt"


def mutated(content: bytes, choose: random.Random) -> bytes:
    """Return ``content`` with bits flipped, bytes set, cut out, doubled or cut off."""
    changed = bytearray(content)
    for _ in range(choose.randint(1, 4)):
        place = choose.randrange(len(changed) + 1)
        kind = choose.randrange(5)
        if kind == 0 and place < len(changed):
            changed[place] ^= 1 << choose.randrange(8)
        elif kind == 1 and place < len(changed):
            changed[place] = choose.choice((0, 1, 0x7F, 0x80, 0xFF, ord("-"), ord("9"), ord("[")))
        elif kind == 2:
            del changed[place : place + choose.randint(1, 8)]
        elif kind == 3:
            changed[place:place] = changed[place : place + choose.randint(1, 16)]
        else:
            del changed[place:]
    return bytes(changed)


def use_strategy(path: Path) -> None:
    record = read_strategy(path)
    with suppress(StrategyFileError):
        merge_records({path: record})
    stages_of(record)
    rank_list_for_transform(0, path, TARGET, missing="replicated")
    rank_list_for_transform(0, TARGET, path, missing="omitted")


CASES: dict[str, Callable[[Path], Any]] = {
    "strategy.ckpt": use_strategy,
    "strategy.json": use_strategy,
    "group_info.pb": read_group_info,
    "group_info.parameters.json": restore_parameter_group_info,
}


@pytest.mark.parametrize("name", CASES)
def test_no_mutation_ends_but_in_one_of_our_errors(name: str, tmp_path: Path) -> None:
    sources = {
        "strategy.ckpt": sorted(GENUINE.glob("*/*strategy*.ckpt")),
        "strategy.json": sorted(GENUINE.glob("*/strategy*.json")),
        "group_info.pb": [path for path in sorted(GENUINE.glob("*/group_info*.pb")) if path.stat().st_size > 2],
        "group_info.parameters.json": [write_replica_groups(tmp_path / "x.pb", 1, {"w": (1, 5), "b": (1,)})],
    }[name]
    contents = [path.read_bytes() for path in sources]
    choose = random.Random(name)
    refused = 0
    for number in range(MUTATIONS // len(CASES)):
        (tmp_path / name).write_bytes(mutated(contents[number % len(contents)], choose))
        try:
            CASES[name](tmp_path / name)
        except MpiParallelError:
            refused += 1
    tried = MUTATIONS // len(CASES)
    record(f"mutated {name} files read or refused", tried=tried, read=tried - refused, refused=refused)
    assert refused > tried // 2
