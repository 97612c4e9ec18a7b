from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.json_document import shown
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


MEND = 'write it as in "node[01-03,7],login"'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a name is empty, or a bracket has no other"),
        ("a,", "a name is empty, or a bracket has no other"),
        ("n1-2]", "a bracket has no other"),
        ("n[]", '"" is neither a number nor a range'),
        ("n[1-]", '"1-" is neither a number nor a range'),
        ("n[3-1]", 'the range "3-1" goes backwards'),
        ("n[1234567890]", '"1234567890" is neither a number nor a range'),
        ("-n[1]", '"-n1" is no host name: those have letters, digits, dots and hyphens, a letter or digit first'),
        ("10.0.0.[255-256]", '"10.0.0.256" is no IPv4 address: each of its four numbers is 0 to 255'),
        ("n" * 252 + "[9-10]", "a name in it has more than 253 characters"),
    ],
)
def test_the_reason_why_a_text_is_no_list_is_told(text: str, reason: str) -> None:
    with pytest.raises(RankTableError) as caught:
        expand_nodes(text)
    assert str(caught.value) == f"node list {shown(text)}: {reason}; {MEND}"


def test_a_name_of_253_characters_and_spaces_around_names_and_numbers_are_taken() -> None:
    assert len(expand_nodes("n" * 252 + "[1-9]")[8]) == 253
    assert expand_nodes("a , b[ 1 , 3-4 ]") == ["a", "b1", "b3", "b4"]


@pytest.mark.parametrize(
    ("text", "nodes", "reason"),
    [
        ("0", 1, 'tasks per node "0": "0" is no count; write it as in "2(x3),1"'),
        ("1,2(x0)", 1, 'tasks per node "1,2(x0)": "2(x0)" is no count; write it as in "2(x3),1"'),
        ("1234567", 1, 'tasks per node "1234567": "1234567" is no count; write it as in "2(x3),1"'),
        ("2(x3)", 4, 'tasks per node "2(x3)" is of 3 hosts, the node list of 4; give one count a host'),
        ("2,1", 1, 'tasks per node "2,1" is of 2 hosts, the node list of 1; give one count a host'),
        ("2(x1)", 2, 'tasks per node "2(x1)" is of 1 hosts, the node list of 2; give one count a host'),
        (
            "1(x70000),1(x70000)",
            1,
            'tasks per node "1(x70000),1(x70000)" is of more than 100000 hosts; give one count a host',
        ),
        ("1,1(x100000)", 1, 'tasks per node "1,1(x100000)" is of more than 100000 hosts; give one count a host'),
    ],
)
def test_counts_that_do_not_fit_the_hosts_are_refused_with_the_mend(text: str, nodes: int, reason: str) -> None:
    with pytest.raises(RankTableError) as caught:
        expand_tasks(text, nodes)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("text", "nodes", "counts"),
    [
        ("8", 3, (8, 8, 8)),
        ("2(x1)", 1, (2,)),
        ("2(x2), 1", 3, (2, 2, 1)),
        ("999999", 1, (999999,)),
        ("1(x100000)", MOST_HOSTS, (1,) * MOST_HOSTS),
    ],
    ids=str,
)
def test_each_host_has_its_count_and_one_alone_is_that_of_all(text: str, nodes: int, counts: tuple[int, ...]) -> None:
    assert expand_tasks(text, nodes) == counts
