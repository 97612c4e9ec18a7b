"""The cost of a step against the nodes that its first rank runs, and how often parts of it are priced."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.step import step_cost
from mpiparallel.search.cost.timed_nodes import timed_nodes
from mpiparallel.search.search import search
from tests.conformance.searched_networks import Drawn, Transformer, task_of

NETWORKS = {
    **{f"drawn {seed} on {ranks}": (Drawn, (seed, 6), ranks) for seed in range(6) for ranks in (4, 6, 8)},
    "a Transformer": (Transformer, (2,), 8),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("mode", ["batch", "recursive_programming"])
def test_a_step_costs_what_its_first_rank_runs(name: str, mode: str) -> None:
    make, arguments, ranks = NETWORKS[name]
    task = task_of(make(*arguments), ranks)
    sharded = task.placed({} if mode == "batch" else search(task, mode).strategies)
    computing, moving = 0.0, defaultdict(float)
    for one in timed_nodes(sharded, task.prices):
        if one.step is None:
            computing += one.seconds
        else:
            moving[one.step.kind] += one.seconds
    found = step_cost(sharded, task.prices)
    assert found.computing == pytest.approx(computing, rel=1e-12)
    assert found.moving == pytest.approx(dict(moving), rel=1e-12)


def test_equal_layers_are_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    def counted(name: str) -> None:
        real = getattr(Prices, name)

        def price(*arguments: object) -> float:
            asked[name] += 1
            return real(*arguments)

        monkeypatch.setattr(Prices, name, price)

    counted("operator")
    counted("step")
    counts = []
    for layers in (4, 16):
        asked.clear()
        task = task_of(Transformer(layers), 8)
        step_cost(task.placed({}), task.prices)
        counts.append(dict(asked))
    assert counts[0] == counts[1]
    assert counts[0]["operator"] > 10
