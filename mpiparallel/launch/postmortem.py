"""``mpiparallel postmortem``: what the ranks of a job that is over were doing, from the files they left."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from mpiparallel.cluster.exit_codes import HUNG
from mpiparallel.cluster.flight.hang_diagnosis import diagnose
from mpiparallel.cluster.flight.recorder import spans
from mpiparallel.cluster.flight.recording import RecordedCall, Recording
from mpiparallel.errors import LaunchError
from mpiparallel.launch.command_line.argument_types import file_path
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.job.terminal_text import printable

if TYPE_CHECKING:
    from mpiparallel.launch.command_line.parser import Subparsers

NAME = "postmortem"
_LAST_CALLS = 3
# Beyond, three digits would be written with an exponent.
_MOST_MILLISECONDS = 999.5


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``mpiparallel postmortem``."""
    parser = subparsers.add_parser(
        NAME,
        help="say who waited for whom in a job that hung or died",
        description="Say from the flight recorders of a job which rank waited for which, and where each was.",
        examples=("mpiparallel postmortem .", "mpiparallel postmortem logs --calls 10"),
    )
    parser.add_argument("directory", type=file_path, help="the job's log directory, with its device<rank>/ folders")
    parser.add_argument("--calls", type=int, default=_LAST_CALLS, metavar="N", help="show each rank's last N calls")
    parser.add_argument("--json", action="store_true", help="print all that is recorded, as JSON")


def execute(arguments: argparse.Namespace) -> int:
    """Print what the ranks were doing; return 0."""
    recordings = load_recordings(arguments.directory)
    if arguments.json:
        print(json.dumps([asdict(recording) for recording in recordings], indent=2))
        return 0
    for line in _summary(arguments.directory, recordings):
        print(printable(line))
    print()
    for recording in recordings:
        print(printable("\n".join(_described(recording, arguments.calls))))
    return 0


def load_recordings(directory: Path) -> list[Recording]:
    """Return the recordings under a log directory, by rank; raise LaunchError where there is none that can be read."""
    recordings, problems = [], []
    for path in sorted(directory.glob("device*/flight*.bin")):
        try:
            recordings.append(Recording.load(path))
        except LaunchError as error:
            problems.append(str(error))
    if not recordings:
        why = f": {problems[0]}" if problems else ""
        raise LaunchError(
            f"{directory} has no recordings (device<rank>/flight<rank>.bin){why}; give the --log-dir of a job that "
            "mpiparallel run has started"
        )
    return sorted(recordings, key=lambda recording: recording.rank)


def _summary(directory: Path, recordings: Sequence[Recording]) -> Iterator[str]:
    """Yield which rank waited for which, as the first rank that noticed it reported, and which rank failed first."""
    failures = [RankFolder(directory, recording.rank).read_failure() for recording in recordings]
    first = min((one for one in failures if one is not None), key=lambda one: one.time, default=None)
    if first is not None and first.exit_code == HUNG:
        yield f"{first.exception} (found by rank {first.rank} at {_clock(first.time)})"
    else:
        diagnosis = diagnose(recordings)
        yield diagnosis.sentence if diagnosis else "no rank waited for another one"
        if first is not None:
            yield f"rank {first.rank} failed first, at {_clock(first.time)}: {first.summary}"
    there = {recording.rank for recording in recordings}
    lacking = [rank for rank in range(recordings[0].size) if rank not in there]
    if lacking:
        yield f"{len(lacking)} of {recordings[0].size} ranks left no recording here: {spans(lacking)}"


def _described(recording: Recording, count: int) -> Iterator[str]:
    state = "killed or lost" if recording.state in ("starting", "running") else recording.state
    where = f", at {recording.place}" if recording.place else ""
    who = f"rank {recording.rank} on {recording.host}, process {recording.process}"
    yield f"{who}: {state}; last seen {_clock(recording.beat)}{where}"
    for call in recording.calls[-count:] if count > 0 else ():
        yield f"  {_clock(call.entered)} {call}, {call.count:,} elements: {_duration(call, recording)}"


def _duration(call: RecordedCall, recording: Recording) -> str:
    if call.left is not None:
        seconds = call.left - call.entered
        return f"took {1e3 * seconds:.3g} ms" if seconds < _MOST_MILLISECONDS / 1e3 else f"took {seconds:,.1f} s"
    if recording.inside is not None and recording.inside.number == call.number:
        return "never ended"
    return "was started and not waited for"


def _clock(moment: float) -> str:
    seconds, thousandths = divmod(round(moment * 1000), 1000)
    return f"{time.strftime('%H:%M:%S', time.localtime(seconds))}.{thousandths:03}"
