from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.checkpoint.strategy.group_file import restore_group_info_list, write_group_info
from mpiparallel.checkpoint.strategy.replica_groups import (
    parameter_replica_groups,
    restore_parameter_group_info,
    write_replica_groups,
)
from mpiparallel.errors import MpiParallelError, StrategyFileError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

DEVICES = DeviceMatrix((2, 4))
LAYOUTS = {
    "w": Layout((64, 32), DEVICES, ((), (1,))),
    "moments.w": Layout((64, 32), DEVICES, ((), (1,)), optimizer_axes=(0,)),
    "scale": Layout((32,), DEVICES, ((),)),
    "elsewhere": Layout((8,), DeviceMatrix((2,), 6), ((0,),)),
}


def test_groups_are_the_ranks_with_equal_boxes() -> None:
    for rank in range(8):
        expected = {
            name: tuple(other for other in layout.devices.members if layout.box(other) == layout.box(rank))
            for name, layout in LAYOUTS.items()
            if rank in layout.devices
        }
        assert parameter_replica_groups(LAYOUTS, rank) == expected


def test_what_one_list_for_the_model_denies_is_told_by_parameter(tmp_path: Path) -> None:
    groups = parameter_replica_groups(LAYOUTS, 5)
    everybody = set.intersection(*map(set, groups.values()))
    write_group_info(tmp_path / "group_info.pb", [], sorted(everybody))
    written = write_replica_groups(tmp_path / "group_info.pb", 5, groups)
    assert written == tmp_path / "group_info.parameters.json"
    assert restore_group_info_list(str(tmp_path / "group_info.pb")) == [5]
    found = restore_parameter_group_info(str(tmp_path / "group_info.pb"))
    assert found == {"w": [1, 5], "moments.w": [5], "scale": list(range(8))}
    assert restore_parameter_group_info(written) == found


SOUND: dict[str, Any] = {"format": "mpiparallel replica groups 1", "rank": 1, "groups": []}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "is not of the format"),
        ({**SOUND, "format": "2"}, "is not of the format"),
        ({**SOUND, "more": 1}, "is not of the format"),
        ({**SOUND, "groups": {}}, "groups are no list"),
        ({**SOUND, "groups": [1]}, "is not one of ranks and parameters"),
        ({**SOUND, "groups": [{"ranks": [0], "parameters": []}]}, "with rank 1"),
        ({**SOUND, "groups": [{"ranks": [2, 1], "parameters": []}]}, "ascending"),
        ({**SOUND, "groups": [{"ranks": [1, 1], "parameters": []}]}, "ascending"),
        ({**SOUND, "groups": [{"ranks": [1, True], "parameters": []}]}, "are no ranks"),
        ({**SOUND, "groups": [{"ranks": [1, 2**40], "parameters": []}]}, "are no ranks"),
        ({**SOUND, "groups": [{"ranks": [1, 2**31], "parameters": []}]}, "are no ranks"),
        ({**SOUND, "groups": [{"ranks": [-1, 1], "parameters": []}]}, "are no ranks"),
        ({**SOUND, "rank": True, "groups": [{"ranks": [1], "parameters": []}]}, "are no ranks"),
        ({**SOUND, "groups": [{"ranks": [1], "parameters": "w"}]}, "are no list"),
        ({**SOUND, "groups": [{"ranks": [1], "parameters": [1]}]}, "is no text, or occurs twice"),
        ({**SOUND, "groups": [{"ranks": [1], "parameters": ["w", "w"]}]}, "is no text, or occurs twice"),
    ],
)
def test_files_that_are_not_sound_are_refused(tmp_path: Path, content: Any, reason: str) -> None:
    (tmp_path / "x.parameters.json").write_text(json.dumps(content))
    with pytest.raises(StrategyFileError, match=f"x.parameters.json: .*{reason}"):
        restore_parameter_group_info(tmp_path / "x.pb")


@pytest.mark.parametrize("text", [b"", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "x.parameters.json").write_bytes(text)
    with pytest.raises(StrategyFileError, match="is no JSON"):
        restore_parameter_group_info(tmp_path / "x.pb")


@pytest.mark.parametrize("name", [None, 3, "nowhere.pb"])
def test_what_cannot_be_read_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="group") as caught:
        restore_parameter_group_info(name)
    assert isinstance(caught.value, MpiParallelError)


def test_a_group_without_its_rank_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(StrategyFileError, match="with rank 2"):
        write_replica_groups(tmp_path / "group_info.pb", 2, {"w": (0, 1)})
    assert not list(tmp_path.iterdir())
