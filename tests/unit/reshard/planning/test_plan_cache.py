from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.plan import LayoutPair, plan_digest, plan_reshard
from mpiparallel.reshard.planning.plan_cache import PlanCache


def pairs(parts: int, extent: int = 12) -> dict[str, LayoutPair]:
    """Return a tensor cut into ``parts`` that becomes whole on one rank: rank 0 gets parts - 1 transfers and a copy."""
    return {"w": (Layout((extent,), DeviceMatrix((parts,)), ((0,),)), Layout((extent,), DeviceMatrix(()), ((),)))}


def test_a_plan_asked_for_again_is_the_same_object() -> None:
    cache = PlanCache()
    made = cache.plan(pairs(3), 0, {"w": 4}, Hosts.uniform(2))
    assert made == plan_reshard(pairs(3), 0, {"w": 4}, Hosts.uniform(2))
    assert cache.plan(pairs(3), 0, {"w": 4}, Hosts((0, 0, 1))) is not made
    assert cache.plan(pairs(3), 0, {"w": 4}, Hosts.uniform(2)) is made
    assert cache.plan(pairs(3), 0, {"w": 4}, Hosts.uniform(2), digest=plan_digest(pairs(3))) is made


def test_unlike_questions_have_plans_of_their_own() -> None:
    cache = PlanCache()
    questions = [
        (pairs(3), 0, None, None),
        (pairs(4), 0, None, None),
        (pairs(3), 1, None, None),
        (pairs(3), 0, {"w": 4}, None),
        (pairs(3), 0, {"w": 8}, None),
        (pairs(3), 0, None, Hosts.uniform(2)),
    ]
    made = [cache.plan(*question) for question in questions]
    assert len({id(plan) for plan in made}) == len(questions)
    assert all(cache.plan(*question) is plan for question, plan in zip(questions, made, strict=True))


def test_the_plan_not_asked_for_longest_gives_way_to_a_new_one() -> None:
    cache = PlanCache(max_plans=2)
    first, second = (cache.plan(pairs(parts), 0) for parts in (2, 3))
    assert cache.plan(pairs(2), 0) is first
    cache.plan(pairs(4), 0)
    assert cache.plan(pairs(2), 0) is first
    assert cache.plan(pairs(3), 0) is not second


def test_plans_give_way_when_their_transfers_are_too_many() -> None:
    cache = PlanCache(max_transfers=9)
    four, five = (cache.plan(pairs(parts), 0) for parts in (4, 5))
    assert cache.plan(pairs(4), 0) is four
    assert cache.plan(pairs(5), 0) is five
    one = cache.plan(pairs(1), 0)
    assert one.kept == ("w",)
    assert cache.plan(pairs(4), 0) is four
    two = cache.plan(pairs(2), 0)
    assert cache.plan(pairs(2), 0) is two
    assert cache.plan(pairs(5), 0) is not five


def test_a_movement_of_many_waves_finds_all_its_plans_again() -> None:
    cache = PlanCache()
    made = [cache.plan(pairs(2, extent), 0) for extent in range(2, 102)]
    assert all(cache.plan(pairs(2, extent), 0) is plan for extent, plan in enumerate(made, 2))


def test_a_plan_too_large_to_keep_is_still_made() -> None:
    cache = PlanCache(max_transfers=3)
    assert cache.plan(pairs(4), 0) == cache.plan(pairs(4), 0)
    assert cache.plan(pairs(4), 0) is not cache.plan(pairs(4), 0)


def test_threads_share_a_cache() -> None:
    cache = PlanCache(max_plans=5)
    questions = [(pairs(parts), rank) for parts in range(1, 9) for rank in range(3)] * 20
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda question: cache.plan(*question), questions))
    assert made == [plan_reshard(*question) for question in questions]


@pytest.mark.parametrize("limits", [(-1, 0), (0, -1)])
def test_limits_below_zero_are_refused(limits: tuple[int, int]) -> None:
    with pytest.raises(ReshardError) as caught:
        PlanCache(*limits)
    plans, transfers = limits
    assert str(caught.value) == f"a plan cache of {plans} plans, {transfers} transfers: give limits of 0 or more"


@pytest.mark.parametrize(("limits", "is_kept"), [((1, 3), True), ((0, 3), False), ((1, 2), False), ((0, 0), False)])
def test_a_plan_is_kept_up_to_both_limits(limits: tuple[int, int], is_kept: bool) -> None:
    cache = PlanCache(*limits)
    # Two receives and a copy.
    first = cache.plan(pairs(3), 0)
    assert (cache.plan(pairs(3), 0) is first) is is_kept


def test_ranks_that_are_absent_make_another_plan() -> None:
    cache = PlanCache()
    copies = {"w": (Layout((4,), DeviceMatrix((3,)), ((),)), Layout((4,), DeviceMatrix((1,), 3), ((),)))}
    plans = [cache.plan(copies, 3, absent=frozenset(absent)) for absent in ((), (0,), (0, 1))]
    assert [plan.receives[0].source for plan in plans] == [0, 1, 2]
    assert cache.plan(copies, 3, absent=frozenset((0,))) is plans[1]
