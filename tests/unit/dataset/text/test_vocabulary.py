from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.dataset.text import Vocabulary
from mpiparallel.errors import DatasetError


def test_words_stand_by_frequency_and_then_by_alphabet() -> None:
    vocabulary = Vocabulary.from_texts(["b a c", "c  b", "d PAD"], max_size=100)
    assert vocabulary.words == ("UNK", "PAD", "EOT", "b", "c", "a", "d")
    assert len(vocabulary) == 7


def test_the_largest_size_counts_the_three_special_words() -> None:
    assert Vocabulary.from_texts(["b a c", "c b"], max_size=5).words == ("UNK", "PAD", "EOT", "b", "c")


@given(st.lists(st.text("abc", min_size=1), max_size=20))
def test_decode_undoes_encode_for_known_words(words: list[str]) -> None:
    vocabulary = Vocabulary.from_texts([" ".join(words)], max_size=1000)
    assert vocabulary.decode(vocabulary.encode(words)) == words
    assert vocabulary.encode(["zz"]) == [0]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: Vocabulary.from_texts(["a"], 3), "max_size is 3"),
        (lambda: Vocabulary(["a", "a"]), 'word "a" occurs twice'),
        (lambda: Vocabulary(["PAD"]), 'word "PAD" occurs twice'),
        (lambda: Vocabulary(["a"]).decode([4]), "id 4 is outside; the ids are 0 to 3"),
    ],
)
def test_a_mistake_is_named(act: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        act()
