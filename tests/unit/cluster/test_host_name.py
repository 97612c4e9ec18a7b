"""Which words name a host or an address, the machine itself, or nothing yet."""

from __future__ import annotations

import pytest

from mpiparallel.cluster.host_name import host_problem, is_address, is_ipv6, is_loopback, is_placeholder

IS_NAME = "is no host name: those have letters, digits, dots and hyphens, a letter or digit first"
IS_ADDRESS = "is no IPv4 address: each of its four numbers is 0 to 255"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("node1", None),
        ("1node", None),
        ("a_b-c.d", None),
        ("10.0.0.255", None),
        ("fe80::1", None),
        ("fe80::1%eth0", None),
        ("a" * 253, None),
        ("a" * 254, "has 254 characters, a host name at most 253"),
        ("", "is empty"),
        ("fe80:1", "is no IPv6 address"),
        ("node:1", "is no IPv6 address"),
        ("-node", IS_NAME),
        (".node", IS_NAME),
        ("a b", IS_NAME),
        ("n\u00f6de", IS_NAME),
        ("node\n", IS_NAME),
        ("17", "is a number, not a host"),
        ("10.0.0.256", IS_ADDRESS),
        ("10.0.0", IS_ADDRESS),
        ("1.2.3.4.5", IS_ADDRESS),
    ],
)
def test_a_word_may_be_a_host_or_the_reason_is_told(name: str, problem: str | None) -> None:
    assert host_problem(name) == problem


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("10.*.*.*", True),
        ("*", True),
        ("node-*:1", True),
        ("10.0.0.1", False),
        ("", False),
        ("* x", False),
        ("-*", False),
        ("*\n", False),
    ],
)
def test_only_a_name_with_a_star_stands_for_none_yet(name: str, told: bool) -> None:
    assert is_placeholder(name) is told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("localhost", True),
        ("localhost.localdomain", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhosts", False),
        ("128.0.0.1", False),
        ("::2", False),
        ("node127.0", False),
    ],
)
def test_the_machine_itself_has_names_of_its_own(name: str, told: bool) -> None:
    assert is_loopback(name) is told


@pytest.mark.parametrize(
    ("text", "is_six", "is_any"),
    [
        ("fe80::1", True, True),
        ("::", True, True),
        ("1:2:3:4:5:6:7:8", True, True),
        ("1:2:3:4:5:6:7", False, False),
        ("192.1.27.6", False, True),
        ("192.1.27.256", False, False),
        ("192.1.27", False, False),
        ("", False, False),
        ("x" * 200, False, False),
    ],
)
def test_addresses_are_those_of_either_version(text: str, is_six: bool, is_any: bool) -> None:
    assert (is_ipv6(text), is_address(text)) == (is_six, is_any)


@pytest.mark.parametrize(
    ("name", "told"),
    [("fe80::1%eth0", True), ("fe80::1%", False), ("fe80::1%-x", False), ("%eth0", False), ("[fe80::1]", False)],
)
def test_a_scope_of_an_address_is_a_name(name: str, told: bool) -> None:
    assert is_ipv6(name) is told
