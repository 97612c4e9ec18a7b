"""Whatever stands in a rank table or a hostfile: it is read, or refused by our error, soon and in little memory."""

from __future__ import annotations

import copy
import json
import os
import random
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.cluster.device_rules import device_warnings, placeholders
from mpiparallel.cluster.hostfile import Hostfile
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.errors import RankTableError
from tests.reliability.child import exit_status
from tests.reliability.counts import count, record

ROOT = Path(__file__).parents[3]
MOST_BYTES = 512 << 20
# How long before it counts as a hang, on however busy a machine.
# Of the processor.
MOST_SECONDS = 30
MOST_MESSAGE = 20_000
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 7, 10**6, 10**30, 1.5, float("nan"), float("inf")),
    *("", "0", "-1", "00", "٣", "1" * 5000, "completed", "1.0", "1.2", "2.0", "10.*.*.*", "::1", "fe80::1%eth0"),
    *("127.0.0.1", "1.2.3", "a" * 70, "\ud800", "\x00", "\x1b[31m", "x\ny", [], {}, [[]], [{}], {"": {"": []}}),
)
WORDS = (
    *(
        "node1",
        "node[01-03,7]",
        "node[3-1]",
        "n[0-499]",
        "n[0-999999]",
        "[fe80::1]",
        "fe80::1",
        "::1",
        "user@host",
        "localhost",
    ),
    *(":", ":8", ":-1", ":x", ":999999", " slots=", " slots=4", "slots", " max_slots=2", " max-slots = 9", "=", " "),
    *("#", "\n", "\n\n", "\r", "\t", ",", "[", "]", "[[", "-", "1", "²", "\x00", "\ufeff", "{", "}", "\u2028", "%"),
)


def test_only_our_errors_come_of_any_rank_table(tmp_path: Path) -> None:
    holds("rank table", tmp_path, rank_table, lambda text: check(RankTable.parse(text, "table.json")))


def test_only_our_errors_come_of_any_hostfile(tmp_path: Path) -> None:
    holds("hostfile", tmp_path, hostfile, lambda text: write(Hostfile.parse(text, "hosts")))


def holds(noun: str, folder: Path, make: Callable[[random.Random], str], use: Callable[[str], None]) -> None:
    """Let a child process with little memory ``use`` many texts that ``make`` makes."""
    tries, verdicts = count(20_000, 2000), folder / "verdicts"
    status = exit_status(lambda: attack(tries, make, use, verdicts), seconds=600)
    assert status == 0, f"a {noun} ended the process with status {status}: {(folder / 'last').read_text()[:2000]!r}"
    refused = int(verdicts.read_text())
    assert tries // 2 < refused < tries, "most must be malformed, but not all"
    record(f"{noun} changed on purpose", tries=tries, refused=refused, read=tries - refused, other_errors=0)


def attack(tries: int, make: Callable[[random.Random], str], use: Callable[[str], None], verdicts: Path) -> None:
    """Try so many texts; errors of other classes, long waits and much memory end the process."""
    chance = random.Random(6)
    limit = data_bytes() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    last = verdicts.with_name("last")
    refused = 0
    for _ in range(tries):
        text = make(chance)
        last.write_text(text[:2000], errors="backslashreplace")
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        refused += is_refused(text, use)
    signal.setitimer(signal.ITIMER_PROF, 0)
    verdicts.write_text(str(refused))


def is_refused(text: str, use: Callable[[str], None]) -> bool:
    """Tell whether ``use`` refuses the text as it may."""
    try:
        use(text)
    except RankTableError as error:
        told = str(error)
        if len(told) > MOST_MESSAGE or "\x1b" in told:
            raise ValueError("a message must be short, and must not command the terminal") from error
        return True
    return False


def check(table: RankTable) -> None:
    """Hold what was read to the promise of a table, and use it."""
    ranks = range(table.rank_count)
    assert sorted(table.device_of(rank).rank_id for rank in ranks) == list(ranks)
    device_warnings(table), placeholders(table)
    assert RankTable.parse(table.to_json(), "copy") == table


def write(hosts: Hostfile) -> None:
    """Hold what was read to the promise of a hostfile: what is written of it reads back the same."""
    assert hosts.slots >= 1
    assert Hostfile.parse(hosts.to_openmpi(), "copy") == hosts or ":" in hosts.to_openmpi()
    hosts.to_mpich()


def rank_table(chance: random.Random) -> str:
    """Return a shipped table, changed in one to four places, as values or as text."""
    path = ROOT / "rank_tables" / f"rank_table_{chance.choice((1, 2, 4, 8, 16))}pcs.json"
    text = path.read_text()
    if chance.random() < 0.3:
        return scrambled(text, chance)
    table = json.loads(text)
    for _ in range(chance.randint(1, 4)):
        change(table, chance)
    return json.dumps(table)


def change(value: Any, chance: random.Random) -> None:
    """Replace, delete, repeat or rename something anywhere in ``value``."""
    while True:
        key = chance.choice([*(value if isinstance(value, dict) else range(len(value))), None])
        if key is None:
            return
        inner = value[key]
        if isinstance(inner, (dict, list)) and inner and chance.random() < 0.7:
            value = inner
            continue
        deed = chance.randrange(5)
        if deed == 0:
            value[key] = copy.deepcopy(chance.choice(HOSTILE))
        elif deed == 1:
            del value[key]
        elif deed == 2 and isinstance(value, list):
            value.append(copy.deepcopy(inner))
        elif deed == 3 and isinstance(inner, str) and inner.isdecimal() and len(inner) < 9:
            value[key] = int(inner)
        elif isinstance(value, dict):
            value[chance.choice((*WORDS, "devices", "rank", "super_pod_list"))] = inner
        return


def hostfile(chance: random.Random) -> str:
    """Return lines made of pieces of every dialect, or a shipped hostfile or rank table that was changed."""
    kind = chance.random()
    if kind < 0.2:
        return scrambled(chance.choice(sorted((ROOT / "hostfiles").iterdir())).read_text(), chance)
    if kind < 0.3:
        return rank_table(chance)
    return "".join(chance.choice(WORDS) for _ in range(chance.randint(1, 12)))


def scrambled(text: str, chance: random.Random) -> str:
    """Return ``text`` with a few stretches deleted, doubled, or written over."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        stop = min(len(text), start + chance.choice((1, 1, 1, 2, 8, 100)))
        piece = chance.choice(("", text[start:stop] * 2, chance.choice(WORDS), chr(chance.randrange(1, 0x3000))))
        text = text[:start] + piece + text[stop:]
    return text


BOMBS = {
    "deep lists": "[" * 1_000_000,
    "lists deeper than Python goes": "[" * 100_000,
    "deep lists that end": "[" * 900 + "]" * 900,
    "deep objects": '{"server_list":' * 900 + "1" + "}" * 900,
    "deep value of a field": '{"version":' + "[" * 800 + "]" * 800 + "}",
    "empty lists": "[" + "[]," * 2_000_000 + "[]]",
    "empty objects as servers": '{"server_list":[' + "{}," * 60_000 + "{}]}",
    "one long string": '{"version":"' + "\\u0000" * 1_000_000 + '"}',
    "one long number": '{"server_count":' + "9" * 4_000_000 + "}",
    "one long key": '{"' + "k" * 4_000_000 + '":1,"' + "k" * 4_000_000 + '":2}',
    "many keys": "{" + ",".join(f'"{number}":1' for number in range(100_000)) + "}",
    "keys like those that are missing": "{" + ",".join(f'"server_lis{number}":1' for number in range(50_000)) + "}",
    "quotes": '"' * 4_000_000,
    "backslashes": '"' + "\\" * 4_000_001,
    "commas": "{" + "," * 4_000_000,
    "one long line of a hostfile": "a" + "  =  " * 1_000_000,
    "brackets": "a[1]" * 1_000_000,
    "open brackets": "a[" * 2_000_000,
    "a long list of nodes": "n[" + "1," * 2_000_000 + "1]",
    "lists of nodes": "n[0-99999],m[0-99999]\n" * 100_000,
    "product of ranges": "n[0-9]" * 1000,
    "long names": ("x" * 250 + "[0-99999]\n") * 1000,
    "lines that are wrong": "=\n" * 2_000_000,
    "servers of one name": '{"version":"1.0","server_list":[' + '{"server_id":"a","device":[{}]},' * 20_000 + "{}]}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_refused_soon_and_in_little_memory(name: str, tmp_path: Path) -> None:
    text = BOMBS[name]

    def drop() -> None:
        limit = data_bytes() + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        for parse in (RankTable.parse, Hostfile.parse):
            with pytest.raises(RankTableError) as caught:
                parse(text, "bomb")
            assert len(str(caught.value)) < MOST_MESSAGE
        (tmp_path / "refused").touch()

    assert exit_status(drop) == 0
    assert (tmp_path / "refused").exists()


@pytest.mark.parametrize("load", [RankTable.load, Hostfile.load])
def test_what_is_no_file_is_refused_without_waiting(load: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("absent")
    (tmp_path / "to pipe").symlink_to("pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    paths = [
        *map(tmp_path.joinpath, ("pipe", "loop", "dangling", "to pipe", "huge", "")),
        Path("/dev/zero"),
        Path("a\0"),
    ]
    for path in paths:
        with pytest.raises(RankTableError, match="cannot be read"):
            load(path)


def test_file_behind_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "table.json").symlink_to(ROOT / "rank_tables" / "rank_table_8pcs.json")
    assert RankTable.load(tmp_path / "table.json").rank_count == 8


def data_bytes() -> int:
    """The memory of this process that counts against RLIMIT_DATA."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
    return int(line.split()[1]) * 1024
