from __future__ import annotations

import pytest

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.errors import LaunchError
from mpiparallel.launch.rank.task_order import task_order


def table(**ranks: tuple[int, ...]) -> RankTable:
    return RankTable(
        tuple(
            Server(name, tuple(Device(number, f"10.0.0.{rank}", rank) for number, rank in enumerate(owned)))
            for name, owned in ranks.items()
        )
    )


def step(nodes: str, counts: str, rank: int, node: int, local: int) -> tuple[dict[str, str], Environment]:
    variables = {"SLURM_STEP_NODELIST": nodes, "SLURM_STEP_TASKS_PER_NODE": counts, "SLURM_NODEID": str(node)}
    return variables, Environment(rank, 8, local, 8, local)


@pytest.mark.parametrize(
    ("servers", "nodes", "counts", "ranks"),
    [
        ({"n1": (0, 1), "n2": (2, 3)}, "n[1-2]", "2(x2)", (0, 1, 2, 3)),
        ({"n2": (0, 1), "n1": (2, 3)}, "n[1-2]", "2(x2)", (2, 3, 0, 1)),
        ({"n1": (3, 0), "n2": (2, 1)}, "n[1-2]", "2(x2)", (0, 3, 1, 2)),
        ({"10.0.0.1": (2, 3), "10.0.0.2": (0, 1)}, "a,b", "2(x2)", (0, 1, 2, 3)),
        ({"n1": (0, 1, 2), "n2": (3,)}, "n[1-2]", "3,1", (0, 1, 2, 3)),
    ],
    ids=["in order", "by name", "mixed", "other names", "uneven"],
)
def test_each_task_is_a_rank_of_the_server_that_its_node_is(servers, nodes, counts, ranks) -> None:
    assert task_order(table(**servers), *step(nodes, counts, 0, 0, 0)).ranks == ranks


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (("n[1-2]", "2(x2)", 1, 1, 0), "task 1 is number 0 of its node, .* srun --distribution=block"),
        (("n[1-2]", "2(x2)", 2, 0, 1), "task 2 is number 1 of its node, .* srun --distribution=block"),
        (("n[1-2]", "3,1", 0, 0, 0), "node n1 has 3 tasks, its server n1 of the rank table 2 devices"),
        (("n[1-3]", "2(x3)", 0, 0, 0), "the step has 3 nodes, the rank table 2 servers; give srun as many --nodes"),
    ],
    ids=["cyclic", "cyclic on the first node", "counts", "nodes"],
)
def test_tasks_that_do_not_fit_the_table_are_refused(where, words) -> None:
    with pytest.raises(LaunchError, match=words):
        task_order(table(n1=(0, 1), n2=(2, 3)), *step(*where))


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (
            ("n[1-2]", "2(x2)", 1, 1, 0),
            "task 1 is number 0 of its node, so the tasks are not numbered node by node; with a rank table, start them "
            "by srun --distribution=block",
        ),
        (
            ("n[1-2]", "2,1", 0, 0, 0),
            "node n2 has 1 tasks, its server n2 of the rank table 2 devices; give srun --ntasks-per-node and the nodes "
            "of the table",
        ),
        (("n1", "4", 0, 0, 0), "the step has 1 nodes, the rank table 2 servers; give srun as many --nodes"),
    ],
)
def test_a_step_that_does_not_fit_is_told_word_for_word(where: tuple[str, str, int, int, int], told: str) -> None:
    with pytest.raises(LaunchError) as caught:
        task_order(table(n1=(0, 1), n2=(2, 3)), *step(*where))
    assert str(caught.value) == told


@pytest.mark.parametrize(("rank", "node", "local"), [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 2, 0), (4, 2, 1)])
def test_each_task_finds_the_same_order(rank: int, node: int, local: int) -> None:
    servers = table(a=(4, 3), b=(0,), c=(2, 1))
    assert task_order(servers, *step("a,b,c", "2,1,2", rank, node, local)).ranks == (3, 4, 0, 1, 2)
