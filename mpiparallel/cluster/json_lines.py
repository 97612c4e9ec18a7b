"""Where the values of a JSON text stand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from mpiparallel.cluster.json_document import child

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
# Twice a table of 10,000 ranks; beyond it finding the lines would take seconds.
_MOST_CHARACTERS = 2 << 20


def line_numbers(text: str, paths: Iterable[str]) -> dict[str, int]:
    r"""Return the line, from 1, of each of the JSON ``paths`` in the well-formed JSON ``text``.

    A path that is not there has the line of the nearest value around it. Texts above 2 MiB are not searched.

    >>> line_numbers('{"status": "x",\n "server_list": [\n {}]}', ["server_list[0].device", "status"])
    {'server_list[0].device': 3, 'status': 1}
    """
    asked = set(paths)
    if not asked or len(text) > _MOST_CHARACTERS:
        return {}
    wanted = {found for path in asked for found in (path, *_around(path))}
    positions = {path: position for path, position in _values(text) if path in wanted}
    found = {}
    for path in sorted(asked):
        place = next((place for place in (path, *_around(path)) if place in positions), None)
        if place is not None:
            found[path] = text.count("\n", 0, positions[place]) + 1
    return found


def _around(path: str) -> Iterator[str]:
    """Yield the paths of what a value is in, the nearest first."""
    while path:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
        yield path


def _values(text: str) -> Iterator[tuple[str, int]]:
    """Yield the path and the position of every value; of a value with a key, the position of the key."""
    # Each entry is the path of a container and what its next value is called: an index, or the last key seen.
    stack: list[tuple[str, str | int]] = []
    key_at = -1
    awaits_key = False
    path = ""
    for token in _TOKEN.finditer(text):
        word, position = token.group(), token.start()
        if word in "}]":
            if not stack:
                return
            stack.pop()
            awaits_key = False
        elif word == ",":
            if stack and isinstance(stack[-1][1], int):
                stack[-1] = (stack[-1][0], stack[-1][1] + 1)
            awaits_key = bool(stack) and isinstance(stack[-1][1], str)
        elif word == ":":
            awaits_key = False
        elif awaits_key:
            stack[-1] = (stack[-1][0], str(json.loads(word)))
            key_at = position
        else:
            if stack:
                path = child(*stack[-1])
            yield path, key_at if stack and isinstance(stack[-1][1], str) else position
            if word in "{[":
                stack.append((path, "" if word == "{" else 0))
                awaits_key = word == "{"
