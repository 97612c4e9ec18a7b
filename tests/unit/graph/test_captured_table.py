"""Every operator of the table, recorded once and replayed, gives what NumPy's backend does: no GPU is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.graph.execution import stretch
from tests.conformance.cases.operator_cases import CASES
from tests.conformance.cuda_emulator.table_programs import bind_case
from tests.conformance.hidden_arrays.backend import hidden_backend, install
from tests.conformance.hidden_arrays.checked_capture import check_replays
from tests.conformance.hidden_arrays.stream import DEVICE
from tests.reliability.counts import share

BY_TEXTS_ALONE = ("Erf", "Erfinv", "Erfc", "Gather-batch")
"""Cases that an array library on a device cannot compute; there a kernel does, which has tests of its own."""
EVERY = 1 if share() else 6
RUNS = 4
ALLOCATE = {
    *("ArgMaxWithValue", "ArgMinWithValue", "Argmax", "Argmin", "TopK"),
    "BatchGatherGrad",
}
"""Operators that take memory of CuPy's pool in each run, so that the host gives them between two graphs."""
PARTLY = {"Gather", "GatherGrad", "LayerNormGrad", "OneHot"}
"""Operators that do so for some inputs: rows by hand, orders of memory that no kernel takes."""


def runs_by_library(case: Any) -> bool:
    return not case.name.startswith(BY_TEXTS_ALONE)


def test_each_operator_that_is_replayed_gives_what_numpy_does(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    check_replays(monkeypatch)
    # Each operator alone is recorded, or refused.
    monkeypatch.setattr(stretch, "_FEWEST", 1)
    monkeypatch.setattr(stretch, "remark", lambda _line: None)
    backend = hidden_backend()
    cases = [case for case in CASES if runs_by_library(case)][::EVERY]
    for case in cases:
        programs = [bind_case(case, used) for used in (NumpyBackend(), backend)]
        for _ in range(RUNS):
            wanted, found = (program.run() for program in programs)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, 1e-11, 1e-12, err_msg=case.name)
    assert DEVICE.graphs > len(cases)


class IdleKernels:
    """Kernels that do nothing: what is recorded does not depend on numbers."""

    def bind(self, *_given: Any) -> Any:
        return lambda: None


def test_with_kernels_of_a_gpu_only_few_operators_are_left_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    monkeypatch.setattr(stretch, "_FEWEST", 1)
    said: list[str] = []
    monkeypatch.setattr(stretch, "remark", said.append)
    backend = hidden_backend(IdleKernels())
    for case in CASES[::EVERY]:
        program = bind_case(case, backend)
        for _ in range(2):
            program.run()
    refused = [set(line.split(" for ")[1].split()[0].split("+")) for line in said]
    assert all(names & (ALLOCATE | PARTLY) for names in refused)
    assert share() == 0 or set().union(*refused) >= ALLOCATE | PARTLY
