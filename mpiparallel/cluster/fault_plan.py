"""Which faults are to strike a job on purpose: named one by one, or drawn from a seed, the same on every rank."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError

KINDS: Final[Mapping[str, str]] = {
    "kill": "kill rank {}",
    "segfault": "let rank {} crash by a segmentation fault",
    "exit": "let rank {} leave by os._exit(13)",
    "stop": "stop rank {}",
    "leave": "let rank {} leave by sys.exit(0)",
    "exception": "raise an exception on rank {}",
    "loop": "let rank {} loop for ever",
    "wrong-operation": "let rank {} call another collective than the others",
    "wrong-dtype": "let rank {} call a collective of another dtype",
    "wrong-count": "let rank {} call a collective of another count",
    "wrong-root": "let rank {} call a broadcast from another root",
    "full-disk": "fill up the disk of rank {}",
    "flip": "turn over a bit of the newest committed shard of rank {}",
}
"""The kinds of fault, and what each does to a rank."""
MOMENTS: Final = ("at", "in", "after")
"""Right before a collective begins, while it runs, and once it has ended; so with an action of a pipeline's stage."""
STRIKE_FROM_OUTSIDE: Final = frozenset({"kill", "segfault", "exit", "stop", "full-disk", "flip"})
"""The kinds that can strike while the main thread of the rank is inside a collective."""
_OF_COLLECTIVES: Final = frozenset(kind for kind in KINDS if kind.startswith("wrong-"))
_EXAMPLE = "write kill@3:418 for rank 3 at its collective 418, kill@3:2/F5 for action F5 of its step 2, or seed=7"
_DIGITS = 12
_FAULT = re.compile(r"(?P<kind>[^@]*)@(?P<rank>[^:]*):(?P<collective>[^:]*)(?::(?P<moment>.*))?", re.DOTALL)
_ACTION = re.compile(r"[FIW][0-9]{1,4}(?:\.[0-9]{1,4})?(?:[<>][0-9]{1,4})?|[RU]")
_RANGE = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?")


@dataclass(frozen=True)
class PlannedFault:
    """One fault: its kind, the rank that it strikes, and when, by the count of that rank's collectives from 1.

    ``action`` is one of a pipeline's stage, as schedules write it. With it, the count is that of the times that the
    rank has begun a step with that action.

    >>> print(PlannedFault("kill", 3, 418), PlannedFault("leave", 0, 12, "after"), sep=", ")
    kill rank 3 at collective 418, let rank 0 leave by sys.exit(0) after collective 12
    >>> print(PlannedFault("stop", 2, 4, action="F5"))
    stop rank 2 at F5 of step 4
    """

    kind: str
    rank: int
    count: int
    moment: str = "at"
    action: str = ""

    def __str__(self) -> str:
        when = f"{self.action} of step {self.count}" if self.action else f"collective {self.count}"
        return f"{KINDS[self.kind].format(self.rank)} {self.moment} {when}"


@dataclass(frozen=True)
class FaultPlan:
    """What ``--chaos`` asks for: named faults, a seed, and the attempts that are struck.

    The seed draws one more fault from the kinds and numbers that stand with it.

    >>> plan = FaultPlan.parse("kill@3:418,stop@0:20:in")
    >>> [str(fault) for fault in plan.faults(4)]
    ['kill rank 3 at collective 418', 'stop rank 0 in collective 20']
    >>> plan = FaultPlan.parse("seed=7,kinds=kill+stop,collectives=10-200")
    >>> plan.faults(8) == plan.faults(8)
    True
    """

    named: tuple[PlannedFault, ...] = ()
    seed: int | None = None
    kinds: tuple[str, ...] = tuple(KINDS)
    collectives: range = range(1, 1001)
    attempts: range = range(1)
    folder: str = ""

    @classmethod
    def parse(cls, text: str) -> FaultPlan:
        """Return the plan that ``text`` describes, items with commas between them.

        ``kind@rank:collective``, with ``:in`` or ``:after`` behind it, is a fault; so is ``kind@rank:step/action`` of a
        pipeline's stage. ``seed=N`` draws one, of
        ``kinds=a+b`` (default: all), at one of the ``collectives=10-200`` (1-1000). ``attempts=0-2`` strikes a
        job that was restarted up to twice again (0: only the first). ``folder=PATH`` is where checkpoints are (the
        working directory). Raises ConfigurationError.
        """
        named: list[PlannedFault] = []
        options: dict[str, str] = {}
        for item in text.split(","):
            word = item.strip()
            name, equals, value = word.partition("=")
            if not equals:
                named.append(_fault(word))
            elif name in options:
                raise _refusal(word, f'"{name}" is there twice; leave one out')
            else:
                options[name] = value
        plan = cls(tuple(named), **{name: _option(name, value) for name, value in options.items()})  # type: ignore[arg-type]
        if plan.seed is None and {"kinds", "collectives"} & options.keys():
            raise _refusal(text, "kinds= and collectives= say what a seed draws from; add seed=7, or leave them out")
        if plan.seed is None and not named:
            raise _refusal(text, f"names no fault; {_EXAMPLE}")
        return plan

    def faults(self, size: int) -> tuple[PlannedFault, ...]:
        """Return the faults of a job of ``size`` ranks. Raises ConfigurationError where one names no rank of it."""
        for fault in self.named:
            if fault.rank >= size:
                raise _refusal(
                    f"{fault.kind}@{fault.rank}:{fault.count}",
                    f"there is no rank {fault.rank} among {size}; name one from 0 to {size - 1}",
                )
        return self.named if self.seed is None else (*self.named, self._drawn(self.seed, size))

    def words(self, size: int) -> str:
        """Return in one line what will happen to a job of ``size`` ranks.

        >>> FaultPlan.parse("kill@3:418").words(4)
        'chaos: kill rank 3 at collective 418'
        >>> FaultPlan.parse("seed=7,kinds=kill").words(4).startswith("chaos seed=7: kill rank ")
        True
        """
        seed = "" if self.seed is None else f" seed={self.seed}"
        return f"chaos{seed}: {', '.join(map(str, self.faults(size)))}"

    def _drawn(self, seed: int, size: int) -> PlannedFault:
        # A string as seed, because its digest is the same for every version of Python.
        chance = random.Random(f"mpiparallel chaos {seed}")
        kind = self.kinds[chance.randrange(len(self.kinds))]
        rank = chance.randrange(size)
        collective = self.collectives[chance.randrange(len(self.collectives))]
        moments = MOMENTS if kind in STRIKE_FROM_OUTSIDE else ("at", "after")
        return PlannedFault(kind, rank, collective, moments[chance.randrange(len(moments))])


def _fault(word: str) -> PlannedFault:
    found = _FAULT.fullmatch(word)
    if not found:
        raise _refusal(word, f"is no fault and no option; {_EXAMPLE}")
    kind, moment = found["kind"], found["moment"] or "at"
    _check_kind(word, kind)
    if moment not in MOMENTS or found["moment"] == "":
        raise _refusal(word, f'"{moment[:60]}" is no moment; write in, after, or nothing for right before')
    if moment == "in" and kind not in STRIKE_FROM_OUTSIDE:
        raise _refusal(word, f'"{kind}" is done by the rank itself, which waits in the collective; leave ":in" out')
    count, slash, action = found["collective"].partition("/")
    what = "step" if slash else "collective"
    if slash and not _ACTION.fullmatch(action):
        raise _refusal(word, f'"{action[:60]}" is no action; write one as schedules do, like F5, I5, W5, F5>1, R or U')
    if slash and kind in _OF_COLLECTIVES:
        raise _refusal(word, f'"{kind}" is another collective in place of one; name that by its number')
    number = _number(word, count, what)
    if not number:
        raise _refusal(word, f"{what}s are counted from 1; name that or a later one")
    return PlannedFault(kind, _number(word, found["rank"], "rank"), number, moment, action)


def _option(name: str, value: str) -> object:
    word = f"{name}={value}"
    if name == "seed":
        return _number(word, value, "seed")
    if name == "kinds":
        kinds = tuple(value.split("+"))
        for kind in kinds:
            _check_kind(word, kind)
        return kinds
    if name in ("collectives", "attempts"):
        return _range(word, value, least=1 if name == "collectives" else 0)
    if name == "folder" and value and "\0" not in value:
        return value
    raise _refusal(word, "is no option; there are seed, kinds, collectives, attempts and folder, none of them empty")


def _check_kind(word: str, kind: str) -> None:
    if kind not in KINDS:
        raise _refusal(word, f'there is no kind "{kind[:60]}"; there are {", ".join(KINDS)}')


def _number(word: str, text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise _refusal(word, f'"{text[:60]}" is no {what}; write a whole number of at most {_DIGITS} digits')
    return int(text)


def _range(word: str, text: str, least: int) -> range:
    found = _RANGE.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
    if not least <= first <= last:
        raise _refusal(word, f'"{text[:60]}" is no range of numbers from {least}; write 10-200')
    return range(first, last + 1)


def _refusal(word: str, problem: str) -> ConfigurationError:
    shown = word if len(word) <= 80 else f"{word[:77]}..."
    return ConfigurationError(f"--chaos {shown!r}: {problem}")
