"""One name has one class, so a name that is met in a message or in a signature says where to look."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.conformance.package_trees import nodes_of, trees

NAMED_BY_MINDSPORE = ("mpiparallel.nn.", "mpiparallel.ops.")
"""Its users find a cell and an operator of one name in two folders, ``nn.Softmax`` and ``ops.Softmax``."""

RETIRED = re.findall(
    r"\w+",
    """Team Order Wish Standing Farewell Growth CallLog Passage Meeting Notice Root Roll Caller Fate Death Terms Shown
    Unwatched Deals Dealer Way Together Staged End Feed TensorSigns""",
)
"""Words of our own where the field has one; none may come back as the name of a class."""


def classes_of(module: str) -> Iterator[str]:
    """Yield the classes that a module defines anywhere, inside functions too."""
    yield from (node.name for node in nodes_of(module, ast.ClassDef))


def aliases_of(module: str) -> Iterator[str]:
    """Yield the types to which a module gives a name at its top."""
    for node in trees()[module].body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name) and is_type(target.id))


def is_type(name: str) -> bool:
    return name.lstrip("_")[:1].isupper() and not name.isupper()


def homes() -> dict[str, list[str]]:
    """Return the modules that define a class, by the name of the class."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module in trees():
        for name in classes_of(module):
            found[name].append(module)
    return found


def test_no_two_classes_have_one_name() -> None:
    twice = {name: modules for name, modules in homes().items() if len(modules) > 1}
    assert {name: modules for name, modules in twice.items() if not all(map(is_mindspores, modules))} == {}


def test_no_type_alias_has_the_name_of_a_class() -> None:
    classes = {name for name, modules in homes().items() if not all(map(is_mindspores, modules))}
    assert [f"{name} in {module}" for module in trees() for name in aliases_of(module) if name in classes] == []


def test_no_class_has_a_name_that_the_terms_of_the_field_have_replaced() -> None:
    assert {name: modules for name, modules in homes().items() if name.lstrip("_") in RETIRED} == {}


def is_mindspores(module: str) -> bool:
    return module.startswith(NAMED_BY_MINDSPORE)
