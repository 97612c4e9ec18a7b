from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.json_document import child
from mpiparallel.cluster.json_lines import line_numbers

KEYS = st.sampled_from(("a", "b", "server_list", "a b", 'quo"te', "back\\slash", "[0]", "ä"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(("{", "]", ":", '"', "\\")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, child(path, key))]
    if isinstance(value, list):
        return [leaf for place, inner in enumerate(value) for leaf in leaves(inner, child(path, place))]
    return [(path, value)]


@given(VALUES, st.sampled_from((1, 4)))
def test_every_value_stands_where_its_path_says(value: Any, indent: int) -> None:
    text = json.dumps(value, indent=indent)
    lines = text.splitlines()
    paths = dict(leaves(value))
    found = line_numbers(text, paths)
    assert found.keys() == paths.keys()
    for path, leaf in paths.items():
        assert json.dumps(leaf) in lines[found[path] - 1]
    # With one value a line, no two leaves share one.
    assert len(set(found.values())) == len(found)


def test_path_that_is_not_there_has_the_line_of_what_it_should_be_in() -> None:
    text = '{\n "server_list": [\n  {"device": 1},\n  {}\n ]\n}'
    assert line_numbers(text, ["server_list[1].device", "status"]) == {"server_list[1].device": 4, "status": 1}


def test_what_follows_a_bracket_too_many_has_no_line_of_its_own() -> None:
    assert line_numbers('{"a": 1}\n}\n{"b": 2}', ["a", "b"]) == {"a": 1, "b": 1}


def test_texts_above_2_mib_are_not_searched() -> None:
    text = "[" + " " * ((2 << 20) - 2) + "]"
    assert line_numbers(text, ["[0].a"]) == {"[0].a": 1}
    assert line_numbers(f"{text} ", ["[0].a"]) == {}
    assert line_numbers(text, []) == {}


def test_a_key_has_the_line_of_its_name_and_an_element_that_of_its_value() -> None:
    text = '{"a":\n 1, "b": [\n 2,\n {"c": "x,{"}\n ]\n}'
    paths = ["a", "b", "b[0]", "b[1]", "b[1].c", "b[2]", "d.e[3]"]
    found = {"a": 1, "b": 2, "b[0]": 3, "b[1]": 4, "b[1].c": 4, "b[2]": 2, "d.e[3]": 1}
    assert line_numbers(text, paths) == found
    assert line_numbers(f"\n{text}", paths) == {path: line + 1 for path, line in found.items()}
