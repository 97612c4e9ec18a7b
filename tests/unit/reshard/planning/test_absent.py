"""Plans from which some ranks of the source are absent: those that live and hold the same give it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.lost import lost_tensors
from mpiparallel.reshard.planning.plan import LayoutPair, ReshardPlan, plan_reshard

Layouts = Callable[..., st.SearchStrategy[Layout]]
Shapes = Callable[..., st.SearchStrategy[tuple[int, ...]]]
WORLD = range(8)


def plans_without(pairs: dict[str, LayoutPair], absent: frozenset[int], hosts: Hosts | None) -> dict[int, ReshardPlan]:
    sizes = dict.fromkeys(pairs, 4)
    return {rank: plan_reshard(pairs, rank, sizes, hosts, absent) for rank in WORLD if rank not in absent}


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data())
def test_every_element_arrives_once_from_a_living_rank_that_holds_it(
    layouts: Layouts, shapes: Shapes, data: st.DataObject
) -> None:
    absent = frozenset(data.draw(st.sets(st.sampled_from(WORLD), min_size=1, max_size=3)))
    living = data.draw(st.permutations([rank for rank in WORLD if rank not in absent]))
    hosts = data.draw(st.one_of(st.none(), st.just(Hosts.uniform(3))))
    pairs = {}
    for tensor in data.draw(st.lists(st.sampled_from("wbm"), min_size=1, max_size=3, unique=True)):
        shape = data.draw(shapes())
        source = data.draw(layouts(shape, max_devices=8, last_rank=7))
        source = source.on_ranks(data.draw(st.permutations(WORLD))[: source.devices.size])
        target = data.draw(layouts(shape, max_devices=len(living), last_rank=len(living) - 1))
        pairs[tensor] = source, target.on_ranks(living[: target.devices.size])
    assume(not lost_tensors({tensor: pair[0] for tensor, pair in pairs.items()}, absent))
    plans = plans_without(pairs, absent, hosts)
    sent = sorted((one for plan in plans.values() for one in plan.sends), key=repr)
    received = sorted((one for plan in plans.values() for one in plan.receives), key=repr)
    assert sent == received
    for one in sent:
        box, held = one.box, pairs[one.tensor][0].box(one.source)
        assert one.source not in absent
        assert all(a <= b for a, b in zip(held.start, box.start, strict=True))
        assert all(a >= b for a, b in zip(held.stop, box.stop, strict=True))
    for rank, plan in plans.items():
        for tensor, (_, target) in pairs.items():
            arrived, wanted = np.zeros(target.global_shape, int), np.zeros(target.global_shape, int)
            everything = Box.whole(target.global_shape)
            for transfer in (*plan.receives, *plan.copies):
                if transfer.tensor == tensor:
                    arrived[(*transfer.box.within(everything), ...)] += 1
            if rank in target.devices and tensor not in plan.kept:
                wanted[(*target.box(rank).within(everything), ...)] = 1
            assert np.array_equal(arrived, wanted)


def test_a_part_that_only_absent_ranks_held_is_refused() -> None:
    halves = Layout((6,), DeviceMatrix((2, 2)), ((0,),))
    whole = Layout((6,), DeviceMatrix((2,)), ((),))
    assert lost_tensors({"w": halves}, [0, 3]) == []
    assert lost_tensors({"w": halves}, [2, 3]) == ["w"]
    with pytest.raises(ReshardError, match=r"^all ranks that held part \(1,\) of a tensor are absent$"):
        plan_reshard({"w": (halves, whole)}, 0, absent=frozenset({2, 3}))
    quarters = Layout((6,), DeviceMatrix((4,)), ((0,),))
    with pytest.raises(ReshardError, match=r"^rank 2 alone held part \(2,\) of a tensor, and it is absent$"):
        plan_reshard({"w": (quarters, whole)}, 0, absent=frozenset({2}))


def test_an_empty_part_is_not_lost() -> None:
    assert lost_tensors({"w": Layout((3,), DeviceMatrix((4,)), ((0,),))}, [3]) == []


@pytest.mark.parametrize("hosts", [None, Hosts.uniform(3)])
def test_the_last_holder_of_several_gives_once_to_a_neighbour_on_its_host(hosts: Hosts | None) -> None:
    whole = ((), ())
    source, target = Layout((1, 1), DeviceMatrix((2,)), whole), Layout((1, 1), DeviceMatrix(()), whole).on_ranks([2])
    plans = plans_without({"w": (source, target)}, frozenset({0}), hosts)
    assert [(one.source, one.target) for one in plans[1].sends] == [(1, 2)]
    assert plans[1].sends == plans[2].receives
