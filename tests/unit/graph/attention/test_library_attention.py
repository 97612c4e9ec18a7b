"""Attention by a library of the device: when it is asked, what for, and how its sums become ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.attention.request import AttentionRequest
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.tensor_spec import Part
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.attention.library_attention import library_attention, library_gradients
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.written_kernels.attention import AttentionSettings
from mpiparallel.layout.box import Box

Array = Any
SHAPE, SCORES = (2, 3, 4, 8), (2, 3, 4, 4)
SETTINGS = AttentionSettings(0.5, -1.0, 1.0, Part.whole(SCORES))


class Library(NumpyBackend):
    """A device whose library writes down what it is asked for, and sets what it is to set to 7."""

    def __init__(self, takes: bool = True) -> None:
        self.attention: Any = self
        self.asked: list[AttentionRequest] = []
        self.checked = 0
        self.takes = takes
        self.sums_read: list[Array] = []

    def check(self) -> None:
        self.checked += 1

    def bind(self, request: AttentionRequest, _scratch: Any) -> Callable[[], object] | None:
        self.asked.append(request)

        def run() -> None:
            self.sums_read.append(request.sums.copy())
            if request.slope is None:
                request.output[...] = 7.0
                request.sums[...] = 7.0
            for one in request.gradients:
                one[...] = 7.0

        return run if self.takes else None


@pytest.fixture(autouse=True)
def _asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPIPARALLEL_ATTENTION", "cudnn")


def given(*masks: Array, dtype: Any = np.float16) -> list[Array]:
    return [*(np.ones(SHAPE, dtype) for _ in range(3)), *masks, np.zeros(SHAPE[:3], np.uint64)]


def attended(
    backend: NumpyBackend, settings: AttentionSettings, *masks: Array, dtype: Any = np.float16
) -> tuple[Any, Array, Array]:
    output, sums = np.zeros(SHAPE, dtype), np.zeros(SHAPE[:3], np.float32)
    return library_attention(Runtime(backend), settings, given(*masks, dtype=dtype), output, sums), output, sums


def gone_back(backend: NumpyBackend, settings: AttentionSettings, *masks: Array) -> tuple[Any, Array, list[Array]]:
    slope, outputs = np.ones(SHAPE, np.float16), [np.zeros(SHAPE, np.float16) for _ in range(3)]
    forward = np.ones(SHAPE, np.float16), np.full(SHAPE[:3], 2.0, np.float32)
    return library_gradients(Runtime(backend), settings, given(*masks), forward, slope, outputs), slope, outputs


def test_without_a_mask_its_output_and_sums_are_taken_as_they_are() -> None:
    backend = Library()
    kernel, output, sums = attended(backend, replace(SETTINGS, is_causal=True))
    kernel()
    assert (output == 7.0).all()
    assert (sums == 7.0).all()
    (request,) = backend.asked
    assert request.output is output
    assert request.sums is sums
    assert (request.bias, request.scale, request.is_causal, request.slope) == (None, 0.5, True, None)
    assert backend.checked == 1


def test_a_mask_of_which_what_is_hidden_has_1_less_is_added_itself_and_the_sums_have_1_less() -> None:
    backend, mask = Library(), np.ones(SCORES, np.float16)
    kernel, output, sums = attended(backend, SETTINGS, mask)
    kernel()
    assert backend.asked[0].bias is mask
    assert (sums == 6.0).all()
    assert (output == 7.0).all()


@pytest.mark.parametrize(
    ("masked", "dtype", "hidden"), [(-3.0, np.float16, -3.0), (-1e9, np.float16, -65504.0), (-1.0, np.float32, -1.0)]
)
def test_another_mask_is_made_what_is_added_in_the_type_of_the_heads_and_stays_finite(
    masked: float, dtype: Any, hidden: float
) -> None:
    backend, mask = Library(), (np.arange(96).reshape(SCORES) % 2).astype(dtype)
    kernel, _, sums = attended(backend, replace(SETTINGS, masked=masked), mask)
    for _ in range(2):
        kernel()
        bias = backend.asked[0].bias
        np.testing.assert_array_equal(bias, np.where(mask == 1, 0, hidden).astype(np.float16))
        mask[...] = 1 - mask
    assert bias.dtype == np.float16
    assert (sums == 7.0).all()


@pytest.mark.parametrize("masks", [(), (np.ones(SCORES, np.float16),)], ids=["no mask", "a mask"])
def test_of_its_gradients_it_reads_the_sums_as_they_were_its_own(masks: tuple[Array, ...]) -> None:
    backend = Library()
    kernel, slope, outputs = gone_back(backend, SETTINGS, *masks)
    kernel()
    (request,) = backend.asked
    assert request.slope is slope
    assert [one is other for one, other in zip(request.gradients, outputs, strict=True)] == [True] * 3
    assert (backend.sums_read[0] == 2.0 + len(masks)).all()
    assert all((one == 7.0).all() for one in outputs)


LATER = Part((2, 3, 6, 4), Box((0, 0, 2, 0), (2, 3, 6, 4)))


@pytest.mark.parametrize(
    ("settings", "dtype", "takes"),
    [
        (SETTINGS, np.float16, True),
        (replace(SETTINGS, part=LATER), np.float16, True),
        (replace(SETTINGS, part=LATER, is_causal=True), np.float16, False),
        (replace(SETTINGS, keep_prob=0.9), np.float16, False),
        (SETTINGS, np.float32, False),
    ],
)
def test_it_is_asked_for_heads_of_16_bits_without_dropout_that_begin_at_the_first_query(
    settings: AttentionSettings, dtype: Any, takes: bool
) -> None:
    assert (attended(Library(), settings, dtype=dtype)[0] is not None) == takes


def test_ours_is_taken_where_the_library_is_not_asked_for_or_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attended(Library(takes=False), SETTINGS)[0] is None
    assert gone_back(Library(takes=False), SETTINGS)[0] is None
    assert attended(NumpyBackend(), SETTINGS)[0] is None
    for value in ("own", ""):
        monkeypatch.setenv("MPIPARALLEL_ATTENTION", value)
        backend = Library()
        assert attended(backend, SETTINGS)[0] is None
        assert (backend.asked, backend.checked) == ([], 0)
    monkeypatch.delenv("MPIPARALLEL_ATTENTION")
    assert attended(Library(), SETTINGS)[0] is None


def test_of_nothing_the_library_is_not_asked() -> None:
    empty, sums = np.zeros((0, 3, 4, 8), np.float16), np.zeros((0, 3, 4), np.float32)
    arrays = [empty, empty, empty, np.zeros((0, 3, 4), np.uint64)]
    assert library_attention(Runtime(Library()), SETTINGS, arrays, empty, sums) is None


@pytest.mark.parametrize("backend", [Library, NumpyBackend])
def test_another_value_is_refused_wherever_it_runs(
    backend: Callable[[], NumpyBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPIPARALLEL_ATTENTION", "mine")
    with pytest.raises(ConfigurationError, match=r"^MPIPARALLEL_ATTENTION=mine must be 'own' or 'cudnn', or"):
        attended(backend(), SETTINGS)
