from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.fault_plan import KINDS, MOMENTS, STRIKE_FROM_OUTSIDE, FaultPlan, PlannedFault
from mpiparallel.errors import ConfigurationError

ACTIONS = ("", "", "F5", "I12", "W0.1", "F3>1", "I3.1<0", "R", "U")
FAULTS = st.builds(
    PlannedFault,
    st.sampled_from(list(KINDS)),
    st.integers(0, 9_999),
    st.integers(1, 10**11),
    st.sampled_from(MOMENTS),
    st.sampled_from(ACTIONS),
).filter(
    lambda fault: (
        (fault.moment != "in" or fault.kind in STRIKE_FROM_OUTSIDE)
        and not (fault.action and fault.kind.startswith("wrong"))
    )
)


def written(fault: PlannedFault) -> str:
    moment = "" if fault.moment == "at" else f":{fault.moment}"
    action = f"/{fault.action}" if fault.action else ""
    return f"{fault.kind}@{fault.rank}:{fault.count}{action}{moment}"


@given(st.lists(FAULTS, min_size=1, max_size=5))
def test_faults_are_read_as_they_are_written(faults: list[PlannedFault]) -> None:
    assert FaultPlan.parse(", ".join(map(written, faults))).faults(10_000) == tuple(faults)


@given(st.integers(0, 10**12 - 1), st.integers(1, 5000), st.sets(st.sampled_from(list(KINDS)), min_size=1))
def test_a_seed_draws_what_is_asked_for_and_always_the_same(seed: int, size: int, kinds: set[str]) -> None:
    text = f"seed={seed},kinds={'+'.join(sorted(kinds))},collectives=10-200"
    (fault,) = FaultPlan.parse(text).faults(size)
    assert (fault,) == FaultPlan.parse(text).faults(size)
    assert fault.kind in kinds
    assert 0 <= fault.rank < size
    assert 10 <= fault.count <= 200
    assert fault.moment in (MOMENTS if fault.kind in STRIKE_FROM_OUTSIDE else ("at", "after"))


def test_seeds_draw_every_kind_rank_and_moment() -> None:
    drawn = [FaultPlan.parse(f"seed={seed}").faults(4)[0] for seed in range(600)]
    assert set(Counter(fault.kind for fault in drawn)) == set(KINDS)
    assert {fault.rank for fault in drawn} == {0, 1, 2, 3}
    assert {fault.moment for fault in drawn} == set(MOMENTS)
    assert len({fault.count for fault in drawn}) > 300


def test_a_range_holds_both_its_ends() -> None:
    drawn = {FaultPlan.parse(f"seed={seed},collectives=10-11").faults(4)[0].count for seed in range(50)}
    assert drawn == {10, 11}
    assert FaultPlan.parse("kill@0:1,attempts=2").attempts == range(2, 3)


def test_a_seed_draws_the_same_in_every_process() -> None:
    # The hashes of strings differ from process to process; what is drawn must not.
    program = "from mpiparallel.cluster.fault_plan import FaultPlan; print(FaultPlan.parse('seed=7').words(8))"
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert told == {f"{FaultPlan.parse('seed=7').words(8)}\n"}


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("", "write kill@3:418"),
        ("kill", "write kill@3:418"),
        ("kil@3:418", "there are kill, segfault"),
        ("kill@x:418", "write a whole number"),
        ("kill@3:-1", "write a whole number"),
        ("kill@3:٣", "write a whole number"),
        ("kill@3:0", "counted from 1"),
        ("kill@3:418:before", "write in, after, or nothing"),
        ("kill@3:418:", "write in, after, or nothing"),
        ("loop@3:418:in", 'leave ":in" out'),
        ("kill@8:1", "name one from 0 to 7"),
        ("kill@3:2/X5", "is no action; write one as schedules do, like F5"),
        ("kill@3:2/", "is no action; write one as schedules do"),
        ("kill@3:2/R5", "is no action; write one as schedules do"),
        ("kill@3:0/F5", "steps are counted from 1"),
        ("kill@3:x/F5", '"x" is no step; write a whole number'),
        ("wrong-dtype@3:2/F5", "is another collective in place of one; name that by its number"),
        ("loop@3:2/F5:in", 'leave ":in" out'),
        ("seed=", "write a whole number"),
        ("seed=7,seed=8", "leave one out"),
        ("seed=7,kinds=kill+stopp", "there are kill, segfault"),
        ("seed=7,kinds=", "there are kill, segfault"),
        ("seed=7,collectives=0-9", "write 10-200"),
        ("seed=7,collectives=9-8", "write 10-200"),
        ("seed=7,attempts=x", "write 10-200"),
        ("seed=7,sed=8", "there are seed, kinds"),
        ("seed=7,folder=", "none of them empty"),
        ("kinds=kill", "add seed=7"),
        ("attempts=0-2", "write kill@3:418"),
        ("kill@3:418,,stop@1:2", "write kill@3:418"),
    ],
)
def test_what_cannot_be_is_refused_with_the_mend(text: str, mend: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        FaultPlan.parse(text).faults(8)
    assert mend in str(refusal.value)
    assert str(refusal.value).startswith("--chaos ")


@pytest.mark.parametrize(
    ("word", "shown"), [("a" * 80, "a" * 80), ("b" * 81, "b" * 77 + "..."), ("c" * 9000, "c" * 77 + "...")]
)
def test_of_a_long_word_the_beginning_is_shown(word: str, shown: str) -> None:
    assert refusal_of(word).startswith(f"--chaos '{shown}': ")


PIECES = st.sampled_from([*"@:=,+-37/FR\0é", "kill", "stop", "418", "in", "seed", "kinds", "collectives"])


def refusal_of(text: str) -> str:
    try:
        faults = FaultPlan.parse(text).faults(8)
    except ConfigurationError as error:
        return str(error)
    assert all(fault.rank < 8 and fault.count > 0 for fault in faults)
    return ""


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=14).map("".join)))
def test_any_text_is_a_plan_or_refused_in_one_line(text: str) -> None:
    assert len(refusal_of(text)) < 600
    assert "\n" not in refusal_of(text)


def test_a_plan_says_where_the_checkpoints_are() -> None:
    assert FaultPlan.parse("kill@3:418, folder=runs/a b").folder == "runs/a b"
    assert FaultPlan.parse("kill@3:418").folder == ""
    with pytest.raises(ConfigurationError, match="there are seed, kinds, collectives, attempts and folder"):
        FaultPlan.parse("kill@3:418,folder=a\0b")


@pytest.mark.parametrize(
    ("text", "count"), [(f"kill@0:{'9' * 12}", 10**12 - 1), ("kill@0:1", 1), ("kill@0:000000000007", 7)]
)
def test_numbers_have_up_to_twelve_digits(text: str, count: int) -> None:
    assert FaultPlan.parse(text).named == (PlannedFault("kill", 0, count),)
    assert "is no collective; write a whole number of at most 12 digits" in refusal_of(f"kill@0:{'9' * 13}")


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("seed=7", FaultPlan(seed=7)),
        ("seed=7,kinds=stop+kill", FaultPlan(seed=7, kinds=("stop", "kill"))),
        ("seed=7,collectives=10-200", FaultPlan(seed=7, collectives=range(10, 201))),
        ("seed=7,collectives=5", FaultPlan(seed=7, collectives=range(5, 6))),
        ("seed=7,attempts=0-2", FaultPlan(seed=7, attempts=range(3))),
        ("seed=7,attempts=1-2", FaultPlan(seed=7, attempts=range(1, 3))),
        ("kill@1:2, seed=7", FaultPlan((PlannedFault("kill", 1, 2),), seed=7)),
    ],
)
def test_each_option_is_taken_and_what_is_not_given_is_as_documented(text: str, plan: FaultPlan) -> None:
    assert FaultPlan.parse(text) == plan
    assert FaultPlan(seed=7).collectives == range(1, 1001)
    assert (FaultPlan(seed=7).attempts, FaultPlan(seed=7).kinds) == (range(1), tuple(KINDS))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kill@8:5", "--chaos 'kill@8:5': there is no rank 8 among 8; name one from 0 to 7"),
        ("x@1:1", f"--chaos 'x@1:1': there is no kind \"x\"; there are {', '.join(KINDS)}"),
        (
            "kill@1:1:soon",
            "--chaos 'kill@1:1:soon': \"soon\" is no moment; write in, after, or nothing for right before",
        ),
        ("kill@1:0", "--chaos 'kill@1:0': collectives are counted from 1; name that or a later one"),
        ("seed=1,attempts=2-1", "--chaos 'attempts=2-1': \"2-1\" is no range of numbers from 0; write 10-200"),
        ("seed=1,collectives=0", "--chaos 'collectives=0': \"0\" is no range of numbers from 1; write 10-200"),
        ("attempts=1", "--chaos 'attempts=1': names no fault; write kill@3:418 for rank 3 at its collective 418,"),
    ],
)
def test_a_wrong_word_is_told_with_its_mend(text: str, told: str) -> None:
    assert refusal_of(text).startswith(told)


def test_words_of_a_plan_name_its_seed_and_all_its_faults() -> None:
    plan = FaultPlan.parse("kill@0:1,stop@1:2:after,seed=3,kinds=leave,collectives=9")
    named, drawn = plan.words(2).rsplit(", ", 1)
    assert named == "chaos seed=3: kill rank 0 at collective 1, stop rank 1 after collective 2"
    assert drawn.startswith("let rank ")
    assert drawn.endswith(" collective 9")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{}@1:1", "there is no kind"),
        ("kill@1:1:{}", "is no moment"),
        ("kill@1:1/{}", "is no action"),
        ("kill@{}:1", "is no rank"),
        ("kill@1:{}", "is no collective"),
        ("seed=1,attempts={}", "is no range"),
    ],
)
def test_of_a_long_value_sixty_characters_are_told(text: str, what: str) -> None:
    told = refusal_of(text.format("x" * 61)).partition("': ")[2]
    assert what in told
    assert f'"{"x" * 60}"' in told
