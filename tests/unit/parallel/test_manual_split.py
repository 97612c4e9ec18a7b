"""A table that is cut into uneven slices of rows by hand, with the fields that look into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.checkpoint.manifest_entries import saved_layout_from_json, saved_layout_to_json
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, LayoutError, ShapeError, StrategyError
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.strategies.strategy_files import strategy_record

ROWS = (1, 7, 8, 8, 8, 8, 8, 16)
STARTS = (0, 1, 8, 16, 24, 32, 40, 48)
PARTS = list(zip(STARTS, ROWS, strict=True))
TABLE = np.random.default_rng(1).normal(size=(64, 3))
FIELDS = np.stack([np.random.default_rng(k).integers(s, s + n, 5) for k, (s, n) in enumerate(PARTS)], 1)


class Fields(nn.Cell):
    def __init__(self, strategy: Any, rows: tuple[int, ...] = ROWS, decay: float = 0.0) -> None:
        super().__init__()
        self.table = ms.Parameter(TABLE, "table")
        self.gather = ops.Gather().add_prim_attr("manual_split", rows).shard(strategy)
        self.decay = decay

    def construct(self, indices: Any) -> Any:
        loss = ops.tanh(self.gather(self.table, indices, 0)).sum()
        return loss + self.decay * (self.table * self.table).sum() if self.decay else loss


def trained(w: Any, decay: float) -> tuple[list[float], Any]:
    losses, moment = [], np.zeros_like(w)
    for _ in range(3):
        losses.append(np.tanh(w[FIELDS]).sum() + decay * (w * w).sum())
        gradient = 2 * decay * w
        np.add.at(gradient, FIELDS, 1 - np.tanh(w[FIELDS]) ** 2)
        moment = 0.875 * moment + gradient
        w = w - 0.125 * moment
    return losses, w


def train(communicator: Any, strategy: Any, decay: float) -> Any:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = Fields(strategy, decay=decay)
    step = nn.TrainOneStepCell(network, nn.Momentum([network.table], 0.125, 0.875)).set_train()
    losses = [float(step(ms.Tensor(FIELDS.astype(np.int32))).asnumpy()) for _ in range(3)]
    box = network.table.box
    return losses, box.start[0], box.stop[0], network.table.asnumpy()


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize(("ranks", "strategy"), [(1, None), (8, ((8, 1), (1, 8))), (8, ((1, 1), (8, 1)))])
def test_a_training_is_that_of_numpy(ranks: int, strategy: Any, decay: float) -> None:
    losses, table = trained(TABLE, decay)
    strategy = strategy or ((1, 1), (1, 1))
    for rank, (found, start, stop, held) in enumerate(run_world(ranks, train, strategy, decay)):
        np.testing.assert_allclose(found, losses, rtol=1e-10)
        np.testing.assert_allclose(held, table[start:stop], rtol=1e-10, atol=1e-12)
        if strategy[0][0] == 8:
            assert (start, stop) == (STARTS[rank], STARTS[rank] + ROWS[rank])


def sharded(strategy: Any, rows: tuple[int, ...] = ROWS) -> Any:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8, global_rank=0, full_batch=True)
    return Fields(strategy, rows).sharded_graph(FIELDS.astype(np.int32))


def test_the_strategy_file_says_the_rows_and_offsets_as_mindspore_writes_them() -> None:
    graph = sharded(((8, 1), (1, 8)))
    item = strategy_record(StagedGraph((graph,)), ParallelConfiguration(device_num=8)).layouts["table"]
    assert (item.device_matrix, item.tensor_map) == ((8,), ((0,), ()))
    assert (item.param_split_shape, item.indices_offset) == (ROWS, STARTS)
    assert saved_layout_from_json(saved_layout_to_json(graph.stored["table"])) == graph.stored["table"]


def test_no_rank_needs_rows_of_another() -> None:
    nodes = local_graph(sharded(((8, 1), (1, 8))), 3).nodes
    assert not [node.name for node in nodes if node.operator.kind == "communication" and "table" in node.name]


def test_bounds_that_leave_rows_out_are_no_layout_of_a_checkpoint() -> None:
    entry = saved_layout_to_json(sharded(((8, 1), (1, 8))).stored["table"])
    entry["bounds"][0][3] = [17, 24]
    with pytest.raises(LayoutError, match="do not lie side by side"):
        saved_layout_from_json(entry)


def misplaced(communicator: Any) -> None:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    indices = np.array(FIELDS[:, ::-1], np.int32)
    network = Fields(((8, 1), (1, 8)))
    with pytest.raises(ShapeError, match=r"to which manual_split gives rows \d+ to \d+; give it indices of these"):
        network(ms.Tensor(indices))


def test_an_index_in_another_fields_rows_is_refused() -> None:
    run_world(8, misplaced)


@pytest.mark.parametrize(
    ("build", "error", "said"),
    [
        (lambda: sharded(((4, 1), (1, 4))), StrategyError, "split by hand into 8 parts, but is cut 4 ways"),
        (lambda: sharded(((8, 1), (8, 1))), StrategyError, "must be cut alike"),
        (lambda: sharded(((8, 1), (1, 8)), (1, 7)), ShapeError, "has 8 rows, the table 64"),
        (lambda: Fields(None, (1, 0)), ConfigurationError, "must be numbers of rows of at least 1"),
        (
            lambda: ops.Gather().add_prim_attr("manual_split_with_offset", ((2, 0), (3, 5))),
            ConfigurationError,
            "each offset must be the sum of the rows before it",
        ),
    ],
)
def test_a_split_that_does_not_fit_is_refused(build: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        build()


def test_a_split_may_name_the_offsets_too() -> None:
    gather = ops.Gather().add_prim_attr("manual_split_with_offset", ((2, 0), (3, 2)))
    assert gather.manual_split == (2, 3)


def saved(communicator: Any, folder: str) -> Any:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = Fields(((8, 1), (1, 8)))
    model = ms.Model(network, optimizer=nn.Momentum([network.table], 0.125, 0.875))
    data = NumpySlicesDataset({"x": FIELDS.astype(np.int32)}, shuffle=False).batch(5)
    saver = ModelCheckpoint("fields", folder, CheckpointConfig(save_checkpoint_steps=1))
    model.train(3, data, saver)
    return ms.load_checkpoint(saver.last_checkpoint)["table"].asnumpy()


def loaded_evenly(communicator: Any, folder: str) -> Any:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = Fields(((1, 1), (1, 1)))
    network.gather = ops.Gather().shard(((4, 1), (1, 1)))
    ms.load_distributed_checkpoint(network, folder)
    network(ms.Tensor(FIELDS.astype(np.int32)))
    return network.table.box.start[0], network.table.asnumpy()


def test_slices_are_saved_and_loaded_under_an_even_cut(tmp_path: Path) -> None:
    _, table = trained(TABLE, 0.0)
    found = run_world(8, saved, str(tmp_path))
    np.testing.assert_allclose(np.concatenate(found), table, rtol=1e-10, atol=1e-12)
    for start, held in run_world(4, loaded_evenly, str(tmp_path)):
        np.testing.assert_allclose(held, table[start : start + 16], rtol=1e-10, atol=1e-12)


def test_other_attributes_change_nothing_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    gather = ops.Gather()
    assert gather.add_prim_attr("primitive_target", "CPU") is gather
    assert "has no effect here" in caplog.text
    assert gather.manual_split == ()
