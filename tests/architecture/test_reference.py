"""The reference is complete: each name that users import says what it takes, what it gives, and shows it.

The sections are NumPy's: Parameters, Returns, Raises, Examples. Examples are run as all doctests are.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import pytest

from docs.operator_cuts import lines_about
from docs.reference_pages import FRONTS, names_of
from mpiparallel import ops
from mpiparallel.graph.elementwise import Elementwise
from mpiparallel.graph.operator import Operator
from mpiparallel.parallel.collective_operators import Collective

NOT_YET: Final[tuple[str, ...]] = ()
"""What lacks sections; it may only become less."""
SAID_IN_WORDS: Final = {"BatchNorm", "Operator"}
"""Operators without a rule of their own: one is recorded as its steps, the other is what every operator is."""
_HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.M)
_ENTRY = re.compile(r"^(\S[^:\n]*?)(?: :.*)?$", re.M)


def explained() -> dict[str, Any]:
    """Return each public class and function of the package by the first path that users import it from."""
    found: dict[int, tuple[str, Any]] = {}
    for front in FRONTS:
        module = importlib.import_module(front)
        for name in names_of(front):
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isroutine(value)) and value.__module__.startswith("mpiparallel"):
                found.setdefault(id(value), (f"{front}.{name}", value))
    return dict(found.values())


NAMES: Final = explained()


def sections_of(value: Any) -> dict[str, str]:
    """Return the text of each section of a docstring by its heading; what is before them all is ''."""
    parts = _HEADING.split(inspect.cleandoc(value.__doc__ or ""))
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> list[str]:
    """Return the names that a section explains.

    >>> entries("x, y : Tensor" + chr(10) + "    Numbers." + chr(10) + "**settings")
    ['x', 'y', 'settings']
    """
    return [name.strip().lstrip("*") for found in _ENTRY.findall(section) for name in found.split(",")]


def parameters_of(value: Any) -> list[str]:
    """Return what a call of a function, or of a class, takes."""
    if not inspect.isclass(value):
        return list(inspect.signature(value).parameters)
    if hasattr(value, "_fields"):
        return list(value._fields)
    if issubclass(value, enum.Enum) or value.__init__ is object.__init__:
        return []
    return list(inspect.signature(value.__init__).parameters)[1:]


def takes_as_its_base(value: Any) -> bool:
    """Whether what makes an object of a class is that of a class above it which is explained itself."""
    if not inspect.isclass(value) or "__init__" in vars(value):
        return False
    maker = next(above for above in value.__mro__ if "__init__" in vars(above))
    return any(maker is known for known in NAMES.values())


def raised_by(value: Any) -> Iterator[str]:
    """Yield the errors that a function, or what makes an object, raises itself."""
    source = vars(value).get("__init__") if inspect.isclass(value) else value
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(source))) if inspect.isfunction(source) else ast.Module([])
    except OSError:  # a dataclass's, made of a text
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            yield from re.findall(r"^\w+Error$", node.exc.func.id)


def lacks(value: Any) -> list[str]:
    """Return what the docstring of a public name does not say, or says of what is not there."""
    sections, taken = sections_of(value), parameters_of(value)
    told = entries(sections.get("Parameters", ""))
    known = {*told, *entries(sections.get("Attributes", ""))}
    missing = [] if re.search(r"\w", sections[""]) else ["a claim"]
    missing += [f"parameter {name}" for name in taken if name not in known and not takes_as_its_base(value)]
    missing += [f"no parameter {name}" for name in told if name not in taken]
    returned = inspect.signature(value).return_annotation if inspect.isroutine(value) else None
    missing += ["Returns"] if returned not in (None, "None", "NoReturn") and "Returns" not in sections else []
    missing += [f"Raises {name}" for name in dict.fromkeys(raised_by(value)) if name not in sections.get("Raises", "")]
    return missing if ">>>" in sections.get("Examples", "") else [*missing, "Examples"]


def test_each_public_name_says_what_it_takes_gives_and_raises_and_shows_it() -> None:
    lacking = {name: missing for name, value in NAMES.items() if (missing := lacks(value))}
    assert {name: missing for name, missing in lacking.items() if name not in NOT_YET} == {}
    assert [name for name in NOT_YET if name not in lacking] == [], "these are explained: take them out of NOT_YET"


def test_the_page_of_an_operator_says_what_it_may_cut() -> None:
    operators = [value for value in NAMES.values() if inspect.isclass(value) and issubclass(value, Operator)]
    silent = {one.__name__ for one in operators if not issubclass(one, (Elementwise, Collective))}
    silent -= {one.__name__ for one in operators if lines_about(one)}
    assert silent == SAID_IN_WORDS


@pytest.mark.parametrize(
    ("operator", "cuts"),
    [
        (ops.MatMul, "Inputs ``(m, k)``, ``(k, n)``; output ``(m, n)``. Where k is cut, an AllReduce follows."),
        (ops.Softmax, "Input ``(a, b, c)``; output ``(a, b, c)``. Never cut: c."),
        (
            ops.Concat,
            "Inputs ``(1, a, b)``, ``(1, a, b)``, ``(1, a, b)``; output ``(1, a, b)``. Dims named 1 are not cut.",
        ),
    ],
)
def test_what_an_operator_may_cut_is_told_in_letters(operator: type[Operator], cuts: str) -> None:
    assert lines_about(operator)[2] == cuts


def test_a_function_of_less_than_it_takes_is_found() -> None:
    def halved(x: float, rest: float) -> float:
        """Return half.

        Parameters
        ----------
        x : float
            A number.
        other : float
            None.
        """
        if rest:
            raise ValueError(rest)
        return x / 2

    assert lacks(halved) == ["parameter rest", "no parameter other", "Returns", "Raises ValueError", "Examples"]
