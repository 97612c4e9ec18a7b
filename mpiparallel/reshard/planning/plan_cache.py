"""Plans that are kept: a training that goes back and forth between two strategies plans each way once."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from hashlib import sha256
from threading import Lock

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.planning.layout_digest import LayoutPair, plan_digest
from mpiparallel.reshard.planning.plan import ReshardPlan, plan_reshard


class PlanCache:
    """The plans that were asked for last, at most ``max_plans`` with at most ``max_transfers`` transfers in all.

    A transfer takes about 260 bytes, so the defaults are some 50 MB. Threads may share a cache; two that ask for the
    same new plan at once both make it. Raises ReshardError unless both limits are 0 or more; 0 keeps no plan.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> from mpiparallel.layout.layout import Layout
    >>> halves, thirds = (Layout((6,), DeviceMatrix((parts,)), ((0,),)) for parts in (2, 3))
    >>> cache = PlanCache()
    >>> cache.plan({"weight": (halves, thirds)}, 1) is cache.plan({"weight": (halves, thirds)}, 1)
    True
    """

    def __init__(self, max_plans: int = 256, max_transfers: int = 200_000) -> None:
        if max_plans < 0 or max_transfers < 0:
            raise ReshardError(
                f"a plan cache of {max_plans} plans, {max_transfers} transfers: give limits of 0 or more"
            )
        self._max_plans = max_plans
        self._max_transfers = max_transfers
        self._plans: OrderedDict[Hashable, ReshardPlan] = OrderedDict()
        self._transfers = 0
        self._lock = Lock()

    def plan(
        self,
        layouts: Mapping[str, LayoutPair],
        rank: int,
        itemsizes: Mapping[str, int] | None = None,
        hosts: Hosts | None = None,
        digest: bytes | None = None,
        absent: frozenset[int] = frozenset(),
    ) -> ReshardPlan:
        """Return what ``plan_reshard`` returns; ``digest`` is the ``plan_digest`` of ``layouts`` where it is known."""
        key = (digest or plan_digest(layouts), rank, hosts, _digest_of_sizes(itemsizes), absent)
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        plan = plan_reshard(layouts, rank, itemsizes, hosts, absent)
        with self._lock:
            self._keep(key, plan)
        return plan

    def _keep(self, key: Hashable, plan: ReshardPlan) -> None:
        if key not in self._plans:
            self._plans[key] = plan
            self._transfers += _transfers(plan)
        while self._plans and (len(self._plans) > self._max_plans or self._transfers > self._max_transfers):
            _, oldest = self._plans.popitem(last=False)
            self._transfers -= _transfers(oldest)


def _transfers(plan: ReshardPlan) -> int:
    return len(plan.sends) + len(plan.receives) + len(plan.copies)


def _digest_of_sizes(itemsizes: Mapping[str, int] | None) -> bytes | None:
    if itemsizes is None:
        return None
    return sha256(json.dumps(sorted(itemsizes.items()), default=int).encode()).digest()
