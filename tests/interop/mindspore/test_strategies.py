"""Strategy, group and checkpoint files written here, given to MindSpore's functions and to ours: equal answers."""

from __future__ import annotations

import numpy as np
import pytest

mindspore = pytest.importorskip("mindspore", reason="make test-interop-mindspore installs MindSpore")

from mindspore.parallel import checkpoint_transform as theirs  # noqa: E402
from mindspore.train import node_strategy_pb2  # noqa: E402

from mpiparallel.checkpoint.files.array_file import infos_of, read_array  # noqa: E402
from mpiparallel.checkpoint.formats.mindspore_checkpoint import (  # noqa: E402
    open_mindspore_checkpoint,
    write_mindspore_checkpoint,
)
from mpiparallel.checkpoint.strategy.group_file import restore_group_info_list, write_group_info  # noqa: E402
from mpiparallel.checkpoint.strategy.merged_stages import merge_pipeline_strategys  # noqa: E402
from mpiparallel.checkpoint.strategy.strategy_file import (  # noqa: E402
    build_searched_strategy,
    read_strategy,
    write_strategy,
)
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord  # noqa: E402
from mpiparallel.checkpoint.transform.checkpoints import (  # noqa: E402
    transform_checkpoint_by_rank,
    transform_checkpoints,
)
from mpiparallel.checkpoint.transform.rank_list import rank_list_for_transform  # noqa: E402
from mpiparallel.checkpoint.transform.sliced_parameter import merge_slices  # noqa: E402
from mpiparallel.layout.device_matrix import DeviceMatrix  # noqa: E402
from mpiparallel.layout.layout import Layout  # noqa: E402
from tests.unit.train.layers_of_each_kind import WRITTEN, Network, build  # noqa: E402

pytestmark = pytest.mark.mindspore

RANDOM = np.random.default_rng(0)
SHAPES = {"net.w1": (64, 32), "net.w2": (32, 16), "bias": (32,), "encoder.w": (8, 4, 16), "scale": (3,)}
WHOLE = {name: RANDOM.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
# Not in strategy files; the same on each rank.
EXTRA = {"learning_rate": np.array(0.125, np.float32), "global_step": np.array([7], np.int32)}
UNCUT = ((), (), ())


def layouts(devices, cuts, optimizer_axes=()):
    """Return the layout of each parameter; ``cuts`` has the axes that cut its dims, where any do."""
    matrix = DeviceMatrix(devices)
    return {
        name: Layout(
            shape,
            matrix,
            cuts.get(name, UNCUT[: len(shape)]),
            optimizer_axes=optimizer_axes if name in ("net.w1", "net.w2") else (),
        )
        for name, shape in SHAPES.items()
    }


MODEL_PARALLEL_4 = layouts((4,), {"net.w1": ((), (0,)), "net.w2": ((0,), ()), "bias": ((0,),)})
CLUSTERS = {
    "8, dp2 mp4, optimizer shards": layouts(
        (2, 4), {"net.w1": ((), (1,)), "net.w2": ((1,), ()), "bias": ((1,),)}, optimizer_axes=(0,)
    ),
    "8, cut on both axes": layouts(
        (2, 4), {"net.w1": ((0,), (1,)), "net.w2": ((1,), (0,)), "encoder.w": ((0,), (1,), ())}
    ),
    "4, mp4": MODEL_PARALLEL_4,
    "2, rows": layouts((2,), {"net.w1": ((0,), ()), "encoder.w": ((), (), (0,))}),
    "1": None,
}
MOVES = [(source, target) for source in CLUSTERS for target in CLUSTERS if source != target]
moves = pytest.mark.parametrize(("source", "target"), MOVES)


def size_of(cluster):
    return 1 if cluster is None else next(iter(cluster.values())).devices.size


def slices(cluster, rank):
    """Return what NumPy cuts out for a rank."""
    if cluster is None:
        return WHOLE | EXTRA
    cut = {}
    for name, layout in cluster.items():
        box = layout.box(rank)
        cut[name] = WHOLE[name][tuple(slice(*pair) for pair in zip(box.start, box.stop, strict=True))]
    return cut | EXTRA


def write_cluster(folder, cluster):
    """Write strategy file and checkpoints; return their paths, the strategy's None where there is one device."""
    for rank in range(size_of(cluster)):
        state = {name: np.ascontiguousarray(part) for name, part in slices(cluster, rank).items()}
        (folder / f"rank_{rank}").mkdir(parents=True)
        write_mindspore_checkpoint(folder / f"rank_{rank}" / "net-1_77.ckpt", infos_of(state), state.items(), {})
    return write_cluster_strategy(folder.with_suffix(".ckpt"), cluster), folder


def write_cluster_strategy(path, cluster):
    if cluster is None:
        return None
    write_strategy(path, StrategyRecord.of(cluster, {"MatMul_net.w1": ((1, 1), (1, 4))}))
    return str(path)


def read_cluster(folder, prefix, count):
    found = []
    for rank in range(count):
        with open_mindspore_checkpoint(folder / f"rank_{rank}" / f"{prefix}{rank}.ckpt") as file:
            found.append({name: read_array(file, name) for name in file.arrays})
    return found


def assert_equal(found, expected):
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def plain(item):
    """Return the numbers that a message of MindSpore holds."""
    dims = {
        name: [list(entry.dim) for entry in getattr(item, name)]
        for name in ("dev_matrix", "tensor_map", "param_split_shape", "indices_offset")
    }
    return dims | {name: getattr(item, name) for name in ("field", "opt_weight_shard_step", "opt_weight_shard_size")}


@pytest.mark.parametrize("suffix", [".ckpt", ".json"])
@pytest.mark.parametrize("cluster", [name for name, layout in CLUSTERS.items() if layout])
def test_mindspore_reads_the_layouts_of_strategy_files(cluster, suffix, tmp_path):
    path = tmp_path / f"strategy{suffix}"
    write_cluster_strategy(path, CLUSTERS[cluster])
    found, ours = theirs.build_searched_strategy(str(path)), build_searched_strategy(str(path))
    assert sorted(found) == sorted(ours) == sorted(SHAPES)
    for name, layout in CLUSTERS[cluster].items():
        devices = layout.devices.shape
        right = [len(devices) - 1 - axes[0] if axes else -1 for axes in layout.tensor_map]
        expected = {
            "dev_matrix": [list(devices)],
            "tensor_map": [right],
            "field": 0,
            "opt_weight_shard_step": ours[name].opt_weight_shard_step,
            "opt_weight_shard_size": ours[name].opt_weight_shard_size,
        }
        found_item = plain(found[name])
        assert {key: found_item[key] for key in expected} == expected


@pytest.mark.parametrize("ranks", [[0, 4], [3], []])
def test_mindspore_reads_the_restore_ranks_of_group_files(ranks, tmp_path):
    path = tmp_path / "group_info.pb"
    write_group_info(path, [(0, 1, 2, 3), (0, 4)], ranks)
    assert theirs.restore_group_info_list(str(path)) == restore_group_info_list(str(path)) == ranks


@moves
def test_transforms_of_both_give_what_numpy_cuts(source, target, tmp_path):
    count = size_of(CLUSTERS[target])
    strategy, folder = write_cluster(tmp_path / "source", CLUSTERS[source])
    aim = write_cluster_strategy(tmp_path / "target.ckpt", CLUSTERS[target])
    theirs.transform_checkpoints(str(folder), str(tmp_path / "theirs"), "new", strategy, aim)
    transform_checkpoints(str(folder), str(tmp_path / "ours"), "new", strategy, aim)
    for rank, (of_theirs, of_ours) in enumerate(
        zip(read_cluster(tmp_path / "theirs", "new", count), read_cluster(tmp_path / "ours", "new", count), strict=True)
    ):
        expected = slices(CLUSTERS[target], rank)
        assert_equal(of_ours, expected)
        assert_equal(of_theirs, expected)


@moves
def test_rank_lists_of_both_suffice_for_both(source, target, tmp_path):
    strategy, folder = write_cluster(tmp_path / "source", CLUSTERS[source])
    aim = write_cluster_strategy(tmp_path / "target.ckpt", CLUSTERS[target])
    for rank in range(size_of(CLUSTERS[target])):
        long = [int(other) for other in theirs.rank_list_for_transform(rank, strategy, aim)]
        short = rank_list_for_transform(rank, strategy, aim)
        assert len(short) <= len(long)
        files = {other: str(folder / f"rank_{other}" / "net-1_77.ckpt") for other in long}
        (tmp_path / f"{rank}").mkdir()
        transform_checkpoint_by_rank(rank, files, str(tmp_path / f"{rank}" / "ours.ckpt"), strategy, aim)
        theirs.transform_checkpoint_by_rank(rank, files, str(tmp_path / f"{rank}" / "theirs.ckpt"), strategy, aim)
        files = {other: files.get(other, str(folder / f"rank_{other}" / "net-1_77.ckpt")) for other in short}
        transform_checkpoint_by_rank(rank, files, str(tmp_path / f"{rank}" / "short.ckpt"), strategy, aim)
        for name in ("ours", "theirs", "short"):
            with open_mindspore_checkpoint(tmp_path / f"{rank}" / f"{name}.ckpt") as file:
                assert_equal({key: read_array(file, key) for key in file.arrays}, slices(CLUSTERS[target], rank))


def test_mindspore_reads_the_layouts_of_a_network_whose_biases_and_statistics_are_cut(tmp_path):
    path = tmp_path / "strategy.ckpt"
    build(Network(cut=True), strategy_ckpt_save_file=str(path))
    found, ours = theirs.build_searched_strategy(str(path)), read_strategy(path)
    assert sorted(found) == sorted(ours.layouts)
    for name in ("conv.bias", "dense.bias", "norm.gamma", "norm.moving_mean", "norm.moving_variance"):
        assert plain(found[name])["dev_matrix"] == [[2, 4]]
        assert plain(found[name])["tensor_map"] == [[0]]
    message = node_strategy_pb2.ParallelStrategyMap()
    message.ParseFromString(path.read_bytes())
    cuts = {
        item.node_name: tuple(tuple(cut.dim) for cut in item.parallel_strategys.parallel_strategy)
        for item in message.parallel_strategy_item
    }
    assert cuts == WRITTEN


@pytest.mark.parametrize(("rank", "expected"), [(0, [4, 0]), (1, [5, 1]), (2, [6, 2]), (3, [7, 3])])
def test_rank_lists_of_optimizer_shards_are_mindspores(rank, expected, tmp_path):
    source = write_cluster_strategy(tmp_path / "source.ckpt", CLUSTERS["8, dp2 mp4, optimizer shards"])
    target = write_cluster_strategy(tmp_path / "target.ckpt", CLUSTERS["4, mp4"])
    assert list(theirs.rank_list_for_transform(rank, source, target)) == expected
    assert rank_list_for_transform(rank, source, target) == expected


@pytest.mark.parametrize("cluster", ["8, cut on both axes", "4, mp4", "2, rows"])
def test_slices_merged_by_both_are_the_whole(cluster, tmp_path):
    path = write_cluster_strategy(tmp_path / "strategy.ckpt", CLUSTERS[cluster])
    for name in SHAPES:
        parts = [slices(CLUSTERS[cluster], rank)[name] for rank in range(size_of(CLUSTERS[cluster]))]
        parameters = [mindspore.Parameter(mindspore.Tensor(part), name=name) for part in parts]
        merged = theirs.merge_sliced_parameter(parameters, theirs.build_searched_strategy(path))
        np.testing.assert_array_equal(merged.asnumpy(), WHOLE[name])
        np.testing.assert_array_equal(merge_slices(parts, build_searched_strategy(path)[name]), WHOLE[name])


def stage_files(folder):
    """Write the strategy files and checkpoints of two stages of four ranks, two parameters each."""
    folder.mkdir()
    stages = [("net.w1", "bias"), ("net.w2", "scale")]
    for stage, names in enumerate(stages):
        cluster = {name: MODEL_PARALLEL_4[name] for name in names}
        record = StrategyRecord.of(cluster, {f"MatMul_{names[0]}": ((1, 1), (1, 4))}, stage=stage)
        write_strategy(folder / f"stage{stage}.ckpt", record)
        for rank in range(4):
            state = {name: np.ascontiguousarray(slices(cluster, rank)[name]) for name in names}
            path = folder.with_name("source") / f"rank_{4 * stage + rank}"
            path.mkdir(parents=True)
            write_mindspore_checkpoint(path / "net-1_77.ckpt", infos_of(state), state.items(), {})
    return sorted(name for names in stages for name in names)


def test_merged_pipeline_strategies_are_alike_and_both_transform_by_them(tmp_path):
    names = stage_files(tmp_path / "stages")
    merge_pipeline_strategys(str(tmp_path / "stages"), str(tmp_path / "ours.ckpt"))
    theirs.merge_pipeline_strategys(str(tmp_path / "stages"), str(tmp_path / "theirs.ckpt"))
    ours, others = read_strategy(tmp_path / "ours.ckpt"), read_strategy(tmp_path / "theirs.ckpt")
    assert ours.layouts == others.layouts
    assert ours.current_stage == others.current_stage
    target = {name: CLUSTERS["2, rows"][name] for name in names}
    aim = write_cluster_strategy(tmp_path / "target.ckpt", target)
    for name, transform, strategy in (
        ("theirs of ours", theirs.transform_checkpoints, "ours.ckpt"),
        ("ours of theirs", transform_checkpoints, "theirs.ckpt"),
    ):
        transform(str(tmp_path / "source"), str(tmp_path / name), "new", str(tmp_path / strategy), aim)
        for rank, found in enumerate(read_cluster(tmp_path / name, "new", 2)):
            expected = slices(target, rank)
            assert_equal(found, {key: expected[key] for key in names})
