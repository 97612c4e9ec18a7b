"""One line of a hostfile, in any dialect: the hosts, their slots and their limit, or what is wrong with it."""

from __future__ import annotations

import re

import pytest

from mpiparallel.cluster.hostfile import Host, Hostfile
from mpiparallel.cluster.hostfile_line import Line, read_line
from mpiparallel.errors import RankTableError


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("  \t # words", None),
        ("node1", Line(["node1"], 1, None)),
        ("node1:8", Line(["node1"], 8, None)),
        ("node1 slots=8", Line(["node1"], 8, None)),
        ("node1 slots = 8#two", Line(["node1"], 8, None)),
        ("node1 slots= 8 max-slots =9", Line(["node1"], 8, 9)),
        ("node1:8 max_slots=8", Line(["node1"], 8, 8)),
        ("node1 max_slots=4", Line(["node1"], 1, 4)),
        ("node1:999999", Line(["node1"], 999999, None)),
        ("a,b:2", Line(["a", "b"], 2, None)),
        ("[fe80::1]", Line(["fe80::1"], 1, None)),
        ("[fe80:0:0::1]:4", Line(["fe80::1"], 4, None)),
        ("[FE80::1%eth0]:4", Line(["fe80::1%eth0"], 4, None)),
        ("fe80::1 slots=4", Line(["fe80::1"], 4, None)),
        ("[::1]", Line(["localhost"], 1, None)),
    ],
)
def test_a_line_says_hosts_slots_and_limit(text: str, line: Line | None) -> None:
    assert read_line(text) == line


MEND = 'write "name slots=n" or "name:n"'
ELSEWHERE = "is not read from hostfiles; say it in"
NO_NAME = "is no host name: those have letters, digits, dots and hyphens, a letter or digit first"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node1 slots", f'"slots" is unknown; {MEND}'),
        ("node1 slot=1", f'"slot=1" is unknown; {MEND}'),
        ("node1 8", '"8" stands alone; write "node1 slots=8"'),
        (f"{'n' * 61} 8", f'"8" stands alone; write "{"n" * 60} slots=8"'),
        ("node1 1234567", f'"1234567" is unknown; {MEND}'),
        ("node1 user=me", f'"user=me" {ELSEWHERE} the User of ~/.ssh/config, and delete it here'),
        ("node1 ifname=x", f'"ifname=x" {ELSEWHERE} the environment, and delete it here'),
        (
            "node1 binding=x",
            f'"binding=x" {ELSEWHERE} the launcher\'s own options, and delete it here',
        ),
        ("node1 user", f'"user" is unknown; {MEND}'),
        ("node1 slots=1 slots=1", '"slots=1": "slots" is given twice; keep one'),
        ("node1 max_slots=4 max-slots=4", '"max-slots=4": "max-slots" is given twice; keep one'),
        ("node1:2 slots=2", '"node1:2" and "slots=" both give a count; keep one'),
        ("[fe80::1]:2 slots=2", '"[fe80::1]:2" and "slots=" both give a count; keep one'),
        ("node1 slots=3 max_slots=2", '"max_slots=2" is less than the 3 slots; raise it, or lower the slots'),
        ("node1:", '"node1:": "" is no count; write a whole number from 1 to 999999'),
        ("[fe80::1]:0", '"fe80::1:0": "0" is no count; write a whole number from 1 to 999999'),
        ("node1 max_slots=0", '"max_slots=0": "0" is no count; write a whole number from 1 to 999999'),
        ("fe80::1", '"fe80::1" looks like an IPv6 address; write it in brackets, as in [fe80::1]:4'),
        ("node1:2:3 slots=2", f'"node1:2:3" has more than one ":"; {MEND}'),
        ("me@node1", '"me@node1" names a user; say it in the User of ~/.ssh/config, and write the host alone'),
        ("-node", f'"-node" {NO_NAME}; {MEND}'),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_line_is_told_with_the_mend(text: str, told: str) -> None:
    with pytest.raises(RankTableError, match=f"^{re.escape(told)}$"):
        read_line(text)


@pytest.mark.parametrize(
    ("lines", "host"),
    [
        ("a:1 max_slots=2\na:3", Host("a", 4, 4)),
        ("a:1 max_slots=9\na:3", Host("a", 4, 9)),
        ("a:1 max_slots=2\na:3 max_slots=4", Host("a", 4, 6)),
        ("a:1\na:3", Host("a", 4, None)),
    ],
)
def test_lines_of_one_host_add_up_and_its_limit_is_never_below_its_slots(lines: str, host: Host) -> None:
    assert Hostfile.parse(lines, "hosts").hosts == (host,)


def test_a_text_with_more_problems_than_any_hostfile_is_read_no_further() -> None:
    with pytest.raises(RankTableError) as caught:
        Hostfile.parse("=\n" * 1001, "hosts")
    lines = str(caught.value).splitlines()
    assert (lines[0], lines[-1]) == ("hosts: 1001 problems", "and 981 more")
