from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from mpiparallel.cluster.json_document import shown


@given(st.text(max_size=80))
@example("x" * 58)
@example("x" * 59)
@example('"' * 40)
@example("\\" * 40)
def test_a_text_is_shown_in_at_most_60_characters_and_whole_where_they_are_enough(text: str) -> None:
    whole, found = json.dumps(text), shown(text)
    assert len(found) <= 60
    assert found == whole if len(whole) <= 60 else found.endswith('..."')
