from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from mpiparallel.cluster.json_document import child, shown


@given(st.text(max_size=80))
@example("x" * 58)
@example("x" * 59)
@example('"' * 40)
@example("\\" * 40)
def test_a_text_is_shown_in_at_most_60_characters_and_whole_where_they_are_enough(text: str) -> None:
    whole, found = json.dumps(text), shown(text)
    assert len(found) <= 60
    assert found == whole if len(whole) <= 60 else found.endswith('..."')


@given(st.text(max_size=80))
@example("x" * 60)
@example("x" * 61)
@example("a b")
def test_a_key_that_is_a_word_of_60_letters_is_written_as_one_and_others_as_a_text(key: str) -> None:
    is_word = key.isascii() and key.isidentifier() and len(key) <= 60
    assert child("table", key) == (f"table.{key}" if is_word else f"table[{json.dumps(key[:60])}]")
    assert child("", key) == (key if is_word else f"[{json.dumps(key[:60])}]")
