"""Checks of an operator by a case: they fail in words where the operator is wrong, or where they would try nothing."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.graph.equation import Equation
from mpiparallel.parallel.legal_strategies import legal_strategies
from mpiparallel.testing import case_strategies, check_strategies
from mpiparallel.testing.case_program import CaseProgram, check_gradient_of
from mpiparallel.testing.operator_case import OperatorCase

TANH = OperatorCase("tanh", ops.Tanh, (np.array([0.25, -0.5, 2.0]),), differentiable=(0,))


def test_a_gradient_of_another_dtype_or_other_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def truth(program: CaseProgram, inputs: list[np.ndarray]) -> float:
        return float((np.tanh(inputs[0]) * program.weights[0]).sum())

    check_gradient_of(TANH, 1e-5, 1e-7, 1e-9)
    run = CaseProgram.run
    monkeypatch.setattr(CaseProgram, "run", lambda self, inputs: [one * 1.01 for one in run(self, inputs)])
    monkeypatch.setattr(CaseProgram, "objective", truth)
    with pytest.raises(AssertionError, match="tanh: gradient of input 0"):
        check_gradient_of(TANH, 1e-5, 1e-7, 1e-9)
    monkeypatch.setattr(CaseProgram, "run", lambda self, inputs: [np.float32(one) for one in run(self, inputs)])
    with pytest.raises(AssertionError) as raised:
        check_gradient_of(TANH, 1e-5, 1e-7, 1e-9)
    assert str(raised.value) == "tanh: the gradient of input 0 has shape and dtype ((3,), dtype('float32'))"


def test_a_case_that_no_strategy_tries_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(list(case_strategies.results_by_strategy(TANH, 1))) >= 1
    monkeypatch.setattr(case_strategies, "strategies_of", lambda case, ranks: iter(()))
    with pytest.raises(AssertionError) as raised:
        list(case_strategies.results_by_strategy(TANH, 3))
    assert str(raised.value) == "tanh: no strategy is legal on 3 ranks"


def test_an_operator_of_elements_is_tried_by_all_strategies_on_any_number_of_ranks() -> None:
    for ranks in (3, 4, 6):
        legal = legal_strategies(Equation.parse("a->a"), ranks)
        assert [*case_strategies.strategies_of(TANH, ranks)] == [*legal]


def test_an_operator_is_tried_on_one_to_four_six_and_eight_ranks_where_nothing_else_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []
    monkeypatch.setattr(case_strategies, "results_by_strategy", lambda case, ranks, most: tried.append(ranks) or ())
    check_strategies(ops.Tanh(), TANH.inputs[0])
    assert tried == [1, 2, 3, 4, 6, 8]
