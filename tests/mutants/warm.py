"""A plugin of pytest: tests that are imported once try many changes, each in a process of its own, forked from it.

There the changed functions get the code that the change makes. What a change does while its file is imported cannot be
tried so: it is left to a pytest of its own.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tests.mutants.changed_file import changed_file
from tests.mutants.descendants import adopt, cpu_seconds, end_descendants

VARIABLE = "MPIPARALLEL_MUTANTS_WARM"
"""A file: for each change its name, its file with the old and the new source, and the tests to try it by."""
SECONDS, LONGER = 5.0, 4.0
"""A test may take so long, and so many times as long as on the unchanged package: more counts as noticed."""
WAITING = 10.0
"""So many times as long it may take by the clock."""
_COMPILED = "from mpiparallel.backend.compiled import"
_FAILED, _PASSED, _UNFIT = 11, 12, 13


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Warm(Path(os.environ[VARIABLE])))


class _Warm:
    def __init__(self, asked: Path) -> None:
        self._changes = json.loads(asked.read_text())
        self._told = asked.with_suffix(".told")
        self._place = mmap.mmap(-1, 8)
        self._functions: dict[tuple[str, CodeType], list[FunctionType]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Write down for each change which test notices it: "" for none, null where that cannot be told so."""
        adopt()
        self._functions = _functions_below(Path("mpiparallel").absolute())
        items = {item.nodeid: item for item in session.items}
        for change in self._changes:
            tests = [(items[test], seconds) for test, seconds in change["tests"] if test in items]
            began = time.monotonic()
            with changed_file(Path(change["path"]), change["new"]):
                by = self._noticed_by(change, tests, session)
            with self._told.open("a") as told:
                told.write(json.dumps({"change": change["change"], "by": by}) + "\n")
            sys.stderr.write(f"{change['told']}: {by!r} after {time.monotonic() - began:.0f} s\n")
        return True

    def _noticed_by(
        self, change: dict[str, str], tests: Sequence[tuple[pytest.Item, float]], session: pytest.Session
    ) -> str | None:
        self._place[:] = bytes(8)
        child = os.fork()
        if not child:
            self._try(change, [item for item, _ in tests], session)
        status = self._status(child, [seconds for _, seconds in tests])
        end_descendants()
        if status == _UNFIT:
            return None
        return "" if status == _PASSED else str(tests[self._now()][0].nodeid)

    def _now(self) -> int:
        return int.from_bytes(self._place[:], sys.byteorder)

    def _try(self, change: dict[str, str], items: Sequence[pytest.Item], session: pytest.Session) -> None:
        end = _UNFIT
        try:
            os.setsid()
            quiet = os.open(os.devnull, os.O_RDWR)
            for one in (0, 1, 2):
                os.dup2(quiet, one)
            if self._change(change):
                end = _FAILED
                for number, item in enumerate(items):
                    self._place[:] = number.to_bytes(8, sys.byteorder)
                    following = items[number + 1] if number + 1 < len(items) else None
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                    if session.testsfailed:
                        break
                else:
                    end = _PASSED
        finally:
            os._exit(end)

    def _status(self, child: int, seconds: Sequence[float]) -> int:
        """Return how a process ends; -1 where one of its tests, of which ``seconds`` are known, takes too long."""
        now, cpu, clock = -1, 0.0, 0.0
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            if self._now() != now:
                now, cpu, clock = self._now(), cpu_seconds(child), time.monotonic()
            limit = SECONDS + LONGER * (seconds[now] if seconds else 0.0)
            if cpu_seconds(child) - cpu > limit or time.monotonic() - clock > WAITING * limit:
                return -1
            time.sleep(0.01)

    def _change(self, change: dict[str, str]) -> bool:
        """Give the functions of a file their new code; False where the change is not in one that Python runs.

        What numba compiles is kept on disk under what its file was when it was imported.
        """
        if _COMPILED in change["old"]:
            return False
        path = str(Path(change["path"]).absolute())
        old, new = (compile(change[source], path, "exec", dont_inherit=True) for source in ("old", "new"))
        codes = dict(_pairs(old, new))
        for before, after in codes.items():
            for function in self._functions.get((path, before), ()):
                function.__code__ = after
        return old not in codes


def _functions_below(folder: Path) -> dict[tuple[str, CodeType], list[FunctionType]]:
    """Return the functions that there are of the files below a folder, by file and code.

    They are sought once, before there is a process for a change: to look at all objects copies them there.
    """
    gc.unfreeze()
    found = defaultdict(list)
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename.startswith(str(folder)):
            found[one.__code__.co_filename, one.__code__].append(one)
    gc.freeze()
    return found


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the functions whose code differs; of the file or a class, itself, where it differs by more than they do."""
    if old.co_code != new.co_code or _others(old) != _others(new) or old.co_names != new.co_names:
        yield old, new
        return
    inner = [[one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new)]
    for before, after in zip(*inner, strict=True):
        if before == after:
            continue
        if before.co_flags & 1 == 0:
            # A class: what it does is done when its file is imported.
            yield from ((old, new) if one[0] is before else one for one in _pairs(before, after))
        else:
            yield before, after
            yield from _pairs_within(before, after)


def _pairs_within(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the functions that a function makes, of which some may be made already."""
    inner = [[one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new)]
    if len(inner[0]) == len(inner[1]):
        for before, after in zip(*inner, strict=True):
            if before != after:
                yield before, after
                yield from _pairs_within(before, after)


def _others(code: CodeType) -> list[object]:
    return [(type(one), repr(one)) for one in code.co_consts if not isinstance(one, CodeType)]
