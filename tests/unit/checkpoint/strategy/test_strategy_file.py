from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.checkpoint.strategy import node_strategy
from mpiparallel.checkpoint.strategy.strategy_file import build_searched_strategy, read_strategy, write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyItem, StrategyRecord
from mpiparallel.errors import MpiParallelError, StrategyFileError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

GENUINE = Path(__file__).parents[3] / "fixtures" / "mindspore"
PROTOBUF_FILES = sorted(GENUINE.glob("*/strategy_*.ckpt"))
JSON_FILE = GENUINE / "mm_dp2mp4_train_json" / "strategy_rank0.json"
SHAPES = {
    "net.w1": (64, 32),
    "net.w2": (32, 16),
    "moments.net.w1": (64, 32),
    "moments.net.w2": (32, 16),
    "net.weight": (512, 128),
    "moments.net.weight": (512, 128),
    "w1": (64, 32),
    "w2": (32, 16),
    "conv.weight": (16, 8, 3, 3),
    "table": (64, 32),
}


def _of_three(*shapes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of three products, and of their moments."""
    return {f"{state}net.w{place}": shape for state in ("", "moments.") for place, shape in enumerate(shapes)}


OWN_SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "reducesum_axis1_2x4": {"w": (16, 32)},
    "softmax_ce_dp8": {"w": (64, 32), "moments.w": (64, 32)},
    "layernorm_dp8": {"gamma": (32,), "beta": (32,)},
    "conv_bn_dp8": {"gamma": (16,), "beta": (16,)},
    "auto_rec_small": _of_three((64, 256), (256, 256), (256, 64)),
    "auto_rec_bigweight": _of_three((4096, 16384), (16384, 16384), (16384, 4096)),
    "pipeline2": {
        f"{state}net.s{stage}.{weight}": (64, 64)
        for state in ("", "moments.", "accu_grads.")
        for stage in (0, 1)
        for weight in ("w1", "w2")
    },
}
TRAINED = GENUINE / "mm_dp2mp4_train" / "strategy_rank0.ckpt"


def genuine_id(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    return SHAPES | OWN_SHAPES.get(path.parent.name, {})


def parsed(path: Path) -> dict[str, Any]:
    """Return the messages of a file as sorted text: their order means nothing."""
    message = node_strategy.ParallelStrategyMap.FromString(path.read_bytes())
    return {
        "stage": message.current_stage,
        "layouts": sorted(map(str, message.parallel_layout_item)),
        "strategies": sorted(map(str, message.parallel_strategy_item)),
    }


def slice_by_mindspore_rule(layouts: Any, shape: tuple[int, ...], rank: int) -> list[tuple[int, int]]:
    """Return the bounds of what ``rank`` holds, from the numbers in the file alone."""
    devices, tensor_map = list(layouts.dev_matrix[0].dim), list(layouts.tensor_map[0].dim)
    places = [np.unravel_index(index, devices) for index in range(int(np.prod(devices)))]
    mapped = [len(devices) - 1 - entry for entry in tensor_map if entry != -1]
    bounds = []
    for extent, entry in zip(shape, tensor_map, strict=True):
        parts, index = 1, 0
        if entry != -1:
            parts, index = devices[len(devices) - 1 - entry], int(places[rank][len(devices) - 1 - entry])
        bounds.append((extent // parts * index, extent // parts * (index + 1)))
    if layouts.opt_weight_shard_size:
        group = [other for other, place in enumerate(places) if all(place[a] == places[rank][a] for a in mapped)]
        size = len(group) if layouts.opt_weight_shard_size == -1 else layouts.opt_weight_shard_size
        rows = (bounds[0][1] - bounds[0][0]) // size
        start = bounds[0][0] + rows * (group.index(rank) % size)
        bounds[0] = (start, start + rows)
    return bounds


@pytest.mark.parametrize("path", PROTOBUF_FILES, ids=genuine_id)
def test_genuine_layouts_give_the_boxes_of_mindspore(path: Path) -> None:
    shapes = shapes_of(path)
    layouts = read_strategy(path).resolve(shapes)
    message = node_strategy.ParallelStrategyMap.FromString(path.read_bytes())
    assert len(layouts) == len(message.parallel_layout_item)
    for item in message.parallel_layout_item:
        layout = layouts[item.param_name]
        for rank in range(layout.devices.size):
            bounds = slice_by_mindspore_rule(item.parallel_layouts, shapes[item.param_name], rank)
            assert list(zip(layout.box(rank).start, layout.box(rank).stop, strict=True)) == bounds


@pytest.mark.parametrize("path", PROTOBUF_FILES, ids=genuine_id)
def test_genuine_file_written_again_says_the_same(path: Path, tmp_path: Path) -> None:
    write_strategy(tmp_path / "again.ckpt", read_strategy(path))
    assert parsed(tmp_path / "again.ckpt") == parsed(path)


def test_genuine_json_written_again_is_the_same_bytes(tmp_path: Path) -> None:
    write_strategy(tmp_path / "again.json", read_strategy(JSON_FILE))
    assert (tmp_path / "again.json").read_bytes() == JSON_FILE.read_bytes()


def test_json_says_what_protobuf_says_and_the_shapes() -> None:
    protobuf = read_strategy(TRAINED)
    assert read_strategy(JSON_FILE).strategies == protobuf.strategies
    assert read_strategy(JSON_FILE).resolve({}) == protobuf.resolve(SHAPES)


@pytest.mark.parametrize("path", PROTOBUF_FILES, ids=genuine_id)
def test_our_layouts_of_the_genuine_cases_write_the_genuine_file(path: Path, tmp_path: Path) -> None:
    genuine = read_strategy(path)
    cuts = {name: item.cuts for name, item in genuine.strategies.items()}
    stage = max((item.stage for item in genuine.strategies.values()), default=0)
    write_strategy(tmp_path / "ours.ckpt", StrategyRecord.of(genuine.resolve(shapes_of(path)), cuts, stage=stage))
    assert parsed(tmp_path / "ours.ckpt") == parsed(path)


def test_matmul_of_the_tutorial_is_written_as_mindspore_writes_it(tmp_path: Path) -> None:
    devices = DeviceMatrix((2, 4, 1))
    layouts = {"net.w2": Layout((32, 16), devices, ((1,), (2,)))}
    write_strategy(tmp_path / "ours.ckpt", StrategyRecord.of(layouts, {"MatMul_net.w2": ((2, 4), (4, 1))}))
    genuine = parsed(TRAINED)
    assert set(parsed(tmp_path / "ours.ckpt")["layouts"]) < set(genuine["layouts"])
    assert set(parsed(tmp_path / "ours.ckpt")["strategies"]) < set(genuine["strategies"])


numbers = st.integers(1, 4)
records = st.builds(
    StrategyRecord,
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8),
        st.builds(
            LayoutItem,
            st.tuples(numbers, numbers),
            st.sampled_from([((), ()), ((0,), ()), ((1,), (0,))]),
            field=numbers,
            param_split_shape=st.sampled_from([(), (1, 7)]),
            indices_offset=st.sampled_from([()]),
            tensor_shape=st.tuples(numbers, numbers),
        ),
        max_size=3,
    ),
    st.dictionaries(
        st.sampled_from(["MatMul_w", "Add_b"]), st.builds(StrategyItem, st.just(((2, 1), (), (1,))), st.integers(0, 9))
    ),
    st.integers(0, 3),
)


@given(record=records)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, record: StrategyRecord) -> None:
    folder = tmp_path_factory.getbasetemp()
    write_strategy(folder / "any.json", record)
    assert read_strategy(folder / "any.json") == record
    write_strategy(folder / "any.ckpt", record)
    write_strategy(folder / "shapeless.ckpt", read_strategy(folder / "any.ckpt"))
    assert read_strategy(folder / "shapeless.ckpt") == read_strategy(folder / "any.ckpt")
    assert read_strategy(folder / "any.ckpt").strategies == record.strategies


@given(data=st.data())
def test_damaged_files_are_refused_or_say_something_sound(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    genuine = data.draw(st.sampled_from([*PROTOBUF_FILES, JSON_FILE]))
    content = bytearray(genuine.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = tmp_path_factory.getbasetemp() / f"damaged{genuine.suffix}"
    damaged.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with suppress(StrategyFileError):
        for layout in read_strategy(damaged).resolve(SHAPES).values():
            layout.box(layout.devices.size - 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "is no JSON"),
        (b"[]", "not an object"),
        (b"{}", "has the keys"),
        (b'{"a":1,"a":2}', "a key twice"),
        (b"[" * 100_000, "is no JSON"),
        (b"\xff", "is no JSON"),
        (b'{"current_stage":2,"parallel_layout_item":[],"parallel_strategy_item":{}}', "not an object"),
        (b'{"current_stage":true,"parallel_layout_item":{},"parallel_strategy_item":{}}', "holds True"),
        (b'{"current_stage":2,"parallel_layout_item":{"w":{"new":1}},"parallel_strategy_item":{}}', 'parameter "w"'),
        (
            b'{"current_stage":2,"parallel_layout_item":{},"parallel_strategy_item":'
            b'{"Add_b":{"parallel_strategy":3,"stage":0}}}',
            'operator "Add_b": parallel_strategy is 3, not a list; write the strategy file again',
        ),
        (
            b'{"current_stage":-1,"parallel_layout_item":{},"parallel_strategy_item":{}}',
            "current_stage -1 is not one; training writes 2, merging 1",
        ),
    ],
)
def test_json_that_is_no_strategy_is_refused(tmp_path: Path, text: bytes, reason: str) -> None:
    (tmp_path / "bad.json").write_bytes(text)
    with pytest.raises(StrategyFileError, match=reason):
        read_strategy(tmp_path / "bad.json")


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    content = json.loads(JSON_FILE.read_bytes())
    content["parallel_layout_item"]["\ud800"] = content["parallel_layout_item"]["net.w1"]
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(StrategyFileError, match="is no name"):
        read_strategy(tmp_path / "bad.json")


def test_protobuf_with_more_than_the_schema_says_is_refused(tmp_path: Path) -> None:
    (tmp_path / "newer.ckpt").write_bytes(TRAINED.read_bytes() + b"\xf8\x01\x05")
    with pytest.raises(StrategyFileError, match="3 of its"):
        read_strategy(tmp_path / "newer.ckpt")


def test_a_parameter_twice_is_refused(tmp_path: Path) -> None:
    content = TRAINED.read_bytes()
    stage = b"\x08\x02"
    assert content.startswith(stage)
    (tmp_path / "twice.ckpt").write_bytes(content + content[len(stage) :])
    with pytest.raises(StrategyFileError, match="occurs twice"):
        read_strategy(tmp_path / "twice.ckpt")


def test_protobuf_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    content = TRAINED.read_bytes()
    (tmp_path / "bad.ckpt").write_bytes(content.replace(b"moments", b"moment\xff"))
    with pytest.raises(StrategyFileError, match=r"is not UTF-8|or is damaged"):
        read_strategy(tmp_path / "bad.ckpt")


def test_searched_strategy_is_that_of_the_parameters() -> None:
    strategy = build_searched_strategy(str(TRAINED))
    assert strategy["net.w1"] == LayoutItem((2, 4), ((), (1,)))


@pytest.mark.parametrize("name", [3, None, "missing.ckpt", "missing.json", "a\0b"])
def test_what_cannot_be_read_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="give the path of a strategy file") as caught:
        build_searched_strategy(name)
    assert isinstance(caught.value, MpiParallelError)


def test_who_names_a_file_that_is_not_there_is_told_what_writes_it() -> None:
    with pytest.raises(StrategyFileError, match=r"missing.*which training writes where strategy_ckpt_save_file says"):
        build_searched_strategy("missing.ckpt")


def test_what_cannot_be_written_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "strategy.ckpt").mkdir()
    with pytest.raises(StrategyFileError, match="cannot be written"):
        write_strategy(tmp_path / "strategy.ckpt", StrategyRecord({}, {}))
    assert [path.name for path in tmp_path.iterdir()] == ["strategy.ckpt"]


def test_the_folder_of_a_strategy_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "strategies" / "of stages" / "strategy.ckpt"
    write_strategy(path, StrategyRecord({}, {}))
    assert path.exists()


def test_shapes_are_needed_for_json(tmp_path: Path) -> None:
    with pytest.raises(StrategyFileError, match=r'parameter "w" has no tensor_shape'):
        write_strategy(tmp_path / "strategy.json", StrategyRecord({"w": LayoutItem((2,), ((0,),))}, {}))


@pytest.mark.parametrize("field", ["dev_matrix", "tensor_map", "param_split_shape", "indices_offset"])
def test_a_parameter_of_several_device_matrices_is_refused(tmp_path: Path, field: str) -> None:
    message = node_strategy.ParallelStrategyMap.FromString(TRAINED.read_bytes())
    name = message.parallel_layout_item[0].param_name
    getattr(message.parallel_layout_item[0].parallel_layouts, field).add(dim=[2, 4])
    (tmp_path / "two.ckpt").write_bytes(message.SerializeToString())
    with pytest.raises(StrategyFileError, match=f'parameter "{name}": has 2 entries {field}, not one; only one axis'):
        read_strategy(tmp_path / "two.ckpt")
