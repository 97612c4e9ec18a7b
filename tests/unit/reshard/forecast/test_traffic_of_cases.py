"""The traffic of chosen moves is the sum of the plans of all ranks, whichever way it is summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.forecast import pair_bytes
from mpiparallel.reshard.forecast.traffic import traffic
from mpiparallel.reshard.planning.layout_digest import LayoutPair
from mpiparallel.reshard.planning.plan import plan_reshard

HALVES = Layout((6,), DeviceMatrix((2,)), ((0,),))
THIRDS = Layout((6,), DeviceMatrix((3,)), ((0,),))
PAIRS: dict[str, LayoutPair] = {"a": (HALVES, THIRDS), "b": (HALVES, THIRDS), "k": (THIRDS, THIRDS)}


def copies(extent: int, *ranks: int) -> Layout:
    return Layout((extent,), DeviceMatrix((len(ranks),), ranks=ranks), ((),))


def held(layouts: Mapping[str, LayoutPair], side: int, rank: int, sizes: Mapping[str, int]) -> int:
    pairs = [(name, pair[side]) for name, pair in layouts.items() if rank in pair[side].devices]
    return sum(layout.box(rank).size * sizes[name] for name, layout in pairs)


CASES: dict[str, tuple[dict[str, LayoutPair], Hosts | None]] = {
    "parts of no copies": (PAIRS, None),
    "few copies of many tensors": (
        {f"t{number}": (copies(4, 0, 1), copies(4, *range(7))) for number in range(9)},
        None,
    ),
    "many copies of one tensor": ({"w": (copies(4, *range(6)), copies(4, *range(11)))}, None),
    "copies on hosts": ({"w": (copies(4, 0, 1, 4), copies(4, *range(9)))}, Hosts.uniform(3)),
    "copies in another order": (
        {"v": (copies(4, 2, 0, 1), copies(4, *range(7))), "w": (copies(3, 0, 1, 2), copies(3, 6))},
        None,
    ),
    "copies of parts": (
        {
            name: (
                Layout((extent, 4), DeviceMatrix((2, 3)), ((0,), ())),
                Layout((extent, 4), DeviceMatrix((8,)), ((), (0,))),
            )
            for name, extent in {"u": 5, "v": 12, "w": 7}.items()
        },
        None,
    ),
    "parts of parts": (
        {
            "w": (
                Layout((7, 3), DeviceMatrix((2, 3)), ((0,), ()), optimizer_axes=(1,)),
                Layout((7, 3), DeviceMatrix((3, 2), 1), ((0,), (1,))),
            )
        },
        Hosts.uniform(2),
    ),
    "copies of parts on hosts": (
        {
            "w": (
                Layout((6, 16), DeviceMatrix((3, 4)), ((0,), ())),
                Layout((6, 16), DeviceMatrix((16,)), ((), (0,))),
            )
        },
        Hosts((5, 1, 0, 5, 2, 2, 3, 1, 0, 4, 3, 1, 6, 5, 0, 6)),
    ),
    # Ranks 0, 2 and 4 hold a part of v and all of w, but only w names them: each has turns of its own.
    "holders that are named and the same that are not": (
        {
            "v": (Layout((2, 4), DeviceMatrix((3, 2)), ((1,), ())), Layout((2, 4), DeviceMatrix((2,), 6), ((), ()))),
            "w": (copies(4, 0, 2, 4), copies(4, 6, 7, 8)),
        },
        None,
    ),
    "ranges that overlap": (
        {"w": (copies(6, 0, 1, 2), Layout((6,), DeviceMatrix((2,), 3), ((0,),)).with_bounds([((0, 4), (2, 6))]))},
        None,
    ),
    "tensors without elements": (
        {"e": (copies(0, 0, 1), copies(0, *range(5))), "w": (copies(2, 0, 1), copies(2, 3))},
        None,
    ),
}


@pytest.mark.parametrize("few", [True, False], ids=["a table of pairs", "sorted pairs"])
@pytest.mark.parametrize("case", CASES)
def test_the_forecast_is_the_sum_of_the_plans_of_all_ranks(
    case: str, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not few:
        monkeypatch.setattr(pair_bytes, "_TABLE_PAIRS", 0)
    pairs, hosts = CASES[case]
    sizes = {name: 1 + number % 3 for number, name in enumerate(pairs)}
    sent: Counter[tuple[int, int]] = Counter()
    moved = dict.fromkeys(pairs, 0)
    found = traffic(pairs, hosts, sizes)
    for place, rank in enumerate(found.ranks.tolist()):
        plan = plan_reshard(pairs, rank, sizes, hosts)
        for one in plan.sends:
            sent[one.source, one.target] += one.box.size * sizes[one.tensor]
            moved[one.tensor] += one.box.size * sizes[one.tensor]
        copied = sum(one.box.size * sizes[one.tensor] for one in plan.copies)
        kept = sum(pairs[name][0].box(rank).size * sizes[name] for name in plan.kept)
        assert (found.copied[place], found.kept[place]) == (copied, kept)
        assert (found.before[place], found.after[place]) == (held(pairs, 0, rank, sizes), held(pairs, 1, rank, sizes))
        assert found.messages_sent[place] == len({one.target for one in plan.sends})
        assert found.messages_received[place] == len({one.source for one in plan.receives})
    ends = zip(found.givers.tolist(), found.takers.tolist(), strict=True)
    assert dict(zip(ends, found.pair_bytes.tolist(), strict=True)) == sent
    assert found.moved == moved


def test_neighbours_are_blocks_of_a_matrix_of_at_most_so_many_cells() -> None:
    everyone = Layout((5,), DeviceMatrix((5,)), ((0,),))
    found = traffic({"w": (everyone, everyone.on_ranks((1, 2, 3, 4, 0)))})
    assert found.matrix().tolist() == np.roll(np.eye(5, dtype=int), 1, axis=1).tolist()
    # Ranks 0 to 2 and 3 to 4: within the first block 0 to 1 and 1 to 2, then 2 to 3, 3 to 4 and 4 to 0.
    assert found.matrix(2).tolist() == [[2, 1], [1, 1]]
    assert found.matrix(1).tolist() == [[5]]
    assert traffic({"w": (copies(70, 0), Layout((70,), DeviceMatrix((70,)), ((0,),)))}).matrix().shape == (64, 64)


def test_bytes_go_between_hosts_in_both_directions() -> None:
    everyone = Layout((8,), DeviceMatrix((4,)), ((0,),))
    # Two bytes each: 0 to 1, 1 to 2, 2 to 3 and 3 to 0.
    found = traffic({"w": (everyone, everyone.on_ranks((1, 2, 3, 0)))})
    assert [
        found.between_hosts(Hosts(hosts)) for hosts in ((0, 0, 1, 1), (1, 1, 0, 0), (0, 1, 0, 1), (0, 0, 0, 0))
    ] == [
        4,
        4,
        8,
        0,
    ]


def test_the_turns_of_many_tensors_are_those_of_the_plan_of_the_rank_that_takes_them() -> None:
    # The givers come in the same order again after 64 starts of two rounds: 384 turns of three.
    pairs: dict[str, LayoutPair] = {f"t{number}": (copies(1, 0, 1, 2), copies(1, 3)) for number in range(400)}
    sizes = {name: 401 - number for number, name in enumerate(pairs)}
    received: Counter[int] = Counter()
    for one in plan_reshard(pairs, 3, sizes).receives:
        received[one.source] += sizes[one.tensor]
    found = traffic(pairs, None, sizes)
    assert dict(zip(found.givers.tolist(), found.pair_bytes.tolist(), strict=True)) == received
    assert found.takers.tolist() == [3, 3, 3]
