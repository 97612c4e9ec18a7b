"""The tutorial of hybrid parallel: slices of four devices, merged into one file, then loaded on two."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from mpiparallel import Model, Parameter, Tensor, context, nn, ops
from mpiparallel.checkpoint.strategy.strategy_file import build_searched_strategy, write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem, StrategyRecord
from mpiparallel.communication import get_rank
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.parameter_files.distributed_checkpoint import merge_sliced_parameter
from mpiparallel.train.serialization import load_checkpoint, load_param_into_net, save_checkpoint


def slices(text):
    """Return the slices of four devices, two rows each, from the tutorial's print."""
    return np.array(text.split(), np.float32).reshape(4, 2, 8)


WEIGHT = slices("""
0.87537426 1.0448935 0.86736983 0.8836905 0.77354026 0.69588304 0.9183654 0.7792076
0.87224025 0.8726848 0.771446 0.81967723 0.88974726 0.7988162 0.72919345 0.7677011
0.9210751 0.9050457 0.9827775 0.920396 0.9240526 0.9750359 1.0275179 1.0819869
0.73605865 0.84631145 0.9746683 0.9386582 0.82902765 0.83565056 0.9702136 1.0514659
1.0108461 0.8689414 0.91719437 0.8805056 0.7994629 0.8999671 0.7585804 1.0287056
0.90653455 0.60146594 0.7206475 0.8306303 0.8364681 0.89625114 0.7354735 0.8447268
0.7147005 0.9168278 0.80178416 0.6258351 0.8413766 0.5909515 0.696347 0.71359116
0.20506378 0.03691584 0.2454556 0.12978578 0.19065076 0.23904312 0.27509746 0.34614682
""")
MOMENTS = slices("""
0.2567724 -0.07485991 0.282002 0.2456022 0.454939 0.619168 0.18964815 0.45714882
0.25946522 0.24344791 0.45677605 0.3611395 0.23378398 0.41439137 0.5312468 0.4696194
0.2417504 0.28193963 0.06713893 0.21510397 0.23380603 0.11424308 0.0218009 -0.11969765
0.45955992 0.22664294 0.01990281 0.0731914 0.27125207 0.27298513 -0.01716102 -0.15327111
0.03440702 0.41419312 0.24817684 0.30765256 0.48516113 0.24904746 0.57791173 0.00955463
0.13458519 0.6690533 0.49259356 0.28319967 0.25951773 0.16777472 0.45696738 0.24933104
0.14152306 0.5040985 0.24455397 0.10907605 0.11319532 0.19538902 0.01208619 0.40430856
-0.7773164 -0.47611716 -0.6041424 -0.6144473 -0.2651842 -0.31909415 -0.4510405 -0.12860501
""")


class Net(nn.Cell):
    """The tutorial's: the weight is each device's own rows."""

    def __init__(self, weight_init):
        super().__init__()
        self.weight = Parameter(Tensor(weight_init), layerwise_parallel=True)


def test_the_tutorial_of_hybrid_parallel_merges_four_devices_and_loads_two(tmp_path) -> None:
    for rank in range(4):
        network = Net(WEIGHT[rank])
        optimizer = nn.Momentum(network.get_parameters(), 0.01, 0.9)
        optimizer.moments[0].set_data(MOMENTS[rank])
        save_checkpoint(nn.TrainOneStepCell(network, optimizer), tmp_path / f"node{rank}" / "CKP_1-4_32.ckpt")
    rows = {name: LayoutItem((4,), ((0,), ())) for name in ("weight", "moments.weight")}
    write_strategy(tmp_path / "strategy_train.ckpt", StrategyRecord(rows, {}))

    param_dicts = []
    for rank in range(4):
        network = Net(np.ones([2, 8]).astype(np.float32))
        net = nn.TrainOneStepCell(network, nn.Momentum(network.get_parameters(), 0.01, 0.9))
        load_param_into_net(net, load_checkpoint(tmp_path / f"node{rank}" / "CKP_1-4_32.ckpt"))
        param_dicts.append({param.name: param for _, param in net.parameters_and_names()})
    # As the tutorial lists it, with one network for all files: the parameters collected are those of the last.
    one_for_all = [param_dicts[3]["weight"]] * 4
    with pytest.raises(ConfigurationError, match="ranks 0 and 1 are given one and the same 'weight'"):
        merge_sliced_parameter(one_for_all)
    copies = [copy.copy(param_dicts[3]["weight"]) for _ in range(4)]
    with pytest.raises(ConfigurationError, match="give what load_checkpoint returns for each file"):
        merge_sliced_parameter(copies)
    strategy = build_searched_strategy(str(tmp_path / "strategy_train.ckpt"))
    param_dict = dict(param_dicts[0])
    for name in ["weight", "moments.weight"]:
        param_dict[name] = merge_sliced_parameter([one.get(name) for one in param_dicts], strategy)
    param_list = [{"name": name, "data": value.data} for name, value in param_dict.items()]
    save_checkpoint(param_list, str(tmp_path / "CKP-Integrated_1-4_32.ckpt"))

    merged = load_checkpoint(tmp_path / "CKP-Integrated_1-4_32.ckpt")
    # What the tutorial prints as the merged weight is known not to be of these slices; its moments are.
    np.testing.assert_array_equal(merged["weight"].asnumpy(), WEIGHT.reshape(8, 8))
    np.testing.assert_array_equal(merged["moments.weight"].asnumpy(), MOMENTS.reshape(8, 8))
    for rank in range(2):
        param_dict = load_checkpoint(tmp_path / "CKP-Integrated_1-4_32.ckpt")
        for name in ["weight", "moments.weight"]:
            slices = np.split(param_dict[name].data.asnumpy(), 2, axis=0)
            param_dict[name].set_data(Tensor(slices[rank]), True)
        network = Net(np.ones([4, 8]).astype(np.float32))
        optimizer = nn.Momentum(network.get_parameters(), 0.01, 0.9)
        load_param_into_net(network, param_dict)
        load_param_into_net(optimizer, param_dict)
        np.testing.assert_array_equal(network.weight.asnumpy(), WEIGHT.reshape(8, 8)[4 * rank :][:4])
        wanted = MOMENTS.reshape(8, 8)[4 * rank :][:4]
        np.testing.assert_array_equal(optimizer.moments[0].asnumpy(), wanted)


class Rows(nn.Cell):
    """A product with rows that are each device's own."""

    def __init__(self, weight_init):
        super().__init__()
        self.weight = Parameter(Tensor(weight_init), layerwise_parallel=True)
        self.fc = ops.MatMul(transpose_b=True)

    def construct(self, x):
        return self.fc(x, self.weight)


def train_rows(_communicator, folder, rows):
    rank = get_rank()
    context.set_auto_parallel_context(
        parallel_mode="hybrid_parallel", strategy_ckpt_save_file=str(folder / "strategy_train.ckpt")
    )
    network = Rows(np.full((rows, 8), rank, np.float32))
    data = NumpySlicesDataset((np.ones((8, 8), np.float32), np.ones((8, rows), np.float32)), ["x", "y"]).batch(4)
    model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.01, 0.9))
    saver = ModelCheckpoint("CKP", folder / f"node{rank}", CheckpointConfig(1, format="ckpt"))
    model.train(1, data, saver)
    return {name: one.asnumpy() for name, one in model.train_network.parameters_dict().items()}


def test_a_hybrid_training_writes_the_strategy_by_which_its_slices_are_merged(tmp_path, remarks) -> None:
    held = run_world(4, train_rows, tmp_path, 2)
    strategy = build_searched_strategy(str(tmp_path / "strategy_train.ckpt"))
    for name in ("weight", "moments.weight"):
        slices = [load_checkpoint(tmp_path / f"node{rank}" / "CKP-1_2.ckpt")[name] for rank in range(4)]
        merged = merge_sliced_parameter(slices, strategy).asnumpy()
        np.testing.assert_array_equal(merged, np.concatenate([one[name] for one in held]))
        assert merged.shape == (8, 8)
    assert ["their slices follow one another along dim 0" in line for line in remarks()] == [True]
