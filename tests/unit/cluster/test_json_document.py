from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mpiparallel.cluster.file_problems import FileProblems
from mpiparallel.cluster.json_document import child, read_json, shown


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


COMMENT = "has a comment, which JSON does not know; delete it"
CUT_OFF = "the file ends here, in the middle of the table; is it cut off? write the rest"


def problems_of(text: str) -> tuple[Any, list[str]]:
    problems = FileProblems()
    value = read_json(text, problems)
    return value, [f"{problem.line}: {problem}" if problem.line else str(problem) for problem in problems.kept]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "1: column 1: the file is empty; write a rank table"),
        ("\n \n", "3: column 1: the file is empty; write a rank table"),
        ('{\n "a": 1, // one\n "b": 2}', f'2: column 10: "\\"a\\": 1, // one" {COMMENT}'),
        ('{ /* one */ "a": 1}', f'1: column 3: "{{ /* one */ \\"a\\": 1}}" {COMMENT}'),
        ('{\n# one\n"a": 1}', f'2: column 1: "# one" {COMMENT}'),
        ('{"a": {"a": [1, 2]}', f"1: column 20: {CUT_OFF}"),
        ("{'a': 1}", "1: column 2: \"{'a': 1}\" has single quotes; write double ones"),
        ('{"a" 1}', "1: column 6: Expecting ':' delimiter in \"{\\\"a\\\" 1}\"; write well-formed JSON"),
        ("nul", "1: column 1: Expecting value in \"nul\"; write well-formed JSON"),
    ],
)  # fmt: skip
def test_what_is_no_json_is_told_with_line_column_and_mend(text: str, told: str) -> None:
    assert problems_of(text) == (None, [told])


@pytest.mark.parametrize(("text", "closing"), [('{"a": 1,\n }', "}"), ("[1,\n ]", "]")])
def test_a_comma_too_many_is_told_before_the_bracket_that_follows_it(text: str, closing: str) -> None:
    value, (told,) = problems_of(text)
    assert value is None
    assert told.endswith(f': the comma before the "{closing}" has nothing after it; delete the comma') or (
        # Newer readers of JSON stand at the comma themselves.
        "railing comma" in told
    )


def test_a_long_line_is_shown_from_40_characters_before_the_fault() -> None:
    value, (told,) = problems_of('{"' + "a" * 100 + '" ' + "b" * 100)
    assert value is None
    assert f'delimiter in "{"a" * 38}\\" {"b" * 1}' in told
    assert len(told) < 160


@pytest.mark.parametrize(("count", "is_taken"), [(125_000, True), (125_001, False)])
def test_more_objects_and_lists_than_there_can_be_ranks_are_not_read(count: int, is_taken: bool) -> None:
    value, told = problems_of("[" + "{}," * (count - 2) + "{}]")
    if is_taken:
        assert (len(value), told) == (count - 1, [])
    else:
        assert (value, told) == (None, ["it has more than 125000 objects and lists; give a rank table"])


def test_what_is_nested_deeper_than_python_goes_is_refused() -> None:
    mend = "it is nested too deeply for a rank table; write server_list, device and their values only"
    assert problems_of("[" * 100_000) == (None, [mend])


def test_keys_that_are_written_again_are_told_wherever_they_are_and_the_last_value_counts() -> None:
    value, told = problems_of('{"a": 1, "b": [{"c": 1, "c": 2, "c": 3}], "a": {"a": 4}}')
    assert value == {"a": {"a": 4}, "b": [{"c": 3}]}
    assert sorted(told) == [
        'a: "a" is written 2 times in one object; keep one',
        'b[0].c: "c" is written 3 times in one object; keep one',
    ]


@pytest.mark.parametrize(
    ("digits", "value"), [("9" * 18, 999_999_999_999_999_999), ("9" * 19, "9" * 19), ("-" + "9" * 17, -(10**17) + 1)]
)
def test_numbers_of_more_than_18_digits_stay_texts(digits: str, value: object) -> None:
    assert problems_of(digits) == (value, [])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"),
        ({"a": 1}, "{...}"),
        ([], "[]"),
        ([1], "[...]"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("\x1b", '"\\u001b"'),
        ("x" * 58, f'"{"x" * 58}"'),
        ("x" * 59, f'"{"x" * 55}..."'),
    ],
)
def test_a_value_is_shown_as_json_that_commands_no_terminal(value: object, text: str) -> None:
    assert shown(value) == text
