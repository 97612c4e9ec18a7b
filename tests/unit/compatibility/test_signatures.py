"""Arguments that MindSpore has too: each is used, refused by its name, or said to have no effect."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mpiparallel.errors import MpiParallelError
from tests.conformance.cases.shared_callables import at, ours, parameters
from tests.conformance.probes.argument_probe import Beside, Noted, Probe, Refused
from tests.conformance.probes.cell_probes import CELLS
from tests.conformance.probes.checkpoint_probes import CHECKPOINTS
from tests.conformance.probes.data_probes import DATA
from tests.conformance.probes.function_probes import FUNCTIONS
from tests.conformance.probes.known_differences import ABSENT, ELSEWHERE, OTHER_DEFAULTS, PLACED_OTHERWISE
from tests.conformance.probes.layer_probes import LAYERS
from tests.conformance.probes.operator_probes import OPERATORS
from tests.conformance.probes.training_probes import TRAINING

TABLE = Path(__file__).parents[2] / "fixtures" / "mindspore" / "signatures.json"
RELEASED = TABLE.parents[1] / "earlier" / "defaults.json"
THEIRS: dict[str, list[str]] = json.loads(TABLE.read_text(encoding="utf-8"))
ARGUMENTS: dict[str, Probe] = {**CELLS, **CHECKPOINTS, **DATA, **FUNCTIONS, **LAYERS, **OPERATORS, **TRAINING}
"""All probes by the name of what is called."""
Entry = TypeVar("Entry")
CASES = [(name, argument, value) for name, probe in ARGUMENTS.items() for argument, value in probe.values.items()]


@pytest.mark.parametrize(("name", "argument", "value"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_an_argument_is_used_or_refused_or_said_to_have_no_effect(
    name: str, argument: str, value: Any, remarks: Callable[[], list[str]]
) -> None:
    call = ARGUMENTS[name].call
    if isinstance(value, Refused):
        with pytest.raises(MpiParallelError, match=value.words or argument):
            call(**{argument: value.value})
    elif isinstance(value, Noted):
        call(**{argument: value.value})
        assert [line for line in remarks() if argument in line]
    else:
        others = value.others if isinstance(value, Beside) else {}
        varied = {argument: value.value if isinstance(value, Beside) else value}
        assert call(**others) == call(**others)
        assert call(**others | varied) != call(**others)


@dataclass(frozen=True)
class Signature:
    """The names that can be given by place, in order, and the default of each that has one."""

    places: tuple[str, ...]
    defaults: dict[str, str]

    @classmethod
    def of(cls, words: list[str]) -> Signature:
        stars = [place for place, word in enumerate(words) if word.startswith("*")]
        by_place = words[: stars[0]] if stars else words
        named = [word.partition("=") for word in words if "=" in word]
        return cls(tuple(word.partition("=")[0] for word in by_place), {name: value for name, _, value in named})


OURS = {name: found for name, function in ours().items() if (found := parameters(function)) is not None}
SHARED = [name for name in THEIRS if name in OURS]


def by_any_name(table: Mapping[str, Entry], name: str, none: Entry) -> Entry:
    """Return the entry of a callable, under whichever of its names it is in a table."""
    meant = at("mpiparallel", name)
    return next((entry for known, entry in table.items() if at("mpiparallel", known) is meant), none)


@pytest.mark.parametrize("name", SHARED)
def test_what_is_given_by_place_is_the_same_argument(name: str) -> None:
    here, there = Signature.of(OURS[name]), Signature.of(THEIRS[name])
    moved = [
        (mine, given)
        for mine, given in zip(here.places, there.places, strict=False)
        if mine != given and (mine in there.places or given in here.places or given in there.defaults)
    ]
    assert bool(by_any_name(PLACED_OTHERWISE, name, "")) == bool(moved), moved


@pytest.mark.parametrize("name", SHARED)
def test_what_mindspore_takes_by_name_is_taken_by_name(name: str) -> None:
    words = [word.partition("=")[0] for word in THEIRS[name]]
    by_name = words[words.index("/") + 1 :] if "/" in words else words
    ours_by_place_alone = {
        one.name for one in inspect.signature(ours()[name]).parameters.values() if one.kind is one.POSITIONAL_ONLY
    }
    assert not ours_by_place_alone & set(by_name)


@pytest.mark.parametrize("name", SHARED)
def test_each_optional_argument_that_both_have_is_tried(name: str) -> None:
    here, there = OURS[name], Signature.of(THEIRS[name])
    known = {word.partition("=")[0] for word in here}
    tried = {*by_any_name(ARGUMENTS, name, Probe(len, {})).values, *by_any_name(ELSEWHERE, name, {})}
    left = [one for one in there.defaults if one in known and one not in tried]
    assert left == [], "give it a value in tests/conformance/*_probes.py, or in ELSEWHERE the test that tries it"


@pytest.mark.parametrize("name", SHARED)
def test_an_argument_that_is_absent_is_listed_and_refused_by_its_name(name: str) -> None:
    here = {word.partition("=")[0] for word in OURS[name]}
    absent = [one for one in Signature.of(THEIRS[name]).defaults if one not in here and "**" not in OURS[name]]
    assert absent == by_any_name(ABSENT, name, "").split()
    signature = inspect.signature(ours()[name])
    for one in absent:
        with pytest.raises(TypeError, match=one):
            signature.bind_partial(**{one: None})


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_tried_elsewhere_is_spoken_of_there(name: str) -> None:
    for argument, place in ELSEWHERE[name].items():
        text = (TABLE.parents[2] / place).read_text(encoding="utf-8")
        last = name.rpartition(".")[2]
        assert re.search(rf"\b{last}\(", text), f"{place} does not call {last}"
        # The two strategies are given by place: from this one, to that one.
        by_place = argument.endswith("_strategy_file")
        assert by_place or re.search(rf"\b{argument}\b", text), f"{place} does not speak of {argument}"


@pytest.mark.parametrize("name", SHARED)
def test_a_default_is_mindspores_or_its_difference_is_known(name: str) -> None:
    here, there = Signature.of(OURS[name]).defaults, Signature.of(THEIRS[name]).defaults
    shared = here.keys() & there.keys()
    differing = {one for one in shared if plain(here[one]) != plain(there[one])}
    assert differing == set(by_any_name(OTHER_DEFAULTS, name, {}))


def test_a_default_of_what_this_package_alone_offers_is_that_of_earlier_versions() -> None:
    released = json.loads(RELEASED.read_text(encoding="utf-8"))
    assert {name: Signature.of(OURS[name]).defaults for name in released} == released


def plain(default: str) -> str:
    """Return a default with one spelling of each dtype and of each number."""
    for words, word in SPELLINGS:
        default = re.sub(words, word, default)
    return default.lower()


SPELLINGS = ((r"<class 'numpy\.(\w+)'>", r"\1"), (r"mindspore\.|mpiparallel\.", ""), (r"\.0$", ""))
