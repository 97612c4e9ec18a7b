"""Why an operator is cut as it is, in words: what decided, the best alternative, and a table of the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.launch.show.reasons import alike, heaviest, reason_text, reason_words
from mpiparallel.search.forecast.reason import Alternative, Reason

CUT = ((2, 1), (1, 1))
BEST, REST = "By hand. The best alternative, (1,2) in turn,", "all else as it is."


def reason(*seconds: float, tried: int = 9, possible: int = 9, strategy: Any = CUT) -> Reason:
    others = tuple(
        Alternative(((1, place + 2),), one, 2000, "" if place else "in turn") for place, one in enumerate(seconds)
    )
    return Reason("net/MatMul", "by hand", strategy, 2.0, 1000, others, tried, possible)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (reason(tried=0), "By hand."),
        (reason(), "By hand. None of the 9 alternatives that were tried can be beside the others."),
        (reason(2.5), f"{BEST} makes a step 500 ms (25 %) slower, {REST}"),
        (reason(1.5), f"{BEST} makes a step 500 ms (25 %) quicker, {REST}"),
        (reason(2.5, 1.0), f"{BEST} makes a step 500 ms (25 %) slower, {REST}"),
        (reason(4.0), f"{BEST} makes a step 2 s (100 %) slower, {REST}"),
        (reason(30.0), f"{BEST} makes a step 28 s (1,400 %) slower, {REST}"),
        (reason(3.98), f"{BEST} makes a step 1.98 s (99 %) slower, {REST}"),
        (reason(2.0 + 1e-9), f"{BEST} takes as long, {REST}"),
        (reason(2.0 + 3e-9), f"{BEST} makes a step 3e-06 ms (1.5e-07 %) slower, {REST}"),
        (
            reason(2.5, tried=3),
            f"{BEST} makes a step 500 ms (25 %) slower, {REST} Of 9 alternatives 3 were tried.",
        ),
    ],
)  # fmt: skip
def test_what_decided_is_told_with_what_the_best_alternative_would_cost(found: Reason, words: str) -> None:
    assert reason_words(found) == words


def test_alternatives_stand_in_a_table_below_the_strategy_that_there_is() -> None:
    first, _, *table = reason_text(reason(2.5, 3.0)).splitlines()
    assert first == "net/MatMul: (2,1) (1,1)"
    assert table == [
        "  strategy             step  against this  a rank keeps",
        "  (2,1) (1,1) (this)    2 s                     1.00 kB",
        "  (1,2) in turn       2.5 s      +25.00 %       2.00 kB",
        "  (1,3)                 3 s      +50.00 %       2.00 kB",
    ]


@pytest.mark.parametrize(
    ("count", "shown", "more"), [(8, 8, []), (10, 8, ["  and 2 dearer ones"]), (20, 8, ["  and 12 dearer ones"])]
)
def test_eight_alternatives_are_told_and_the_others_counted(count: int, shown: int, more: list[str]) -> None:
    lines = reason_text(reason(*(3.0 + number for number in range(count)))).splitlines()
    assert (sum(" %  " in line for line in lines[3:]), lines[4 + shown :]) == (shown, more)


def test_without_a_strategy_or_alternatives_there_is_no_table() -> None:
    assert reason_text(reason(strategy=())).splitlines() == [
        "net/MatMul: no strategy",
        "  By hand. None of the 9 alternatives that were tried can be beside the others.",
    ]
    assert "  none (this)" in reason_text(reason(2.5, strategy=()))


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("net/3/mlp/MatMul-1", "net/*/mlp/MatMul-1"),
        ("0/1/MatMul", "*/*/MatMul"),
        ("net/a3/MatMul", "net/a3/MatMul"),
        ("net/3a/MatMul", "net/3a/MatMul"),
        ("net/3", "net/3"),
    ],
)
def test_names_are_alike_but_for_the_numbers_of_layers(name: str, pattern: str) -> None:
    assert alike(name) == pattern


def node(name: str, *sizes: tuple[int, ...], is_forward: bool = True, kind: str = "compute") -> Any:
    inputs = [
        SimpleNamespace(parameter=object(), spec=SimpleNamespace(shape=shape, size=max(1, shape[0] * shape[-1])))
        for shape in sizes
    ]
    inputs.append(SimpleNamespace(parameter=None, spec=SimpleNamespace(shape=(999, 999), size=999 * 999)))
    return SimpleNamespace(name=name, is_forward=is_forward, operator=SimpleNamespace(kind=kind), inputs=inputs)


def test_the_heaviest_operators_are_those_on_the_largest_weights_one_of_each_kind_of_layer() -> None:
    nodes = [
        node("net/0/MatMul", (4, 4)),
        node("net/1/MatMul", (4, 4)),
        node("net/Wide", (2, 2), (9, 9)),
        node("net/Bias", (64,)),
        node("net/Add"),
        node("net/Gradient", (99, 99), is_forward=False),
        node("net/AllReduce", (99, 99), kind="communication"),
    ]
    network: Any = SimpleNamespace(staged=SimpleNamespace(stages=[SimpleNamespace(graph=SimpleNamespace(nodes=nodes))]))
    assert [one.name for one in heaviest(network)] == ["net/Wide", "net/0/MatMul"]
