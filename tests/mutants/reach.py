"""Which tests reach a statement of the package, and how long they take: from one run of them on a copy with probes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutants import ends
from tests.mutants.descendants import end_descendants
from tests.mutants.names_around import names_around
from tests.mutants.probes import label, write_probes
from tests.mutants.results import digest, test_key

_SURVEYS = ("tests/architecture/", "tests/unit/compatibility/", "tests/unit/documents/")
"""What looks at files, names and signatures, and runs no statement for that."""
_FEW = 0.03
"""The share of the tests, or of their files, that may say a name which leads to what is changed."""
_WORD = re.compile(r"\w+")
_PHASE = re.compile(r" \((setup|call|teardown)\)$")


@dataclass(frozen=True)
class Chosen:
    """The tests that try a change, in their order, with the seconds of each.

    ``reaching`` is the number of those that reach it, ``before`` of those that tried it in vain. ``in_function`` says
    that what is changed runs when a test does, ``by_import`` that it runs while its file is imported, too.
    """

    tests: tuple[tuple[str, float], ...]
    reaching: int
    before: int
    in_function: bool
    by_import: bool

    @property
    def seconds(self) -> float:
        """How long they take on the unchanged package, one after the other."""
        return sum(seconds for _, seconds in self.tests)

    @property
    def counted(self) -> str:
        """How many of the tests that reach the change have tried it, once these have."""
        return f"{self.before + len(self.tests)} of {self.reaching} tests"


class Reach:
    """The tests that pass, by the statements that they reach."""

    def __init__(self, told: Path, seconds: Mapping[str, float], files: Mapping[str, str]) -> None:
        self._seconds, self._files = seconds, files
        self._words = {test: frozenset(_WORD.findall(test.partition("::")[2])) for test in seconds}
        self._tests: defaultdict[str, set[str]] = defaultdict(set)
        for line in told.read_text().splitlines() if told.exists() else ():
            one, _, test = line.partition("\t")
            self._tests[one].add(_PHASE.sub("", test))

    def chosen(self, path: Path, line: int, seconds: float, tried: set[str]) -> Chosen:
        """Return the tests that reach a line's statement, as many as run in so many seconds, without those ``tried``.

        Those of the folder that mirrors the file's come first, and of each file the first cases of each test.
        """
        name, in_function = label(path, line)
        found = self._tests[name] & self._seconds.keys()
        by_import = not in_function or "" in self._tests[name]
        if not in_function:
            found |= {test for test in self._seconds if self._distance(path, test) < 2}
        tests: list[tuple[str, float]] = []
        total, before = 0.0, 0
        for test in self._ordered(path, line, found):
            total += self._seconds[test]
            if total > seconds and (tests or before):
                break
            if self.key(test) in tried:
                before += 1
            else:
                tests.append((test, self._seconds[test]))
        return Chosen(tuple(tests), len(found), before, in_function, by_import)

    def key(self, test: str) -> str:
        """Return what a test is called as long as it, and all that it is made of, stays the same."""
        file = test.split("::")[0]
        return test_key(test, self._files.get(file, self._files["mpiparallel"]))

    def _distance(self, path: Path, test: str) -> int:
        """Return 0 for a test of the file itself, 1 for one of its folder or of all files as such, 2 for others.

        A file of tests that imports a file, or is called after it or its folder, is of its folder, wherever it is.
        """
        inner = path.relative_to("mpiparallel")
        unit = f"tests/unit/{inner.parent}/"
        if test.startswith((f"{path}::", f"{unit}test_{inner.stem}")):
            return 0
        if test.startswith(_SURVEYS):
            return 1
        file = test.split("::")[0]
        is_beside = file.startswith(unit) and "/" not in file.removeprefix(unit)
        is_named_so = inner.parent.name in file.split("/")[3:-1] or file.endswith(
            (f"/test_{inner.stem}.py", f"/test_{inner.parent.name}.py")
        )
        return 1 if is_beside or is_named_so or _imports(file, path) else 2

    def _ordered(self, path: Path, line: int, tests: Iterable[str]) -> list[str]:
        """Return tests in the order in which they are likely to notice a change soon.

        Those whose own name says what is changed come first, then those of the file. Others come sooner where their
        file says it. Cases of one test are much alike: after the first of each come two more, then four, and so on.
        Tests of a file stay together, which share what they need.
        """
        names = names_around(path, line)
        saying_files = _few_that_say(names, _words_of_files())
        saying = _few_that_say(names, self._words)
        sought = sorted(tests, key=lambda test: (self._seconds[test], test))
        costs: defaultdict[str, float] = defaultdict(float)
        for test in sought:
            costs[test.split("::")[0]] += self._seconds[test]
        before: Counter[str] = Counter()
        keys = {}
        for test in sought:
            file, function = test.split("::")[0], test.split("[")[0]
            distance = self._distance(path, test)
            nearness = 0 if test in saying else 1 if distance == 0 else 1 + distance + (file not in saying_files)
            keys[test] = nearness, (before[function] + 1).bit_length(), costs[file], file
            before[function] += 1
        return sorted(sought, key=keys.__getitem__)


@cache
def _imports(file: str, path: Path) -> bool:
    """Return whether a file of tests names a file of the package where it imports."""
    package, _, name = ".".join(path.with_suffix("").parts).rpartition(".")
    names = rf"(\([^)]*\b{name}\b|[^(\n]*\b{name}\b)"
    wanted = re.compile(rf"^from {package}(\.{name} import| import {names})", re.MULTILINE)
    return bool(wanted.search(Path(file).read_text()))


def _few_that_say(names: Iterable[str], words: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return which have one of some names among their words, without names that many have."""
    said = ({one for one, its in words.items() if name in its} for name in names)
    return frozenset().union(*(ones for ones in said if len(ones) <= _FEW * len(words)))


@cache
def _words_of_files() -> dict[str, frozenset[str]]:
    return {str(path): frozenset(_WORD.findall(path.read_text())) for path in Path("tests").rglob("test_*.py")}


def measure(tree: Path, marked: str, paths: Sequence[str], places: Iterable[tuple[Path, int]], minutes: float) -> Reach:
    """Run the tests under ``paths``, of the markers ``marked``, on all cores, and find which reach ``places``.

    They run in ``tree``, a copy of the repository of its own, for so many minutes. Those that fail do not count. A call
    goes on where the last one ended: while the package is the same, tests of files that are as they were do not run
    again. What no test at all reaches is listed in ``unreached.txt`` beside the tree.
    """
    told, ended, blocks, known = (tree.parent / name for name in ("reached.txt", "ends.jsonl", "blocks", "reach.json"))
    names = [path for path in sorted(Path("tests").rglob("*.py")) if path.parts[1] != "mutants"]
    support = [path for path in names if not path.name.startswith("test_")]
    tests = {str(path): digest([path]) for path in names if path not in support}
    package = digest([*Path("mpiparallel").rglob("*.py"), *support])
    tests["mpiparallel"] = package
    labels = sorted({label(path, line)[0] for path, line in places})
    question = {"marked": marked, "paths": list(paths), "package": package}
    last = json.loads(known.read_text()) if known.exists() else {}
    if question.items() <= last.items() and set(labels) <= set(last["labels"]):
        changed = [name for name, one in tests.items() if last["tests"].get(name) != one]
        _forget(ended, changed)
        labels, is_whole = last["labels"], last["is_whole"]
    else:
        changed, is_whole = [], False
        for path in (told, ended, blocks):
            path.unlink(missing_ok=True)
    now = {**question, "labels": labels, "tests": tests}
    if changed or not is_whole:
        known.write_text(json.dumps({**now, "is_whole": False}))
        names = write_probes(tree / "mpiparallel", labels, told, blocks)
        until = time.time() + 60 * minutes
        _run(tree, ended, marked, paths or (changed if is_whole else ()), until)
        known.write_text(json.dumps({**now, "is_whole": time.time() < until}))
        unreached = [name for name, one in zip(names, blocks.read_bytes(), strict=True) if not one]
        blocks.with_name("unreached.txt").write_text("".join(f"{name}\n" for name in unreached))
    seconds = {test: one for test, one in map(json.loads, ended.read_text().splitlines())}
    failed = [test for test, one in seconds.items() if one is None]
    if failed:
        sys.stdout.write(f"{len(failed)} tests fail as it is, and do not count: {', '.join(failed[:5])} ...\n")
    files = {name: f"{one} {digest(support)}" for name, one in tests.items()}
    return Reach(told, {test: one for test, one in seconds.items() if one is not None}, files)


def _forget(ended: Path, changed: Iterable[str]) -> None:
    """Take the tests of some files, or folders, out of those that have ended."""
    if not ended.exists():
        return
    beginnings = tuple(f"{name}{sign}" for name in changed for sign in ("::", "/"))
    lines = ended.read_text().splitlines(keepends=True)
    ended.write_text("".join(line for line in lines if not json.loads(line)[0].startswith(beginnings)))


def _run(tree: Path, ended: Path, marked: str, paths: Sequence[str], until: float) -> None:
    """Run the tests that are not known to have ended, until a time in seconds since 1970."""
    words = [sys.executable, "-m", "pytest", "-p", ends.__name__, "-p", "no:cacheprovider", "-q", "--tb=line"]
    words += ["-n", "auto", "--dist", "worksteal", "-m", marked, *paths]
    variables = {ends.VARIABLE: str(ended), ends.UNTIL: str(until), "PYTHONPATH": str(tree)}
    code = subprocess.run(words, cwd=tree, env={**os.environ, **variables}, check=False).returncode
    end_descendants()
    if code not in (0, 1, 5):
        raise SystemExit(f"make mutants: the tests did not run to their end: pytest returned {code}")
