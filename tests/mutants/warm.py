"""A plugin of pytest: tests that are imported once try many changes, each in a process of its own, forked from it.

There the changed functions get the code that the change makes. What a change does while its file is imported cannot be
tried so: it is left to a pytest of its own.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import CodeType, FunctionType

import pytest

VARIABLE = "MPIPARALLEL_MUTANTS_WARM"
"""A file: for each change its name, its file with the old and the new source, and the files of tests to try it by."""
CPU_SECONDS = 10
SLICE = 2.0
"""So many seconds of a processor each file of tests gets before the next one has its turn."""
WALL_SECONDS = 100.0
_FAILED, _PASSED, _UNFIT = 11, 12, 13


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Warm(Path(os.environ[VARIABLE])))


class _Warm:
    def __init__(self, asked: Path) -> None:
        self._changes = json.loads(asked.read_text())
        self._note = asked.with_suffix(".note")
        self._told = asked.with_suffix(".told")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Write down for each change which test notices it: "" for none, null where that cannot be told so."""
        gc.unfreeze()
        of_file: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            of_file.setdefault(item.nodeid.split("::")[0], []).append(item)
        for change in self._changes:
            items = [item for file in change["tests"] for item in of_file.get(file, ())]
            began = time.monotonic()
            by = self._noticed_by(change, items, session)
            with self._told.open("a") as told:
                told.write(json.dumps({"change": change["change"], "by": by}) + "\n")
            sys.stderr.write(f"{change['told']}: {by!r} after {time.monotonic() - began:.0f} s\n")
        return True

    def _noticed_by(self, change: dict[str, str], items: Sequence[pytest.Item], session: pytest.Session) -> str | None:
        path = Path(change["path"])
        old, times = path.read_bytes(), path.stat()
        path.write_text(change["new"])
        self._note.write_text("")
        try:
            child = os.fork()
            if not child:
                self._try(change, items, session)
            status = _status(child)
        finally:
            path.write_bytes(old)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if status == _PASSED:
            return ""
        return self._note.read_text() if status == _FAILED else None

    def _try(self, change: dict[str, str], items: Sequence[pytest.Item], session: pytest.Session) -> None:
        end = _UNFIT
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
            quiet = os.open(os.devnull, os.O_RDWR)
            for one in (0, 1, 2):
                os.dup2(quiet, one)
            if _changed(change):
                end = _PASSED
                turn = _in_turn(items)
                item = next(turn, None)
                while item is not None and end == _PASSED:
                    following = next(turn, None)
                    self._note.write_text(item.nodeid)
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                    end = _FAILED if session.testsfailed else _PASSED
                    item = following
        finally:
            os._exit(end)


def _in_turn(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the tests of one file after the other, each for a slice of time, until none is left."""
    files = [deque(group) for _, group in groupby(items, key=lambda item: item.nodeid.split("::")[0])]
    while files := [waiting for waiting in files if waiting]:
        for waiting in files:
            end = sum(os.times()[:4]) + SLICE
            while waiting and sum(os.times()[:4]) < end:
                yield waiting.popleft()


def _status(child: int) -> int:
    """Return how a process ends, -1 where it did not end by itself."""
    last = time.monotonic() + WALL_SECONDS
    while time.monotonic() < last:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _end_group(child)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    _end_group(child)
    os.waitpid(child, 0)
    return -1


def _end_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return


def _changed(change: dict[str, str]) -> bool:
    """Give the functions of a file their new code; False where the change is not in a function."""
    path = str(Path(change["path"]).absolute())
    old, new = (compile(change[source], path, "exec", dont_inherit=True) for source in ("old", "new"))
    codes = dict(_pairs(old, new))
    if old in codes:
        return False
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__ in codes and one.__code__.co_filename == path:
            one.__code__ = codes[one.__code__]
    return True


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
