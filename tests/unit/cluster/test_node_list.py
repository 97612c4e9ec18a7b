from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.node_list import MOST_HOSTS, expand_nodes, expand_tasks
from mpiparallel.errors import RankTableError


# What `scontrol show hostnames` of SLURM 22.05 prints for each of these lists.
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[1-2]", "n1 n2"),
        ("node[01-03,7]", "node01 node02 node03 node7"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("a,b[1,3],c", "a b1 b3 c"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("n[3,1]", "n3 n1"),
        ("10.0.0.[1-3]", "10.0.0.1 10.0.0.2 10.0.0.3"),
    ],
)
def test_list_stands_for_the_names_that_slurm_says(text: str, names: str) -> None:
    assert expand_nodes(text) == names.split()


RUNS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=4)


@given(st.lists(st.tuples(st.sampled_from(("n", "node-", "r2d")), st.lists(RUNS, max_size=2)), min_size=1, max_size=3))
def test_names_are_the_product_of_the_ranges(elements: list[tuple[str, list[list[tuple[int, int]]]]]) -> None:
    texts, names = [], []
    for prefix, brackets in elements:
        written = ["[" + ",".join(f"{a}-{a + n}" if n else str(a) for a, n in runs) + "]" for runs in brackets]
        numbers = [[str(number) for a, n in runs for number in range(a, a + n + 1)] for runs in brackets]
        texts.append(prefix + "".join(written))
        names += [prefix + "".join(found) for found in product(*numbers)]
    assert expand_nodes(",".join(texts)) == names


@pytest.mark.parametrize(
    "text", ["", ",", "a,", "n[1-2", "n1-2]", "n[]", "n[a]", "n[1-]", "n[-1]", "n[[1]]", "-n[1]", "10.0.0.[250-256]"]
)
def test_text_that_is_no_list_is_refused_with_the_mend(text: str) -> None:
    with pytest.raises(RankTableError, match=r'node list .*write it as in "node\[01-03,7\],login"'):
        expand_nodes(text)


@pytest.mark.parametrize("text", ["0", "2(x0)", "2(x)", "x", "", "2,", "999999(x999999)"])
def test_counts_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(RankTableError, match="tasks per node"):
        expand_tasks(text, 2)


def test_as_many_hosts_as_a_list_may_have_are_taken_and_one_more_is_refused() -> None:
    whole = f"n[1-{MOST_HOSTS - 1}]"
    assert len(expand_nodes(f"{whole},login")) == MOST_HOSTS
    with pytest.raises(RankTableError, match=f"it has more than {MOST_HOSTS} hosts"):
        expand_nodes(f"{whole},login,other")


def test_one_element_stands_for_256_addresses_at_most() -> None:
    assert len(expand_nodes("10.0.0.[0-255]")) == 256
    with pytest.raises(RankTableError, match=r'node list "10.0.\[0-1\].\[0-255\]": it has more than 256 addresses'):
        expand_nodes("10.0.[0-1].[0-255]")
