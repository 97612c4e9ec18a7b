"""Names and addresses of hosts, as rank tables and hostfiles have them."""

from __future__ import annotations

import ipaddress
import re

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PLACEHOLDER = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:*-]*")
_MOST_CHARACTERS = 253
_MOST_ADDRESS_CHARACTERS = 100


def is_placeholder(name: str) -> bool:
    """Tell whether ``name`` stands for no host or address yet, as the tutorial's ``10.*.*.*`` does."""
    return "*" in name and _PLACEHOLDER.fullmatch(name) is not None


def is_loopback(name: str) -> bool:
    """Tell whether ``name`` is that of the machine itself: ``localhost``, ``127.*`` or ``::1``."""
    return name in ("localhost", "::1") or name.startswith(("127.", "localhost."))


def is_ipv6(name: str) -> bool:
    """Tell whether ``name`` is an IPv6 address, without brackets; a scope such as ``%eth0`` may follow it.

    >>> is_ipv6("fe80::1%eth0"), is_ipv6("node1"), is_ipv6("[fe80::1]")
    (True, False, False)
    """
    address, percent, scope = name.partition("%")
    try:
        ipaddress.IPv6Address(address[:_MOST_ADDRESS_CHARACTERS])
    except ValueError:
        return False
    return not percent or _NAME.fullmatch(scope) is not None


def is_address(text: str) -> bool:
    """Tell whether ``text`` is an IPv4 or IPv6 address.

    >>> is_address("192.1.27.6"), is_address("fe80::1"), is_address("192.1.27.256")
    (True, True, False)
    """
    try:
        ipaddress.ip_address(text[:_MOST_ADDRESS_CHARACTERS])
    except ValueError:
        return False
    return True


def host_problem(name: str) -> str | None:
    """Return why ``name`` can be no host, or None if it may be one.

    >>> host_problem("node1"), host_problem("10.0.0.300")
    (None, 'is no IPv4 address: each of its four numbers is 0 to 255')
    """
    if not name:
        return "is empty"
    if len(name) > _MOST_CHARACTERS:
        return f"has {len(name)} characters, a host name at most {_MOST_CHARACTERS}"
    if ":" in name:
        return None if is_ipv6(name) else "is no IPv6 address"
    if _NAME.fullmatch(name) is None:
        return "is no host name: those have letters, digits, dots and hyphens, a letter or digit first"
    if not name.strip("0123456789"):
        return "is a number, not a host"
    if not name.strip("0123456789.") and not is_address(name):
        return "is no IPv4 address: each of its four numbers is 0 to 255"
    return None
