"""Rows come from a source by index or in turn, and what a source gives that is no row is told with its numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.context.simulation import Simulation, simulating
from mpiparallel.errors import MpiParallelError


def numbers(length: int, **options: Any) -> ds.Dataset:
    return ds.NumpySlicesDataset({"x": np.arange(length), "y": np.arange(length) * 10.0}, **options)


def xs(dataset: ds.Dataset, **options: Any) -> list[Any]:
    return [row["x"].tolist() for row in dataset.iterate(**options)]


def refusal_of(act: Callable[[], Any]) -> str:
    with pytest.raises(MpiParallelError) as caught:
        act()
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"sampler": [3, 0, 3]}, [3, 0, 3]),
        ({"sampler": [3, 0, 3], "num_samples": 2}, [3, 0]),
        ({"sampler": []}, []),
        ({"num_samples": 9}, [0, 1, 2, 3]),
        ({"num_samples": np.int64(1)}, [0]),
        ({"num_shards": 3, "shard_id": 2}, [2, 1]),
        ({"num_shards": 5, "shard_id": 4}, [0]),
        ({"num_shards": 9, "shard_id": 8}, [0]),
    ],
)
def test_samples_are_chosen_as_the_arguments_say(options: dict[str, Any], found: list[int]) -> None:
    shuffle = {} if "sampler" in options else {"shuffle": False}
    dataset = numbers(4, **options, **shuffle)
    assert xs(dataset) == found
    assert len(dataset) == len(found)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: xs(numbers(4, sampler=[0, -1])), "the sampler gave index -1; give indices from 0 to 3"),
        (lambda: xs(numbers(4, sampler=[4])), "the sampler gave index 4; give indices from 0 to 3"),
        (lambda: xs(numbers(4, sampler=[3, 9])), "the sampler gave index 9; give indices from 0 to 3"),
        (
            lambda: numbers(4, sampler=[1], num_shards=1, shard_id=0),
            "sampler stands beside shuffle or num_shards; give the one or the other",
        ),
        (lambda: numbers(4, shard_id=0), "num_shards is None and shard_id is 0; give both or neither"),
        (lambda: numbers(4, num_shards=3, shard_id=3), "shard_id is 3, but num_shards is 3; give 0 to 2"),
        (lambda: numbers(4, num_shards=3, shard_id=-1), "shard_id is -1; give an integer of 0 or more"),
        (lambda: numbers(4, num_samples=True), "num_samples is True; give an integer of 1 or more"),
        (lambda: numbers(4, num_samples=1.0), "num_samples is 1.0; give an integer of 1 or more"),
    ],
)
def test_arguments_that_choose_nothing_are_told(act: Callable[[], Any], said: str) -> None:
    assert refusal_of(act) == f"NumpySlicesDataset: {said}"


@pytest.mark.parametrize(
    ("rows", "names", "types", "said"),
    [
        (
            [(1, 2), (3,)],
            ["x", "y"],
            None,
            "row 1 has 1 values, but there are 2 columns (x, y); let the source give a tuple of 2",
        ),
        ([1, [2, 3]], ["x"], None, "row 1 has 2 values, but there are 1 columns (x); let the source give a tuple of 1"),
        (
            [(1, 2.0), (1, 2)],
            ["x", "y"],
            ["int64", "float64"],
            'row 1: column "y" is int64, but column_types says float64; convert it in the source, or leave '
            "column_types out and map TypeCast",
        ),
        (
            [1, None],
            ["x"],
            None,
            'row 1: column "x": a NoneType is no array of numbers or text; turn it into numbers first',
        ),
    ],
)
def test_a_row_that_does_not_fit_the_columns_is_told(rows: Any, names: Any, types: Any, said: str) -> None:
    dataset = ds.GeneratorDataset(lambda: iter(rows), names, types)
    assert refusal_of(lambda: list(dataset.iterate())) == f"GeneratorDataset: {said}"


def test_a_row_is_a_tuple_a_list_or_the_value_of_the_only_column() -> None:
    dataset = ds.GeneratorDataset(lambda: iter([(1, "a"), [2, "b"]]), ["x", "y"], ["int64", "<U1"])
    assert [(int(row["x"]), str(row["y"])) for row in dataset.iterate()] == [(1, "a"), (2, "b")]
    assert xs(ds.GeneratorDataset(lambda: iter([1, (2,), [3]]), "x")) == [1, 2, 3]


@pytest.mark.parametrize("shuffle", [None, False])
def test_a_source_that_is_read_in_turn_may_be_told_not_to_shuffle(shuffle: bool | None) -> None:
    dataset = ds.GeneratorDataset(lambda: iter(range(5)), "x", shuffle=shuffle, num_samples=4)
    assert (xs(dataset), len(dataset), xs(dataset, skip=2)) == ([0, 1, 2, 3], 4, [2, 3])


@pytest.mark.parametrize(("option", "value"), [("shuffle", True), ("sampler", [1]), ("num_shards", 1), ("shard_id", 0)])
def test_a_source_that_is_read_in_turn_cannot_be_told_an_order(option: str, value: Any) -> None:
    assert refusal_of(lambda: ds.GeneratorDataset(lambda: iter([1]), "x", **{option: value})) == (
        f"GeneratorDataset: {option} needs a source with __getitem__ and __len__; give it both, or call "
        ".shuffle(buffer_size) for the order"
    )


def test_columns_may_be_chosen_where_rows_are_read() -> None:
    made: list[int] = []
    dataset = numbers(3, shuffle=False).map(lambda y: made.append(1) or y, "y")
    assert [list(row) for row in dataset.iterate(columns=["x"])] == [["x"]] * 3
    assert made == []
    assert [list(row) for row in dataset.iterate(columns=["y", "x"])] == [["y", "x"]] * 3
    assert [len(row) for row in dataset.create_tuple_iterator(["y"], num_epochs=1)] == [1] * 3


def test_an_epoch_may_be_skipped_whole_and_no_further() -> None:
    assert xs(numbers(3), skip=3) == []
    assert refusal_of(lambda: numbers(3).iterate(skip=4)) == (
        "iterate: skip is 4, but an epoch has 3 rows; is it the same dataset?"
    )
    assert refusal_of(lambda: numbers(3).iterate(skip=-1)) == "iterate: skip is -1; give an integer of 0 or more"
    assert refusal_of(lambda: numbers(3).iterate(-1)) == "iterate: epoch is -1; give an integer of 0 or more"
    assert "estimate" in refusal_of(lambda: numbers(3).output_shapes(estimate=True))


def test_rows_that_never_end_may_be_begun_anywhere() -> None:
    assert xs(numbers(1, shuffle=False).repeat().take(5), skip=3) == [0, 0]
    assert xs(numbers(3, shuffle=False).repeat().take(9), skip=5) == [2, 0, 1, 2]
    rows = numbers(2).skip(2).repeat().iterate(skip=1)
    assert refusal_of(lambda: next(rows)) == (
        "repeat: there is no row before it to repeat; check take, skip and drop_remainder"
    )


@pytest.mark.parametrize(
    ("seed", "is_one"), [(0, True), (2**32 - 1, True), (2**32, False), (2**33, False), (-1, False), (1.0, False)]
)
def test_a_seed_is_an_integer_of_32_bits(seed: Any, is_one: bool) -> None:
    if is_one:
        ds.config.set_seed(seed)
        assert ds.config.get_seed() == seed
    else:
        assert refusal_of(lambda: ds.config.set_seed(seed)) == (
            f"dataset.config.set_seed: seed is {seed!r}; give an integer from 0 to 4294967295"
        )


def test_counts_may_be_integers_of_numpy() -> None:
    two = np.int64(2)
    assert xs(numbers(5, shuffle=False).batch(two).take(two)) == [[0, 1], [2, 3]]
    assert xs(numbers(3, shuffle=False).repeat(two).skip(two)) == [2, 0, 1, 2]


def write_mnist(folder: Path, half: str, images: Any, labels: Any) -> None:
    (folder / f"{half}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, *images.shape) + images.tobytes())
    (folder / f"{half}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, len(labels)) + bytes(labels))


def test_images_of_any_size_and_labels_up_to_9_are_mnist(tmp_path: Path) -> None:
    images = np.arange(70, dtype=np.uint8).reshape(2, 5, 7)
    write_mnist(tmp_path, "t10k", images, [9, 0])
    rows = list(ds.MnistDataset(tmp_path, shuffle=False).iterate())
    assert [int(row["label"]) for row in rows] == [9, 0]
    for row, image in zip(rows, images, strict=True):
        np.testing.assert_array_equal(row["image"], image[..., np.newaxis], strict=True)
        assert row["image"].flags.writeable
    assert refusal_of(lambda: ds.MnistDataset(tmp_path, "all")) == (
        f"{tmp_path}: holds no whole MNIST; unpack there train-images-idx3-ubyte, train-labels-idx1-ubyte, "
        "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, or name the folder that has them"
    )


@pytest.mark.parametrize("length", [0, 4, 15])
def test_a_file_shorter_than_its_beginning_is_no_mnist(length: int, tmp_path: Path) -> None:
    write_mnist(tmp_path, "train", np.zeros((1, 2, 2), np.uint8), [1])
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:length])
    assert refusal_of(lambda: ds.MnistDataset(tmp_path)) == (
        f"{path}: does not begin as an IDX file of 3 dims; unpack it, if it is compressed"
    )


def test_mnist_without_any_image_has_no_sample(tmp_path: Path) -> None:
    write_mnist(tmp_path, "train", np.zeros((0, 2, 2), np.uint8), [])
    assert len(ds.MnistDataset(tmp_path)) == 0


@pytest.mark.parametrize(
    ("data", "shapes"),
    [
        (5, "column_0 ()"),
        ({"x": [1, 2], "y": 3}, "x (2,), y ()"),
        (([1, 2], [1], [1, 2, 3]), "column_0 (2,), column_1 (1,), column_2 (3,)"),
        ((), "missing"),
    ],
)
def test_arrays_without_an_equal_first_dim_have_no_rows(data: Any, shapes: str) -> None:
    assert refusal_of(lambda: ds.NumpySlicesDataset(data)) == (
        f"NumpySlicesDataset: the shapes are {shapes}; give arrays with an equal first dim"
    )
    assert len(ds.NumpySlicesDataset(([], np.zeros((0, 3))))) == 0


@pytest.mark.parametrize(("count", "lines"), [(1, 0), (2, 1)])
def test_one_worker_is_what_there_is_and_more_are_remarked_upon(
    count: int, lines: int, remarks: Callable[[], list[str]]
) -> None:
    ds.NumpySlicesDataset([1], num_parallel_workers=count)
    ds.GeneratorDataset([1], "x", num_parallel_workers=count)
    said = [f"{name}: num_parallel_workers={count} has no effect here" for name in ("NumpySlices", "Generator")]
    assert [line.split(": one thread")[0].replace("Dataset", "") for line in remarks()] == said[: 2 * lines]


def test_a_source_may_have_no_row_in_its_first_epoch() -> None:
    dataset = ds.GeneratorDataset(lambda: iter([]), "x")
    assert (xs(dataset), len(dataset), dataset.get_batch_size()) == ([], 0, 1)
    assert refusal_of(lambda: xs(dataset, epoch=1)) == (
        "GeneratorDataset: the source gave no row in epoch 1; let its __iter__ start from the first row each time, or "
        "give a function that returns a new iterator"
    )


@pytest.mark.parametrize("times", [2, None])
def test_what_repeats_rows_that_never_end_never_ends(times: int | None) -> None:
    endless = numbers(2, shuffle=False).repeat().repeat(times)
    assert "never ends" in refusal_of(endless.get_dataset_size)
    assert (xs(endless.take(5)), len(endless.take(5))) == ([0, 1, 0, 1, 0], 5)
    assert "never ends" in refusal_of(endless.skip(1).get_dataset_size)


def test_a_copy_that_somebody_asks_for_is_remarked_upon(remarks: Callable[[], list[str]]) -> None:
    numbers(2).create_tuple_iterator()
    numbers(2).create_dict_iterator()
    assert remarks() == []
    numbers(2).create_tuple_iterator(do_copy=True)
    numbers(2).create_dict_iterator(do_copy=True)
    assert [line.split(":")[0] for line in remarks()] == ["create_tuple_iterator", "create_dict_iterator"]


@pytest.mark.parametrize(("kind", "shape"), [(ds.MnistDataset, [28, 28, 1]), (ds.Cifar10Dataset, [32, 32, 3])])
def test_images_that_a_simulated_program_does_not_have_are_as_large_as_the_real_ones(
    kind: Any, shape: list[int], tmp_path: Path
) -> None:
    with simulating(Simulation()):
        dataset = kind(tmp_path / "elsewhere", "test")
        assert (dataset.output_shapes(), dataset.output_types()) == ([shape, []], [np.uint8, np.uint32])


def test_a_source_that_nothing_is_said_of_is_not_remarked_upon(remarks: Callable[[], list[str]]) -> None:
    ds.NumpySlicesDataset([1])
    ds.GeneratorDataset([1], "x").map(lambda x: x).batch(1)
    assert remarks() == []


@pytest.mark.parametrize("magic", [(0, 0, 7, 3), (0, 0, 9, 3), (0, 1, 8, 3), (1, 0, 8, 3), (0, 0, 8, 1), (0, 0, 8, 4)])
def test_a_file_of_other_elements_or_dims_is_no_mnist(magic: tuple[int, ...], tmp_path: Path) -> None:
    write_mnist(tmp_path, "train", np.zeros((1, 2, 2), np.uint8), [1])
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(bytes(magic) + path.read_bytes()[4:])
    assert "does not begin as an IDX file of 3 dims" in refusal_of(lambda: ds.MnistDataset(tmp_path))
