"""What the reference says of an element-wise function: NumPy's sections, made from its row."""

from __future__ import annotations

from typing import Final

from mpiparallel.graph.expression.function import Function

_TAKEN: Final = {"numbers": "Numbers", "floats": "Floating point", "booleans": "bool"}
_ONE: Final = {"numbers": "of its dtype", "floats": "of its dtype, float32 for integers", "booleans": "of bool"}
_TWO: Final = {
    "numbers": "of their common dtype, which is that of the floats among them",
    "floats": "of their common floating-point dtype, float32 for integers",
    "booleans": "of bool",
}
_CUT: Final = "Every dim may be cut{0}; nothing is communicated."
_ALIKE: Final = ", where both inputs have it in both alike"


def function_docstring(row: Function) -> str:
    """Return the docstring of a row's function."""
    name = row.functions.split()[0]
    kind = "Tensor, array or number"
    sections = [
        ("Parameters", [f"{', '.join(row.arguments)} : {kind}", f"    {_taken(row)}.", *_options(row)]),
        ("Returns", ["Tensor", f"    {_given(row)}."]),
        *_raised(row),
        ("Notes", [_notes(row)]),
        ("Examples", _shown(row, name)),
    ]
    return _joined(f"Return {row.about}.", sections)


def operator_docstring(row: Function) -> str:
    """Return the docstring of a row's operator: what it is made with, and what it is called on."""
    options = _options(row)
    called = " and ".join(f"``{name}``" for name in row.arguments)
    sections = [
        *([("Parameters", options)] if options else []),
        ("Returns", ["Tensor", f"    By a call on {called}. {_given(row)}."]),
        *_raised(row),
        ("Notes", [_notes(row)]),
        ("Examples", _shown(row, f"{row.name}()")),
    ]
    return _joined(f"{row.about[0].upper()}{row.about[1:]}.", sections)


def _taken(row: Function) -> str:
    shapes = "any shape" if len(row.arguments) == 1 else "shapes that broadcast"
    return f"{_TAKEN[row.takes]}, of {shapes}"


def _given(row: Function) -> str:
    if len(row.arguments) == 1:
        return f"Of the shape of ``{row.arguments[0]}``, {_ONE[row.gives]}"
    return f"Of the shape that both broadcast to, {_TWO[row.gives]}"


def _options(row: Function) -> list[str]:
    lines = [
        (f"{name} : {type(default).__name__}", f"    By default {default}.") for name, default in row.options.items()
    ]
    return [line for pair in lines for line in pair]


def _raised(row: Function) -> list[tuple[str, list[str]]]:
    wrong = {"numbers": "", "floats": "an input is of no floating-point dtype", "booleans": "an input is not bool"}[
        row.takes
    ]
    unlike = "the shapes do not broadcast" if len(row.arguments) > 1 else ""
    told = ", or ".join(one for one in (wrong, unlike) if one)
    return [("Raises", ["ShapeError", f"    When {told}."])] if told else []


def _notes(row: Function) -> str:
    return _CUT.format(_ALIKE if len(row.arguments) > 1 else "")


def _shown(row: Function, called: str) -> list[str]:
    """Return the row's example; where its numbers have four digits the result is rounded to them."""
    *inputs, output = (list(one) for one in row.example)
    text = f"{called}({', '.join(f'Tensor({one})' for one in inputs)}).tolist()"
    is_rounded = any(round(one, 2) != one for one in output)
    return [f">>> [round(one, 4) for one in {text}]" if is_rounded else f">>> {text}", str(output)]


def _joined(head: str, sections: list[tuple[str, list[str]]]) -> str:
    texts = ("\n".join([heading, "-" * len(heading), *lines]) for heading, lines in sections)
    return "\n\n".join([head, *texts]) + "\n"
