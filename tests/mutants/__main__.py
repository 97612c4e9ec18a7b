"""Change a copy of the package in drawn places, one at a time, and see whether the tests notice: ``make mutants``.

Each change is tried by all tests that reach its line, as one run of the tests under coverage.py has found. At the end
it lists what no test noticed. Some of that has no effect that a user could see; for the rest a test is missing. A
changed package may do anything, so it runs in namespaces of its own (``enclosure.py``).
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome

from tests.mutants.drawing import drawn
from tests.mutants.enclosure import enclose
from tests.mutants.reach import Reach, measure

ROOT = Path(__file__).parents[2]
LONGER = 4.0
"""How many times as long as unchanged tests may take before a change counts as noticed, beside what starting takes."""
SECONDS_TO_START = 60.0
NOT_OURS_TO_TRY = ("mpiparallel/shipped/", "mpiparallel/backend/cupy")


def copied(tree: Path) -> Path:
    """Return a new copy of the repository's files, those not yet committed too."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    return tree


def sources(only: Sequence[str]) -> list[Path]:
    """Return the files of the package that may be changed: those below ``only``, where that names some."""
    names = sorted(map(str, Path("mpiparallel").rglob("*.py")))
    below = tuple(only) or "mpiparallel/"
    return [Path(name) for name in names if name.startswith(below) and not name.startswith(NOT_OURS_TO_TRY)]


def tried(change: MutationSpec, reach: Reach, tree: Path) -> tuple[str, str]:
    """Return "killed", "survived" or "unreached", and the change as a diff, empty where it was killed."""
    lines = range(change.start_pos[0], change.end_pos[0] + 1)
    tests = reach.tests_of(change.module_path, lines)
    chosen = tree.parent / "chosen.txt"
    chosen.write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"@{chosen}"]
    # Without a test to run, the command that succeeds leaves the diff.
    words = shlex.join(command) if tests else "true"
    result = mutate_and_test([change], words, SECONDS_TO_START + LONGER * reach.seconds_of(tests))
    if result.worker_outcome != WorkerOutcome.NORMAL:
        raise SystemExit(f"make mutants: {change} could not be tried:\n{result.output}")
    if result.test_outcome != TestOutcome.SURVIVED:
        return "killed", ""
    return ("survived" if tests else "unreached"), "\n".join((result.diff or "").splitlines()[1:])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=150, help="how many changes to try")
    parser.add_argument("--seed", type=int, default=0, help="which changes are drawn")
    parser.add_argument("--only", nargs="*", default=[], help="the files or folders that may be changed")
    parser.add_argument("--tests", nargs="*", default=[], help="the files or folders of tests")
    parser.add_argument("--marked", default="not mpi", help="the markers of the tests, as pytest's -m has it")
    options = parser.parse_args(arguments)
    enclose(ROOT / "build" / "mutants", ["-m", "tests.mutants", *(sys.argv[1:] if arguments is None else arguments)])
    tree = copied(ROOT / "build" / "mutants" / "tree")
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    changes = drawn(sources(options.only), options.count, options.seed)
    reach = measure(tree, options.marked, options.tests)
    ends: dict[str, list[str]] = {"killed": [], "survived": [], "unreached": []}
    for number, change in enumerate(changes, 1):
        end, diff = tried(change, reach, tree)
        ends[end].append(diff)
        place = f"{change.module_path}:{change.start_pos[0]}"
        sys.stdout.write(f"{number}/{len(changes)} {end}: {place} {change.operator_name}\n")
        sys.stdout.flush()
    for end in ("survived", "unreached"):
        sys.stdout.write("".join(f"\n{end}:\n{diff}\n" for diff in ends[end]))
    told = ", ".join(f"{len(diffs)} {end}" for end, diffs in ends.items())
    score = len(ends["killed"]) / max(1, len(changes))
    sys.stdout.write(f"\nseed {options.seed}: of {len(changes)} changes {told}: {score:.0%} noticed\n")


if __name__ == "__main__":
    main()
