"""The changes that can be made to the package, and a sample of them that a seed draws.

Each place has a number of its own that the seed and its text decide; those of the least numbers are drawn. A sample
therefore stays what it is where other lines of the package change.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.work_item import MutationSpec
from parso.tree import NodeOrLeaf

Place = tuple[int, int]
Span = tuple[Place, Place]
_IDLE_TYPES = {"name", "newline", "string", "endmarker", "fstring_string", "fstring_start", "fstring_end"}
_PUNCTUATION = set("()[]{},.:=;") | {"->", "..."}
_IDLE_DECORATORS = {"abstractmethod", "final", "overload", "override", "runtime_checkable"}


def drawn(paths: Sequence[Path], seed: int, kept: Path) -> list[MutationSpec]:
    """Return one change of each place, in the order in which they are drawn.

    Places are drawn alike, whatever the number of changes that one allows. ``kept`` is a file that keeps the places of
    every file until that is another: to find them takes a minute.
    """
    known = json.loads(kept.read_text()) if kept.exists() else {}
    now = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    others = {name: one for name, one in now.items() if name not in known or known[name][0] != one}
    if others:
        known.update({name: (one, _places(Path(name))) for name, one in others.items()})
        kept.write_text(json.dumps(known))
    numbered = []
    for name in now:
        for text, before, changes in known[name][1]:
            number = _number(seed, name, text, before)
            numbered.append((number, name, changes[number % len(changes)]))
    numbered.sort(key=lambda one: one[0])
    return [
        MutationSpec(Path(name), operator, occurrence, tuple(start), tuple(end))
        for _, name, (operator, occurrence, start, end) in numbered
    ]


def _places(path: Path) -> list[tuple[str, int, list[tuple[str, int, Place, Place]]]]:
    return [
        (text, before, [(one.operator_name, one.occurrence, one.start_pos, one.end_pos) for one in changes])
        for (_, text, before), changes in _changes_by_place(path).items()
    ]


def _number(*words: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "big")


def _changes_by_place(path: Path) -> dict[tuple[str, str, int], list[MutationSpec]]:
    """Return the changes of each place, named by the file, the line's text, and how many places had that one before."""
    found: dict[Span, list[MutationSpec]] = {}
    without_effect = _spans_without_effect(path)
    for change in _changes(path):
        span = (change.start_pos, change.end_pos)
        if not any(start <= span[0] and span[1] <= end for start, end in without_effect):
            found.setdefault(span, []).append(change)
    lines = path.read_text().splitlines()
    before: Counter[str] = Counter()
    named = {}
    for span in sorted(found):
        text = lines[span[0][0] - 1].strip()
        named[str(path), text, before[text]] = found[span]
        before[text] += 1
    return named


def _changes(path: Path) -> Iterator[MutationSpec]:
    nodes = [node for node in ast_nodes(get_ast_from_path(path)) if not _is_idle(node)]
    for name in cosmic_ray.plugins.operator_names():
        kind = cosmic_ray.plugins.get_operator(name)
        if kind.arguments():
            # It would have to be told which variables to replace.
            continue
        operator = kind()
        spans = (span for node in nodes for span in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(spans):
            yield MutationSpec(path, name, occurrence, start, end)


def _is_idle(node: NodeOrLeaf) -> bool:
    """Return whether no change is made of a node; to ask each kind of change for it would take minutes."""
    return node.type in _IDLE_TYPES or (node.type == "operator" and getattr(node, "value", "") in _PUNCTUATION)


def _spans_without_effect(path: Path) -> list[Span]:
    """Return where a change cannot matter: annotations, and what is there for a type checker or a reader alone.

    So are ``strict=`` of ``zip``, which checks what is so anyway, and ``slots=``, which saves memory.
    """
    spans: list[Span] = []
    for node in ast.walk(ast.parse(path.read_text())):
        idle: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            decorators = [one for one in node.decorator_list if ast.unparse(one).split(".")[-1] in _IDLE_DECORATORS]
            # A change takes the whole line away.
            spans += [((one.lineno, 0), (one.lineno + 1, 0)) for one in decorators]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            idle.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            idle.append(node.annotation)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            idle.append(node)
        elif isinstance(node, ast.Call):
            idle += [one for one in node.keywords if one.arg == "slots"]
            if ast.unparse(node.func) == "zip":
                idle += [one for one in node.keywords if one.arg == "strict"]
        spans += [_span(one) for one in idle if one is not None]
    return spans


def _span(node: ast.AST) -> Span:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
