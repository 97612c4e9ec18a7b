"""The stubs of what is put together when it is imported, for mypy and for editors; ``make stubs`` writes them."""

from __future__ import annotations

import builtins
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import mpiparallel
from mpiparallel.graph.elementwise import Elementwise
from mpiparallel.graph.own_operators import Add
from mpiparallel.graph.tensor_operations import TensorOperations
from mpiparallel.ops import composite, door, elementwise, functional, operations, primitive_names

PACKAGE: Final = Path(mpiparallel.__file__).parent
HEAD: Final = '"""Written by `make stubs`; edit {0}."""\n\n'
PLACES: Final = (composite, primitive_names)
"""Where names are that what they mean does not tell."""


def stubs() -> dict[Path, str]:
    """Return the text of each stub."""
    doors = (("__init__.py", mpiparallel.ops), ("operations.py", operations), ("functional.py", functional))
    return {
        **{PACKAGE / "ops" / f"{file}i": HEAD.format(f"ops/{file}") + door_text(one) for file, one in doors},
        PACKAGE / "ops" / "elementwise" / "__init__.pyi": HEAD.format("the tables of functions") + elementwise_text(),
        PACKAGE / "graph" / "tensor_operations.pyi": HEAD.format("ops/tensor_methods, or the tables")
        + operations_text(),
    }


def door_text(module: ModuleType) -> str:
    """Return the import of each name that a door hands out."""
    within = [name for name in ("composite", "functional", "operations") if module is mpiparallel.ops]
    lines = [f"from mpiparallel.ops import {name} as {name}" for name in within]
    names = door.public(module)
    return (
        "\n".join([*lines, *(f"from {_home(names[name], name)} import {name} as {name}" for name in sorted(names))])
        + "\n"
    )


def _home(item: Any, name: str) -> str:
    if vars(sys.modules[item.__module__]).get(name) is item:
        return str(item.__module__)
    return next(place.__name__ for place in PLACES if vars(place).get(name) is item)


def elementwise_text() -> str:
    """Return the operators and the functions of the tables."""
    made = [*elementwise.OPERATORS.values(), *elementwise.SLOPES]
    functions = {name: one for row, one in elementwise.FUNCTIONS.items() for name in row.functions.split()}
    lines = [
        "from typing import Any",
        "",
        "from mpiparallel.graph.elementwise import Binary as Binary",
        "from mpiparallel.graph.elementwise import Unary as Unary",
        "from mpiparallel.graph.own_operators import Add as Add",
        "from mpiparallel.graph.tensor import Tensor",
        *(line for operator in made if operator is not Add for line in _operator(operator)),
        *(line for name, function in functions.items() for line in _function(name, function, "")),
    ]
    return "\n".join(lines) + "\n"


def _operator(operator: type[Elementwise]) -> Iterator[str]:
    yield ""
    yield f"class {operator.__name__}({operator.__bases__[0].__name__}):"
    yield f'    """{_about(operator)}"""'
    if operator.function.options:
        options = ", ".join(f"{name}: {_type(value)} = ..." for name, value in operator.function.options.items())
        yield f"    def __init__(self, {options}) -> None: ..."


def _type(value: Any) -> str:
    return type(value).__name__


def operations_text() -> str:
    """Return the signs and the methods of tensors."""
    inside = vars(TensorOperations)
    own = {name for name in inside if name in vars(builtins)}
    lines = [
        "import builtins",
        "from collections.abc import Iterator, Sequence",
        "from typing import Any, TypeVar",
        "",
        "from mpiparallel.graph.tensor import Tensor",
        "",
        'Class = TypeVar("Class", bound="type[Any]")',
        "",
        "def attached(methods: Class) -> Class: ...",
        "",
        "class TensorOperations:",
    ]
    for name in sorted(inside):
        if name.startswith("_") and not name.startswith("__"):
            continue
        item = inside[name]
        if isinstance(item, property):
            lines += ["    @property", *_function(name, item.fget, "    ", own)]
        elif inspect.isfunction(item):
            lines += _function(name, item, "    ", own)
    return "\n".join(lines) + "\n"


def _function(name: str, function: Callable[..., Any] | None, indent: str, hidden: Any = ()) -> Iterator[str]:
    signature = inspect.signature(function) if function is not None else inspect.Signature()
    if hasattr(function, "__wrapped__"):
        # The decorator takes more names for its arguments.
        arguments = "self, *arguments: Any, **named: Any"
    else:
        arguments = ", ".join(_arguments(signature))
    returned = "Tensor" if signature.return_annotation is inspect.Signature.empty else signature.return_annotation
    text = returned if isinstance(returned, str) else returned.__name__
    line = f"{indent}def {name}({arguments}) -> {text}: ..."
    for word in hidden:
        line = re.sub(rf"(?<=[ \[|]){word}(?=[ ,\]):|])", f"builtins.{word}", line)
    # The name of the method itself comes first.
    yield line.replace(f"def builtins.{name}", f"def {name}", 1)


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    star = False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not star:
            star = True
            yield "*"
        star = star or one.kind is one.VAR_POSITIONAL
        mark = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = "Any" if one.annotation is one.empty else one.annotation
        kind = kind if isinstance(kind, str) else "Any"
        default = "" if one.default is one.empty else " = ..."
        if isinstance(one.default, (int, float)) and one.annotation is one.empty:
            kind = _type(one.default)
        yield one.name if one.name == "self" else f"{mark}{one.name}: {kind}{default}"


def _about(item: Any) -> str:
    return inspect.cleandoc(item.__doc__).splitlines()[0]


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
