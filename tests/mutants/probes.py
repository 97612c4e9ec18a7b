"""A copy of the package that tells which test reaches a statement: a call before the statement writes the test down.

Only the statements that are asked for have one, so the tests take no longer than they do without. The lines of the
files stay what they are: Python finds what is compiled of them with the calls.
"""

from __future__ import annotations

import ast
import importlib.util
import marshal
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

_PROBE = """
import os as _probe_os
import sys as _probe_sys
from os import write as _probe_write
_probe_seen = set()
if not hasattr(_probe_sys, "_probe_blocks"):
    import mmap as _probe_mmap
    with open({blocks!r}, "r+b") as _probe_file:
        _probe_sys._probe_blocks = _probe_mmap.mmap(_probe_file.fileno(), 0)
    _probe_sys._probe_told = _probe_os.open({file!r}, {flags})
_probe_blocks, _probe_told = _probe_sys._probe_blocks, _probe_sys._probe_told
def _probe(label):
    told = label + "\\t" + _probe_os.environ.get("PYTEST_CURRENT_TEST", "") + "\\n"
    if told not in _probe_seen:
        _probe_seen.add(told)
        try:
            _probe_write(_probe_told, told.encode())
        except OSError:
            pass  # no file may grow, or all are closed
"""
_FLAGS = "_probe_os.O_WRONLY | _probe_os.O_CREAT | _probe_os.O_APPEND"
_COMPILED = {"compiled", "inlined", "intrinsic", "loosely"}
"""What makes machine code of a function: there Python reaches no statement."""
_UNCHECKED = (1).to_bytes(4, "little") + bytes(8)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Place = tuple[list[ast.stmt], ast.stmt]


def label(path: Path, line: int) -> tuple[str, bool]:
    """Return the name of a line's statement, and whether it runs in a function, not while its file is imported.

    Of what runs at import the name is that of all functions of the file.
    """
    place = _innermost(ast.parse(path.read_text()), line)
    return (f"{path}:{place[1].lineno}", True) if place else (f"{path}:0", False)


def write_probes(package: Path, labels: Sequence[str], told: Path, blocks: Path) -> list[str]:
    """Compile the files of ``package`` with a call before each statement of ``labels``, which appends to ``told``.

    A line of ``told`` is a label, a tab, and what pytest calls the test that runs. Where a file has no function, those
    of the files that import it stand for it. The bytes of ``blocks`` become 1 where a block of a function is reached
    at all; returns the file and line of each.
    """
    for folder in [*package.rglob("__pycache__")]:
        shutil.rmtree(folder)
    sources = {path: path.read_text() for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    marks: dict[Path, list[tuple[_Place, str]]] = {}
    for one in labels:
        name, _, line = one.rpartition(":")
        path = package.parent / name
        if path not in trees:
            continue
        if int(line):
            place = _innermost(trees[path], int(line))
            marks.setdefault(path, []).extend([(place, f"_probe({one!r})")] if place else [])
            continue
        files = [path] if any(_functions(trees[path])) else _importers(path.relative_to(package.parent), sources)
        for file in files:
            marks.setdefault(file, []).extend((place, f"_probe({one!r})") for place in _functions(trees[file]))
    names: list[str] = []
    for path, tree in trees.items():
        for place in _blocks(tree.body, _compiled(tree)):
            marks.setdefault(path, []).append((place, f"_probe_blocks[{len(names)}] = 1"))
            names.append(f"{path.relative_to(package.parent)}:{place[1].lineno}")
    if not blocks.exists() or blocks.stat().st_size != len(names):
        blocks.write_bytes(bytes(len(names)))
    for path, found in marks.items():
        _write(path, trees[path], found, _PROBE.format(file=str(told), flags=_FLAGS, blocks=str(blocks)))
    return names


def _importers(path: Path, sources: Mapping[Path, str]) -> list[Path]:
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    return [file for file, source in sources.items() if f"from {module} import" in source]


def _write(path: Path, tree: ast.Module, found: Sequence[tuple[_Place, str]], head: str) -> None:
    for (body, statement), text in found:
        call = ast.parse(text).body[0]
        for node in ast.walk(call):
            ast.copy_location(node, statement)
        body.insert(next(number for number, one in enumerate(body) if one is statement), call)
    after = [isinstance(one, ast.ImportFrom) and one.module == "__future__" for one in tree.body]
    begin = len(after) - after[::-1].index(True) if any(after) else int(ast.get_docstring(tree) is not None)
    tree.body[begin:begin] = ast.parse(head).body
    code = compile(tree, str(path), "exec", dont_inherit=True)
    compiled = Path(importlib.util.cache_from_source(str(path)))
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(importlib.util.MAGIC_NUMBER + _UNCHECKED + marshal.dumps(code))


def _functions(tree: ast.Module) -> Iterator[_Place]:
    """Yield where each function of a file begins, its docstring aside."""
    compiled = _compiled(tree)
    for node in ast.walk(tree):
        if isinstance(node, _Function) and node not in compiled:
            first = int(ast.get_docstring(node) is not None)
            if first < len(node.body):
                yield node.body, node.body[first]


def _blocks(body: list[ast.stmt], compiled: Collection[ast.AST], within: bool = False) -> Iterator[_Place]:
    """Yield where each block of statements of a function begins, which run one after the other or not at all."""
    for one in body:
        if isinstance(one, _Function):
            if one not in compiled:
                first = int(ast.get_docstring(one) is not None)
                if first < len(one.body):
                    yield one.body, one.body[first]
                yield from _blocks(one.body, compiled, True)
            continue
        is_within = within and not isinstance(one, ast.ClassDef)
        for inner in _bodies(one):
            if is_within and not isinstance(one, ast.With | ast.AsyncWith):
                yield inner, inner[0]
            yield from _blocks(inner, compiled, is_within)


def _compiled(tree: ast.Module) -> set[ast.AST]:
    """Return the functions of a file that become machine code, and those that make such: Python reaches none of them.

    They have a decorator that compiles, or they, or what they return, are given to one.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) in _COMPILED]
    arguments = [one for call in calls for one in call.args]
    made = {_name(one.func if isinstance(one, ast.Call) else one) for one in arguments}
    functions = [node for node in ast.walk(tree) if isinstance(node, _Function)]
    found = [one for one in functions if one.name in made or _is_decorated(one)]
    return {inner for one in found for inner in ast.walk(one) if isinstance(inner, _Function)}


def _is_decorated(function: _Function) -> bool:
    return any(ast.unparse(one).split("(")[0].split(".")[-1] in _COMPILED for one in function.decorator_list)


def _name(function: ast.expr) -> str:
    return ast.unparse(function).split(".")[-1]


def _innermost(tree: ast.Module, line: int) -> _Place | None:
    """Return the innermost statement of a function that has a line, with the list that it is in; None for others."""
    return _innermost_of(tree.body, line, _compiled(tree), within=False)


def _innermost_of(body: list[ast.stmt], line: int, compiled: Collection[ast.AST], within: bool) -> _Place | None:
    for one in body:
        first = min([one.lineno, *(each.lineno for each in getattr(one, "decorator_list", ()))])
        if not first <= line <= (one.end_lineno or 0):
            continue
        if one in compiled:
            return None
        is_within = isinstance(one, _Function) or (within and not isinstance(one, ast.ClassDef))
        for inner in _bodies(one):
            found = _innermost_of(inner, line, compiled, is_within)
            if found:
                return found
        if any(inner[0].lineno <= line <= (inner[-1].end_lineno or 0) for inner in _bodies(one)):
            return None
        return (body, one) if within else None
    return None


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        if getattr(statement, name, None):
            yield getattr(statement, name)
    for each in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield each.body
