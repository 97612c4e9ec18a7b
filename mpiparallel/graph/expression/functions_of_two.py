"""The functions of two elements that an array library has, and those whose values are bool."""

from __future__ import annotations

from typing import Any, Final

from mpiparallel.graph.expression.function import Function

_TWO = ("input", "other")
_X_Y = ("x", "y")


def _comparison(name: str, universal: str, sign: str, method: str, shown: tuple[bool, ...]) -> Function:
    return Function(
        name,
        f"where ``input {sign} other``, as bool, with broadcasting",
        universal=universal,
        text=f"({{}} {sign} {{}})",
        cuda=f"({{}} {sign} {{}})",
        arguments=_TWO,
        functions=f"{universal} {method}",
        methods=f"{method} {universal}",
        gives="booleans",
        example=((1.0, 2.0, 3.0), (2.0, 2.0, 2.0), shown),
    )


def _logic(name: str, about: str, universal: str, text: str, cuda: str, *example: tuple[bool, ...]) -> Function:
    return Function(
        name,
        about,
        universal=universal,
        text=text,
        cuda=cuda,
        arguments=_TWO[: len(example) - 1],
        functions=universal,
        methods=universal,
        takes="booleans",
        gives="booleans",
        example=example,
    )


def _of_quotient(dy: Any, y: Any, dividend: Any, divisor: Any) -> tuple[Any, Any]:
    scaled = dy / divisor
    return scaled, -(scaled * y)


def _quotient(name: str, methods: str = "") -> Function:
    return Function(
        name,
        "``input / other`` with broadcasting; integers are divided as floats",
        universal="true_divide",
        text="({} / {})",
        cuda="({} / {})",
        derivative=_of_quotient,
        arguments=_TWO,
        methods=methods,
        gives="floats",
        example=((1.0, 6.0), (2.0, 3.0), (0.5, 2.0)),
    )


def _share(dy: Any, y: Any, *inputs: Any) -> tuple[Any, ...]:
    """Return the gradient of each of two inputs of which one is the output; where they are equal each takes half."""
    shares = [(x == y).astype(dy.dtype) for x in inputs]
    scaled = dy / (shares[0] + shares[1])
    return tuple(scaled * share for share in shares)


def _of_angle(dy: Any, angle: Any, y: Any, x: Any) -> tuple[Any, Any]:
    scaled = dy / (y * y + x * x)
    return scaled * x, -(scaled * y)


ADDITION: Final = Function(
    "Add",
    "``input + other`` with broadcasting",
    universal="add",
    text="({} + {})",
    cuda="({} + {})",
    derivative=lambda dy, y, a, b: (dy, dy),
    arguments=_TWO,
    functions="add",
    methods="add",
    example=((1.0, 2.0), (3.0, 4.0), (4.0, 6.0)),
)

OF_TWO: Final = (
    ADDITION,
    Function(
        "Sub",
        "``input - other`` with broadcasting",
        universal="subtract",
        text="({} - {})",
        cuda="({} - {})",
        derivative=lambda dy, y, a, b: (dy, -dy),
        arguments=_TWO,
        functions="sub subtract",
        methods="sub subtract",
        example=((1.0, 2.0), (3.0, 4.0), (-2.0, -2.0)),
    ),
    Function(
        "Mul",
        "``input * other`` with broadcasting",
        universal="multiply",
        text="({} * {})",
        cuda="({} * {})",
        derivative=lambda dy, y, a, b: (dy * b, dy * a),
        arguments=_TWO,
        functions="mul multiply",
        methods="mul multiply",
        example=((1.0, 2.0), (3.0, 4.0), (3.0, 8.0)),
    ),
    _quotient("Div", "div divide true_divide"),
    _quotient("RealDiv"),
    Function(
        "FloorDiv",
        "the largest integers not above ``x / y``, with broadcasting; its gradient is 0",
        universal="floor_divide",
        text="np.floor_divide({}, {})",
        cuda="floored_quotient({}, {})",
        arguments=_X_Y,
        operations=5,
        functions="floor_div floor_divide",
        methods="floor_divide",
        example=((7.0, -7.0), (2.0, 2.0), (3.0, -4.0)),
    ),
    Function(
        "FloorMod",
        "``x - floor(x / y) * y`` with broadcasting: it has the sign of ``y``, as Python's ``%``",
        universal="remainder",
        text="np.remainder({}, {})",
        cuda="floored_remainder({}, {})",
        derivative=lambda dy, y, a, b: (dy, -dy * a.floor_divide(b)),
        arguments=_X_Y,
        operations=5,
        functions="floor_mod remainder",
        methods="remainder",
        example=((7.0, -7.0), (2.0, 2.0), (1.0, 1.0)),
    ),
    Function(
        "Mod",
        "what the division of ``input`` by ``other`` leaves, with broadcasting: it has the sign of ``input``, as C's",
        universal="fmod",
        text="np.fmod({}, {})",
        cuda="fmod{f}({}, {})",
        derivative=lambda dy, y, a, b: (dy, -dy * ((a - y) / b)),
        arguments=_TWO,
        operations=5,
        functions="fmod",
        methods="fmod",
        example=((7.0, -7.0), (2.0, 2.0), (1.0, -1.0)),
    ),
    Function(
        "Atan2",
        "the angle, in radians, of the point with ``other`` to the right and ``input`` up, with broadcasting",
        universal="arctan2",
        text="np.arctan2({}, {})",
        cuda="atan2{f}({}, {})",
        derivative=_of_angle,
        operations=35,
        arguments=_TWO,
        functions="atan2 arctan2",
        methods="atan2 arctan2",
        takes="floats",
        example=((1.0, 1.0), (1.0, 0.0), (0.7854, 1.5708)),
    ),
    Function(
        "Maximum",
        "the larger of each two elements, with broadcasting; equal ones take half of the gradient each",
        universal="maximum",
        text="maximum({}, {})",
        cuda="maximum({}, {})",
        derivative=_share,
        arguments=_TWO,
        functions="maximum",
        methods="maximum",
        example=((1.0, 4.0), (3.0, 2.0), (3.0, 4.0)),
    ),
    Function(
        "Minimum",
        "the smaller of each two elements, with broadcasting; equal ones take half of the gradient each",
        universal="minimum",
        text="minimum({}, {})",
        cuda="minimum({}, {})",
        derivative=_share,
        arguments=_TWO,
        functions="minimum",
        methods="minimum",
        example=((1.0, 4.0), (3.0, 2.0), (1.0, 2.0)),
    ),
)

TRUTHS: Final = (
    _comparison("Equal", "equal", "==", "eq", (False, True, False)),
    _comparison("NotEqual", "not_equal", "!=", "ne", (True, False, True)),
    _comparison("Less", "less", "<", "lt", (True, False, False)),
    _comparison("LessEqual", "less_equal", "<=", "le", (True, True, False)),
    _comparison("Greater", "greater", ">", "gt", (False, False, True)),
    _comparison("GreaterEqual", "greater_equal", ">=", "ge", (False, True, True)),
    _logic(
        "LogicalAnd",
        "where both hold, with broadcasting",
        "logical_and",
        "({} & {})",
        "({} && {})",
        (True, True),
        (True, False),
        (True, False),
    ),
    _logic(
        "LogicalOr",
        "where either holds, with broadcasting",
        "logical_or",
        "({} | {})",
        "({} || {})",
        (True, False),
        (False, False),
        (True, False),
    ),
    _logic(
        "LogicalNot",
        "where the elements of a bool tensor do not hold",
        "logical_not",
        "(not {})",
        "(!{})",
        (True, False),
        (False, True),
    ),
)
