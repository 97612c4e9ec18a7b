from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.dataset.text import translation_dataset
from mpiparallel.errors import DatasetError

PAIRS = [("a b", "x y"), ("a", "x"), ("a b c d e", "x y z w v"), ("b a c d", "y x w")]


def build(**options: Any) -> Any:
    defaults: dict[str, Any] = {
        "source_length": 3,
        "target_length": 4,
        "vocab_size": 20,
        "batch_size": 1,
        "seed": 1,
        "shuffle": False,
    }
    return translation_dataset(PAIRS, **(defaults | options))


def test_the_columns_are_the_tutorials_with_short_sources_padded_and_masked() -> None:
    # By frequency: source a 4, b 3, c 2, d 2, e 1; target x 4, y 3, w 2, v 1, z 1.
    row = {column: array[0].tolist() for column, array in next(build().iterate()).items()}
    assert row == {
        "src_ids": [3, 4, 1],
        "src_position": [0, 1, 2],
        "attention_mask": [[1, 1, 0]] * 3,
        "tgt_ids": [3, 4, 1, 1],
        "tgt_position": [0, 1, 2, 3],
        "memory_mask": [[1, 1, 0]] * 4,
        "label": [4, 2, 1, 1],
    }


def test_all_that_a_source_is_padded_with_is_masked() -> None:
    row = list(build(source_length=4).iterate())[1]
    assert row["attention_mask"].tolist() == [[[1, 0, 0, 0]] * 4]
    assert row["memory_mask"].tolist() == [[[1, 0, 0, 0]] * 4]


def test_long_texts_are_cut_and_their_label_ends_with_eot() -> None:
    row = list(build().iterate())[2]
    assert row["src_ids"].tolist() == [[3, 4, 5]]
    assert row["tgt_ids"].tolist() == [[3, 4, 7, 5]]
    assert row["label"].tolist() == [[4, 7, 5, 2]]


def test_the_tutorials_rule_keeps_only_long_sources_and_masks_nothing() -> None:
    dataset = build(keep_short=False)
    assert dataset.get_dataset_size() == 1
    row = next(dataset.iterate())
    assert dataset.source_vocabulary.decode(row["src_ids"][0]) == ["a", "b", "c"]
    assert row["attention_mask"].all()
    assert row["memory_mask"].all()


def test_a_start_token_makes_the_first_word_a_label() -> None:
    row = next(build(start_token=True).iterate())
    assert row["tgt_ids"].tolist() == [[2, 3, 4, 1]]
    assert row["label"].tolist() == [[3, 4, 2, 1]]


def test_shapes_and_dtypes() -> None:
    dataset = build(batch_size=2, float_type=np.float16)
    assert dataset.output_shapes() == [[2, 3], [2, 3], [2, 3, 3], [2, 4], [2, 4], [2, 4, 3], [2, 4]]
    i32, f16 = np.int32, np.float16
    assert dataset.output_types() == [i32, i32, f16, i32, i32, f16, i32]
    assert dataset.get_batch_size() == 2


def test_the_order_depends_on_seed_and_epoch_and_can_be_resumed() -> None:
    pairs = [(f"w{i}", f"m{i}") for i in range(30)]

    def order(seed: int, epoch: int, skip: int = 0) -> list[Any]:
        dataset = translation_dataset(pairs, 1, 2, 100, 3, seed)
        return [batch["src_ids"].ravel().tolist() for batch in dataset.iterate(epoch, skip)]

    assert order(1, 0) == order(1, 0)
    assert len({str(order(1, 0)), str(order(1, 1)), str(order(2, 0))}) == 3
    assert order(1, 1, skip=4) == order(1, 1)[4:]


def test_vocabularies_of_the_training_pairs_serve_other_pairs() -> None:
    trained = build()
    vocabularies = (trained.source_vocabulary, trained.target_vocabulary)
    other = translation_dataset([("b z", "y q")], 2, 2, 20, 1, 0, vocabularies=vocabularies)
    row = next(other.iterate())
    assert row["src_ids"].tolist() == [[4, 0]]
    assert other.target_vocabulary is trained.target_vocabulary


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 5}, "4 of 4 pairs are kept, which do not fill a batch of 5; give a smaller batch_size"),
        ({"source_length": 9, "keep_short": False}, "0 of 4 pairs are kept.*give keep_short=True"),
        ({"source_length": 0}, "source_length is 0"),
        ({"target_length": 0}, "target_length is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"vocab_size": 3}, "max_size is 3"),
    ],
)
def test_a_mistake_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        build(**options)


def test_pairs_that_fill_no_batch_are_dropped() -> None:
    dataset = build(batch_size=3)
    assert (dataset.get_dataset_size(), [len(batch["src_ids"]) for batch in dataset.iterate()]) == (1, [3])
