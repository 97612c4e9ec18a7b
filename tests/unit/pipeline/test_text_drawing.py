"""Time lines as text, letter by letter, counted by hand."""

from __future__ import annotations

import pytest

from mpiparallel.pipeline import Action, Kind, Panel, TimedAction, drawn_text

FORWARD = "48;5;25;38;5;231"
LIGHT_FORWARD = "48;5;153;38;5;16"
OTHER = "48;5;240;38;5;231"


def timed(kind: Kind, begin: float, end: float, micro_batch: int = 0, chunk: int = 0, stage: int = 0) -> TimedAction:
    return TimedAction(stage, Action(kind, micro_batch, chunk), begin, end)


def row(actions: list[TimedAction], width: int, coloured: bool = False) -> str:
    """Return the row of the first stage, without its name."""
    line = drawn_text(Panel("measured", "", actions), width, coloured).splitlines()[1]
    assert line.startswith("stage 0  ")
    return line[9:]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        # Nine characters are the stage's name. The label of three and a blank is as long as the shorter one needs.
        (60, "F12 I12"),
        (9 + 12, "F12 I12"),
        # Two characters for each second: no room for the first label but its letter.
        (9 + 6, "F I12"),
        (9 + 3, "FI"),
        # No whole character for a second: two thirds of one for each, so one and one.
        (9 + 2, "FI"),
        # A third of a character is rounded to none.
        (9 + 1, "I"),
    ],
)
def test_labels_are_shortened_to_letters_where_there_is_no_room(width: int, shown: str) -> None:
    assert row([timed(Kind.FORWARD, 0, 1, 12), timed(Kind.INPUT_GRADIENT, 1, 3, 12)], width) == shown


def test_idle_time_is_shown_as_dots_before_between_and_after_what_is_done() -> None:
    actions = [timed(Kind.FORWARD, 2, 3, 1), timed(Kind.WEIGHT_GRADIENT, 1, 2, 0), timed(Kind.FORWARD, 5, 6, 2)]
    others = [timed(Kind.FORWARD, 0, 8, 0, stage=1)]
    assert row([*actions, *others], 9 + 24) == "...W0 F1 ......F2 ......"
    panel = Panel("measured", "", [*actions, *others])
    assert drawn_text(panel, 9 + 24).splitlines()[2] == "stage 1  F0"


def test_small_letters_are_the_second_chunk_and_reduce_and_update_have_no_number() -> None:
    actions = [timed(Kind.FORWARD, 0, 1, 3), timed(Kind.FORWARD, 1, 2, 4, 1), timed(Kind.FORWARD, 2, 3, 5, 2)]
    actions += [timed(Kind.REDUCE, 3, 4), timed(Kind.UPDATE, 4, 5)]
    assert row(actions, 60) == "F3 f4 F5 R  U"
    legend = drawn_text(Panel("measured", "", actions), 60).splitlines()[-1]
    assert legend == "F forward, R reduce, U update, small: second chunk, . idle"


@pytest.mark.parametrize(
    ("chunk", "told"), [(0, ""), (1, "small: second chunk, "), (2, ""), (3, "small: second chunk, ")]
)
def test_small_letters_are_explained_where_there_are_any(chunk: int, told: str) -> None:
    panel = Panel("measured", "", [timed(Kind.FORWARD, 0, 1, 0, chunk)])
    assert drawn_text(panel).splitlines()[-1] == f"F forward, {told}. idle"


def test_what_is_measured_of_two_actions_at_once_is_shown_one_after_the_other() -> None:
    actions = [timed(Kind.FORWARD, 0, 2, 0), timed(Kind.WEIGHT_GRADIENT, 1, 4, 0), timed(Kind.FORWARD, 1.5, 2, 1)]
    # Two seconds are three characters. Of the second action there are the last three, and nothing of the third.
    assert row(actions, 60) == "F0 W0"


def test_messages_and_what_takes_no_time_are_left_out() -> None:
    send = TimedAction(0, Action(Kind.SEND_ACTIVATIONS, 0, 0, 1), 1.0, 2.0)
    assert row([timed(Kind.FORWARD, 0, 1), send, timed(Kind.UPDATE, 2, 2)], 60) == "F0 ..."


def painted(colour: str, text: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"


def test_colours_say_what_is_done_numbers_of_which_and_a_number_without_room_is_left_out() -> None:
    actions = [
        timed(Kind.FORWARD, 0, 1, 7),
        timed(Kind.FORWARD, 1, 2, 8, 1),
        timed(Kind.REDUCE, 3, 4),
        timed(Kind.FORWARD, 4, 5, 1000),
    ]
    wide = [painted(FORWARD, "7    "), painted(LIGHT_FORWARD, "8    "), ".....", painted(OTHER, "R    ")]
    assert row(actions, 60, coloured=True) == "".join([*wide, painted(FORWARD, "1000 ")])
    narrow = [painted(FORWARD, "7  "), painted(LIGHT_FORWARD, "8  "), "...", painted(OTHER, "R  ")]
    assert row(actions, 9 + 15, coloured=True) == "".join([*narrow, painted(FORWARD, "   ")])
    *_, samples, told = drawn_text(Panel("measured", "", actions), 60, coloured=True).splitlines()
    assert samples == f"{painted(FORWARD, ' forward ')} {painted(OTHER, ' reduce ')}"
    assert told == "numbers are micro-batches, light colours the second chunk of a stage, dots idle time"
    one = drawn_text(Panel("measured", "", actions[:1]), coloured=True).splitlines()[-1]
    assert one == "numbers are micro-batches, dots idle time"


def test_names_of_ten_stages_and_more_are_as_wide_as_the_longest() -> None:
    actions = [timed(Kind.FORWARD, 0, 1, stage=stage) for stage in (0, 10)]
    _, *rows, _ = drawn_text(Panel("measured", "", actions), 40).splitlines()
    assert rows[0] == "stage 0   F0"
    assert rows[1] == "stage 1   ..."
    assert rows[10] == "stage 10  F0"


def test_lines_are_at_most_120_characters_unless_told() -> None:
    actions = [timed(Kind.FORWARD, one, one + 1, one) for one in range(111)]
    assert len(drawn_text(Panel("measured", "", actions)).splitlines()[1]) == 120


def test_what_fills_a_whole_character_but_for_rounding_fills_it() -> None:
    # Three times a tenth is a hair more than 0.3, so a third of 30 characters is a hair less than 10.
    actions = [timed(Kind.FORWARD, one * 0.1, (one + 1) * 0.1, 12345678) for one in range(3)]
    assert row(actions, 9 + 30) == "F12345678 F12345678 F12345678"


@pytest.mark.parametrize(("chunk", "colour"), [(0, FORWARD), (1, LIGHT_FORWARD), (2, FORWARD), (3, LIGHT_FORWARD)])
def test_every_second_chunk_is_light(chunk: int, colour: str) -> None:
    assert row([timed(Kind.FORWARD, 0, 1, 4, chunk)], 40, coloured=True) == painted(colour, "4 ")
