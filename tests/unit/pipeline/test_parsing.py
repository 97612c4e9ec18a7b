"""A schedule's text is read as it was printed, and a mistake in a user's is named with line and field."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.errors import ScheduleError
from mpiparallel.pipeline import SCHEDULES, Action, Kind, check, make_schedule, parse, read_schedule


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("blocking", [False, True])
def test_what_a_schedule_prints_is_that_schedule(name: str, blocking: bool, tmp_path: Path) -> None:
    schedule = make_schedule(name, 3, 12, blocking=blocking)
    assert parse(str(schedule)) == schedule
    path = tmp_path / "schedule.txt"
    path.write_text(str(schedule), encoding="utf-8")
    assert read_schedule(path) == schedule


def test_a_user_may_write_computations_alone_on_many_lines_with_comments() -> None:
    text = """
    # 1F1B for two stages
    micro-batches 2   # not many
    parts 0 1
    stage 1: F0 I0 W0
    stage 0: F0 F1
    stage 0: I0 W0 I1 W1
    stage 1: F1 I1 W1
    """
    schedule = parse(text)
    assert schedule.actions == make_schedule("1f1b", 2, 2).actions
    assert check(schedule).bubble == 2


HEAD = "schedule mine\nmicro-batches 2\nparts 0 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "stage 0: F0 X1", r'mine\.txt, line 4, field 4 \("X1"\): is no action; write F3 for'),
        (HEAD + "stage 0: F0 F1.", r'line 4, field 4 \("F1\."\): is no action'),
        (HEAD + "stage 0: F0 F-1", r'line 4, field 4 \("F-1"\): is no action'),
        (HEAD + "stage 0: F0 F1234567", r'line 4, field 4 \("F1234567"\): is no action'),
        (HEAD + "stage 0: W0>1", r'line 4, field 3 \("W0>1"\): a weight gradient stays on its stage'),
        (HEAD + "stage 0 F0", r'line 4, field 2 \("0"\): a colon follows'),
        (HEAD + "stage", r'line 4, field 1 \("stage"\): write its number'),
        (HEAD + "stage x: F0", r'line 4, field 2 \("x"\): is not the number of a stage'),
        (HEAD + "stages 2", r'line 4, field 1 \("stages"\): a line begins with'),
        ("schedule a\x1bb", r'line 1, field 2 \("a.*"\): a name has no control characters'),
        (HEAD + "parts 0 1", r'line 4, field 1 \("parts"\): write parts once'),
        ("micro-batches two", r'line 1, field 2 \("two"\): is not a number of micro-batches'),
        ("\nmicro-batches", r'line 2, field 1 \("micro-batches"\): write micro-batches once'),
        ("parts 0 1", 'a line is missing; write one like "micro-batches 8"'),
        ("micro-batches 0\nparts 0", 'a line is missing; write one like "micro-batches 8"'),
        ("micro-batches 8", 'a line is missing; write one like "parts 0 1 2 3"'),
        ("micro-batches 8\nparts 0 2", r"mine\.txt: parts 0 2: name the stage of each part"),
        (HEAD + "stage 0: F0", r"parts names 2 stages, and there are lists of stage 0; write one list for each"),
        (HEAD + "stage 0: F0\nstage 1: F2", 'schedule "mine": stage 1, F2 .*: rule "known"'),
    ],
)
def test_a_mistake_is_named_with_its_line_and_field(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        parse(text, "mine.txt")


WORDS = [
    "stage",
    "0:",
    "1:",
    "parts",
    "micro-batches",
    "schedule",
    "0",
    "1",
    "\n",
    "#",
    "R",
    "U",
    "F0",
    "I0",
    "W0",
    "F0>1",
]


@given(words=st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=40))
def test_any_text_is_a_schedule_or_refused(words: list[str]) -> None:
    with suppress(ScheduleError):
        check(parse(" ".join(words)))


def test_a_file_that_cannot_be_read_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"gone\.txt: No such file or directory; give a text file"):
        read_schedule(tmp_path / "gone.txt")
    (tmp_path / "odd.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ScheduleError, match=r"odd\.txt: .*give a text file"):
        read_schedule(tmp_path / "odd.txt")


def test_what_is_left_out_is_called_user_and_a_text_without_a_file_schedule() -> None:
    assert parse("micro-batches 1\nparts 0\nstage 0: F0 I0 W0").name == "user"
    with pytest.raises(ScheduleError, match=r'^schedule: a line is missing; write one like "micro-batches 8"$'):
        parse("")


@pytest.mark.parametrize(("length", "shown"), [(40, "x" * 40), (41, "x" * 37 + "...")])
def test_a_long_word_is_shown_by_its_beginning(length: int, shown: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(HEAD + "stage 0: F0 " + "x" * length, "mine.txt")
    assert str(caught.value).startswith(f'mine.txt, line 4, field 4 ("{shown}"): is no action; ')


@pytest.mark.parametrize(
    ("word", "action"),
    [
        ("F999999.9999>9999", Action(Kind.SEND_ACTIVATIONS, 999999, 9999, 9999)),
        ("I07<0", Action(Kind.RECEIVE_GRADIENTS, 7, 0, 0)),
        ("W3.1", Action(Kind.WEIGHT_GRADIENT, 3, 1)),
        ("R", Action(Kind.REDUCE)),
        ("U", Action(Kind.UPDATE)),
    ],
)
def test_numbers_of_an_action_are_read_as_they_are_written(word: str, action: Action) -> None:
    # Reduce and update are no computations, so nothing is added.
    assert parse(f"micro-batches 1\nparts 0\nstage 0: {word} U").actions[0][0] == action


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "stage 0: F0 F1.12345", r'line 4, field 4 \("F1\.12345"\): is no action'),
        (HEAD + "stage 0: F0>12345", r'line 4, field 3 \("F0>12345"\): is no action'),
        (HEAD + "stage 0: F0 W1<0", r'line 4, field 4 \("W1<0"\): a weight gradient stays'),
        ("micro-batches 1234567", r'field 2 \("1234567"\): is not a number of micro-batches; write digits, six'),
        ("micro-batches 2 3", r'line 1, field 1 \("micro-batches"\): write micro-batches once'),
        ("schedule two words", r'line 1, field 1 \("schedule"\): write schedule once, and behind it what it is'),
        ("# only this\n\nparts", r'line 3, field 1 \("parts"\): write parts once'),
        ("parts 0 x", r'line 1, field 3 \("x"\): is not the number of a stage'),
        (HEAD, "there are lists of stage none; write one list for each"),
        (HEAD + "stage 2: F0\nstage 0: F0", "parts names 2 stages, and there are lists of stage 0, 2; write"),
    ],
)
def test_words_that_are_no_schedule_are_refused_where_they_stand(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        parse(text, "mine.txt")


def test_one_message_makes_a_list_the_users_own_to_which_nothing_is_added() -> None:
    text = "micro-batches 1\nparts 0 1\nstage 0: F0 F0>1 I0 W0\nstage 1: F0 I0 W0"
    assert [len(actions) for actions in parse(text).actions] == [4, 3]
    assert [len(actions) for actions in parse(text.replace("F0>1 ", "")).actions] == [7, 7]
