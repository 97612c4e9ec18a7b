"""The text of a plan, line by line, for plans that are made up, and how numbers are told in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.launch.plan.forecast import MoveForecast, Relabeled, Seconds, Spread, TensorBytes
from mpiparallel.launch.plan.heat_map import coarse, heat_map
from mpiparallel.launch.plan.report import amount, duration, report

FORECAST = MoveForecast(
    source="a.json",
    target="b.json",
    source_ranks=2,
    target_ranks=3,
    hosts=2,
    ranks_per_host=2,
    tensors=4,
    state=5_000,
    scratch=1_000_000,
    per_rank={"holds_before": Spread(0, 1_000, 2_000), "sends_to_ranks": Spread(0, 1, 12)},
    stays=3_000,
    moved=1_000,
    within_hosts=600,
    between_hosts=400,
    messages=1,
    largest=(TensorBytes("w", 900, "[8] on (2,)", "[8/3] on (3,)"), TensorBytes("long", 100, "x", "y")),
    still=2,
    seconds=Seconds(0.5, 1.5, 8e9, 12.5e9, False),
    relabeled=None,
    block_starts=(0, 1, 2),
    matrix=((0, 600, 0), (0, 0, 400), (0, 0, 0)),
)


def test_a_plan_is_told_line_by_line() -> None:
    assert report(FORECAST, "utf-8").splitlines() == [
        "a.json -> b.json",
        "2 -> 3 ranks on 2 hosts, 4 tensors, 5.00 kB without replicas",
        "",
        "of a rank                  least    median      most",
        "  holds before               0 B   1.00 kB   2.00 kB",
        "  sends to ranks               0         1        12",
        "  (peaks with 1.00 MB of scratch)",
        "",
        "stays    3.00 kB  75 % of what the ranks hold after",
        "moves    1.00 kB  25 %, in 1 message: 600 B within hosts, 400 B between hosts",
        "takes        2 s  about: 500 ms within hosts, copied twice at 8.0 GB/s (measured now, here),",
        "                  and 1.5 s between hosts at 12.5 GB/s a host (assumed; say yours with --bandwidth)",
        "largest of the 2 tensors that move, 2 stay:",
        "  w        900 B  [8] on (2,) -> [8/3] on (3,)",
        "  long     100 B  x -> y",
        "",
        "from rank (down) to rank (across), darkest 600 B",
        "       0 1 2",
        "     0 · ██·",
        "     1 · · ▓▓",
        "     2 · · ·",
    ]


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"hosts": 1}, "2 -> 3 ranks on 1 host, 4 tensors, 5.00 kB without replicas"),
    ({"tensors": 2000, "still": 0}, "2 -> 3 ranks on 2 hosts, 2,000 tensors, 5.00 kB without replicas"),
    ({"messages": 1200}, "moves    1.00 kB  25 %, in 1,200 messages: 600 B within hosts, 400 B between hosts"),
    ({"stays": 0}, "stays        0 B  0 % of what the ranks hold after"),
    ({"stays": 0}, "moves    1.00 kB  100 %, in 1 message: 600 B within hosts, 400 B between hosts"),
    ({"stays": 99_000}, "moves    1.00 kB  1 %, in 1 message: 600 B within hosts, 400 B between hosts"),
    ({"stays": 99_001}, "moves    1.00 kB  <1 %, in 1 message: 600 B within hosts, 400 B between hosts"),
    ({"stays": 99_001}, "stays    99.0 kB  >99 % of what the ranks hold after"),
    ({"largest": ()}, "no tensor moves"),
    ({"still": 3}, "largest of the 1 tensor that move, 3 stay:"),
    (
        {"seconds": Seconds(0.0, 0.25, 1e9, 2e9, True)},
        "                  and 250 ms between hosts at 2 GB/s a host (--bandwidth)",
    ),
    (
        {"seconds": Seconds(60.0, 60.0, 1e9, 2e9, True)},
        "takes      2 min  about: 60 s within hosts, copied twice at 1.0",
    ),
    (
        {"relabeled": Relabeled((), 1_000, 0.1)},
        "relabel         no: other ranks for the target's places would save at most 10%",
    ),
    (
        {"relabeled": Relabeled((1, 0), 4_000, 0.1)},
        "relabel  3.00 kB  75 % saved, in all of the above, by ranks 1 0",
    ),
    ({"source_ranks": 6}, "from rank (down) to rank (across), blocks of 2 ranks, darkest 600 B"),
    ({"target_ranks": 7}, "from rank (down) to rank (across), blocks of 3 ranks, darkest 600 B"),
]


@pytest.mark.parametrize(("changes", "line"), CHANGES)
def test_other_numbers_are_told_in_their_lines(changes: dict[str, Any], line: str) -> None:
    lines = report(replace(FORECAST, **changes), "UTF8").splitlines()
    assert [one for one in lines if one.startswith(line)], lines


def test_what_does_not_move_has_no_map_and_a_picture_is_named_last() -> None:
    still = report(replace(FORECAST, moved=0, largest=()), "utf-8").splitlines()
    assert still[-1] == "no tensor moves"
    assert report(FORECAST, "utf-8", Path("map.svg")).splitlines()[-1] == "picture: map.svg"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_gets_what_it_can_show(encoding: str) -> None:
    text = report(replace(FORECAST, source="ä→"), encoding)
    text.encode(encoding)
    assert text.splitlines()[-3:] == ["     0 . @@.", "     1 . . ##", "     2 . . ."]


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.00 kB"),
        (12_345, "12.3 kB"),
        (123_456, "123 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (10**9, "1.00 GB"),
        (10**12, "1.00 TB"),
        (10**15, "1.00 PB"),
        (10**18, "1.00 EB"),
        (10**21, "1000 EB"),
    ],
)
def test_bytes_are_told_by_three_digits(size: int, told: str) -> None:
    assert amount(size) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.0, "0 ms"), (0.0123, "12.3 ms"), (0.999, "999 ms"), (1.0, "1 s"), (119.0, "119 s"), (120.0, "2 min")],
)
def test_times_are_told_by_three_digits(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("values", "shades"),
    [
        ((0, 1, 2, 3, 4), "· ░░▒▒▓▓██"),
        ((0, 1, 25, 26, 100), "· ░░░░▒▒██"),
        ((50, 51, 75, 76, 100), "▒▒▓▓▓▓████"),
        ((7, 7, 7, 7, 7), "██████████"),
        ((0, 0, 0, 0, 0), "· · · · ·"),
    ],
)
def test_a_cell_is_as_dark_as_its_share_of_the_most(values: tuple[int, ...], shades: str) -> None:
    matrix = [list(values), *[[0] * 5] * 4]
    lines, most = heat_map(matrix, range(5), plain=False)
    assert lines[1] == f"     0 {shades}"
    assert most == max(values)


@pytest.mark.parametrize("ranks", [1, 9, 12, 32, 33, 40, 64])
def test_rows_and_columns_are_named_by_their_first_ranks_where_there_is_room(ranks: int) -> None:
    matrix = [[int(row == column) for column in range(ranks)] for row in range(ranks)]
    lines, most = heat_map(matrix, range(ranks), plain=True)
    cells = min(ranks, 32)
    # A rank is in the block that its place among all has in so many.
    blocks = [[rank for rank in range(ranks) if rank * cells // ranks == block] for block in range(cells)]
    assert [line[:6].strip() for line in lines[1:]] == [str(block[0]) for block in blocks]
    assert most == max(map(len, blocks))
    assert [line[7 + 2 * row : 9 + 2 * row] for row, line in enumerate(lines[1:])] == [
        "@@" if len(block) == most else "++" for block in blocks
    ]
    free = 0
    for column, block in enumerate(blocks):
        label = str(block[0])
        if free <= 2 * column:
            assert lines[0][7 + 2 * column :].startswith(label)
            free = 2 * column + len(label) + 1
    assert len(lines[0]) <= 7 + free


def test_neighbours_are_added_up_in_a_coarser_map() -> None:
    matrix = [[10 * row + column for column in range(4)] for row in range(4)]
    assert coarse(matrix, 2) == [[0 + 1 + 10 + 11, 2 + 3 + 12 + 13], [20 + 21 + 30 + 31, 22 + 23 + 32 + 33]]
    assert coarse(matrix, 4) == coarse(matrix, 9) == matrix
    assert coarse(matrix, 1) == [[264]]
    assert coarse([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 2) == [[12, 9], [15, 9]]
