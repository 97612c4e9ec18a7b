"""The mark of a folder is made, kept and taken over at once by those who may, and others are told whose it is."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mpiparallel.checkpoint.files import folder_claim, folder_holder
from mpiparallel.checkpoint.files.folder_claim import MARK, FolderClaim
from mpiparallel.checkpoint.files.folder_holder import Holder
from mpiparallel.cluster.job_start import JobStart
from mpiparallel.errors import CheckpointError
from tests.conformance import patience


@pytest.fixture
def claim(tmp_path: Path) -> Iterator[FolderClaim]:
    found = FolderClaim(tmp_path, Holder.here())
    yield found
    found.release()


def mark_of(folder: Path, holder: Holder) -> Path:
    """Put the mark of a holder into a folder, as that holder would have written it."""
    mark = folder / MARK
    mark.touch()
    mark.write_bytes(replace(holder, file=mark.stat().st_ino).encoded())
    return mark


def keepers(folder: Path) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"mark of {folder}"]


def test_a_mark_names_this_process_and_its_own_file_and_others_may_read_it(tmp_path: Path, claim: FolderClaim) -> None:
    before = os.umask(0o022)
    try:
        claim.hold()
    finally:
        os.umask(before)
    mark = tmp_path / MARK
    holder = Holder.decoded(mark.read_bytes())
    assert holder is not None
    assert holder.is_same_process(Holder.here())
    assert (holder.file, holder.training) == (mark.stat().st_ino, Holder.here().training)
    assert mark.stat().st_mode & 0o777 == 0o644


def test_one_thread_touches_the_mark_and_ends_when_the_folder_is_given_back(tmp_path: Path, claim: FolderClaim) -> None:
    assert keepers(tmp_path) == []
    for _ in range(2):
        claim.hold()
    (thread,) = keepers(tmp_path)
    # It does not keep the interpreter from ending.
    assert thread.daemon
    claim.release()
    assert [*tmp_path.iterdir()] == []
    patience.wait_until(lambda: not keepers(tmp_path))
    claim.release()


def test_a_folder_that_is_missing_is_made(tmp_path: Path) -> None:
    claim = FolderClaim(tmp_path / "a" / "b", Holder.here())
    claim.hold()
    assert (tmp_path / "a" / "b" / MARK).exists()
    claim.release()
    assert (tmp_path / "a" / "b").is_dir()


OWN = {
    "another rank of its training": replace(Holder.here(), process=1, birth=1, space="boot/2", host="n7"),
    "its process in an earlier training": replace(Holder.here(), training="earlier"),
    "a process that has its number no more": replace(Holder.here(), training="other", birth=1),
}


@pytest.mark.parametrize("who", OWN)
def test_a_mark_of_its_own_job_or_of_a_dead_process_is_taken_over_at_once(
    who: str, tmp_path: Path, claim: FolderClaim
) -> None:
    mark = mark_of(tmp_path, OWN[who])
    claim.hold()
    holder = Holder.decoded(mark.read_bytes())
    assert holder is not None
    assert (holder.is_same_process(Holder.here()), holder.training) == (True, Holder.here().training)
    assert [path.name for path in tmp_path.iterdir()] == [MARK]


@pytest.mark.parametrize(
    ("start", "job"), [(JobStart(), ""), (JobStart("", 0, "c/7"), "SLURM job c/7, "), (JobStart("job", 3), "")]
)
def test_who_comes_second_is_told_who_has_the_folder_and_what_to_do(
    start: JobStart, job: str, tmp_path: Path, claim: FolderClaim
) -> None:
    # This process lives, and by its birth it is another than the second.
    other = replace(Holder.here(), start=start, since=86_400.0)
    second = FolderClaim(tmp_path, replace(Holder.here(), training="second", birth=Holder.here().birth + 1))
    mark = mark_of(tmp_path, other)
    with pytest.raises(CheckpointError) as caught:
        second.hold()
    assert str(caught.value) == (
        f"{tmp_path}: another job saves here ({job}process {os.getpid()} of host {os.uname().nodename!r}, since "
        "1970-01-02 00:00:00 UTC); give this one another folder, or start it when that has ended"
    )
    second.release()
    assert mark.exists()
    assert keepers(tmp_path) == []


def test_who_never_held_a_folder_gives_nothing_back(tmp_path: Path) -> None:
    FolderClaim(tmp_path, Holder.here()).release()
    mark = mark_of(tmp_path, replace(Holder.here(), training="other", birth=1))
    FolderClaim(tmp_path, Holder.here()).release()
    assert mark.exists()
    mark.write_bytes(b"torn")
    FolderClaim(tmp_path, Holder.here()).release()
    assert mark.read_bytes() == b"torn"


def test_a_mark_that_somebody_has_deleted_is_made_again(tmp_path: Path, claim: FolderClaim) -> None:
    claim.hold()
    (tmp_path / MARK).unlink()
    claim.hold()
    assert (tmp_path / MARK).exists()


ELSEWHERE = replace(Holder.here(), training="other", host="n7", space="boot/1", process=77)


@pytest.mark.parametrize("meanwhile", ["deleted", "another content", "another file", "touched"])
def test_a_mark_of_another_host_that_changes_while_it_is_watched_is_looked_at_anew(
    meanwhile: str, tmp_path: Path, claim: FolderClaim, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = mark_of(tmp_path, ELSEWHERE)

    def change(seconds: float) -> None:
        monkeypatch.undo()
        status = mark.stat()
        if meanwhile == "touched":
            os.utime(mark, ns=(status.st_mtime_ns, status.st_mtime_ns + 1))
            return
        if meanwhile != "another content":
            mark.unlink()
        if meanwhile == "another file":
            (tmp_path / "in the way").touch()
        if meanwhile != "deleted":
            # Of a process that is over.
            mark_of(tmp_path, replace(Holder.here(), training="other", birth=1))
            os.utime(mark, ns=(status.st_mtime_ns, status.st_mtime_ns))

    monkeypatch.setattr(folder_claim.time, "sleep", change)
    if meanwhile == "touched":
        with pytest.raises(CheckpointError, match="process 77 of host 'n7'"):
            claim.hold()
        return
    claim.hold()
    holder = Holder.decoded(mark.read_bytes())
    assert holder is not None
    assert holder.is_same_process(Holder.here())


def test_where_the_birth_of_a_process_is_not_told_it_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_holder, "birth_of", lambda process: None)
    here = Holder.here()
    assert (here.birth, here.is_sound, here.lives()) == (0, True, None)
