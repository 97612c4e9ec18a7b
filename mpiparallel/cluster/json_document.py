"""JSON text of a stranger as Python values: keys that are written twice, nesting and size are watched."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from mpiparallel.cluster.file_problems import FileProblems

# Each rank is one object: as many as could be ranks, so that a small file cannot fill the memory with empty objects.
_MOST_CONTAINERS = 125_000
_MOST_DIGITS = 18
_MOST_SHOWN = 60


class RepetitiveObject(dict[str, Any]):
    """A JSON object some of whose keys were written more than once; it remembers which, and how often."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        """Take the ``pairs`` in the order of the text: the last value of a key counts."""
        super().__init__(pairs)
        self.repeated = {key: count for key, count in Counter(key for key, _ in pairs).items() if count > 1}


def read_json(text: str, problems: FileProblems) -> Any:
    """Return the value that ``text`` is; None, and a problem, where it is no JSON. Repeated keys are problems."""
    if text.count("{") + text.count("[") > _MOST_CONTAINERS:
        problems.add("", f"it has more than {_MOST_CONTAINERS} objects and lists; give a rank table")
        return None
    repetitive: list[RepetitiveObject] = []

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            found = RepetitiveObject(pairs)
            repetitive.append(found)
        return found

    try:
        document = json.loads(text, object_pairs_hook=object_of, parse_int=_integer)
    except json.JSONDecodeError as error:
        problems.add("", f"column {error.colno}: {_mend(error)}", error.lineno)
        return None
    except RecursionError:
        problems.add("", "it is nested too deeply for a rank table; write server_list, device and their values only")
        return None
    if repetitive:
        _report_repeated(document, problems)
    return document


def child(path: str, key: str | int) -> str:
    """Return the JSON path of the value ``key`` of what is at ``path``.

    >>> child(child("", "server_list"), 1), child("a", "b c")
    ('server_list[1]', 'a["b c"]')
    """
    if isinstance(key, int):
        return f"{path}[{key}]"
    if key.isascii() and key.isidentifier() and len(key) <= _MOST_SHOWN:
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key[:_MOST_SHOWN])}]"


def shown(value: object) -> str:
    """Return ``value`` as JSON in at most 60 characters, whatever it holds.

    >>> shown("10.0.0.1"), shown({"a": 1}), shown([]), shown("x" * 100)[-5:]
    ('"10.0.0.1"', '{...}', '[]', 'x..."')
    """
    if isinstance(value, dict):
        return "{...}" if value else "{}"
    if isinstance(value, list):
        return "[...]" if value else "[]"
    text = json.dumps(value[:_MOST_SHOWN] if isinstance(value, str) else value)
    if isinstance(value, str) and len(text) > _MOST_SHOWN:
        return text[: _MOST_SHOWN - 4].rstrip("\\") + '..."'
    return text


def _integer(digits: str) -> int | str:
    # To convert many digits takes long; no number of a rank table has them, so its text is as good to show.
    return int(digits) if len(digits) <= _MOST_DIGITS else digits


def _mend(error: json.JSONDecodeError) -> str:
    rest = error.doc[error.pos : error.pos + 2]
    before = error.doc[: error.pos].rstrip()
    if not error.doc.strip():
        return "the file is empty; write a rank table"
    if rest in ("//", "/*") or rest[:1] == "#":
        return f"{shown(_line(error))} has a comment, which JSON does not know; delete it"
    if rest[:1] in ("}", "]") and before.endswith(","):
        return f'the comma before the "{rest[0]}" has nothing after it; delete the comma'
    if error.pos >= len(error.doc.rstrip()):
        return "the file ends here, in the middle of the table; is it cut off? write the rest"
    if rest[:1] == "'":
        return f"{shown(_line(error))} has single quotes; write double ones"
    return f"{error.msg} in {shown(_line(error))}; write well-formed JSON"


def _line(error: json.JSONDecodeError) -> str:
    start = error.pos - error.colno + 1
    end = error.doc.find("\n", error.pos)
    return error.doc[max(start, error.pos - 40) : len(error.doc) if end < 0 else end][:_MOST_SHOWN].strip()


def _report_repeated(document: Any, problems: FileProblems) -> None:
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, RepetitiveObject):
            for key, count in value.repeated.items():
                problems.add(child(path, key), f"{shown(key)} is written {count} times in one object; keep one")
        inner: Any = value.items() if isinstance(value, dict) else enumerate(value)
        waiting += [(child(path, key), item) for key, item in inner if isinstance(item, (dict, list))]
