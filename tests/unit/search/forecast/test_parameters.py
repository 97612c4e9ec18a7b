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


@pytest.mark.parametrize(("devices", "ranks"), [(2, "0, 1"), (1024, "0 to 1023"), (1025, "0 to 1023 and 1 more")])
def test_of_many_ranks_that_hold_a_whole_the_first_are_named_and_the_others_counted(devices: int, ranks: str) -> None:
    weight = weight_on(devices, (1, 1))
    assert [(part.box, part.ranks) for part in weight.parts] == [("[0:4, 0:4]", ranks)]
    assert (weight.part_count, weight.rank_bytes) == (1, 64)


def test_each_part_is_told_with_those_that_hold_it() -> None:
    weight = weight_on(4, (2, 1))
    assert sorted(part.box for part in weight.parts) == ["[0:2, 0:4]", "[2:4, 0:4]"]
    assert (weight.part_count, weight.rank_bytes) == (2, 32)
