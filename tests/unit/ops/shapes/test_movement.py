"""Operators that give as many tensors as they are told to give a tuple, be it of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.errors import ConfigurationError

X = np.arange(8, dtype=np.float32).reshape(4, 2)


class First(nn.Cell):
    """The first of what an operator gives."""

    def __init__(self, operator: Any) -> None:
        super().__init__()
        self.operator = operator

    def construct(self, x: Tensor) -> Tensor:
        return self.operator(x)[0]


@pytest.mark.parametrize(
    ("operator", "x", "first"), [(ops.Split(0, 1), X, X), (ops.Split(0, 2), X, X[:2]), (ops.Unstack(0), X[:1], X[0])]
)
def test_the_first_piece_is_a_piece_and_not_a_row_of_it(operator: Any, x: Any, first: Any) -> None:
    assert isinstance(operator(x), tuple)
    assert operator(x)[0].asnumpy().tolist() == first.tolist()
    assert First(operator)(Tensor(x)).asnumpy().tolist() == first.tolist()


@pytest.mark.parametrize("output_num", [0, -1, True, 2.0, "2"])
def test_the_number_of_pieces_is_a_number(output_num: Any) -> None:
    with pytest.raises(ConfigurationError, match="Split: output_num"):
        ops.Split(0, output_num)
