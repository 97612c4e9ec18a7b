"""What layers do where nothing is said is what their pages say: in numbers, in shapes, and in what is trained."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.errors import ConfigurationError

X = np.random.default_rng(7).normal(size=(2, 3, 4))
IMAGES = np.random.default_rng(8).normal(size=(2, 2, 6, 5)).astype(np.float32)
SMALL = np.array([[[0.0, 2e-4]], [[0.0, 2e-4]]])


def softmax(x: Any) -> Any:
    exponential = np.exp(x)
    return exponential / exponential.sum(-1, keepdims=True)


CASES: dict[str, tuple[Callable[[], nn.Cell], Any, Any]] = {
    "softmax of the last dim": (nn.Softmax, X, softmax(X)),
    "logarithm of softmax of the last dim": (nn.LogSoftmax, X, np.log(softmax(X))),
    "a slope of 0.2": (nn.LeakyReLU, X, np.where(X > 0, X, 0.2 * X)),
    "a trained slope of 0.25": (nn.PReLU, X, np.where(X > 0, X, 0.25 * X)),
    "a limit of -1": (nn.ELU, X, np.where(X > 0, X, np.exp(X) - 1)),
    # The mean is 1e-4 and the variance 1e-8, to which 1e-7 is added.
    "layer norm of the last dim": (
        lambda: nn.LayerNorm((2,), dtype=np.float64),
        SMALL,
        (SMALL - 1e-4) / np.sqrt(1e-8 + 1e-7),
    ),
    "batch norm by moving statistics": (lambda: nn.BatchNorm1d(3, dtype=np.float64), X, X / np.sqrt(1 + 1e-5)),
    "no dropout in evaluation": (nn.Dropout, X, X),
    "rows": (nn.Flatten, X, X.reshape(2, 12)),
    "rows of images": (nn.Flatten, IMAGES, IMAGES.reshape(2, 60)),
    "the largest of one": (nn.MaxPool2d, IMAGES, IMAGES),
    "the mean of one": (nn.AvgPool2d, IMAGES, IMAGES),
}


@pytest.mark.parametrize("case", CASES)
def test_a_layer_that_is_told_nothing_computes_what_its_page_says(case: str) -> None:
    make, given, wanted = CASES[case]
    found = make()(ms.Tensor(given)).asnumpy()
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-12)


def test_dropout_keeps_half_where_nothing_is_said() -> None:
    kept = nn.Dropout().set_train()(ms.Tensor(np.ones((50, 50)))).asnumpy()
    assert set(np.unique(kept)) == {0.0, 2.0}
    assert abs(kept.mean() - 1) < 0.1


def test_batch_norm_moves_its_statistics_by_a_tenth_and_trains_scale_and_shift() -> None:
    layer = nn.BatchNorm1d(3, dtype=np.float64).set_train()
    layer(ms.Tensor(X))
    np.testing.assert_allclose(layer.moving_mean.asnumpy(), 0.1 * X.mean((0, 2)), rtol=1e-12)
    assert [one.name for one in layer.trainable_params()] == ["gamma", "beta"]
    assert [one.name for one in layer.untrainable_params()] == ["moving_mean", "moving_variance"]


def test_a_convolution_has_all_channels_in_one_group_no_bias_and_steps_of_one() -> None:
    layer = nn.Conv2d(2, 4, 3, weight_init="ones")
    assert {one.name: one.shape for one in layer.get_parameters()} == {"weight": (4, 2, 3, 3)}
    padded = np.pad(IMAGES.sum(1), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2)).sum((-2, -1))
    np.testing.assert_allclose(layer(ms.Tensor(IMAGES)).asnumpy(), np.stack([windows] * 4, 1), rtol=1e-5, atol=1e-5)


def test_a_trained_slope_is_one_number_and_a_table_is_read_by_its_rows() -> None:
    assert nn.PReLU().w.shape == (1,)
    operators = [node.operator.name for node in nn.Embedding(5, 2).sharded_graph(np.array([1, 2])).graph.nodes]
    assert "Gather" in operators
    assert "OneHot" not in operators


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (nn.GELU, None),
        (lambda: nn.GELU(approximate=False), "GELU: approximate=False is computed by the tanh form, which is off by"),
        (lambda: nn.Dense(2, 2), None),
        (lambda: nn.Dense(2, 2, has_bias=False), None),
        (lambda: nn.Dense(2, 2, bias_init="ones", has_bias=False), "Dense: bias_init='ones' has no effect here"),
        (lambda: nn.Conv2d(2, 2, 1), None),
        (lambda: nn.Conv2d(2, 2, 1, bias_init="ones"), "Conv2d: bias_init='ones' has no effect here: has_bias is"),
        (nn.AvgPool2d, None),
        (lambda: nn.AvgPool2d(count_include_pad=False), "AvgPool2d: count_include_pad=False has no effect here"),
        (lambda: nn.Dropout(dtype=np.float16), "Dropout: dtype=.*float16.* has no effect here: the output has"),
        (lambda: nn.Cell().set_grad(), None),
        (lambda: nn.Cell().set_grad(False), "Cell.set_grad: requires_grad=False has no effect here: gradients are"),
        (lambda: nn.Dense(2, 2).init_parameters_data(), None),
        (lambda: nn.Dense(2, 2).init_parameters_data(True), "Dense.init_parameters_data: auto_parallel_mode=True has"),
        (lambda: nn.Cell().set_broadcast_flag(), r"Cell.set_broadcast_flag\('mode=True'\) has no effect here"),
        (lambda: nn.Cell().set_auto_parallel(), r"Cell.set_auto_parallel\(\) has no effect here"),
    ],
)
def test_only_what_changes_nothing_is_remarked_on(
    make: Callable[[], Any], line: str | None, remarks: Callable[[], list[str]]
) -> None:
    make()
    said = remarks()
    assert len(said) == (line is not None)
    if line is not None:
        assert re.match(line, said[0])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.MaxPool2d(padding=1), "MaxPool2d: padding=1 is not supported; use 0; pad_mode='same' gives"),
        (lambda: nn.MaxPool2d(dilation=2), "MaxPool2d: dilation=2 is not supported; use 1"),
        (lambda: nn.MaxPool2d(return_indices=True), "MaxPool2d: return_indices=True is not supported; use False"),
        (lambda: nn.MaxPool2d(ceil_mode=True), "MaxPool2d: ceil_mode=True is not supported; use False; pad_mode"),
        (lambda: nn.AvgPool2d(padding=1), "AvgPool2d: padding=1 is not supported; use 0; pad_mode='same' gives"),
        (lambda: nn.AvgPool2d(ceil_mode=True), "AvgPool2d: ceil_mode=True is not supported; use False; pad_mode"),
        (lambda: nn.AvgPool2d(divisor_override=2), "AvgPool2d: divisor_override=2 is not supported; use None"),
        (lambda: nn.Pad(((0, 1),), "AVERAGE"), "Pad: mode 'AVERAGE' is not supported; use 'CONSTANT'"),
        (lambda: nn.get_activation("swishy", "Dense"), "Dense: activation 'swishy' is not one of elu, gelu"),
        (lambda: nn.get_activation("swishy"), "activation 'swishy' is not one of elu, gelu, hsigmoid"),
        (lambda: [*nn.Cell().cells_and_names(cells=[])], r"cells_and_names: cells=\[\] is not supported; use None"),
    ],
)
def test_what_is_not_offered_is_refused_with_what_is(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{said}"):
        make()
