"""Who holds what of each parameter, against the boxes and ranks that are counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn
from mpiparallel.search.forecast.parameters import ParameterForecast, parameters_of


def weight_on(devices: int, weight_cut: tuple[int, int]) -> ParameterForecast:
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, device_num=devices)
    network = nn.Dense(4, 4, has_bias=False)
    network.matmul.shard(((1, 1), weight_cut))
    (weight,) = parameters_of(0, network.sharded_graph(Tensor(np.ones((2, 4), np.float32))))
    return weight


@pytest.mark.parametrize(
    ("devices", "ranks"),
    [(2, "0, 1"), (1024, "0 to 1023"), (1025, "0 to 1023 and 1 more"), (2050, "0 to 1023 and 1026 more")],
)
def test_of_many_ranks_that_hold_a_whole_the_first_are_named_and_the_others_counted(devices: int, ranks: str) -> None:
    weight = weight_on(devices, (1, 1))
    assert [(part.box, part.ranks) for part in weight.parts] == [("[0:4, 0:4]", ranks)]
    assert (weight.part_count, weight.rank_bytes) == (1, 64)


def test_each_part_is_told_with_those_that_hold_it() -> None:
    weight = weight_on(4, (2, 1))
    assert sorted(part.box for part in weight.parts) == ["[0:2, 0:4]", "[2:4, 0:4]"]
    assert (weight.part_count, weight.rank_bytes) == (2, 32)


def test_each_parameter_is_told_with_its_stage_its_kind_and_how_it_is_kept_and_used() -> None:
    network = nn.Dense(4, 4, has_bias=False)
    network.matmul.shard(((1, 1), (2, 1)))
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, device_num=4)
    found = {one.name: one for one in parameters_of(3, step.sharded_graph(Tensor(np.ones((2, 4), np.float32))))}
    weight, rate = found[network.weight.name], found["learning_rate"]
    (moment,) = (one for name, one in found.items() if "moment" in name and one.shape == (4, 4))
    assert {one.stage for one in found.values()} == {3}
    assert (weight.shape, weight.dtype, weight.trained, moment.trained, rate.trained) == (
        (4, 4),
        "float32",
        True,
        False,
        False,
    )
    assert weight.stored == weight.used == moment.stored == "4/2 x 4, 2 copies"
    assert (rate.stored, rate.part_count, rate.parts[0].box, rate.parts[0].ranks) == (
        "scalar, 4 copies",
        1,
        "[]",
        "0 to 3",
    )


def test_of_many_parts_the_first_sixty_four_are_told() -> None:
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, device_num=128)
    network = nn.Dense(4, 128, has_bias=False)
    network.matmul.shard(((1, 1), (128, 1)))
    (weight,) = parameters_of(0, network.sharded_graph(Tensor(np.ones((2, 4), np.float32))))
    assert (weight.part_count, len(weight.parts)) == (128, 64)
    assert (weight.parts[0].box, weight.parts[0].ranks) == ("[0:1, 0:4]", "0")
    assert (weight.parts[63].box, weight.parts[63].ranks) == ("[63:64, 0:4]", "63")
