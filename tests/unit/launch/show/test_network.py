"""A network as a tree of its cells: layers that are alike stand for each other, and moves below their operators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.show.network import holders_text, network_text
from mpiparallel.search.forecast.move import Move, ToldGroup
from mpiparallel.search.forecast.operators import OperatorForecast
from mpiparallel.search.forecast.parameters import Held, ParameterForecast


def operator(name: str, cuts: tuple[tuple[int, ...], ...] = ((2, 1),), computing: float = 0.0) -> OperatorForecast:
    return OperatorForecast(name, "MatMul", 0, (), cuts, "(2, 1)", "by hand", computing, 0.0, 0, ())


def move(owner: str, phase: str, seconds: float = 0.5) -> Move:
    return Move(owner, "w", phase, "AllReduce", ToldGroup(2, 1, "0, 1"), 1000, seconds)


def forecast(*stages: tuple[list[OperatorForecast], list[Move]], **more: Any) -> Any:
    """A forecast whose head is of no matter, with these operators and moves in each stage."""
    memory = SimpleNamespace(total=1, kinds={})
    found = [
        SimpleNamespace(operators=operators, moves=moves, ranks=f"{number}", recomputing=0.0, parameters=())
        for number, (operators, moves) in enumerate(stages)
    ]
    return SimpleNamespace(
        **{
            "ranks": 2,
            "hosts": 1,
            "machine": SimpleNamespace(hosts=1, ranks_per_host=2, memory=float("inf")),
            "mode": "m",
            "trains": True,
            "samples": 0,
            "seconds": 1.0,
            "bound": ("x", 1.0),
            "slowest": SimpleNamespace(parts={}, time=SimpleNamespace(busy=1.0)),
            "stages": found,
            "fullest": SimpleNamespace(memory=memory),
            "missing_memory": 0.0,
            "schedule": "s",
            "bubble": 0.0,
            **more,
        }
    )


def lines(*stages: tuple[list[OperatorForecast], list[Move]]) -> list[str]:
    """Return the lines below the head."""
    return network_text(forecast(*stages), "train.py").partition("\n\n")[2].splitlines()


def test_cells_are_branches_and_operators_their_leaves_with_cuts_output_and_time() -> None:
    found = [operator("net/a/MatMul", ((2, 1), (1,)), 0.25), operator("net/b", ()), operator("Loss")]
    assert lines((found, [])) == [
        "network",
        "├─ net",
        "│  ├─ a",
        "│  │  └─ MatMul  (2,1) (1)  ->  (2, 1)  250 ms",
        "│  └─ b    ->  (2, 1)",
        "└─ Loss  (2,1)  ->  (2, 1)",
    ]


def test_of_numbered_layers_that_are_alike_the_first_stands_for_all() -> None:
    names = ["0/MatMul", "1/MatMul", "2/MatMul", "10/Add", "a/x", "b/x"]
    found = [operator(name, ((1, 2),) if name.startswith("2") else ((2, 1),)) for name in names]
    assert [line for line in lines((found, [])) if "->" not in line] == [
        "network",
        "├─ 0 to 1, 2 alike",
        "├─ 2",
        "├─ 10",
        "├─ a",
        "└─ b",
    ]


def test_an_operator_may_have_a_number_for_a_name() -> None:
    assert lines(([operator("net/3"), operator("net/4")], []))[2:] == [
        "   ├─ 3  (2,1)  ->  (2, 1)",
        "   └─ 4  (2,1)  ->  (2, 1)",
    ]


def test_what_an_operator_moves_stands_below_it_with_phases_and_ranks() -> None:
    found = [operator("a"), operator("b")]
    told = lines((found, [move("a", "forward"), move("a", "backward"), move("c", "forward")]))
    assert told[1:] == [
        "├─ a  (2,1)  ->  (2, 1)",
        "│     ⇄ AllReduce 2.00 kB among 2 ranks (0, 1), 1 s: forward, backward",
        "└─ b  (2,1)  ->  (2, 1)",
    ]


def test_each_of_several_stages_has_a_title_with_its_ranks() -> None:
    told = lines(([operator("a")], []), ([operator("b")], []))
    assert told == [
        "stage 0, ranks 0",
        "└─ a  (2,1)  ->  (2, 1)",
        "",
        "stage 1, ranks 1",
        "└─ b  (2,1)  ->  (2, 1)",
    ]


def parameter(name: str, used: str = "(2, 1)", parts: int = 2, count: int | None = None) -> ParameterForecast:
    held = tuple(Held(f"[{number}]", str(number)) for number in range(parts))
    shape, stored = (4, 2), "(2, 1)"
    return ParameterForecast(name, 0, shape, "float32", True, stored, used, 16, parts if count is None else count, held)


def held(name: str, *parameters: ParameterForecast) -> list[str]:
    given = SimpleNamespace(stages=[SimpleNamespace(parameters=parameters)])
    return holders_text(given, name).splitlines()  # type: ignore[arg-type]


WIDE, NARROW = parameter("net.wide.weight"), parameter("net.narrow.weight", used="()", parts=0)


def test_a_parameter_is_told_with_how_it_is_kept_and_used_and_who_holds_what() -> None:
    assert held("net.wide.weight", WIDE, NARROW) == [
        "net.wide.weight [4, 2] float32: kept as (2, 1); 16 B a rank",
        "  [0]  on ranks 0",
        "  [1]  on ranks 1",
    ]
    assert held("narrow.weight", WIDE, NARROW) == [
        "net.narrow.weight [4, 2] float32: kept as (2, 1), used as (); 16 B a rank"
    ]
    assert len(held("*.weight", WIDE, NARROW)) == 4
    # A name as a user types it is no word of the program.
    assert len(held("".join(["wei", "ght"]), WIDE, NARROW, parameter("weight", parts=0))) == 1


@pytest.mark.parametrize(
    ("parts", "count", "shown", "last"),
    [
        (16, 16, 16, "  [15]  on ranks 15"),
        (17, 17, 16, "  and 1 part more"),
        (20, 64, 16, "  and 48 parts more"),
    ],
)
def test_sixteen_parts_are_told_and_the_others_counted(parts: int, count: int, shown: int, last: str) -> None:
    told = held("w", parameter("w", parts=parts, count=count))
    assert (sum(" on ranks " in line for line in told), told[-1]) == (shown, last)


@pytest.mark.parametrize(
    ("name", "parameters", "guess"),
    [
        ("net.wide.wait", (NARROW, WIDE), "net.wide.weight"),
        ("zzz", (NARROW, WIDE), "net.narrow.weight"),
        ("w", (), "none"),
    ],
)
def test_a_parameter_that_there_is_not_is_refused_with_a_guess(
    name: str, parameters: tuple[ParameterForecast, ...], guess: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        held(name, *parameters)
    assert str(caught.value) == f"--parameter {name}: the network has no such parameter; it has {guess}, for one"
