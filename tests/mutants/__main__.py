"""Change a copy of the package in drawn places, one at a time, and see whether the tests notice: ``make mutants``.

A change is tried by the files of tests that speak of what it changes, as those are quick and most often notice it.
The others are tried by all further tests that reach their lines, as one run of all tests under coverage.py finds. At
the end it lists what no test noticed. Some of that has no effect that a user could see (``equivalents.py``); for the
rest a test is missing. What has been tried is written down, and not tried again.

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
from collections.abc import Iterator, Sequence
from pathlib import Path

from cosmic_ray.work_item import MutationSpec

from tests.mutants import warm
from tests.mutants.drawing import drawn
from tests.mutants.enclosure import enclose
from tests.mutants.equivalents import reason_of
from tests.mutants.nearness import near_tests
from tests.mutants.reach import measure
from tests.mutants.results import Results, digest
from tests.mutants.trying import Change, described, made, noticed_by

ROOT = Path(__file__).parents[2]
NEAR_SECONDS = 60.0
"""After these, of a processor, it is left to the tests that reach the line, of which it is known how long they take."""
LONGER = 4.0
"""How many times as long as unchanged tests may take before a change counts as noticed, beside what starting takes."""
SECONDS_TO_START = 60.0
ONE_CORE_SECONDS = 30.0
NOT_OURS_TO_TRY = ("mpiparallel/shipped/", "mpiparallel/backend/cupy")
WARM, NEAR, REACHING = "warm", "near", "reaching"


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
    """Yield the changes in the order in which the seed draws them; ``folder`` keeps it until the package is another."""
    below = tuple(only) or "mpiparallel/"
    names = sorted(map(str, Path("mpiparallel").rglob("*.py")))
    paths = [Path(name) for name in names if name.startswith(below) and not name.startswith(NOT_OURS_TO_TRY)]
    kept = folder / f"sample-{seed}-{digest([*paths, Path('tests/mutants/drawing.py')])}.json"
    if not kept.exists():
        changes = [
            [str(one.module_path), one.operator_name, one.occurrence, one.start_pos, one.end_pos]
            for one in drawn(paths, seed)
        ]
        kept.write_text(json.dumps(changes))
    for path, operator, occurrence, start, end in json.loads(kept.read_text()):
        change = described(MutationSpec(path, operator, occurrence, tuple(start), tuple(end)))
        if change is not None:
            yield change


def try_near(changes: Sequence[Change], results: Results, marked: str, folder: Path) -> None:
    """Try each change that has no result by the tests that speak of it: all at once, then those that cannot be so."""
    try_warm(changes, results, marked, folder / "warm.json")
    for number, change in enumerate(changes, 1):
        if results.of(change, NEAR) is None:
            tests = near_tests(Path(change.path), change.line)
            with made(change):
                by = noticed_by(tests, marked, NEAR_SECONDS) if tests else ""
            results.add(change, NEAR, by or "")
            _tell(f"{number}/{len(changes)} {by or 'not noticed yet'}: {change.path}:{change.line}")


def try_warm(changes: Sequence[Change], results: Results, marked: str, asked: Path) -> None:
    """Try changes within functions by tests that are imported once; what was told before the last end counts, too."""
    told = asked.with_suffix(".told")
    by_name = {change.name: change for change in changes}

    def take() -> None:
        for line in told.read_text().splitlines() if told.exists() else ():
            one = json.loads(line)
            if one["change"] in by_name:
                results.add(by_name[one["change"]], WARM if one["by"] is None else NEAR, one["by"] or "")
        told.unlink(missing_ok=True)

    take()
    left = [change for change in changes if results.of(change, NEAR) is None and results.of(change, WARM) is None]
    if not left:
        return
    near = {change.name: near_tests(Path(change.path), change.line) for change in left}
    entries = [
        {
            "change": change.name,
            "told": f"{change.path}:{change.line}",
            "path": change.path,
            "old": Path(change.path).read_text(),
            "new": change.source,
            "tests": near[change.name],
        }
        for change in left
    ]
    asked.write_text(json.dumps(entries))
    chosen = asked.with_suffix(".txt")
    chosen.write_text("\n".join(sorted({test for tests in near.values() for test in tests})))
    words = [sys.executable, "-m", "pytest", "-p", warm.__name__, "-p", "no:cacheprovider", "-q", "-s", "-m", marked]
    subprocess.run([*words, f"@{chosen}"], env={**os.environ, warm.VARIABLE: str(asked)}, check=False)
    take()


def try_reaching(changes: Sequence[Change], results: Results, marked: str, paths: Sequence[str], tree: Path) -> None:
    """Try what the tests near a change did not notice by all others that reach its line."""
    left = [change for change in changes if results.of(change, REACHING) is None]
    if not left:
        return
    _tell(f"{len(left)} were not noticed; which tests reach them?")
    reach = measure(tree, marked, paths, sorted({change.path for change in left}))
    for number, change in enumerate(left, 1):
        near = set(near_tests(Path(change.path), change.line))
        found = reach.tests_of(Path(change.path), range(change.line, change.line + 1))
        tests = [test for test in found if test.split("::")[0] not in near]
        seconds = reach.seconds_of(tests)
        with made(change):
            by = (
                ""
                if not tests
                else noticed_by(
                    tests, marked, SECONDS_TO_START + LONGER * seconds, on_all_cores=seconds > ONE_CORE_SECONDS
                )
            )
        results.add(change, REACHING, "taking for ever" if by is None else by)
        told = results.of(change, REACHING) or f"not noticed by any of {len(found)} that reach it"
        _tell(f"{number}/{len(left)} {told}: {change.path}:{change.line}")


def told(changes: Sequence[Change], results: Results, seed: int) -> str:
    """Return the summary: what no test noticed, what nobody can notice, and the score of the others."""
    last = {change: results.of(change, REACHING) for change in changes}
    noticed = [change for change in changes if last[change]]
    others = [change for change in changes if not last[change]]
    equal = [change for change in others if reason_of(change) is not None]
    survivors = [change for change in others if change not in equal and last[change] is not None]
    waiting = [change for change in others if change not in equal and last[change] is None]
    parts = [
        *(f"no user can see ({reason_of(change)}): {change}" for change in equal),
        *(f"not noticed by the tests near it, others are not tried yet: {change}" for change in waiting),
        *(f"not noticed: {change}" for change in survivors),
    ]
    counted = len(changes) - len(equal)
    parts.append(
        f"seed {seed}: of {len(changes)} changes {len(equal)} can be seen by no user; of the other {counted} "
        f"{len(noticed)} are noticed ({len(noticed) / max(1, counted):.1%})"
        + (f", {len(waiting)} are not yet tried by all tests" if waiting else "")
    )
    return "\n".join(parts)


def check_noticing(changes: Sequence[Change], results: Results, marked: str) -> None:
    """Take back what was noticed by a test that fails on the unchanged package as well."""
    tests = {by for change in changes if "::" in (by := results.of(change, REACHING) or "")}
    while by := noticed_by(sorted(tests), marked, 3600.0) if tests else "":
        _tell(f"what {by} noticed does not count: it fails on the package as it is, too")
        results.forget(by)
        if by not in tests:
            break
        tests.discard(by)


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=150, help="how many changes to try")
    parser.add_argument("--seed", type=int, default=0, help="which changes are drawn")
    parser.add_argument("--only", nargs="*", default=[], help="the files or folders that may be changed")
    parser.add_argument("--tests", nargs="*", default=[], help="the files or folders of tests that may reach a change")
    parser.add_argument("--marked", default="not mpi", help="the markers of the tests, as pytest's -m has it")
    parser.add_argument("--near", action="store_true", help="try the tests near a change alone")
    options = parser.parse_args(arguments)
    folder = ROOT / "build" / "mutants"
    enclose(folder, ["-m", "tests.mutants", *(sys.argv[1:] if arguments is None else arguments)])
    # The first process of a namespace of processes hears what it handles alone.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    tree = folder / "tree"
    tree.mkdir(exist_ok=True)
    copied(tree)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    changes = []
    for change in sample(options.seed, options.only, folder):
        if len(changes) == options.count:
            break
        changes.append(change)
    tests = [path for path in Path("tests").rglob("*.py") if path.parent != Path("tests/mutants")]
    results = Results(folder / "results.jsonl", digest(tests))
    try_near(changes, results, f"({options.marked}) and not mpi", folder)
    if not options.near:
        equal = [change for change in changes if reason_of(change) is not None]
        try_reaching([one for one in changes if one not in equal], results, options.marked, options.tests, tree)
    check_noticing(changes, results, options.marked)
    _tell(told(changes, results, options.seed))


if __name__ == "__main__":
    main()
