"""Parameters in one file: MindSpore's functions, in every format, and the tutorials that use them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from mpiparallel import Model, Parameter, Tensor, context, nn
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem
from mpiparallel.communication import get_rank
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CheckpointError, ConfigurationError, StrategyFileError
from mpiparallel.train import serialization
from mpiparallel.train.parameter_files.distributed_checkpoint import merge_sliced_parameter
from mpiparallel.train.serialization import load_checkpoint, load_param_into_net, save_checkpoint
from tests.unit.train.parameter_files.mindspore_checkpoint import read_checkpoint

FORMATS = ["h5", "ckpt", "safetensors", "npz"]
CUT = ((1, 2), (1, 2))


def line():
    context.set_seed(4)
    return nn.Dense(6, 4)


def values(loaded):
    return {name: one.asnumpy() for name, one in loaded.items() if isinstance(one, Tensor)}


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
        assert found[name].dtype == array.dtype, name


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_network_comes_back_from_a_file_of_any_format(suffix, tmp_path) -> None:
    path = tmp_path / "folder" / f"net.{suffix}"
    network = line()
    wanted = {one.name: one.asnumpy().copy() for one in network.get_parameters()}
    appended = {"epoch_num": 7, "loss": 0.25, "warm": True, "note": "third run", "table": np.arange(4)}
    assert save_checkpoint(network, path, append_dict=appended) is None
    context.set_seed(5)
    other = nn.Dense(6, 4)
    loaded = load_checkpoint(path, other)
    assert_equal({one.name: one.asnumpy() for one in other.get_parameters()}, wanted)
    assert loaded.pop("note") == "third run"
    found = values(loaded)
    assert (int(found["epoch_num"]), float(found["loss"]), bool(found["warm"])) == (7, 0.25, True)
    assert found["table"].tolist() == [0, 1, 2, 3]
    assert set(found) == {*wanted, "epoch_num", "loss", "warm", "table"}


def test_a_file_without_a_suffix_is_mindspores_and_its_reader_finds_the_same(tmp_path) -> None:
    given = [{"name": "weight", "data": Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))}]
    given.append({"name": "steps", "data": Parameter(np.array([3], np.int32), "steps")})
    save_checkpoint(given, str(tmp_path / "CKP-Integrated_1-4_32"))
    content = (tmp_path / "CKP-Integrated_1-4_32.ckpt").read_bytes()
    # Behind it MindSpore's own readers look for the checksum; the message ends before.
    (tmp_path / "bare.ckpt").write_bytes(content[: content.rindex(b"crc_num")])
    found = read_checkpoint(tmp_path / "bare.ckpt")
    np.testing.assert_array_equal(found["weight"], np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(found["steps"], np.array([3], np.int32))
    save_checkpoint({"a": np.zeros(2)}, tmp_path / "net.v2", format="npz")
    assert np.load(tmp_path / "net.v2.npz")["a"].tolist() == [0.0, 0.0]


def test_a_list_of_parameters_is_saved_by_their_names(tmp_path) -> None:
    network = nn.Dense(3, 2)
    save_checkpoint(network.trainable_params(), tmp_path / "net.ckpt", append_dict={"epoch_num": 2})
    loaded = load_checkpoint(tmp_path / "net.ckpt")
    assert sorted(loaded) == ["bias", "epoch_num", "weight"]
    np.testing.assert_array_equal(loaded["weight"].asnumpy(), network.weight.asnumpy())


def test_what_is_saved_and_loaded_can_be_chosen(tmp_path) -> None:
    path = tmp_path / "net.h5"
    names = ["moment1.w", "moment2.w", "w", "bias"]
    save_checkpoint({name: np.ones(2) for name in names}, path, choice_func=lambda name: name != "bias")
    assert set(load_checkpoint(path)) == {"moment1.w", "moment2.w", "w"}
    assert set(load_checkpoint(path, filter_prefix="moment")) == {"w"}
    assert set(load_checkpoint(path, filter_prefix=["moment1", "w"])) == {"moment2.w"}
    assert set(load_checkpoint(path, specify_prefix=("moment2", "w"))) == {"moment2.w", "w"}
    assert set(load_checkpoint(path, choice_func=lambda name: "1" in name)) == {"moment1.w"}
    with pytest.raises(CheckpointError, match="holds nothing of the names"):
        load_checkpoint(path, specify_prefix="other")


def test_a_thread_writes_what_the_values_were(tmp_path, capsys) -> None:
    parameter = Parameter(np.ones(3), "w")
    writing = save_checkpoint({"w": parameter}, tmp_path / "net.h5", async_save=True)
    parameter.set_data(np.zeros(3))
    writing.wait()
    np.testing.assert_array_equal(load_checkpoint(tmp_path / "net.h5")["w"].asnumpy(), np.ones(3))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises((CheckpointError, OSError), match="file"):
        save_checkpoint({"w": parameter}, tmp_path / "file" / "net.h5", async_save=True).wait()
    assert f"save_checkpoint: {tmp_path / 'file' / 'net.h5'} is not written: " in capsys.readouterr().err
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("save_checkpoint")]


REFUSED = [
    (lambda path: save_checkpoint(line(), path / "a.h5", enc_key=b"key"), "not encrypted"),
    (lambda path: load_checkpoint(path / "a.h5", dec_key=b"key"), "not encrypted"),
    (lambda path: load_checkpoint(path / "a", format="pth"), "load_checkpoint: format .pth. is not one of h5, ckpt"),
    (lambda path: save_checkpoint(line(), path / "a.h5", format="npz"), "its suffix is not that of format 'npz'"),
    (lambda path: save_checkpoint(line(), path / "a", format="pth"), "format 'pth' is not one of h5, ckpt"),
    (lambda path: save_checkpoint(3, path / "a.h5"), "save_obj is a int; give a network"),
    (lambda path: save_checkpoint([{"name": "w"}], path / "a.h5"), "save_obj is a list; give a network"),
    (lambda path: save_checkpoint({"w": "text"}, path / "a.h5"), "'w' is a str; give a tensor"),
    (lambda path: save_checkpoint({3: np.ones(1)}, path / "a.h5"), "3 is no name"),
    (lambda path: save_checkpoint(line(), path / "a", append_dict={"weight": 1}), "'weight' is the name of a param"),
    (lambda path: save_checkpoint(line(), path / "a", append_dict={"spec": [1]}), "append_dict: 'spec' is a list"),
    (lambda path: load_param_into_net(line(), {"weight": [1.0]}), "'weight' is a list; give parameters or arrays"),
    (lambda path: merge_sliced_parameter([]), "give a list of the parameters of all ranks"),
    (lambda path: merge_sliced_parameter([np.ones(1)]), "give the slices of one parameter"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_wrong_use_is_refused_and_nothing_is_written(call, message, tmp_path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused_by_name(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointError, match="file/folder: the folder cannot be made"):
        save_checkpoint(line(), tmp_path / "file" / "folder" / "a.h5")


def test_files_that_are_no_checkpoints_are_refused(tmp_path) -> None:
    (tmp_path / "net.h5").write_bytes(b"no file of arrays")
    for name, message in (("net.h5", "net.h5"), ("none.ckpt", "none.ckpt"), ("net.pth", "tells no format")):
        with pytest.raises((CheckpointError, OSError), match=message):
            load_checkpoint(tmp_path / name)


def test_nothing_is_loaded_unless_all_of_it_fits() -> None:
    network = line()
    before = {one.name: one.asnumpy().copy() for one in network.get_parameters()}
    wrong = [
        ({"bias": np.ones(4, np.float32), "weight": np.ones((4, 5), np.float32)}, r"'weight': .* shape \(4, 5\)"),
        ({"bias": np.ones(4, np.float32), "weight": np.ones((4, 6), np.int64)}, "'weight': the file holds int64"),
    ]
    for given, message in wrong:
        with pytest.raises(CheckpointError, match=message):
            load_param_into_net(network, given)
    with pytest.raises(CheckpointError, match="'bias': the file holds float16, the network float32"):
        load_param_into_net(network, {"bias": np.ones(4, np.float16)}, strict_load=True)
    assert_equal({one.name: one.asnumpy() for one in network.get_parameters()}, before)
    rest = load_param_into_net(network, {"bias": np.ones(4, np.float16), "note": "text", "other": np.ones(1)})
    assert rest == (["weight"], ["note", "other"])
    np.testing.assert_array_equal(network.bias.asnumpy(), np.ones(4, np.float32))


def cut_model():
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = line()
    network.matmul.shard(CUT)
    model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.1, 0.9))
    random = np.random.default_rng(2)
    data = random.normal(size=(8, 6)).astype(np.float32), random.normal(size=(8, 4)).astype(np.float32)
    return model, NumpySlicesDataset(data, ["x", "y"], shuffle=False).batch(4)


def test_a_network_that_is_cut_is_saved_whole_and_cut_again_on_loading(tmp_path) -> None:
    def on_rank(communicator):
        model, data = cut_model()
        model.train(1, data)
        own = {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters() if not one.transient}
        save_checkpoint(model.train_network, tmp_path / "whole.ckpt")
        save_checkpoint(model.train_network, tmp_path / f"rank_{get_rank()}" / "whole.npz")
        save_checkpoint(model.train_network, tmp_path / f"slice{get_rank()}.h5", integrated_save=False)
        assert_equal(values(load_checkpoint(tmp_path / f"slice{get_rank()}.h5")), own)
        again, data = cut_model()
        again.build(data)
        assert load_param_into_net(again.train_network, load_checkpoint(tmp_path / "whole.ckpt")) == ([], [])
        assert_equal({name: one.asnumpy() for name, one in again.train_network.parameters_dict().items()}, own)
        return own

    first, second = run_world(2, on_rank)
    whole = values(load_checkpoint(tmp_path / "whole.ckpt"))
    assert_equal(whole, values(load_checkpoint(tmp_path / "rank_1" / "whole.npz")))
    np.testing.assert_array_equal(whole["weight"], np.concatenate([first["weight"], second["weight"]], axis=1))
    np.testing.assert_array_equal(whole["bias"], first["bias"])


def test_slices_that_do_not_make_up_a_whole_are_refused() -> None:
    slices = [Parameter(np.full((2, 3), float(rank)), "w") for rank in range(2)]
    rows = {"w": LayoutItem((2,), ((0,), ()))}
    assert merge_sliced_parameter(slices, rows).shape == (4, 3)
    with pytest.raises(KeyError, match=r"does not name 'w'; it has 'v'"):
        merge_sliced_parameter(slices, {"v": rows["w"]})
    with pytest.raises((CheckpointError, StrategyFileError), match="2 slices for 4 ranks"):
        merge_sliced_parameter(slices, {"w": LayoutItem((4,), ((0,), ()))})


@pytest.mark.parametrize("last_in_thread", [True, False])
def test_what_is_saved_last_is_there_in_the_end_whichever_thread_is_quicker(last_in_thread, tmp_path, monkeypatch):
    write, slow = serialization.write_file, threading.Event()

    def sometimes_waiting(path, infos, arrays, attributes):
        if "first" in attributes:
            slow.wait(0.5)
        write(path, infos, arrays, attributes)

    monkeypatch.setattr(serialization, "write_file", sometimes_waiting)
    path = tmp_path / "net.h5"
    first = save_checkpoint({"w": np.zeros(3)}, path, async_save=True, append_dict={"first": "yes"})
    second = save_checkpoint({"w": np.ones(3)}, path, async_save=last_in_thread)
    for writing in (first, second):
        if writing is not None:
            writing.wait()
    np.testing.assert_array_equal(load_checkpoint(path)["w"].asnumpy(), np.ones(3))


def test_a_parameter_that_is_cut_over_ranks_that_are_gone_is_not_saved_as_a_whole(tmp_path) -> None:
    def cut(communicator):
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        network = line()
        network.matmul.shard(((1, 1), (2, 1)))
        model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1))
        data = np.ones((4, 6), np.float32), np.ones((4, 4), np.float32)
        model.build(NumpySlicesDataset(data, ["x", "y"]).batch(2))
        return network.weight, network.weight.asnumpy().copy()

    weight, held = run_world(2, cut)[0]
    assert held.shape == (2, 6)
    path = tmp_path / "net.h5"

    def save(communicator):
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
        words = "'weight' is cut over other ranks than there are; save slices with integrated_save=False"
        with pytest.raises(ConfigurationError, match=words):
            save_checkpoint({"weight": weight}, path)
        assert list(tmp_path.iterdir()) == []
        save_checkpoint({"weight": weight}, path, integrated_save=False)

    run_world(1, save)
    np.testing.assert_array_equal(load_checkpoint(path)["weight"].asnumpy(), held)


def test_of_slices_without_redundancy_only_those_come_from_other_ranks_that_some_lack() -> None:
    def on_rank(communicator):
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
        rank, network = communicator.rank, line()
        own = np.full((4, 6), rank, np.float32)
        not_yet_cut = load_param_into_net(network, {"weight": own}, remove_redundancy=True)
        before = [network.weight.asnumpy()[0, 0], network.bias.asnumpy().copy()]
        model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1))
        data = np.ones((4, 6), np.float32), np.ones((4, 4), np.float32)
        model.build(NumpySlicesDataset(data, ["x", "y"]).batch(2))
        by_all = load_param_into_net(network, {"weight": own + 2}, remove_redundancy=True)
        kept = network.weight.asnumpy()[0, 0]
        load_param_into_net(network, {"weight": own + 4} if rank else {}, remove_redundancy=True)
        np.testing.assert_array_equal(network.bias.asnumpy(), before[1])
        return not_yet_cut, before[0], by_all, kept, network.weight.asnumpy()[0, 0]

    found = run_world(2, on_rank)
    assert [(first, second) for first, _, second, *_ in found] == [((["bias"], []),) * 2] * 2
    assert [(first, kept, last) for _, first, _, kept, last in found] == [(0, 2, 5), (1, 3, 5)]
