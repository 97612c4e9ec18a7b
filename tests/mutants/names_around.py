"""The names by which a test may speak of a line: those of the functions, classes and rows of a table that it is in."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def names_around(path: Path, line: int) -> frozenset[str]:
    """Return the names of what a line is in; for what is private those of what uses it in its file, and so on."""
    found: set[str] = set()
    lines, seen = [line], {line}
    while lines:
        for name in _names_at(path, lines.pop()):
            if not name.startswith("_"):
                found.add(name)
                continue
            users = {one.lineno for one in _nodes(path) if isinstance(one, ast.Name) and one.id == name} - seen
            lines += users
            seen |= users
    return frozenset(found)


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


def _names_at(path: Path, line: int) -> Iterator[str]:
    around = [one for one in _nodes(path) if _first_line(one) <= line <= (getattr(one, "end_lineno", None) or 0)]
    is_local = any(isinstance(one, _Function) for one in around)
    for one in around:
        if isinstance(one, _Function | ast.ClassDef):
            yield one.name
        elif isinstance(one, ast.Assign | ast.AnnAssign) and not is_local:
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(one, ast.Call):
            # A row of a table begins with its name.
            words = [word.value for word in one.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            yield from (word for word in words if re.fullmatch(r"[A-Za-z]\w*", word))


def _first_line(node: ast.AST) -> int:
    own = getattr(node, "lineno", sys.maxsize)
    return min([own, *(one.lineno for one in getattr(node, "decorator_list", ()))])
