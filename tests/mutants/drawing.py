"""The changes that can be made to the package, and a sample of them that a seed draws."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.work_item import MutationSpec

Place = tuple[int, int]
Span = tuple[Place, Place]


def drawn(paths: Sequence[Path], count: int, seed: int) -> list[MutationSpec]:
    """Return at most ``count`` changes, each of another place, in the order in which they were drawn.

    Places are drawn alike, whatever the number of changes that one allows.
    """
    places = [changes for path in paths for changes in _changes_by_place(path)]
    chance = random.Random(seed)
    return [chance.choice(changes) for changes in chance.sample(places, min(count, len(places)))]


def _changes_by_place(path: Path) -> list[list[MutationSpec]]:
    found: dict[Span, list[MutationSpec]] = {}
    without_effect = _spans_without_effect(path)
    for change in _changes(path):
        span = (change.start_pos, change.end_pos)
        if not any(start <= span[0] and span[1] <= end for start, end in without_effect):
            found.setdefault(span, []).append(change)
    return [found[span] for span in sorted(found)]


def _changes(path: Path) -> Iterator[MutationSpec]:
    nodes = list(ast_nodes(get_ast_from_path(path)))
    for name in cosmic_ray.plugins.operator_names():
        kind = cosmic_ray.plugins.get_operator(name)
        if kind.arguments():
            # It would have to be told which variables to replace.
            continue
        operator = kind()
        spans = (span for node in nodes for span in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(spans):
            yield MutationSpec(path, name, occurrence, start, end)


def _spans_without_effect(path: Path) -> list[Span]:
    """Return where a change cannot matter: annotations, and what is there for a type checker alone."""
    spans: list[Span] = []
    for node in ast.walk(ast.parse(path.read_text())):
        idle: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            idle.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            idle.append(node.annotation)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            idle.append(node)
        spans += [_span(one) for one in idle if one is not None]
    return spans


def _span(node: ast.AST) -> Span:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
