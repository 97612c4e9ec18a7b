"""Metrics against NumPy: whole, in batches, with ties and numbers that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, nn
from mpiparallel.errors import ConfigurationError, DatasetError, ShapeError

RANDOM = np.random.default_rng(3)
SCORES = RANDOM.normal(size=(50, 7)).round(1)
LABELS = RANDOM.integers(0, 7, 50)


def evaluate(metric: nn.Metric, *columns: Any, batch: int = 8) -> float:
    metric.clear()
    for start in range(0, len(columns[0]), batch):
        metric.update(*(column[start : start + batch] for column in columns))
    return metric.eval()


def in_order(scores: Any) -> Any:
    return np.argsort(-scores, axis=1, kind="stable")


@pytest.mark.parametrize("k", [1, 2, 5, 7, 9])
def test_top_k_counts_labels_among_the_first_of_the_sorted_scores(k: int) -> None:
    wanted = (in_order(SCORES)[:, :k] == LABELS[:, None]).any(1).mean()
    assert evaluate(nn.TopKCategoricalAccuracy(k), SCORES, LABELS) == pytest.approx(wanted, abs=1e-15)


@pytest.mark.parametrize("labels", [LABELS, np.eye(7)[LABELS], LABELS.astype(np.int8)])
def test_accuracy_is_how_often_the_argmax_is_the_label(labels: Any) -> None:
    wanted = (SCORES.argmax(1) == LABELS).mean()
    assert evaluate(nn.Accuracy(), SCORES, labels) == pytest.approx(wanted, abs=1e-15)
    assert evaluate(nn.Top1CategoricalAccuracy(), SCORES, labels) == pytest.approx(wanted, abs=1e-15)


def test_accuracy_of_pictures_counts_their_points_and_takes_tensors() -> None:
    scores, labels = RANDOM.normal(size=(4, 3, 5, 6)), RANDOM.integers(0, 3, (4, 5, 6))
    metric = nn.get_metric_fn("accuracy")
    metric.update(Tensor(scores), Tensor(labels))
    assert metric.eval() == pytest.approx((scores.argmax(1) == labels).mean(), abs=1e-15)


def test_a_sample_of_many_labels_is_right_when_all_are() -> None:
    predicted, labels = RANDOM.integers(0, 2, (40, 2)), RANDOM.integers(0, 2, (40, 2))
    wanted = (predicted == labels).all(1).mean()
    assert 0 < wanted < 1
    assert evaluate(nn.Accuracy("multilabel"), predicted, labels) == pytest.approx(wanted, abs=1e-15)


def test_scores_that_are_no_numbers_are_never_right() -> None:
    metric = nn.Accuracy()
    metric.update(np.full((3, 4), np.nan), np.array([0, 1, 2]))
    assert metric.eval() == 0


def test_errors_are_sums_over_elements_by_samples() -> None:
    y, labels = RANDOM.normal(size=(9, 2)), RANDOM.normal(size=(9, 2))
    assert evaluate(nn.MAE(), y, labels) == pytest.approx(np.abs(y - labels).sum() / 9)
    assert evaluate(nn.MSE(), y, labels) == pytest.approx(((y - labels) ** 2).sum() / 9)


def test_a_small_last_batch_counts_for_its_samples_only() -> None:
    losses = RANDOM.uniform(size=10)
    metric = nn.Loss()
    for rows in (losses[:4], losses[4:8], losses[8:]):
        metric.update(rows.mean(), len(rows))
    assert metric.eval() == pytest.approx(losses.mean())


def test_wrong_use_is_refused_with_the_mend() -> None:
    metric = nn.Accuracy()
    with pytest.raises(DatasetError, match="Accuracy: there is no sample to evaluate; call update"):
        metric.eval()
    with pytest.raises(DatasetError, match="label 7 is out of range for 7 classes"):
        metric.update(SCORES, LABELS + 1)
    with pytest.raises(ShapeError, match=r"labels have shape \(49,\)"):
        metric.update(SCORES, LABELS[1:])
    with pytest.raises(ShapeError, match=r"must be \(n, classes, ...\)"):
        metric.update(LABELS, LABELS)
    with pytest.raises(ShapeError, match="labels are of dtype float64; give the indices"):
        metric.update(SCORES, LABELS * 1.0)
    with pytest.raises(ConfigurationError, match="k 0 must be an integer of at least 1"):
        nn.TopKCategoricalAccuracy(0)
    for shapes in (((3, 2), (3,)), ((3,), (3,))):
        with pytest.raises(ShapeError, match=r"Accuracy: predictions .* and labels \(3,\) must be \(n, classes\)"):
            nn.Accuracy("multilabel").update(*map(np.ones, shapes))
    with pytest.raises(ConfigurationError, match="neither 'classification' nor 'multilabel'"):
        nn.Accuracy("regression")
    with pytest.raises(ConfigurationError, match="did you mean 'accuracy'"):
        nn.get_metric_fn("acuracy")
    with pytest.raises(ShapeError, match="do not fit labels"):
        nn.MAE().update(np.ones(3), np.ones(2))


def test_a_metric_that_lacks_a_part_is_refused_when_it_is_made() -> None:
    class Half(nn.Metric):
        def clear(self):
            pass

        def eval(self):
            return 0.0

    with pytest.raises(TypeError, match="update"):
        Half()


def test_a_loss_without_a_number_of_samples_counts_as_one() -> None:
    metric = nn.Loss()
    metric.update(np.array(2.0))
    assert metric.eval() == 2.0
    metric.update(Tensor([3.0, 5.0]))
    assert metric.eval() == 3.0
    metric.update(np.array(1.0), 2)
    assert metric.eval() == 2.0
    metric.clear()
    with pytest.raises(DatasetError, match="Loss: there is no sample to evaluate; call update with some first"):
        metric.eval()


@pytest.mark.parametrize("k", [0, -1, True, 1.0, "1"])
def test_top_k_takes_an_integer_of_at_least_one(k: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"TopKCategoricalAccuracy: k {k!r} must be an integer of at least 1"):
        nn.TopKCategoricalAccuracy(k)


PICTURES = np.zeros((2, 3, 4, 5))


@pytest.mark.parametrize(
    ("scores", "labels", "said"),
    [
        (np.zeros((3, 4)), [0, -1, 5], "label -1 is out of range for 4 classes"),
        (np.zeros((3, 4)), [0, 5, 4], "label 5 is out of range for 4 classes"),
        (PICTURES, np.full((2, 4, 5), 3), "label 3 is out of range for 3 classes"),
    ],
)
def test_the_first_label_that_is_no_class_is_told(scores: Any, labels: Any, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        nn.Accuracy().update(scores, np.array(labels))


@pytest.mark.parametrize("shape", [(2, 4), (4, 5), (2, 5, 4), (2, 4, 5, 3)])
def test_labels_of_pictures_have_one_for_each_point(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"scores of \(2, 3, 4, 5\) need one a sample"):
        nn.Accuracy().update(PICTURES, np.zeros(shape, int))


def test_labels_of_the_last_class_and_of_points_of_pictures_are_right_among_the_best_two() -> None:
    scores, labels = RANDOM.normal(size=(4, 3, 5, 6)), np.full((4, 5, 6), 2)
    metric = nn.TopKCategoricalAccuracy(2)
    metric.update(scores, labels)
    assert metric.eval() == pytest.approx(1 - (scores.argmin(1) == 2).mean(), abs=1e-15)


def test_many_labels_of_points_are_right_where_all_of_a_point_are() -> None:
    predicted, labels = RANDOM.integers(0, 2, (6, 2, 5)), RANDOM.integers(0, 2, (6, 2, 5))
    metric = nn.Accuracy("multilabel")
    metric.update(predicted, labels)
    assert metric.eval() == pytest.approx((predicted == labels).all(1).mean(), abs=1e-15)


@pytest.mark.parametrize("kind", [nn.MAE, nn.MSE])
def test_errors_are_of_samples_whose_predictions_may_have_another_shape(kind: Any) -> None:
    metric = kind()
    metric.update(np.array([[1.0], [5.0]]), Tensor([2.0, 2.0]))
    assert metric.eval() == (2.0 if kind is nn.MAE else 5.0)
    for predicted, labels in ((np.ones(2), np.ones(3)), (np.ones(()), np.ones(()))):
        with pytest.raises(ShapeError, match=f"{kind.__name__}: predictions .* do not fit labels"):
            metric.update(predicted, labels)


def test_a_name_that_is_like_no_other_is_refused_without_a_guess() -> None:
    with pytest.raises(ConfigurationError, match=r"'zzz' is not known; known are acc, accuracy, loss, .*topk$"):
        nn.get_metric_fn("zzz")
    assert isinstance(nn.get_metric_fn("acc"), nn.Accuracy)
    assert nn.get_metric_fn("topk", k=3).k == 3  # type: ignore[attr-defined]
