"""Layouts in MindSpore's words: device matrix, axes from the right, slice, and the ranks of an optimizer's shards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Model, Tensor, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.train.strategies.inferred_layouts import parameter_layout


def layout(shape: tuple[int, ...], *axes: tuple[int, ...], **settings: Any) -> Layout:
    return Layout(shape, DeviceMatrix((2, 4)), axes, **settings)


@pytest.mark.parametrize(
    ("made", "rank", "told"),
    [
        (layout((8, 6), (1,), ()), 3, ([2, 4], [0, -1], [2, 6], 0, True, "")),
        (layout((8, 6), (), (0,)), 5, ([2, 4], [-1, 1], [8, 3], 0, True, "")),
        (layout((8, 8), (0,), (1,)), 5, ([2, 4], [1, 0], [4, 2], 0, True, "")),
        # Shards of what a quarter of the rows is on ranks 3 and 7, or of a half on the ranks of a row.
        (layout((8, 6), (1,), (), optimizer_axes=(0,)), 3, ([2, 4], [0, -1], [1, 6], 0, True, "3-7")),
        (layout((8, 6), (0,), (), optimizer_axes=(1,)), 6, ([2, 4], [1, -1], [1, 6], 0, True, "4-5-6-7")),
    ],
)
def test_a_layout_is_told_as_a_rank_has_it(made: Layout, rank: int, told: Any) -> None:
    assert parameter_layout(made, rank) == told


def test_parts_that_are_split_by_hand_are_not_uniform_and_each_rank_has_its_own() -> None:
    by_hand = Layout((8,), DeviceMatrix((2,)), ((0,),)).with_bounds((((0, 3), (3, 8)),))
    assert [parameter_layout(by_hand, rank) for rank in range(2)] == [
        ([2], [0], [3], 0, False, ""),
        ([2], [0], [5], 0, False, ""),
    ]


def test_what_is_each_ranks_own_is_told_as_whole() -> None:
    own = Layout((4,), DeviceMatrix((2,)), ((),), partial=(0,))
    assert parameter_layout(own, 1) == parameter_layout(own.reduced(), 1)
    assert parameter_layout(own, 1)[1:] == ([-1], [4], 0, True, "")


def cut_model(devices: int | None = None, **settings: Any) -> Model:
    """Return a product whose weight of six columns and four rows is cut by its rows."""
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, **settings)
    if devices is not None:
        context.set_auto_parallel_context(device_num=devices, global_rank=1)
    layer = nn.Dense(6, 4, has_bias=False)
    layer.matmul.shard(((1, 1), (2, 1)))
    return Model(layer, nn.MSELoss(), nn.Momentum(layer.trainable_params(), 0.1, 0.9), metrics={"loss"})


def batches() -> NumpySlicesDataset:
    columns = np.ones((4, 6), np.float32), np.ones((4, 4), np.float32)
    return NumpySlicesDataset(columns, ["x", "y"], shuffle=False).batch(4)


@pytest.mark.parametrize("devices", [None, 2])
def test_a_model_tells_how_its_weights_and_states_are_cut_with_or_without_the_ranks(devices: int | None) -> None:
    def job(communicator: Any) -> None:
        by_rows = [2], [0, -1], [2, 6], 0, True, ""
        model = cut_model(devices)
        found = model.infer_train_layout(batches())
        assert found["weight"] == found["moments.weight"] == by_rows
        assert model.infer_predict_layout(Tensor(np.ones((4, 6), np.float32))) == {"weight": by_rows}
        assert model.infer_predict_layout(Tensor(np.ones((2, 6), np.float32)), skip_backend_compile=True) == {
            "weight": by_rows
        }
        assert model.step == 0

    run_world(2 if devices is None else 1, job)


def test_a_prediction_that_is_only_laid_out_writes_its_file_and_leaves_the_network_in_training(tmp_path: Any) -> None:
    file = tmp_path / "strategy.json"
    model = cut_model(2, strategy_ckpt_save_file=str(file))
    model.predict_network.set_train()
    model.infer_predict_layout(Tensor(np.ones((4, 6), np.float32)))
    assert file.exists()
    assert model.predict_network.training
    context.reset_auto_parallel_context()


def test_a_model_is_built_for_what_it_is_given() -> None:
    def job(communicator: Any) -> None:
        model = cut_model()
        assert model.build() is None
        assert model.build(valid_dataset=batches()) is None
        built = model.build(batches(), batches())
        assert built is not None
        assert built.rank_count == 2
        assert model.predict_network.weight.asnumpy().shape == (2, 6)
        assert model.step == 0

    run_world(2, job)


def test_what_a_model_cannot_do_here_is_refused_with_the_mend() -> None:
    model = cut_model(2)
    with pytest.raises(ConfigurationError) as raised:
        model.resume("nowhere", batches())
    assert str(raised.value) == (
        "Model.resume: the network is cut for other ranks than there are; set device_num, or start as many"
    )
    context.reset_auto_parallel_context()
    for given, shown in (({"backend": "lite"}, "backend='lite'"), ({"config": 3}, "config=3")):
        with pytest.raises(ConfigurationError, match=rf"^Model\.predict: {shown} is not supported; use None$"):
            model.predict(Tensor(np.ones((4, 6), np.float32)), **given)
