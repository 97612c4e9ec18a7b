"""What a function of one element of each input is, said once: kernels, gradients, names and costs come from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

from mpiparallel.dataclass import dataclass

NumberKind = Literal["numbers", "floats", "booleans"]

COSTLY = 10
"""Operations from which on a value is kept for the next pass over a row rather than computed again."""


@dataclass(frozen=True, eq=False)
class Function:
    """A row of the tables of element-wise functions.

    ``name`` is that of the operator and ``about`` what it gives, both MindSpore's. What computes it is ``universal``,
    the name of a function of the array library, or ``terms``, which makes it of other functions. In a compiled loop a
    universal function is ``text``, with its operands and the ``{letter}`` of their type; one of NumPy's without is not
    compiled. In a CUDA kernel it is ``cuda``, with their ``{type}`` and the ``{f}`` that names of functions of float32
    end with. Where NumPy has no such function ``numpy`` stands for it.

    ``derivative`` takes the gradient of the output, the output, the inputs and the options, as tensors. It returns the
    gradient of each input; None says that all are 0. ``gradient`` is a row that computes it in one pass instead, from
    those of ``dy``, ``y`` and ``x`` that are its arguments.

    ``example`` has some elements of each input and, to four digits, what it gives for them: the reference shows it.

    What it ``takes`` is checked. What it ``gives`` is of one of three types: that of its inputs as numbers, floating
    point, to which integers are converted, or bool.
    """

    name: str
    about: str
    universal: str = ""
    text: str = ""
    cuda: str = ""
    numpy: Callable[..., Any] | None = None
    terms: Callable[..., Any] | None = None
    derivative: Callable[..., Any] | None = None
    gradient: Function | None = None
    operations: int = 1
    arguments: tuple[str, ...] = ("input",)
    options: Mapping[str, Any] = field(default_factory=dict)
    functions: str = ""
    """Its names in ``ops``, separated by blanks."""
    methods: str = ""
    """Its names as a method of tensors."""
    takes: NumberKind = "numbers"
    gives: NumberKind = "numbers"
    example: tuple[tuple[float, ...], ...] = ()
