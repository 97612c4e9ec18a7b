"""What the reference says of an element-wise function: NumPy's sections, made from its row."""

from __future__ import annotations

from mpiparallel.graph.expression.function import Function
from mpiparallel.graph.expression.function_docstring import function_docstring, operator_docstring

ROW_OF_ONE = Function(
    "Scale",
    "each element, scaled",
    arguments=("x",),
    functions="scale scaled",
    options={"factor": 0.5},
    takes="floats",
    gives="floats",
    example=((1.0, 4.0), (0.25, 1.0)),
)
ROW_OF_TWO = Function(
    "Both", "where both hold", arguments=("one", "other"), functions="both", takes="booleans", gives="booleans",
    example=((True,), (False,), (False,)),
)  # fmt: skip
OF_ROUNDED = Function("Root", "the root", functions="root", example=((2.0,), (1.4142,)))


def test_the_reference_of_a_function_says_what_it_takes_gives_and_refuses_with_its_example() -> None:
    assert function_docstring(ROW_OF_ONE).splitlines() == [
        *("Return each element, scaled.", ""),
        *("Parameters", "----------", "x : Tensor, array or number", "    Floating point, of any shape."),
        *("factor : float", "    By default 0.5.", ""),
        *("Returns", "-------", "Tensor", "    Of the shape of ``x``, of its dtype, float32 for integers.", ""),
        *("Raises", "------", "ShapeError", "    When an input is of no floating-point dtype.", ""),
        *("Notes", "-----", "Every dim may be cut; nothing is communicated.", ""),
        *("Examples", "--------", ">>> scale(Tensor([1.0, 4.0])).tolist()", "[0.25, 1.0]"),
    ]


def test_the_reference_of_an_operator_says_what_it_is_made_with_and_called_on() -> None:
    assert operator_docstring(ROW_OF_TWO).splitlines() == [
        *("Where both hold.", ""),
        *(
            "Returns",
            "-------",
            "Tensor",
            "    By a call on ``one`` and ``other``. Of the shape that both broadcast to, of bool.",
            "",
        ),
        *("Raises", "------", "ShapeError", "    When an input is not bool, or the shapes do not broadcast.", ""),
        *(
            "Notes",
            "-----",
            "Every dim may be cut, where both inputs have it in both alike; nothing is communicated.",
            "",
        ),
        *("Examples", "--------", ">>> Both()(Tensor([True]), Tensor([False])).tolist()", "[False]"),
    ]
    assert "Parameters\n----------\nfactor : float\n    By default 0.5.\n\nReturns" in operator_docstring(ROW_OF_ONE)


def test_an_example_with_more_than_two_digits_is_rounded_and_who_takes_all_refuses_nothing() -> None:
    text = function_docstring(OF_ROUNDED)
    assert ">>> [round(one, 4) for one in root(Tensor([2.0])).tolist()]\n[1.4142]\n" in text
    assert "Numbers, of any shape." in text
    assert "Raises" not in text
