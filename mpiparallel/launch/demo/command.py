"""``mpiparallel demo``: train on eight ranks, go on with four, in place, and compare with one rank."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.cluster.processor import read_core_type
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import DatasetError, LaunchError
from mpiparallel.launch.command_line.argument_types import count, file_path
from mpiparallel.launch.demo.arguments import add_size_arguments, size_words
from mpiparallel.launch.demo.picture import can_draw, draw
from mpiparallel.launch.demo.report import DemoReport
from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.host_room import check_host
from mpiparallel.launch.job.host_selection import place
from mpiparallel.launch.job.installation import Installation, find_installation
from mpiparallel.launch.job.mpirun_command import Job, build
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.watching.supervise import LAUNCHER_LOG, supervise

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "demo"
_JOB = "mpiparallel.launch.demo.job"
_CUTS = {
    "dp": (2, "parts of the batch before the move"),
    "mp": (4, "parts of the weights before the move"),
    "target_dp": (1, "parts of the batch after it"),
    "target_mp": (4, "parts of the weights after it"),
}
_EXCEEDED_CODE = 1


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel demo``."""
    parser = subparsers.add_parser(
        NAME,
        help="train on eight ranks, go on with four, in place",
        description="Train a translation Transformer on 8 ranks, save it, move its state live to 4 ranks and train on. "
        "Show that every loss is that of one rank; end with code 1 if it is not.",
        examples=(
            "mpiparallel demo",
            "mpiparallel demo --dtype float64 --dir results",
            "mpiparallel demo --dp 2 --mp 2 --target_dp 1 --target_mp 2",
        ),
    )
    parser.add_argument(
        "--dir",
        type=file_path,
        default=Path("mpiparallel_demo"),
        metavar="DIR",
        help="where the results go (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON, all else on stderr")
    ranks = parser.add_argument_group("ranks")
    ranks.add_argument("--ranks", type=count, metavar="N", help="before the move (default: dp x mp = 8)")
    for name, (default, what) in _CUTS.items():
        ranks.add_argument(f"--{name}", type=count, default=default, metavar="N", help=f"{what} (default: {default})")
    add_size_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the demo that ``arguments`` describe; return 0 if the losses agree, 1 if not, or the code of a failed job."""
    _check(arguments)
    if not arguments.json:
        return _execute(arguments)
    found: list[DemoReport] = []
    with redirect_stdout(sys.stderr):
        code = _execute(arguments, found)
    for report in found:
        print(json.dumps({"results": str(arguments.dir), **report.document}), flush=True)
    return code


def _execute(arguments: argparse.Namespace, found: list[DemoReport] | None = None) -> int:
    folder: Path = arguments.dir
    runner = _Runner(arguments, find_installation())
    source, target = _rank_counts(arguments)
    alone, moving = folder / "1_rank", folder / f"{source}_ranks"
    steps, more_steps = arguments.steps, arguments.more_steps
    _say(f"mpiparallel demo: {runner.installation.library}, {_cores()} cores; results in {folder}/\n")
    _say(f"[1/3] 1 rank: the same program, uncut, {steps + more_steps} steps")
    code = runner.run(1, alone, [])
    if code:
        return code
    _say(
        f"\n[2/3] {source} ranks, dp{arguments.dp} x mp{arguments.mp} and parallel optimizer: {steps} steps, save "
        f"shards,\n      move the state live to {target} ranks, dp{arguments.target_dp} x mp{arguments.target_mp}: "
        f"{more_steps} more steps"
    )
    code = runner.run(source, moving, [f"--{name}={getattr(arguments, name)}" for name in _CUTS])
    if code:
        return code
    _say("\n[3/3] compare\n")
    report = DemoReport.load(arguments.dtype, alone / "report.json", moving / "report.json")
    if found is not None:
        found.append(report)
    _say(f"{report}\n")
    _draw(report, folder)
    _say(_results(folder, moving, source))
    return verdict(report)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be before anything is started."""
    if arguments.file_path and not Path(arguments.file_path).exists():
        raise DatasetError(
            f"--file_path {arguments.file_path}: there is no such file; give English<TAB>French lines or a newstest "
            ".sgm file, or leave --file_path out to use the text of installed packages"
        )
    source, target = _rank_counts(arguments)
    if arguments.ranks not in (None, source):
        raise LaunchError(
            f"--ranks {arguments.ranks} is not --dp {arguments.dp} x --mp {arguments.mp} = {source}; "
            "leave --ranks out, or give a --dp and --mp that make it"
        )
    if target > source:
        raise LaunchError(
            f"--target_dp {arguments.target_dp} x --target_mp {arguments.target_mp} needs {target} ranks, "
            f"but the job has {source}; give a target of at most {source}"
        )
    try:
        arguments.dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LaunchError(f"--dir {arguments.dir}: {error.strerror}; give a folder that can be written") from error


def _rank_counts(arguments: argparse.Namespace) -> tuple[int, int]:
    return arguments.dp * arguments.mp, arguments.target_dp * arguments.target_mp


@dataclass(frozen=True)
class _Runner:
    """Starts the job of the demo on a number of ranks, as ``mpiparallel run`` would."""

    arguments: argparse.Namespace
    installation: Installation

    def run(self, ranks: int, folder: Path, words: list[str]) -> int:
        """Run the job with ``words`` besides the sizes, and return its exit code; all it writes is in ``folder``."""
        folder = folder.absolute()
        # A report of an earlier run must not pass for one of this.
        (folder / "report.json").unlink(missing_ok=True)
        job = Job(
            ranks=ranks,
            script=Script(_JOB, (f"--out={folder}", *words, *size_words(self.arguments)), is_module=True),
            selection=place(ranks, None, None, os.environ),
            log_dir=folder,
            python=sys.executable,
            cores=_cores(),
            core_type=read_core_type(os.environ),
        )
        # Products of this size gain nothing from a second thread, and on a busy machine they lose much.
        variables = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
        command = build(job, self.installation, variables)
        for warning in check_host(job.selection, self.installation.vendor, command.environment):
            _say(f"warning: {warning}")
        console = Console()
        outcome = supervise(command, ranks, folder, console=console)
        if outcome.message:
            console.say(f"error: {outcome.message}")
        console.close(folder / LAUNCHER_LOG)
        return outcome.code


def _draw(report: DemoReport, folder: Path) -> None:
    for path in _pictures(folder):
        path.unlink(missing_ok=True)
    if can_draw():
        draw(report, _pictures(folder))
    else:
        _say("No picture: matplotlib is not installed; pip install mpiparallel[plot]\n")


def _pictures(folder: Path) -> list[Path]:
    return [folder / "demo.svg", folder / "demo.png"]


def _results(folder: Path, moving: Path, ranks: int) -> str:
    last = ranks - 1
    names = [path.name for path in _pictures(folder) if path.exists()]
    rows = [
        ("picture", ", ".join(names) or "none"),
        ("checkpoint", f"{moving.name}/checkpoints/rank_<0-{last}>/*.h5, *.manifest.json"),
        ("strategies", f"{moving.name}/src_strategy.ckpt, dst_strategy.ckpt"),
        ("groups", f"{moving.name}/device<0-{last}>/group_info.pb"),
        ("logs", f"1_rank/device0/train.log0, {moving.name}/device<0-{last}>/train.log<0-{last}>"),
    ]
    lines = [f"  {name:<12}{place}" for name, place in rows]
    return "\n".join(
        [
            f"Results, in {folder}/:",
            *lines,
            "Next:",
            "  mpiparallel demo --dtype float64      the same, with losses equal to 1e-9",
            "  mpiparallel run -n 4 examples/translation/train.py --mp 2      a script as you would write it",
        ]
    )


def verdict(report: DemoReport) -> int:
    """Return 0 if the losses of ``report`` agree as promised; else say on stderr what is wrong, and return 1."""
    broken = [check for check in report.checks if not check.holds]
    if not broken:
        return 0
    _say_error(
        f"the losses differ by {broken[-1].difference:.1e} from those of one rank, more than the "
        f"{broken[-1].limit:.0e} promised; a smaller --lr magnifies rounding less, and --dtype float64 shows "
        "whether it was that"
    )
    return _EXCEEDED_CODE


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _say(words: str) -> None:
    print(words, flush=True)


def _say_error(words: str) -> None:
    Console().say(f"error: {words}")
