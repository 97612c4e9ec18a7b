"""Which start of which job a process belongs to: what an earlier start has left may be taken over."""

from __future__ import annotations

import pytest

from mpiparallel.cluster.job_start import JobStart


@pytest.mark.parametrize(
    ("variables", "start", "words"),
    [
        ({}, JobStart(), ""),
        ({"MPIPARALLEL_JOB": "a", "MPIPARALLEL_RESTART_COUNT": "2"}, JobStart("a", 2), ""),
        ({"SLURM_JOB_ID": "7"}, JobStart(allocation="7"), "SLURM job 7"),
        (
            {"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "c", "SLURM_RESTART_COUNT": "1"},
            JobStart(allocation="c/7", requeues=1),
            "SLURM job c/7",
        ),
        ({"SLURM_CLUSTER_NAME": "c", "SLURM_RESTART_COUNT": "1"}, JobStart(requeues=1), ""),
        ({"MPIPARALLEL_RESTART_COUNT": "-1"}, JobStart(), ""),
        ({"MPIPARALLEL_RESTART_COUNT": "\u0663"}, JobStart(), ""),
        ({"MPIPARALLEL_RESTART_COUNT": "soon"}, JobStart(), ""),
    ],
)
def test_a_start_is_told_by_launcher_and_cluster(variables: dict[str, str], start: JobStart, words: str) -> None:
    found = JobStart.of(variables)
    assert (found, str(found)) == (start, words)


FIRST = JobStart("a", 1, "c/7", 1)


@pytest.mark.parametrize(
    ("later", "follows"),
    [
        (JobStart("a", 2, "c/7", 1), True),
        (JobStart("a", 1, "c/7", 2), True),
        (JobStart("a", 2), True),
        (JobStart("b", 1, "c/7", 2), True),
        (FIRST, False),
        (JobStart("a", 0, "c/7", 1), False),
        (JobStart("b", 2, "c/7", 1), False),
        (JobStart("b", 2, "c/8", 2), False),
        (JobStart("", 2, "", 2), False),
    ],
)
def test_only_a_later_start_of_the_same_job_follows(later: JobStart, follows: bool) -> None:
    assert later.follows(FIRST) is follows


def test_processes_of_no_job_follow_nobody() -> None:
    assert not JobStart("", 2, "", 2).follows(JobStart("", 1, "", 1))
