"""A folder belongs to the job that saves there, as long as that lives, and to one job only."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mpiparallel.checkpoint.files import folder_claim
from mpiparallel.checkpoint.files.folder_claim import MARK, FolderClaim
from mpiparallel.checkpoint.files.folder_holder import Holder
from mpiparallel.cluster.job_start import JobStart
from mpiparallel.errors import CheckpointError
from tests.conformance import patience

LONG_AGO = 1_000_000_000
ROUNDS, CONTENDERS = 10, 6
HOLDS = """
import sys
from pathlib import Path
from mpiparallel.checkpoint.files.folder_claim import FolderClaim
from mpiparallel.checkpoint.files.folder_holder import Holder
FolderClaim(Path(sys.argv[1]), Holder.here()).hold()
print("held", flush=True)
sys.stdin.read()
"""
CONTEND = """
import multiprocessing, sys
from pathlib import Path
from mpiparallel.checkpoint.files.folder_claim import FolderClaim
from mpiparallel.checkpoint.files.folder_holder import Holder
from mpiparallel.errors import CheckpointError

def contend(number, barrier):
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        claim = FolderClaim(folder, Holder.here())
        barrier.wait()
        try:
            claim.hold()
            print(folder.name, number, flush=True)
        except CheckpointError:
            pass
        barrier.wait()
        claim.release()

fork = multiprocessing.get_context("fork")
barrier = fork.Barrier(int(sys.argv[2]))
processes = [fork.Process(target=contend, args=(number, barrier)) for number in range(int(sys.argv[2]))]
for process in processes:
    process.start()
for process in processes:
    process.join()
"""


@contextmanager
def other_job(folder, **variables):
    """Let another process hold a folder."""
    words = [sys.executable, "-c", HOLDS, folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env={**os.environ, **variables}, **pipes) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def elsewhere(**fields):
    """A process of another host."""
    return replace(Holder.here(), **{"training": "other", "host": "n7", "space": "boot/1", "process": 77, **fields})


def marked(folder, content, touched=None):
    folder.mkdir(exist_ok=True)
    mark = folder / MARK
    if isinstance(content, Holder):
        mark.touch()
        content = replace(content, file=mark.stat().st_ino).encoded()
    mark.write_bytes(content)
    if touched is not None:
        os.utime(mark, (touched, touched))
    return mark


def holder_of(folder):
    return Holder.decoded((folder / MARK).read_bytes())


def taken(folder, holder=None):
    """Take a folder and give it back."""
    own = holder or Holder.here()
    claim = FolderClaim(folder, own)
    claim.hold()
    assert holder_of(folder).is_same_process(own)
    claim.release()
    assert [*folder.iterdir()] == []
    return True


def test_a_second_job_is_refused_by_name_until_the_first_is_killed(tmp_path) -> None:
    with other_job(tmp_path, SLURM_JOB_ID="4711") as process:
        words = rf"{tmp_path}: another job saves here \(SLURM job 4711, process {process.pid} of host '.*', since 20"
        with pytest.raises(CheckpointError, match=words):
            FolderClaim(tmp_path, Holder.here()).hold()
        assert holder_of(tmp_path).process == process.pid
        process.kill()
        process.wait()
    assert taken(tmp_path)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"MPIPARALLEL_JOB": "a", "MPIPARALLEL_RESTART_COUNT": "0"}, JobStart("a", 1)),
        ({"SLURM_JOB_ID": "7"}, JobStart("b", 0, "7", 1)),
        ({"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "c", "SLURM_RESTART_COUNT": "1"}, JobStart("", 0, "c/7", 2)),
    ],
)
def test_a_later_start_of_the_same_job_waits_for_no_process_that_is_still_to_die(tmp_path, first, second) -> None:
    with other_job(tmp_path, **first):
        assert taken(tmp_path, replace(Holder.here(), start=second))


@pytest.mark.parametrize("second", [JobStart("a", 0), JobStart("b", 1), JobStart("", 0, "7", 0), JobStart()])
def test_another_job_of_an_allocation_is_another_job(tmp_path, second) -> None:
    variables = {"MPIPARALLEL_JOB": "a", "MPIPARALLEL_RESTART_COUNT": "0", "SLURM_JOB_ID": "7"}
    with other_job(tmp_path, **variables), pytest.raises(CheckpointError, match="another job saves here"):
        FolderClaim(tmp_path, replace(Holder.here(), start=second)).hold()


UNSEEN = {
    "another host": elsewhere(),
    "another boot of this host": replace(Holder.here(), training="other", space="boot/2"),
    "nothing": b"",
    "no JSON": b"\xff{",
    "something else": b"[1, 2]",
    "deep": b"[" * 4000,
    "a number too large": elsewhere(process=1 << 80),
    "a time too large": elsewhere(since=1e300),
    "control characters": elsewhere(host="\x1b[2J"),
}


@pytest.mark.parametrize("said", UNSEEN)
def test_a_mark_that_nobody_touches_any_more_keeps_nothing(tmp_path, said) -> None:
    marked(tmp_path, UNSEEN[said], LONG_AGO)
    assert taken(tmp_path)


@pytest.mark.parametrize("said", UNSEEN)
def test_a_writer_that_cannot_be_seen_is_let_go_after_a_while(tmp_path, said, monkeypatch) -> None:
    monkeypatch.setattr(folder_claim, "SECONDS_TO_LIVE", 0.3)
    marked(tmp_path, UNSEEN[said])
    assert taken(tmp_path)


def test_a_copy_of_the_mark_of_a_living_job_keeps_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(folder_claim, "SECONDS_TO_LIVE", 0.3)
    with other_job(tmp_path / "first"):
        shutil.copytree(tmp_path / "first", tmp_path / "copy")
        assert taken(tmp_path / "copy")


@pytest.mark.parametrize("said", ["another host", "nothing", "control characters"])
def test_a_mark_that_is_touched_elsewhere_refuses(tmp_path, said, monkeypatch) -> None:
    mark, ended, times = marked(tmp_path, UNSEEN[said]), threading.Event(), iter(range(1 << 40))

    def touch():
        while not ended.wait(0.01):
            # Whatever this host takes for the time.
            os.utime(mark, ns=((now := mark.stat().st_mtime_ns + 1 + next(times)), now))

    thread = threading.Thread(target=touch)
    thread.start()
    try:
        words = "process 77 of host 'n7'" if said == "another host" else "its mark there cannot be read"
        with pytest.raises(CheckpointError, match=words):
            FolderClaim(tmp_path, Holder.here()).hold()
    finally:
        ended.set()
        thread.join()


def test_whoever_holds_a_folder_touches_its_mark(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(folder_claim, "SECONDS_BETWEEN_TOUCHES", 0.01)
    claim = FolderClaim(tmp_path, Holder.here())
    claim.hold()
    mark = tmp_path / MARK
    os.utime(mark, (LONG_AGO, LONG_AGO))
    patience.wait_until(lambda: mark.stat().st_mtime != LONG_AGO)
    mark.unlink()
    patience.wait_until(mark.exists)
    claim.release()
    assert not mark.exists()


@pytest.mark.parametrize("before", ["no mark", "a dead process", "a silent host"])
def test_of_several_that_come_at_one_moment_one_gets_the_folder(tmp_path, before) -> None:
    for number in range(ROUNDS):
        folder = tmp_path / f"{number:02}"
        folder.mkdir()
        if before == "a dead process":
            marked(folder, replace(Holder.here(), training="other", birth=1))
        elif before == "a silent host":
            marked(folder, elsewhere(), LONG_AGO)
    words = [sys.executable, "-c", CONTEND, tmp_path, str(CONTENDERS)]
    ended = patience.run(words, capture_output=True, text=True, check=True)
    winners = Counter(line.split()[0] for line in ended.stdout.splitlines())
    assert winners == {f"{number:02}": 1 for number in range(ROUNDS)}


def test_one_that_has_lost_its_folder_meanwhile_is_told(tmp_path) -> None:
    late = FolderClaim(tmp_path, Holder.here())
    late.hold()
    (tmp_path / MARK).unlink()
    with other_job(tmp_path) as process:
        with pytest.raises(CheckpointError, match=f"process {process.pid} of host"):
            late.hold()
        late.release()
        assert holder_of(tmp_path).process == process.pid


@pytest.mark.parametrize("thing", ["link", "folder", "pipe"])
def test_what_is_no_mark_is_refused_and_left_alone(tmp_path, thing) -> None:
    mark, aim = tmp_path / MARK, tmp_path / "aim"
    {"link": lambda: mark.symlink_to(aim), "folder": mark.mkdir, "pipe": lambda: os.mkfifo(mark)}[thing]()
    with pytest.raises(CheckpointError, match=MARK):
        FolderClaim(tmp_path, Holder.here()).hold()
    assert not aim.exists()


def test_a_permit_that_a_dead_process_has_left_is_taken_away(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(folder_claim, "SECONDS_TO_LIVE", 0.3)
    marked(tmp_path, elsewhere(), LONG_AGO)
    claim = FolderClaim(tmp_path, Holder.here())
    with monkeypatch.context() as patched:
        patched.setattr(folder_claim, "replacing", interrupted)
        patched.setattr(folder_claim.Path, "unlink", lambda path, missing_ok=False: None)
        with pytest.raises(KeyboardInterrupt):
            claim.hold()
    assert len([*tmp_path.iterdir()]) == 2
    assert taken(tmp_path)


def interrupted(path):
    raise KeyboardInterrupt


def test_a_mark_that_may_not_be_read_keeps_nothing_once_nobody_touches_it(tmp_path, monkeypatch) -> None:
    mark = marked(tmp_path, elsewhere(), LONG_AGO)
    number, opened = mark.stat().st_ino, os.open

    def refusing(path, *arguments, **named):
        if path == mark and mark.stat().st_ino == number:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **named)

    # Root may read everything.
    monkeypatch.setattr(os, "open", refusing)
    assert taken(tmp_path)


def test_a_mark_that_cannot_be_written_is_not_left_there(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(os, "pwrite", lambda descriptor, content, offset: 0)
    with pytest.raises(OSError, match="was written"):
        FolderClaim(tmp_path, Holder.here()).hold()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(("later", "lives"), [(0, True), (1, False)])
def test_a_process_of_another_user_is_told_by_its_birth_from_another_with_its_number(later, lives, monkeypatch) -> None:
    def refused(process, signal):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    here = Holder.here()
    monkeypatch.setattr(os, "kill", refused)
    assert replace(here, birth=here.birth + later).lives() is lives


def test_where_the_system_does_not_tell_its_boot_nobody_knows_whether_a_process_lives(monkeypatch) -> None:
    read = Path.read_text

    def hidden(path, *arguments, **named):
        if path.name == "boot_id":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path, *arguments, **named)

    before = Holder.here()
    assert before.lives()
    monkeypatch.setattr(Path, "read_text", hidden)
    assert [before.lives(), Holder.here().lives(), Holder.here().space] == [None, None, ""]
