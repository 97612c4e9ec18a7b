"""One line of a hostfile, in whichever dialect it is written."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from mpiparallel.cluster.host_name import host_problem, is_ipv6, is_loopback
from mpiparallel.cluster.json_document import shown
from mpiparallel.cluster.node_list import expand_nodes
from mpiparallel.errors import RankTableError

_BRACKETED = re.compile(r"\[([^\]]*:[^\]]*)\](?::([^:]*))?")
_COUNT = re.compile(r"[0-9]{1,6}", re.ASCII)
_SETTINGS = {"slots": "slots", "max_slots": "max_slots", "max-slots": "max_slots"}
_ELSEWHERE = {"user": "the User of ~/.ssh/config", "ifname": "the environment", "binding": "the launcher's own options"}


class Line(NamedTuple):
    """The hosts that one line names, how many ranks each may run, and the limit of that number, if any."""

    names: list[str]
    slots: int
    max_slots: int | None


def read_line(line: str) -> Line | None:
    """Return what ``line`` says, None if it is empty or a comment.

    Raises RankTableError with what is wrong and how to mend it; the caller knows the place.

    >>> read_line("node1 slots=2 max_slots=4  # two sockets")
    Line(names=['node1'], slots=2, max_slots=4)
    >>> read_line("[fe80::1]:4").names, read_line("node[1-2]:8").names, read_line("# none")
    (['fe80::1'], ['node1', 'node2'], None)
    """
    content = " ".join(line.partition("#")[0].split())
    words = content.replace(" =", "=").replace("= ", "=").split()
    if not words:
        return None
    settings = _settings(words)
    name, separate, count = _name_and_count(words[0], "slots" in settings)
    if separate and "slots" in settings:
        raise RankTableError(f'{shown(words[0])} and "slots=" both give a count; keep one')
    slots = _count(f"{name}:{count}", count) if separate else settings.get("slots", 1)
    most = settings.get("max_slots")
    if most is not None and most < slots:
        raise RankTableError(f'"max_slots={most}" is less than the {slots} slots; raise it, or lower the slots')
    return Line(_names(name), slots, most)


def _settings(words: list[str]) -> dict[str, int]:
    settings: dict[str, int] = {}
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if key in _ELSEWHERE and equals:
            raise RankTableError(
                f"{shown(word)} is not read from hostfiles; say it in {_ELSEWHERE[key]}, and delete it here"
            )
        if _COUNT.fullmatch(word):
            raise RankTableError(f'{shown(word)} stands alone; write "{words[0][:60]} slots={word}"')
        if key not in _SETTINGS or not equals:
            raise RankTableError(f'{shown(word)} is unknown; write "name slots=n" or "name:n"')
        if _SETTINGS[key] in settings:
            raise RankTableError(f'{shown(word)}: "{key}" is given twice; keep one')
        settings[_SETTINGS[key]] = _count(word, value)
    return settings


def _name_and_count(word: str, has_slots: bool) -> tuple[str, bool, str]:
    """Return the name, whether a count is joined to it, and that count."""
    bracketed = _BRACKETED.fullmatch(word)
    if bracketed is not None:
        if not is_ipv6(bracketed[1]):
            raise RankTableError(f"{shown(word)}: no IPv6 address is in the brackets; write one, as in [fe80::1]:4")
        return bracketed[1], bracketed[2] is not None, bracketed[2] or ""
    if "@" in word:
        raise RankTableError(
            f"{shown(word)} names a user; say it in the User of ~/.ssh/config, and write the host alone"
        )
    if word.count(":") > 1:
        # Whether the last number is a part of the address or a count cannot be seen, unless slots= follows.
        if has_slots and is_ipv6(word):
            return word, False, ""
        if word.strip("0123456789abcdefABCDEF:."):
            raise RankTableError(f'{shown(word)} has more than one ":"; write "name slots=n" or "name:n"')
        raise RankTableError(f"{shown(word)} looks like an IPv6 address; write it in brackets, as in [fe80::1]:4")
    name, colon, count = word.partition(":")
    return name, bool(colon), count


def _names(name: str) -> list[str]:
    if is_ipv6(name):
        if is_loopback(name):
            return ["localhost"]  # which every MPI knows, as it does not the address
        address, percent, scope = name.partition("%")
        return [str(ipaddress.IPv6Address(address)) + percent + scope]
    if "[" in name or "," in name or "]" in name:
        return expand_nodes(name)
    problem = host_problem(name)
    if problem is not None:
        raise RankTableError(f'{shown(name)} {problem}; write "name slots=n" or "name:n"')
    return [name]


def _count(word: str, text: str) -> int:
    if _COUNT.fullmatch(text) is None or int(text) == 0:
        raise RankTableError(f"{shown(word)}: {shown(text)} is no count; write a whole number from 1 to 999999")
    return int(text)
