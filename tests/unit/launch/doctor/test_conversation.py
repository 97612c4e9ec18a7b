"""What is heard of a program on another host, and how a talk with it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpiparallel.launch.doctor.child import ChildAnswer
from mpiparallel.launch.doctor.conversation import Conversation

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def talk(shell: str) -> Conversation:
    return Conversation(["sh", "-c", shell], ENVIRONMENT)


SAID = '{"doctor": true, "number": 1}'


@pytest.mark.parametrize(
    ("shell", "heard"),
    [
        (f"echo '{SAID}'", [1, None]),
        (f"echo Welcome; echo '{{}}'; echo '[1]'; echo '{SAID}'", [1, None]),
        (f"echo '{SAID.replace('true', 'false')}'; echo '{SAID.replace('1', '2')}'", [2, None]),
        (f"echo '{SAID}'; echo '{SAID.replace('1', '2')}'", [1, 2, None]),
        (f"printf '{SAID[:9]}'; sleep 0.01; printf '{SAID[9:]}\\n'", [1, None]),
        (f"printf '{SAID}'", [None]),
        ("true", [None]),
    ],
)
def test_objects_of_the_doctor_are_heard_one_by_one(shell: str, heard: list[int | None]) -> None:
    with talk(shell) as there:
        found = [there.hear(30.0) for _ in heard]
    assert [None if one is None else one["number"] for one in found] == heard


def test_a_question_is_a_line_of_json_and_its_answer_the_next_object() -> None:
    with talk('while read line; do echo "{\\"doctor\\": 1, \\"asked\\": $line}"; done') as there:
        for question in ({"ask": "clock"}, {"ask": "examine", "ranks": 2}):
            assert there.ask(question, 30.0) == {"doctor": 1, "asked": question}


def test_who_has_gone_gives_no_answer() -> None:
    with talk("exec 0<&- ; exit 7") as there:
        assert there.hear(30.0) is None
        assert there.ask({"ask": "clock"}, 30.0) is None
        assert there.ending() == (7, "")


def test_much_before_the_greeting_is_passed_over() -> None:
    with talk(f"head -c 100000 /dev/zero; echo; echo '{SAID}'") as there:
        assert there.hear(30.0) is not None


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("echo a >&2; echo '  b  ' >&2; echo >&2", "b"),
        ("echo b >&2", "b"),
        ("printf '%0400d' 0 >&2", "0" * 300),
        ("head -c 100000 /dev/zero >&2; echo >&2; echo b >&2", "b"),
        ("echo out", ""),
    ],
)
def test_the_last_line_of_stderr_tells_why_there_is_no_answer(shell: str, said: str) -> None:
    with talk(f"{shell}; exit 3") as there:
        assert there.hear(30.0) is None
        assert there.ending() == (3, said)


def test_a_talk_that_is_over_leaves_no_process_behind() -> None:
    with talk('echo "{\\"doctor\\": $$}"; exec sleep 100') as there:
        heard = there.hear(30.0)
    assert heard is not None
    assert not Path(f"/proc/{heard['doctor']}").exists()
    with pytest.raises(FileNotFoundError):
        Conversation(["/no/such/program"], ENVIRONMENT)


ANSWERS: list[tuple[dict[str, Any], str, str]] = [
    ({"output": "a\n", "error": ""}, "a", "says a"),
    ({"output": "a\n", "error": "b\n \n"}, "b", "says b"),
    ({"output": "", "error": ""}, "", "says nothing"),
    ({"output": "a", "failure": "was ended by SIGABRT"}, "a", "was ended by SIGABRT: a"),
    ({"failure": "was ended by SIGABRT"}, "", "was ended by SIGABRT"),
    ({"output": "x" * 301}, "x" * 300, f"says {'x' * 300}"),
]


@pytest.mark.parametrize(("given", "last", "complaint"), ANSWERS)
def test_the_last_words_of_a_child_tell_what_it_complains_of(given: dict[str, Any], last: str, complaint: str) -> None:
    known: dict[str, Any] = {"code": 0, "output": "", "error": "", "seconds": 0.1, "failure": ""}
    answer = ChildAnswer(**known | given)
    assert (answer.last_words, answer.complaint) == (last, complaint)


def test_facts_of_a_child_are_those_of_all_its_objects_and_the_last_word_counts() -> None:
    answer = ChildAnswer(0, '{"a": 1}\nWelcome\n[2]\n{"a": 3, "b": 4}\n{"c": ', "", 0.1, "")
    assert answer.objects == [{"a": 1}, {"a": 3, "b": 4}]
    assert answer.facts == {"a": 3, "b": 4}
