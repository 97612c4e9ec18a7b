"""Change a copy of the package in drawn places, one at a time, and see whether the tests notice: ``make mutants``.

A change is tried by the tests that reach its statement, as one run of all tests with probes finds: the nearest and
quickest first, as many as take ``--limit`` seconds. At the end it lists what no test noticed. Some of that has no
effect that a user could see (``judged.py``); for the rest a test is missing. What has been tried is written down,
and not tried again.

A changed package may do anything, so it runs in namespaces of its own (``enclosure.py``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from tests.mutants import warm
from tests.mutants.changed_file import changed_file
from tests.mutants.descendants import adopt, end_descendants
from tests.mutants.drawing import drawn
from tests.mutants.enclosure import enclose
from tests.mutants.judged import reason_of
from tests.mutants.reach import Chosen, Reach, measure
from tests.mutants.results import Results
from tests.mutants.trying import Change, described, noticed_by

ROOT = Path(__file__).parents[2]
LONGER = 4.0
"""How many times as long as unchanged tests may take before a change counts as noticed, beside what starting takes."""
SECONDS_TO_START = 30.0
FEW_FILES = 4
FIRST = 0.2
"""All changes are tried for this part of the seconds first, those that are left for all of them."""
NOT_OURS_TO_TRY = ("mpiparallel/shipped/", "mpiparallel/backend/cupy")


def copied(tree: Path) -> None:
    """Bring a copy of the repository's files up to date, those not yet committed too."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name for name in listed.stdout.split("\0") if name and os.path.lexists(ROOT / name)}
    for path in [*tree.rglob("*")]:
        if "__pycache__" not in path.parts and not path.is_dir() and str(path.relative_to(tree)) not in names:
            path.unlink()
    for name in names:
        source, copy = ROOT / name, tree / name
        if not copy.exists() or copy.stat().st_mtime_ns != source.stat().st_mtime_ns:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def sample(seed: int, only: Sequence[str], folder: Path) -> Iterator[Change]:
    """Yield the changes in the order in which the seed draws them; ``folder`` keeps what can be drawn."""
    below = tuple(only) or "mpiparallel/"
    names = sorted(map(str, Path("mpiparallel").rglob("*.py")))
    paths = [Path(name) for name in names if name.startswith(below) and not name.startswith(NOT_OURS_TO_TRY)]
    for one in drawn(paths, seed, folder / "places.json"):
        change = described(one)
        if change is not None:
            yield change


def try_all(changes: Sequence[Change], results: Results, marked: str, reach: Reach, seconds: float) -> None:
    """Try changes by tests that reach their lines: those within functions by tests that are imported once."""
    chosen = {
        change: reach.chosen(Path(change.path), change.line, seconds, results.tried(change))
        for change in changes
        if not results.of(change)
    }
    cold = []
    for change, found in try_warm({one: tests for one, tests in chosen.items() if tests.in_function}, marked):
        if found or (found == "" and not chosen[change].by_import):
            _add(results, reach, change, found, chosen[change])
        else:
            cold.append(change)
    cold += [one for one, tests in chosen.items() if tests.tests and not tests.in_function]
    for number, change in enumerate(cold, 1):
        by = ""
        with changed_file(Path(change.path), change.source):
            for tests in _near_and_others(chosen[change]):
                if not by:
                    noticed = noticed_by(tests, marked, SECONDS_TO_START + LONGER * chosen[change].seconds)
                    by = "taking for ever" if noticed is None else noticed
                    end_descendants()
        _add(results, reach, change, by, chosen[change])
        _tell(f"{number}/{len(cold)} {by!r} of {chosen[change].counted}: {change.path}:{change.line}")
    for change, tests in chosen.items():
        if results.of(change) is None:
            _add(results, reach, change, "", tests)


def _add(results: Results, reach: Reach, change: Change, by: str, chosen: Chosen) -> None:
    results.add(change, by, chosen.counted, (reach.key(test) for test, _ in chosen.tests))


def _near_and_others(chosen: Chosen) -> Iterator[list[str]]:
    """Yield the tests of the first few files, then all others: to import many files takes longer than most tests."""
    files = dict.fromkeys(test.split("::")[0] for test, _ in chosen.tests)
    near = {*islice(files, FEW_FILES)}
    for is_near in (True, False):
        tests = [test for test, _ in chosen.tests if (test.split("::")[0] in near) == is_near]
        if tests:
            yield tests


def try_warm(chosen: Mapping[Change, Chosen], marked: str) -> Iterator[tuple[Change, str | None]]:
    """Yield changes with what notices each: "" for nothing, None where that cannot be told by tests that are loaded."""
    left = {change.name: change for change, tests in chosen.items() if tests.tests}
    asked = Path.cwd().parent / "warm.json"
    told, files = asked.with_suffix(".told"), asked.with_suffix(".txt")
    words = [sys.executable, "-m", "pytest", "-p", warm.__name__, "-p", "no:cacheprovider", "-q", "-s", "-m", marked]
    while left:
        entries = [
            {
                "change": name,
                "told": f"{change.path}:{change.line}",
                "path": change.path,
                "old": Path(change.path).read_text(),
                "new": change.source,
                "tests": chosen[change].tests,
            }
            for name, change in left.items()
        ]
        asked.write_text(json.dumps(entries))
        tests = {test.split("::")[0] for name in left for test, _ in chosen[left[name]].tests}
        files.write_text("\n".join(sorted(tests)))
        told.unlink(missing_ok=True)
        with subprocess.Popen([*words, f"@{files}"], env={**os.environ, warm.VARIABLE: str(asked)}) as running:
            while running.poll() is None:
                time.sleep(1.0)
                yield from _taken(left, told)
        yield from _taken(left, told)
        if left:
            # It has ended the process that was to tell of it.
            yield left.pop(next(iter(left))), None


def _taken(left: dict[str, Change], told: Path) -> Iterator[tuple[Change, str | None]]:
    """Yield what has been told since the last call of changes that are ``left``, and take these away."""
    for line in told.read_text().splitlines(keepends=True) if told.exists() else ():
        if line.endswith("\n"):
            one = json.loads(line)
            if one["change"] in left:
                yield left.pop(one["change"]), one["by"]


def told(changes: Sequence[Change], results: Results, seed: int) -> str:
    """Return the summary: what no test noticed, what nobody can notice, and the score of the others."""
    equal = [change for change in changes if reason_of(change) is not None]
    counted = [change for change in changes if change not in equal]
    survivors = [change for change in counted if not results.of(change)]
    noticed = len(counted) - len(survivors)
    parts = [
        *(f"no user can see ({reason_of(change)}): {change}" for change in equal),
        *(f"not noticed by {results.counted(change)} that reach it: {change}" for change in survivors),
        f"seed {seed}: of {len(changes)} changes {len(equal)} can be seen by no user; of the other {len(counted)} "
        f"{noticed} are noticed ({noticed / max(1, len(counted)):.1%})",
    ]
    return "\n".join(parts)


def check_noticing(results: Results, reach: Reach, marked: str) -> None:
    """Take back what was noticed by a test that fails on the unchanged package as well."""
    tests = results.unchecked()
    while by := noticed_by(sorted(tests), marked, 3600.0) if tests else "":
        _tell(f"what {by} noticed does not count: it fails on the package as it is, too")
        results.forget(by, reach.key(by))
        if by not in tests:
            break
        tests.discard(by)
    for one in tests:
        results.check(one)


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=150, help="how many changes to try")
    parser.add_argument("--seed", type=int, nargs="*", default=[0], help="which changes are drawn: a sample for each")
    parser.add_argument("--only", nargs="*", default=[], help="the files or folders that may be changed")
    parser.add_argument("--tests", nargs="*", default=[], help="the files or folders of tests that may reach a change")
    parser.add_argument("--marked", default="not mpi", help="the markers of the tests, as pytest's -m has it")
    parser.add_argument("--limit", type=float, default=40.0, help="how many seconds of tests may try one change")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to find what tests reach, at most")
    options = parser.parse_args(arguments)
    folder = ROOT / "build" / "mutants"
    enclose(folder, ["-m", "tests.mutants", *(sys.argv[1:] if arguments is None else arguments)])
    # The first process of a namespace of processes hears what it handles alone.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    adopt()
    tree, probed = folder / "tree", folder / "probed"
    for copy in (tree, probed):
        copy.mkdir(exist_ok=True)
        copied(copy)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    samples = {seed: [*islice(sample(seed, options.only, folder), options.count)] for seed in options.seed}
    counted = [change for changes in samples.values() for change in changes if reason_of(change) is None]
    results = Results(folder / "results.jsonl")
    places = [(Path(change.path), change.line) for change in counted]
    reach = measure(probed, options.marked, options.tests, places, options.minutes)
    for seconds in (FIRST * options.limit, options.limit):
        try_all(counted, results, options.marked, reach, seconds)
    check_noticing(results, reach, options.marked)
    for seed, changes in samples.items():
        _tell(told(changes, results, seed))


if __name__ == "__main__":
    main()
