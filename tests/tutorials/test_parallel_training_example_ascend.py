"""ResNet: dataset, networks and loss of the tutorial, trained on real ranks, saved and loaded in each mode."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel.cluster.rank_table import RankTable
from tests.conformance.made_up_data import write_images
from tests.tutorials.reader import Reader, losses
from tests.tutorials.resnet_in_auto_parallel import LISTINGS, RESNET, types_resnet_in_auto_parallel

pytestmark = pytest.mark.mpi
listings = partial(pytest.mark.tutorial, "parallel_training_example_ascend")

SEMI_AUTO = """
from mpiparallel import Model, context
from mpiparallel.communication import get_rank, init
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train.callback import CheckpointConfig, LossMonitor, ModelCheckpoint
import mpiparallel as ms
init()
ms.set_seed(1)
context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
x = np.random.default_rng(1).normal(size=(16, 512)).astype(np.float32) / 512
"""
TRAIN_SEMI_AUTO = """
model = Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.1, 0.9))
data = NumpySlicesDataset((x, x.sum(1)), ["x", "label"], shuffle=False).batch(4)
model.train(2, data, callbacks=[LossMonitor(), ckpt_callback])
np.save(f"trained_{get_rank()}.npy", net.weight.asnumpy())
"""
SUM_OF_RANKS = """
import numpy as np
from mpiparallel import Tensor, ops
from mpiparallel.communication import get_group_size, get_rank, init
init()

def test_sum():
    total = ops.AllReduce()(Tensor(np.full(1, get_rank(), np.float32))).asnumpy()
    print(f"rank {get_rank()} of {get_group_size()} has the sum {int(total[0])}", flush=True)
"""
RESNET_CUT = """
import glob
import numpy as np
from mpiparallel.communication import get_group_size, get_rank
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.models.resnet import ResNet

def ResNet50():
    net = ResNet((1, 1), 8, widths=(8, 16))
    net.dense.matmul.shard(((1, 1), (get_group_size(), 1)))
    return net

def create_custom_dataset():
    labels = (np.arange(32) % 8).astype(np.int32)
    images = np.random.default_rng(1).normal(size=(32, 3, 16, 16)).astype(np.float32) + labels[:, None, None, None]
    return NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(8)

def create_ckpt_file_list():
    return [f"./cut_{rank}/resnet-2_4.ckpt" for rank in range(4)]

def look(model):
    weight = {one.name: one for one in model.train_network.get_parameters()}["dense.weight"]
    np.save(f"cut_{get_group_size()}_{get_rank()}.npy", weight.asnumpy())
"""
TRAIN_CUT = """
import mpiparallel as ms
from mpiparallel import Model, context
from mpiparallel.nn import Momentum, SoftmaxCrossEntropyWithLogits
from mpiparallel.communication import init
from mpiparallel.train.callback import CheckpointConfig, LossMonitor, ModelCheckpoint
init()
ms.set_seed(1)
context.set_auto_parallel_context(
    full_batch=True, parallel_mode="semi_auto_parallel", strategy_ckpt_save_file="./train_strategy.ckpt"
)
net = ResNet50()
loss = SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
model = Model(net, loss, Momentum(net.trainable_params(), 0.01, 0.9))
config = CheckpointConfig(save_checkpoint_steps=4, integrated_save=False)
saved = ModelCheckpoint(prefix="resnet", directory="./cut_" + str(get_rank()), config=config)
model.train(2, create_custom_dataset(), callbacks=[LossMonitor(), saved])
look(model)
"""


def of_ranks(folder: Path, name: str, ranks: int) -> list[np.ndarray]:
    return [np.load(folder / f"{name}_{rank}.npy") for rank in range(ranks)]


@pytest.fixture(scope="module")
def images(folder: Path) -> Path:
    """The archive, of 48 images."""
    return write_images(folder / "cifar-10-batches-bin")


@listings("rank_table_8pcs", "rank_table_16pcs")
@pytest.mark.parametrize("count", [8, 16])
def test_the_rank_tables_tell_their_ranks(reader: Reader, count: int) -> None:
    table = RankTable.load(reader.types(f"rank_table_{count}pcs.json", reader.listing(f"rank_table_{count}pcs")))
    assert table.rank_count == count
    assert [table.device_of(rank).device_id for rank in range(8)] == list(range(8))


@listings("init")
def test_init_gives_each_process_its_rank(reader: Reader) -> None:
    tell = "from mpiparallel.communication import get_group_size, get_rank\nprint('rank', get_rank(), get_group_size())"
    reader.types("init.py", reader.listing("init"), tell)
    output = reader.runs(2, "init.py", DEVICE_ID=0)
    assert sorted(re.findall(r"rank (\d) 2", output)) == ["0", "1"]


@listings("create_dataset")
def test_the_dataset_gives_each_rank_its_half_of_the_images(reader: Reader, images: Path) -> None:
    look = f"""
import numpy as np
from mpiparallel.communication import init
init()
rows = list(create_dataset({str(images)!r}).create_dict_iterator(output_numpy=True))
np.savez(f"data_{{get_rank()}}.npz", image=[row["image"] for row in rows], label=[row["label"] for row in rows])
"""
    reader.types("create_dataset.py", reader.listing("create_dataset", "few"), look)
    reader.runs(2, "create_dataset.py")
    halves = [np.load(reader.folder / f"data_{rank}.npz") for rank in range(2)]
    assert [half["image"].shape for half in halves] == [(6, 4, 3, 224, 224)] * 2
    assert all(half["label"].dtype == np.int32 for half in halves)
    given = sorted(int(label) for half in halves for label in half["label"].ravel())
    stored = b"".join(path.read_bytes() for path in sorted(images.glob("*.bin")))
    assert given == sorted(stored[:: 1 + 3 * 32 * 32])


@listings("hybrid_net")
def test_the_hybrid_network_adds_up_over_the_ranks(reader: Reader) -> None:
    look = """
from mpiparallel import context
from mpiparallel.communication import get_rank, init
init()
context.set_auto_parallel_context(parallel_mode="hybrid_parallel")
np.random.seed(get_rank())
net = HybridParallelNet()
x = np.random.default_rng(0).normal(size=(4, 512)).astype(np.float32)
np.savez(f"hybrid_{get_rank()}.npz", x=x, weight=net.weight.asnumpy(), y=net(Tensor(x)).asnumpy())
"""
    reader.types("hybrid_net.py", reader.listing("hybrid_net"), look)
    reader.runs(2, "hybrid_net.py")
    parts = [np.load(reader.folder / f"hybrid_{rank}.npz") for rank in range(2)]
    weight = np.concatenate([part["weight"] for part in parts], axis=1)
    assert weight.shape == (512, 128)
    for part in parts:
        np.testing.assert_allclose(part["y"], (part["x"] @ weight).sum(-1), rtol=1e-4, atol=1e-2)


@listings("semi_auto_net")
def test_the_semi_auto_network_gives_what_one_device_would(reader: Reader) -> None:
    look = "net = SemiAutoParallelNet()\nwhole = net.weight.asnumpy()\ny = net(Tensor(x)).asnumpy()\n"
    save = "np.savez(f'semi_{get_rank()}.npz', whole=whole, y=y, part=net.weight.asnumpy())"
    begin = SEMI_AUTO + "np.random.seed(1)\n"
    reader.types("semi_auto_net.py", reader.listing("semi_auto_net"), begin, look, save)
    reader.runs(2, "semi_auto_net.py")
    x = np.random.default_rng(1).normal(size=(16, 512)).astype(np.float32) / 512
    for rank in range(2):
        found = np.load(reader.folder / f"semi_{rank}.npz")
        assert found["whole"].shape == (512, 128)
        np.testing.assert_allclose(found["y"], (x @ found["whole"]).sum(-1), rtol=1e-4, atol=1e-4)


@listings("loss")
def test_the_loss_of_small_operators_is_the_cross_entropy(reader: Reader) -> None:
    look = """
import numpy as np
draw = np.random.default_rng(0)
logit, label = draw.normal(size=(6, 10)).astype(np.float32), draw.integers(0, 10, 6).astype(np.int32)
found = SoftmaxCrossEntropyExpand(sparse=True)(Tensor(logit), Tensor(label)).asnumpy()
logarithm = logit - np.log(np.exp(logit).sum(-1, keepdims=True))
np.testing.assert_allclose(found, -logarithm[np.arange(6), label].mean(), rtol=1e-5)
print("equal")
"""
    reader.types("loss.py", reader.listing("loss"), look)
    assert "equal" in reader.runs(0, "loss.py")


@listings(*LISTINGS)
def test_training_in_auto_parallel_brings_the_loss_down(reader: Reader, images: Path) -> None:
    program = types_resnet_in_auto_parallel(reader)
    output = reader.runs(2, program.name, DEVICE_ID=0, DATA_PATH=images)
    assert "auto_parallel: recursive_programming found strategies" in output
    told = losses(output)
    assert np.mean(told[-4:]) < np.mean(told[:4])


@listings("create_dataset", "loss", "train", "data_parallel")
def test_training_in_data_parallel_brings_the_loss_down(reader: Reader, images: Path) -> None:
    reader.types("resnet.py", RESNET)
    train = reader.listing("train", "few", "data parallel")
    assert reader.listing("data_parallel").strip() in train
    parts = [reader.listing("create_dataset", "few"), reader.listing("loss"), train]
    reader.types("data_parallel.py", *parts, "test_train_cifar()")
    told = losses(reader.runs(2, "data_parallel.py", DEVICE_ID=0, DATA_PATH=images))
    assert np.mean(told[-4:]) < np.mean(told[:4])


@listings("create_dataset", "loss", "train", "run_sh")
def test_run_sh_starts_eight_ranks_with_a_folder_each(reader: Reader, images: Path) -> None:
    reader.types("resnet.py", RESNET)
    parts = [reader.listing("create_dataset", "few"), reader.listing("loss")]
    reader.types("resnet50_distributed_training.py", *parts, reader.listing("train", "few", "data parallel"))
    reader.types("run.sh", reader.listing("run_sh"))
    output = reader.commands(f"bash run.sh {images} 8", 8)
    assert "training success" in output
    told = []
    for rank in range(8):
        told.append(losses((reader.folder / f"device{rank}" / f"train.log{rank}").read_text()))
        assert f"RANK_ID={rank}\n" in (reader.folder / f"device{rank}" / f"env{rank}.log").read_text()
    begin, _, end = np.mean(told, axis=0)
    assert end < begin


@listings("rank_table_16pcs", "run_cluster_sh", "run_two_servers")
def test_run_cluster_sh_makes_one_job_of_the_processes_of_two_servers(reader: Reader, images: Path) -> None:
    table = reader.types("rank_table.json", reader.listing("rank_table_16pcs"))
    commands = [line for line in reader.listing("run_two_servers").splitlines() if line.startswith("bash")]
    started = ""
    for server, command in enumerate(commands):
        reader.types(f"server{server}/run_cluster.sh", reader.listing("run_cluster_sh"))
        reader.types(f"server{server}/resnet50_distributed_training.py", SUM_OF_RANKS)
        given = command.replace("/path/dataset", str(images)).replace("/path/rank_table.json", str(table))
        started += f"(cd server{server} && {given})\n"
    # Both hosts are this one, and the commands are given in one session of it.
    reader.commands(started, 16)
    for rank in range(16):
        text = (reader.folder / f"server{rank // 8}/device_{rank}/train{rank}.log").read_text()
        assert f"rank {rank} of 16 has the sum {sum(range(16))}" in text


@listings("create_dataset", "loss", "train", "train_and_save")
def test_each_rank_saves_in_its_folder(reader: Reader, images: Path) -> None:
    parts = [reader.listing("create_dataset", "few"), reader.listing("loss"), reader.listing("train", "few")]
    save = reader.listing("train_and_save", "few", "data parallel")
    reader.types("save.py", *parts, "from mpiparallel.communication import get_rank", save, "test_train_cifar()")
    reader.runs(2, "save.py", DEVICE_ID=0, DATA_PATH=images)
    saved = [ms.load_checkpoint(str(reader.folder / f"ckpt_{rank}/auto_parallel-3_6.ckpt")) for rank in range(2)]
    assert len(saved[0]) > 20
    for name in saved[0]:
        if "moving" not in name:
            np.testing.assert_array_equal(saved[0][name].asnumpy(), saved[1][name].asnumpy())


@listings("load")
def test_what_was_saved_is_loaded(reader: Reader) -> None:
    look = "print('not loaded:', load_param_into_net(net, param_dict))\n"
    compare = "assert all((one.asnumpy() == param_dict[one.name].asnumpy()).all() for one in net.get_parameters())\n"
    reader.types("load.py", "from resnet import resnet50", reader.listing("load"), look, compare)
    assert "not loaded: ([], " in reader.runs(0, "load.py")


@listings("load_distributed")
def test_slices_of_four_ranks_are_trained_on_by_two(reader: Reader) -> None:
    reader.types("train_cut.py", RESNET_CUT, TRAIN_CUT)
    before = losses(reader.runs(4, "train_cut.py"))
    reader.types("load_distributed.py", RESNET_CUT, reader.listing("load_distributed", "look"))
    reader.runs(2, "load_distributed.py")
    whole = np.concatenate(of_ranks(reader.folder, "cut_4", 4))
    np.testing.assert_array_equal(np.concatenate(of_ranks(reader.folder, "cut_2", 2)), whole)
    assert whole.shape == (8, 16)
    assert before[-1] < before[0]


@listings("semi_auto_net", "save_semi_auto", "load_semi_auto")
def test_semi_auto_parallel_saves_whole_weights_and_loads_them(reader: Reader) -> None:
    network = reader.listing("semi_auto_net")
    reader.types("save_semi_auto.py", network, SEMI_AUTO, reader.listing("save_semi_auto"), TRAIN_SEMI_AUTO)
    told = losses(reader.runs(2, "save_semi_auto.py"))
    assert told[-1] < told[0]
    look = "np.save(f'loaded_{get_rank()}.npy', net.weight.asnumpy())"
    reader.types("load_semi_auto.py", network, SEMI_AUTO, reader.listing("load_semi_auto"), look)
    reader.runs(2, "load_semi_auto.py")
    trained = np.concatenate(of_ranks(reader.folder, "trained", 2), axis=1)
    assert trained.shape == (512, 128)
    for loaded in of_ranks(reader.folder, "loaded", 2):
        np.testing.assert_array_equal(loaded, trained)


@listings("semi_auto_net", "integrated_save", "sliced_save")
@pytest.mark.parametrize(("name", "columns"), [("integrated_save", 128), ("sliced_save", 64)])
def test_a_checkpoint_has_whole_weights_or_a_slice_of_each_rank(reader: Reader, name: str, columns: int) -> None:
    folder = f"f'./{name}_{{get_rank()}}'"
    saved = f"net = SemiAutoParallelNet()\nckpt_callback = ModelCheckpoint('{name}', {folder}, ckpt_config)"
    reader.types(f"{name}.py", reader.listing("semi_auto_net"), SEMI_AUTO, reader.listing(name), saved, TRAIN_SEMI_AUTO)
    reader.runs(2, f"{name}.py")
    trained = of_ranks(reader.folder, "trained", 2)
    wanted = trained if columns == 64 else [np.concatenate(trained, axis=1)]
    for rank, whole in enumerate(wanted):
        weight = ms.load_checkpoint(str(reader.folder / f"{name}_{rank}/{name}-2_4.ckpt"))["weight"].asnumpy()
        assert weight.shape == (512, columns)
        np.testing.assert_array_equal(weight, whole)
