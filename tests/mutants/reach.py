"""Which tests reach a line of the package, and how long they take: from one run of them under coverage.py."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from coverage import CoverageData

from tests.mutants import contexts
from tests.mutants.results import digest

_PHASE = re.compile(r" \((setup|call|teardown)\)$")


class Reach:
    """The tests that pass, by the lines that they reach."""

    def __init__(self, tree: Path, data: Path, seconds: dict[str, float]) -> None:
        self._tree = tree
        self._data = CoverageData(str(data))
        self._data.read()
        self._seconds = seconds

    def tests_of(self, path: Path, lines: range) -> list[str]:
        """Return the tests that reach one of the lines; those of the folder that mirrors the file's come first.

        Of a line that runs while the file is imported they are those that reach any line of the file.
        """
        by_line = self._data.contexts_by_lineno(str(self._tree / path))
        found = {_PHASE.sub("", context) for line in lines for context in by_line.get(line, ())} & self._seconds.keys()
        if not found:
            every = {_PHASE.sub("", context) for names in by_line.values() for context in names}
            found = every & self._seconds.keys()
        inner = path.relative_to("mpiparallel")
        unit = f"tests/unit/{inner.parent}"
        mirrors = (f"mpiparallel/{inner}::", f"{unit}/test_{inner.stem}", f"{unit}/")

        def order(test: str) -> tuple[int, float]:
            near = next((place for place, start in enumerate(mirrors) if test.startswith(start)), len(mirrors))
            return near, self._seconds[test]

        return sorted(found, key=order)

    def seconds_of(self, tests: Sequence[str]) -> float:
        """Return how long tests took, one after the other, under coverage.py."""
        return sum(self._seconds[test] for test in tests)


def measure(tree: Path, marked: str, paths: Sequence[str], files: Sequence[str]) -> Reach:
    """Run the tests under ``paths``, of the markers ``marked``, on all cores, and find which reach ``files``.

    Those that fail do not count. What the last call has found is used again where it is still true.
    """
    data, ends, asked = (tree.parent / name for name in ("coverage", "tests.json", "asked.json"))
    package = digest(path for folder in ("mpiparallel", "tests/unit") for path in Path(folder).rglob("*.py"))
    question = {"marked": marked, "paths": list(paths), "package": package}
    known = json.loads(asked.read_text()) if asked.exists() else {}
    if question.items() <= known.items() and set(files) <= set(known["files"]):
        return _reach(tree, data, ends)
    for path in (*tree.parent.glob("coverage*"), ends, asked):
        path.unlink(missing_ok=True)
    words = [sys.executable, "-m", "coverage", "run", "--include", ",".join(str(tree / file) for file in files)]
    words += ["-m", "pytest", "-p", contexts.__name__, "-p", "no:cacheprovider"]
    words += ["-q", "-n", "auto", "--dist", "worksteal", "-m", marked, *paths]
    variables = {"COVERAGE_FILE": str(data), contexts.VARIABLE: str(ends), "PYTHONPATH": str(tree)}
    subprocess.run(words, cwd=tree, env={**os.environ, **variables}, check=False)
    if not ends.exists():
        raise SystemExit("make mutants: the tests did not run to their end")
    combine = [sys.executable, "-m", "coverage", "combine", "-q"]
    subprocess.run(combine, cwd=tree, env={**os.environ, **variables}, check=True)
    asked.write_text(json.dumps({**question, "files": list(files)}))
    return _reach(tree, data, ends)


def _reach(tree: Path, data: Path, ends: Path) -> Reach:
    seconds = json.loads(ends.read_text())
    failed = [test for test, one in seconds.items() if one is None]
    if failed:
        sys.stdout.write(f"{len(failed)} tests fail as it is, and do not count: {', '.join(failed[:5])} ...\n")
    return Reach(tree, data, {test: one for test, one in seconds.items() if one is not None})
