"""Dataclasses whose methods are made late are those of the standard library: the same source, made by either."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import ModuleType
from typing import Any

import pytest

from mpiparallel.dataclass import dataclass

SOURCE = """
from __future__ import annotations

from dataclasses import field
from typing import ClassVar


@dataclass(frozen=True)
class Frozen:
    x: int
    y: str = "y"
    many: tuple[int, ...] = field(default_factory=tuple)
    unseen: int = field(default=0, repr=False, compare=False)
    shared: ClassVar[int] = 3


@dataclass(frozen=True)
class Inner(Frozen):
    z: float = 1.0


@dataclass
class Changing:
    x: int
    items: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.items.append(self.x)


@dataclass(eq=False)
class ByIdentity:
    x: int


@dataclass(frozen=True)
class OwnMethods:
    x: int

    def __eq__(self, other):
        return self.x % 2 == other.x % 2

    def __repr__(self):
        return f"<{self.x}>"


@dataclass(frozen=True)
class OwnHash:
    x: int

    def __hash__(self):
        return 7


class Plain(Frozen):
    pass
"""


def made_by(decorator: Any, name: str) -> ModuleType:
    """Return a module of the classes; it can be imported, as what is pickled must be."""
    module = ModuleType(name)
    module.__dict__["dataclass"] = decorator
    sys.modules[name] = module
    exec(SOURCE, module.__dict__)
    return module


USES: dict[str, Callable[[ModuleType], object]] = {
    "repr": lambda m: [repr(m.Frozen(1)), repr(m.Inner(2, many=(3,))), repr(m.Changing(4)), repr(m.OwnMethods(5))],
    "equal": lambda m: [m.Frozen(1) == m.Frozen(1, unseen=2), m.Frozen(1) == m.Frozen(2), m.Frozen(1) == m.Inner(1)],
    "equal after change": lambda m: [m.Changing(1) == m.Changing(1), m.Changing(1) == m.Changing(2)],
    "equal by identity": lambda m: [m.ByIdentity(1) == m.ByIdentity(1), hash(m.ByIdentity(1)) is None],
    "equal by own rule": lambda m: [m.OwnMethods(1) == m.OwnMethods(3), hash(m.OwnMethods(1)) == hash(m.OwnMethods(3))],
    "hash": lambda m: [
        hash(m.Frozen(1)) == hash(m.Frozen(1, unseen=5)),
        hash(m.OwnHash(1)),
        len({m.Inner(1), m.Inner(1)}),
    ],
    "hash of what changes": lambda m: hash(m.Changing(1)),
    "fields": lambda m: [one.name for one in dataclasses.fields(m.Inner)],
    "replace": lambda m: repr(dataclasses.replace(m.Inner(1), x=2, z=3.0)),
    "as dict": lambda m: dataclasses.asdict(m.Inner(1, many=(1, 2))),
    "after init": lambda m: m.Changing(3).items,
    "class attributes": lambda m: [m.Frozen.shared, m.Frozen.y, m.Inner.z, hasattr(m.Frozen, "many")],
    "assigned": lambda m: setattr(m.Frozen(1), "x", 2),
    "assigned anew": lambda m: setattr(m.Frozen(1), "other", 2),
    "deleted": lambda m: delattr(m.Frozen(1), "x"),
    "assigned in a subclass": lambda m: setattr(m.Plain(1), "x", 2),
    "assigned anew in a subclass": lambda m: [
        setattr(made := m.Plain(1), "other", 2),
        made.other,
        delattr(made, "other"),
    ],
    "too few": lambda m: m.Frozen(),
    "unknown": lambda m: m.Inner(1, w=2),
    "matched": lambda m: [m.Frozen.__match_args__, m.Inner.__match_args__],
    "pickled": lambda m: repr(pickle.loads(pickle.dumps(m.Inner(1, "a", (2,))))),
    "hints": lambda m: m.Frozen(1).__init__.__annotations__,
    "name": lambda m: [m.Frozen(1) and m.Frozen.__init__.__qualname__, m.Inner(1) and m.Inner.__eq__.__qualname__],
}


def found(use: Callable[[ModuleType], object], module: ModuleType) -> object:
    """Return what a use gives, or how it is refused."""
    try:
        return use(module)
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", USES)
def test_they_behave_as_those_of_the_standard_library(name: str) -> None:
    expected = found(USES[name], made_by(dataclasses.dataclass, "classes_of_both"))
    assert found(USES[name], made_by(dataclass, "classes_of_both")) == expected


@pytest.mark.parametrize("use", [repr, hash, lambda one: one == one, lambda one: dataclasses.replace(one, x=2).x])
def test_one_that_no_call_has_made_is_whole(use: Callable[[Any], object]) -> None:
    sent = pickle.dumps(made_by(dataclass, "sent_classes").Inner(1))
    alike = made_by(dataclasses.dataclass, "sent_classes")
    expected = use(alike.Inner(1))
    made_by(dataclass, "sent_classes")
    assert use(pickle.loads(sent)) == expected


def test_ranks_that_are_threads_make_their_first_objects_at_once() -> None:
    for _ in range(20):
        classes, together = made_by(dataclass, "classes_of_threads"), Barrier(4)

        def make(number: int, classes: ModuleType = classes, together: Barrier = together) -> str:
            together.wait()
            return repr(classes.Inner(number))

        with ThreadPoolExecutor(4) as threads:
            made = list(threads.map(make, range(4)))
        assert made == [f"Inner(x={number}, y='y', many=(), z=1.0)" for number in range(4)]


def test_methods_are_compiled_for_the_class_that_is_used_alone() -> None:
    classes = made_by(dataclass, "used_classes")
    classes.Changing(1)
    made = {name: kind.__init__.__code__.co_filename for name, kind in vars(classes).items() if isinstance(kind, type)}
    assert [name for name, file in made.items() if file == "<string>"] == ["Changing"]
