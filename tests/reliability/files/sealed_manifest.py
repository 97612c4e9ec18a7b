"""Manifests that somebody has written on purpose: any content, with the digest that makes it look whole."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import xxhash

Place = tuple[Any, Any]


def sealed(content: Any) -> bytes:
    """Return the file of a manifest with this content and the right digest."""
    return enveloped(json.dumps(content, sort_keys=True).encode())


def enveloped(content: bytes) -> bytes:
    """Return the file of a manifest whose content is these bytes, JSON or not, with the right digest."""
    return b'{"xxh3": "' + xxhash.xxh3_128_hexdigest(content).encode() + b'", "manifest": ' + content + b"}\n"


def content_of(path: Path) -> Any:
    """Return the content of a manifest."""
    return json.loads(path.read_bytes())["manifest"]


def mutated(content: Any, chance: random.Random) -> Any:
    """Return another content: one to three of its values, names or entries are something else, doubled or gone."""
    changed = json.loads(json.dumps(content))
    for _ in range(chance.randint(1, 3)):
        holder, key = chance.choice(list(_places(changed)))
        chance.choice(_WAYS)(holder, key, chance)
    return changed


def damaged_text(text: bytes, chance: random.Random) -> bytes:
    """Return bytes that were the file of a manifest, or never one."""
    way = chance.randrange(5)
    start, stop = sorted(chance.randrange(len(text)) for _ in range(2))
    if way == 0:
        return text[:start]
    if way == 1:
        return text[:start] + text[stop:]
    if way == 2:
        return text[:stop] + text[start:]
    if way == 3:
        return text[:start] + chance.randbytes(chance.randint(1, 8)) + text[start + 1 :]
    bomb = chance.choice(_BOMBS)
    return enveloped(bomb) if chance.random() < 0.5 else bomb


def _places(value: Any) -> Iterator[Place]:
    """Yield each place in a JSON value: what holds it, and its key or index."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in list(items):
        yield value, key
        if isinstance(child, dict | list):
            yield from _places(child)


def _replace(holder: Any, key: Any, chance: random.Random) -> None:
    holder[key] = chance.choice(_VALUES)()


def _shift(holder: Any, key: Any, chance: random.Random) -> None:
    if isinstance(holder[key], int):
        holder[key] += chance.choice([-1, 1, 2**31, -(2**31), 2**63])


def _delete(holder: Any, key: Any, chance: random.Random) -> None:
    del holder[key]


def _double(holder: Any, key: Any, chance: random.Random) -> None:
    if isinstance(holder, list):
        holder.insert(chance.randrange(len(holder) + 1), holder[key])
    else:
        holder[chance.choice(_NAMES)] = holder[key]


def _exchange(holder: Any, key: Any, chance: random.Random) -> None:
    other = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


def _rename(holder: Any, key: Any, chance: random.Random) -> None:
    if isinstance(holder, dict):
        holder[chance.choice(_NAMES)] = holder.pop(key)


def _wrap(holder: Any, key: Any, chance: random.Random) -> None:
    holder[key] = chance.choice([[holder[key]], {"file": holder[key]}])


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


_NAMES = ["", "..", "../../x", "/etc/passwd", "a\0b", "a\nb", "n" * 4096, "\ud800", "rank_0", "%index", "net.w1"]
_WAYS: list[Callable[[Any, Any, random.Random], None]] = [
    *(_replace, _replace, _shift, _delete, _double, _exchange, _rename, _wrap)
]
_VALUES: list[Callable[[], Any]] = [
    *(lambda number=number: number for number in (0, -1, 1, 7, 2**31, 2**40, 2**63, 2**64, 10**300, 0.5, 1e308)),
    *(lambda text=text: text for text in (*_NAMES, "<f4", "O", "V8", "<M8[ns]", "S1000000000", "f" * 32, "f" * 16)),
    *(lambda value=value: value for value in (None, True, False)),
    *(list, dict, lambda: _nested(60), lambda: [0] * 50_000, lambda: [2**31] * 3, lambda: {"a": {}}, lambda: [1] * 70),
]
_BOMBS = [
    *(
        b"",
        b"null",
        b"[]",
        b"{}",
        b"0",
        b'"manifest"',
        b'{"manifest": null, "xxh3": null}',
        b"\xff\xfe",
        b"[" * 1_000_000,
    ),
    *(b'{"a":' * 100_000, b"1" * 1_000_000, b'{"xxh3": NaN, "manifest": Infinity}', b'{"manifest": {}}', b"\0" * 4096),
]
