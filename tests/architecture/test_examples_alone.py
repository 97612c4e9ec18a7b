"""The examples of a module work in a process that has imported nothing but that module.

Where importing it loads the operators, all of them are there, whatever else is loaded, and where it loads no tensors,
none is needed: those examples run with all others, in one process. What has tensors and is below the operators is tried
in a process of its own each.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

from tests.conformance.package_trees import nodes_of, trees

# Importing this one starts MPI.
STARTS_MPI = "mpiparallel.communication.mpi"
OPERATORS, TENSORS = "mpiparallel.ops", "mpiparallel.graph.tensor"

EACH_ALONE = """
import doctest, importlib, os, sys
import numpy  # each would take as long to load it as all else
failed = []
for name in sys.argv[1:]:
    process = os.fork()
    if not process:
        results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
        sys.stdout.flush()
        os._exit(results.failed > 0 or results.attempted == 0)
    if os.waitpid(process, 0)[1]:
        failed.append(name)
sys.exit(", ".join(failed) or None)
"""


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield what runs when a module is imported, without what is there for types only."""
    for node in body:
        yield node
        if isinstance(node, ast.Try):
            yield from statements(node.body)
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from statements([*node.body, *node.orelse])


@cache
def imports_of(name: str) -> frozenset[str]:
    """Return the modules of the package that importing a module imports first, the folders around it included."""
    found = {name.rpartition(".")[0]} - {""}
    for node in statements(trees()[name].body):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update({str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)})
    return frozenset(one for one in found if one in trees())


def loaded_with(name: str) -> set[str]:
    """Return all modules of the package that are there when a module has been imported."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += imports_of(one)
    return found


def has_examples(name: str) -> bool:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return any(">>> " in (ast.get_docstring(one) or "") for kind in kinds for one in nodes_of(name, kind))


def test_examples_below_the_operators_work_in_a_process_of_their_own() -> None:
    alone = [
        name
        for name in trees()
        if has_examples(name)
        and TENSORS in loaded_with(name)
        and OPERATORS not in loaded_with(name)
        and not name.startswith(STARTS_MPI)
    ]
    assert TENSORS in alone
    done = subprocess.run([sys.executable, "-c", EACH_ALONE, *alone], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_what_a_tensor_does_is_there_wherever_the_operators_are() -> None:
    attaching = {name for name in trees() if name.startswith("mpiparallel.ops.tensor_")}
    assert attaching - {
        "mpiparallel.ops.tensor_methods.arguments",
        "mpiparallel.ops.functions.bounds_and_comparisons",
    } <= loaded_with(OPERATORS)


def test_only_the_door_to_all_operators_reads_the_registry() -> None:
    home = "mpiparallel.graph.operator"
    imported = {
        (name, alias.name)
        for name in trees()
        for node in nodes_of(name, ast.ImportFrom)
        if node.module == home
        for alias in node.names
    }
    takers = {name for name, what in imported if what == "OPERATORS"}
    assert takers == {"mpiparallel.ops.operations"}
