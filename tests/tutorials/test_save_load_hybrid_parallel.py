"""Saving and loading in hybrid parallel: trained on 4 ranks, integrated, divided and trained on by 2."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mpiparallel as ms
from tests.conformance.mpi_launcher import interpreters, library
from tests.tutorials.reader import Reader, losses

pytestmark = pytest.mark.mpi
listings = partial(pytest.mark.tutorial, "save_load_hybrid_parallel")

NETWORK = """
import numpy as np
from mpiparallel import Model, Parameter, Tensor, context, nn, ops
from mpiparallel.communication import get_group_size, get_rank, init
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train.callback import CheckpointConfig, LossMonitor, ModelCheckpoint

class Net(nn.Cell):
    def __init__(self, weight=np.ones((2, 8), np.float32)):
        super().__init__()
        self.weight = Parameter(Tensor(weight), layerwise_parallel=True)
        self.fc = ops.MatMul(transpose_b=True)

    def construct(self, x):
        return self.fc(x, self.weight)

def batches(seed, count):
    x = np.random.default_rng(seed).normal(size=(4 * count, 8)).astype(np.float32)
    label = x @ np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32).T
    own = np.array_split(label, get_group_size(), axis=1)[get_rank()]
    return NumpySlicesDataset((x, own), ["x", "label"], shuffle=False).batch(4)
"""
STAGE_1 = """
init()
context.set_auto_parallel_context(parallel_mode="hybrid_parallel", strategy_ckpt_save_file="./strategy_train.ckpt")
weight = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)
net = Net(np.split(weight, 4)[get_rank()])
model = Model(net, nn.MSELoss(), nn.Momentum(learning_rate=0.01, momentum=0.9, params=net.get_parameters()))
config = CheckpointConfig(save_checkpoint_steps=32, keep_checkpoint_max=5, integrated_save=False)
saved = ModelCheckpoint(prefix="CKP_1", directory="./node" + str(get_rank()), config=config)
model.train(4, batches(2, 32), callbacks=[LossMonitor(32), saved])
np.save(f"stage_1_{get_rank()}.npy", [net.weight.asnumpy(), model.train_network.optimizer.moments[0].asnumpy()])
"""
TRAIN = """
def train(net, opt, input, label):
    rank = get_rank()
    np.save(f"loaded_{rank}.npy", [net.weight.asnumpy(), opt.moments[0].asnumpy()])
    model = Model(net, nn.MSELoss(), opt)
    model.train(2, batches(2, 32), callbacks=[LossMonitor(32)])
    np.save(f"stage_2_{rank}.npy", [net.weight.asnumpy(), opt.moments[0].asnumpy()])
"""
LOOK = 'np.save(f"listed_{get_rank()}.npy", [net.weight.asnumpy(), opt.moments[0].asnumpy()])\n'


def stacked(folder: Path, name: str, ranks: int) -> np.ndarray:
    """The weight and its moments, whole, of the rows that each rank has left in a file."""
    return np.concatenate([np.load(folder / f"{name}_{rank}.npy") for rank in range(ranks)], axis=1)


@pytest.fixture(scope="module", params=interpreters(), ids=library)
def python(request: pytest.FixtureRequest) -> Path:
    """The interpreter of each MPI library."""
    found: Path = request.param
    return found


@listings()
def test_stage_1_trains_on_four_ranks_with_a_folder_for_each(reader: Reader) -> None:
    reader.types("stage_1.py", NETWORK, STAGE_1)
    told = losses(reader.runs(4, "stage_1.py"))
    assert told[-1] < told[0]
    assert (reader.folder / "strategy_train.ckpt").exists()
    assert [path.name for path in sorted(reader.folder.glob("node*"))] == ["node0", "node1", "node2", "node3"]


@listings("import_checkpoints", "strategy", "sliced_parameters", "merge", "param_list", "save")
def test_the_slices_of_four_ranks_are_merged_and_saved(reader: Reader) -> None:
    names = ["import_checkpoints", "strategy", "sliced_parameters", "merge", "param_list", "save"]
    reader.types("merge.py", NETWORK, *map(reader.listing, names))
    reader.runs(0, "merge.py")
    whole = stacked(reader.folder, "stage_1", 4)
    saved = ms.load_checkpoint(str(reader.folder / "CKP-Integrated_1-4_32.ckpt"))
    np.testing.assert_array_equal(saved["weight"].asnumpy(), whole[0])


@listings("run_integrate", "integrate_checkpoint")
def test_the_integration_script_saves_weights_and_moments_whole(reader: Reader) -> None:
    (reader.folder / "CKP-Integrated_1-4_32.ckpt").unlink(missing_ok=True)
    reader.types("integrate_checkpoint.py", reader.listing("integrate_checkpoint"))
    reader.commands(reader.listing("run_integrate"), 0)
    whole = stacked(reader.folder, "stage_1", 4)
    saved = ms.load_checkpoint(str(reader.folder / "CKP-Integrated_1-4_32.ckpt"))
    np.testing.assert_array_equal(saved["weight"].asnumpy(), whole[0])
    np.testing.assert_array_equal(saved["moments.weight"].asnumpy(), whole[1])


@listings("load", "divide", "slices_of_rank", "set_data", "load_into_net")
def test_two_ranks_load_their_halves(reader: Reader) -> None:
    steps = ["load", "divide", "slices_of_rank", "set_data", "load_into_net"]
    reader.types("divide.py", NETWORK.replace("(2, 8)", "(4, 8)"), "init()", *map(reader.listing, steps), LOOK)
    reader.runs(2, "divide.py")
    np.testing.assert_array_equal(stacked(reader.folder, "listed", 2), stacked(reader.folder, "stage_1", 4))


@listings("stage_2")
def test_stage_2_goes_on_with_two_ranks_where_four_stopped(reader: Reader) -> None:
    reader.types("stage_2.py", NETWORK, TRAIN, reader.listing("stage_2"))
    told = losses(reader.runs(2, "stage_2.py", "./CKP-Integrated_1-4_32.ckpt", DEVICE_ID=0))
    np.testing.assert_array_equal(stacked(reader.folder, "loaded", 2), stacked(reader.folder, "stage_1", 4))
    assert told[-1] < told[0]
