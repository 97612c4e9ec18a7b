"""Of a batch, a stage of a pipeline reads and decodes the columns that it uses, and no others."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train.feeding.read_columns import ReadColumns
from tests.unit.train.staged_networks import Case, Losses, columns, make_model

THREE = (0, 0, 1, 1, 2, 2)


class Decoder:
    """Passes a value on and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value):
        self.count += 1
        return value


def decoded(communicator, case: Case):
    words, labels = Decoder(), Decoder()
    data = NumpySlicesDataset(columns(20), ["words", "labels"], shuffle=False)
    data = data.map(words, "words").map(labels, "labels").batch(8)
    model, _ = make_model(case)
    losses = Losses()
    model.train(2, data, callbacks=[losses], dataset_sink_mode=False)
    return words.count, labels.count, losses.found


def test_only_the_stages_that_need_a_column_decode_it() -> None:
    case = Case(stages=THREE, micro_size=4)
    ((_, _, wanted),) = run_world(1, decoded, replace(case, stages=(0,) * 6, micro_size=0))
    first, middle, last = run_world(3, decoded, case)
    looked_at = 8
    assert first[:2] == (40 + looked_at, looked_at)
    assert middle[:2] == (looked_at, looked_at)
    assert last[:2] == (looked_at, 40 + looked_at)
    for *_, losses in (first, middle, last):
        np.testing.assert_allclose(losses, wanted, rtol=0, atol=1e-9)


def test_a_dataset_makes_the_columns_that_are_asked_for_alone() -> None:
    left, right, both = Decoder(), Decoder(), Decoder()
    data = NumpySlicesDataset({"a": np.arange(6), "b": np.arange(6), "c": np.arange(6)}, shuffle=False)
    data = data.map(left, "a").map(right, "b").map(lambda b, c: (both(b), c), ["b", "c"], ["d", "e"])
    data = data.rename("a", "f").batch(4)
    found = list(data.iterate(columns=["f"]))
    assert [list(one) for one in found] == [["f"], ["f"]]
    assert (left.count, right.count, both.count) == (6, 0, 0)
    assert [one["e"].tolist() for one in data.iterate(columns=["e"])] == [[0, 1, 2, 3], [4, 5]]
    assert (left.count, right.count, both.count) == (6, 6, 6)


def test_a_dataset_tells_how_many_rows_its_batches_have_and_reads_none() -> None:
    decoder = Decoder()
    data = NumpySlicesDataset({"a": np.arange(6), "b": np.arange(6)}, shuffle=False).map(decoder, "a").batch(4)
    assert list(data.stacked_rows(0, 0)) == list(data.map(decoder, "a").rename("b", "c").stacked_rows(0, 0)) == [4, 2]
    assert list(data.repeat(2).stacked_rows(0, 1)) == [2, 4, 2]
    # An operation on all columns of a batch may change its rows.
    assert list(data.map(lambda a, b: (a[1:], b[1:]), ["a", "b"]).stacked_rows(0, 0)) == [None, None]
    assert decoder.count == 0


def test_all_columns_are_read_where_a_graph_takes_other_inputs_and_else_those_that_it_uses() -> None:
    first, second = object(), object()
    specs = [TensorSpec((2,), np.dtype(np.float32)), TensorSpec((3,), np.dtype(np.int32))]

    def read(inputs, used, outputs=()):
        nodes = [SimpleNamespace(inputs=used)]
        sharded = SimpleNamespace(graph=SimpleNamespace(inputs=inputs, nodes=nodes, outputs=outputs))
        found = ReadColumns.of(["a", "b"], specs, sharded)
        assert found.specs == {"a": specs[0], "b": specs[1]}
        return found.read

    assert read([first], [first]) == ("a", "b")
    assert read([first, second], [first]) == ("a",)
    assert read([first, second], [first], [second]) == ("a", "b")
    assert read([first, second], []) == ()


@pytest.mark.parametrize("read", [(), ("a",), ("b",), ("a", "b", "c")])
def test_columns_that_are_read_are_those_of_the_dataset_and_zeros_stand_for_the_others(read) -> None:
    arrays = {"a": np.arange(1, 6), "b": np.ones((5, 2), np.float32), "c": np.full((5, 3), 7.0)}
    data = NumpySlicesDataset(arrays, shuffle=False).batch(2)
    specs = {name: TensorSpec((2, *one.shape[1:]), one.dtype) for name, one in arrays.items()}
    found = list(ReadColumns(specs, read).batches(data, 0, 1))
    for batch, rows in zip(found, (slice(2, 4), slice(4, 5)), strict=True):
        for (name, whole), column in zip(arrays.items(), batch, strict=True):
            wanted = whole[rows] if name in read else np.zeros_like(whole[rows])
            np.testing.assert_array_equal(column, wanted)
            assert column.dtype == whole.dtype
