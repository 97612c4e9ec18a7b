"""Batches that a training cannot use: every rank is told the same, and none waits for another."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
import mpiparallel.dataset as ds
from mpiparallel import nn
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import DatasetError, ShapeError
from mpiparallel.models.resnet import ResNet

RANKS = 3


def images(count: int, shape: tuple[int, ...] = (3, 8, 8), label: int = 1) -> ds.Dataset:
    columns = np.ones((count, *shape), np.float32), np.full(count, label, np.int32)
    return ds.NumpySlicesDataset(columns, ["image", "label"], shuffle=False)


def model() -> ms.Model:
    network = ResNet((1,), 4, widths=(4,))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return ms.Model(network, loss, nn.Momentum(network.trainable_params(), 0.1, 0.9))


def trained_on(mode, dataset_of):
    """Return the messages with which each rank refuses the dataset that ``dataset_of(rank)`` makes."""

    def on_rank(communicator):
        ms.set_auto_parallel_context(parallel_mode=mode)
        with pytest.raises(DatasetError) as caught:
            model().train(1, dataset_of(communicator.rank))
        return str(caught.value)

    return run_world(RANKS, on_rank)


@pytest.mark.parametrize(
    ("full_batch", "value_of", "is_told"),
    [
        (True, lambda rank, step: rank, True),
        (True, lambda rank, step: step, False),
        # It is asked once, at the first step.
        (True, lambda rank, step: rank * (step > 0), False),
        (False, lambda rank, step: rank, False),
    ],
    ids=["other rows", "the same rows", "other rows later", "rows of its own"],
)
def test_ranks_that_read_other_rows_though_each_is_to_read_the_whole_batch_are_told(
    full_batch, value_of, is_told, remarks
) -> None:
    def on_rank(communicator):
        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=full_batch)
        rows = [(np.full((3, 8, 8), value_of(communicator.rank, n // 3), np.float32), n % 4) for n in range(6)]
        data = ds.GeneratorDataset(rows, ["image", "label"], shuffle=False).batch(3)
        model().train(1, data, dataset_sink_mode=False)

    run_world(RANKS, on_rank)
    told = [line for line in remarks() if "ranks were fed different batches" in line]
    assert len(told) == is_told
    assert all('dataset_strategy="data_parallel"' in line for line in told)


MODES = ["data_parallel", "semi_auto_parallel"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("dataset_of", "message"),
    [
        (
            lambda rank: images(4 - rank).batch(3, drop_remainder=True),
            "no batch; use a smaller batch_size, or fewer ranks: rank 0 has 1 steps, rank 1 has 1 steps, rank 2 has 0",
        ),
        (
            lambda rank: images(6 + 3 * (rank == 1)).batch(3),
            "all ranks take equally many steps an epoch, but rank 0 has 2 steps, rank 1 has 3 steps, rank 2 has 2",
        ),
        (
            lambda rank: ds.GeneratorDataset([(np.ones((rank, 3, 8, 8)), np.ones(rank, np.int32))], ["x", "y"]),
            r"a batch has no row: rank 0 has float64 (0, 3, 8, 8) and int32 (0,), rank 1 has float64 (1, 3, 8, 8)",
        ),
    ],
    ids=["no batch on one rank", "more batches on one rank", "an empty batch"],
)
def test_every_rank_is_told_which_ranks_data_do_not_fit(mode, dataset_of, message) -> None:
    said = trained_on(mode, dataset_of)
    assert len(set(said)) == 1
    assert message in said[0]


def test_in_semi_auto_mode_the_shapes_of_all_ranks_must_agree() -> None:
    (said, *others) = trained_on("semi_auto_parallel", lambda rank: images(6).batch(2 if rank < 2 else 3).take(2))
    assert others == [said] * 2
    assert "in semi_auto_parallel mode all ranks have batches of the same shapes" in said
    assert "rank 2 has float32 (3, 3, 8, 8) and int32 (3,)" in said


def test_in_data_parallel_mode_batches_may_be_of_different_sizes() -> None:
    def on_rank(communicator):
        ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        trained = model()
        size = communicator.rank + 1
        trained.train(1, images(2 * size).batch(size))
        return trained.step

    assert run_world(RANKS, on_rank) == [2] * RANKS


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 8, 8), r"Conv2d: x has shape \(2, 1, 8, 8\); it must be \(images, 3, height, width\)"),
        ((8, 8, 3), r"Conv2d: x has shape \(2, 8, 8, 3\); it must be \(images, 3, height, width\)"),
        ((8, 8), r"Conv2d: x has shape \(2, 8, 8\); it must be \(images, 3, height, width\)"),
        ((3, 0, 8), r"images of \(0, 8\) elements .* make them larger or pad them"),
    ],
)
def test_images_of_a_wrong_shape_are_refused_with_the_shape_that_fits(shape, message) -> None:
    with pytest.raises(ShapeError, match=message):
        model().train(1, images(4, shape).batch(2))


@pytest.mark.parametrize(("label", "found"), [(4, "index 4"), (-1, "index -1")])
def test_a_label_that_no_class_has_is_refused(label, found) -> None:
    with pytest.raises(
        ShapeError, match=f"{found} is out of range for the 4 elements of dim 1; give indices of 0 to 3"
    ):
        model().train(1, images(4, label=label).batch(2))
