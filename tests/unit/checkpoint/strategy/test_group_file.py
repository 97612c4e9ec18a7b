from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.checkpoint.strategy import node_strategy
from mpiparallel.checkpoint.strategy.group_file import (
    GroupRecord,
    group_name,
    libstdcxx_hash,
    read_group_info,
    restore_group_info_list,
    write_group_info,
)
from mpiparallel.errors import StrategyFileError

GENUINE = Path(__file__).parents[3] / "fixtures" / "mindspore"
FILES = sorted(GENUINE.glob("*/group_info_*.pb"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0-4", 16453000547691086251),
        ("0-2-4-6", 5226697808808137312),
        ("0-1-2-3", 6301172352641561019),
        ("12345678", 10113836418918046885),
        ("1-3-5-7-9", 16186972822945946080),
        ("0-1-2-3-4-5-6-7", 12158923167718251343),
        ("0-8-16-24-32-40-48-56", 536827722549420600),
    ],
)
def test_hash_is_that_of_the_gnu_library(text: str, value: int) -> None:
    assert libstdcxx_hash(text) == value


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_genuine_file_is_read_and_written_again(path: Path, tmp_path: Path) -> None:
    record = read_group_info(path)
    assert {group_name(ranks): ranks for ranks in record.groups.values()} == record.groups
    write_group_info(tmp_path / "again.pb", list(record.groups.values()), record.restore_ranks)
    texts = [
        sorted(map(str, node_strategy.ParallelGroupMap.FromString(file.read_bytes()).parallel_group_item))
        for file in (path, tmp_path / "again.pb")
    ]
    assert texts[0] == texts[1]
    assert read_group_info(tmp_path / "again.pb") == record


@pytest.mark.parametrize("rank", range(8))
def test_restore_list_of_the_tutorial_is_the_replicas_of_each_rank(rank: int) -> None:
    name = str(GENUINE / "mm_dp2mp4_train" / f"group_info_rank{rank}.pb")
    assert restore_group_info_list(name) == [rank % 4, rank % 4 + 4]


def test_hand_built_file_is_read(tmp_path: Path) -> None:
    content = bytes.fromhex("0a140a0c342d32323038383334353233120408000804120408000804")
    (tmp_path / "group_info.pb").write_bytes(content)
    assert restore_group_info_list(str(tmp_path / "group_info.pb")) == [0, 4]


def test_empty_list_is_legal_and_a_missing_one_is_not(tmp_path: Path) -> None:
    write_group_info(tmp_path / "inference.pb", [], [])
    assert restore_group_info_list(str(tmp_path / "inference.pb")) == []
    (tmp_path / "empty.pb").write_bytes(b"")
    with pytest.raises(StrategyFileError, match=r"empty\.pb: lacks ckpt_restore_rank_list"):
        restore_group_info_list(str(tmp_path / "empty.pb"))


groups = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5, unique=True).map(tuple)


@given(groups=st.lists(groups, max_size=3, unique_by=lambda ranks: tuple(sorted(ranks))), restore=groups)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, groups: list[tuple[int, ...]], restore: tuple[int, ...]
) -> None:
    path = tmp_path_factory.getbasetemp() / "group_info.pb"
    write_group_info(path, groups, restore)
    expected = {group_name(ranks): tuple(sorted(ranks)) for ranks in groups}
    assert read_group_info(path) == GroupRecord(expected, restore)


@given(data=st.data())
def test_damaged_file_is_refused_or_sound(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(FILES)).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / "damaged.pb"
    path.write_bytes(content)
    with suppress(StrategyFileError):
        ranks = restore_group_info_list(str(path))
        assert len(set(ranks)) == len(ranks)


@pytest.mark.parametrize("ranks", [(), (1, 1)])
def test_damaged_group_is_refused(tmp_path: Path, ranks: tuple[int, ...]) -> None:
    message = node_strategy.ParallelGroupMap(ckpt_restore_rank_list={"dim": [0]})
    message.parallel_group_item.add(group_name="2-7").parallel_group_ranks.dim.extend(ranks)
    message.parallel_group_item[0].parallel_group_ranks.SetInParent()
    (tmp_path / "group_info.pb").write_bytes(message.SerializeToString())
    with pytest.raises(StrategyFileError, match='group "2-7"'):
        read_group_info(tmp_path / "group_info.pb")


def test_group_names_must_be_text_and_differ(tmp_path: Path) -> None:
    path = tmp_path / "group_info.pb"
    write_group_info(path, [(0, 1)], [])
    name, content = group_name((0, 1)).encode(), path.read_bytes()
    path.write_bytes(content.replace(name, b"\xff" + name[1:]))
    with pytest.raises(StrategyFileError, match=r"is not UTF-8|or is damaged"):
        read_group_info(path)
    path.write_bytes(content[: content.rindex(b"\x12\x00")] + content)
    with pytest.raises(StrategyFileError, match="occurs twice"):
        read_group_info(path)


@pytest.mark.parametrize("name", [3, None, "missing.pb"])
def test_what_cannot_be_read_is_refused(name: Any) -> None:
    with pytest.raises(StrategyFileError, match="give the path of a group file"):
        restore_group_info_list(name)


def test_who_names_a_file_that_is_not_there_is_told_what_writes_it() -> None:
    with pytest.raises(StrategyFileError, match=r"missing.*which training writes where GROUP_INFO_FILE says"):
        restore_group_info_list("missing.pb")


@pytest.mark.parametrize("ranks", [(), (0, 0), (-1, 2), (2**31,)])
def test_ranks_that_cannot_be_are_refused(tmp_path: Path, ranks: tuple[int, ...]) -> None:
    with pytest.raises(StrategyFileError, match=r"group \[.*(names a rank twice|has no rank)"):
        write_group_info(tmp_path / "group_info.pb", [ranks], [0])
