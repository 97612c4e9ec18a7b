from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch import run
from mpiparallel.launch.command_line.parser import Parser
from mpiparallel.launch.job import msrun
from mpiparallel.launch.job.script import Script

# As MindSpore's documentation of msrun lists them.
MSRUN = [
    "worker_num",
    "local_worker_num",
    "master_addr",
    "master_port",
    "node_rank",
    "log_dir",
    "join",
    "cluster_time_out",
    "bind_core",
    "sim_level",
    "sim_rank_id",
    "rank_table_file",
    "worker_log_name",
    "tail_worker_log",
]


def parsed(*words: str) -> argparse.Namespace:
    parser = Parser()
    run.add_parser(parser.add_commands("command", "COMMAND"))
    return parser.parse_args(["run", *words, "train.py"])


def said(*words: str, **variables: str) -> list[str]:
    return list(msrun.adopt(parsed(*words), variables))


def test_every_name_of_msrun_is_taken() -> None:
    assert {alias.name for alias in msrun.ALIASES} == set(MSRUN)
    for name in MSRUN:
        arguments = parsed(f"--{name}", "1")
        assert Script.parsed(arguments).name == "train.py"


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (("--worker_num", "8"), ("-n", "8")),
        (("--worker_num=8",), ("--ranks", "8")),
        (("--log_dir", "logs"), ("--log-dir", "logs")),
        (("--rank_table_file", "t.json"), ("--rank-table", "t.json")),
        (("--tail_worker_log", "0,3-5"), ("--tee-ranks", "0,3-5")),
        (("--tail_worker_log=-1",), ("--tee",)),
        (("--cluster_time_out", "60"), ("--start-timeout", "60")),
    ],
)
def test_a_name_of_msrun_means_the_same_as_ours(words, ours) -> None:
    theirs = parsed(*words)
    assert list(msrun.adopt(theirs, {})) == []
    assert vars(theirs) == vars(parsed(*ours))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--master_addr", "10.0.0.1"), "--master_addr 10.0.0.1: no effect: MPI's ranks find each other by mpirun"),
        (("--master_port", "8118"), "--master_port 8118: no effect: MPI's ranks find each other by mpirun"),
        (("--join", "False"), "--join False: no effect: run waits for the ranks; to go on meanwhile put & behind it"),
        (("--bind_core", "True"), "--bind_core True: no effect: ranks are not bound to cores, "),
        (("--worker_log_name", "w"), "--worker_log_name w: no effect: the log of rank 3 is device3/train.log3"),
        (("--sim_rank_id", "3"), "--sim_rank_id 3: no effect without --sim_level"),
        (("--node_rank", "1"), "--node_rank 1: nothing is started here: the start with --node_rank 0 starts "),
    ],
)
def test_what_has_no_effect_is_said_in_one_line(words, line) -> None:
    (found,) = said(*words)
    assert found.startswith(line)


@pytest.mark.parametrize(
    "words",
    [
        ("--join", "True"),
        ("--master_addr", "127.0.0.1"),
        ("--bind_core", "False"),
        ("--sim_level", "-1"),
        ("--node_rank", "0"),
        ("--worker_num", "4", "--local_worker_num", "4"),
    ],
)
def test_what_is_so_anyway_is_not_spoken_of(words) -> None:
    assert said(*words) == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--sim_level", "1"), "--sim_level 1: nothing is simulated; --dry-run shows"),
        (
            ("--worker_num", "8", "--local_worker_num", "4"),
            "--local_worker_num 4 of --worker_num 8: no host is named for the others; name all with --hostfile",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_mend(words, reason) -> None:
    with pytest.raises(LaunchError, match=reason):
        said(*words)


@pytest.mark.parametrize(
    ("words", "variables"),
    [(("--hostfile", "h"), {}), (("--rank_table_file", "t"), {}), ((), {"SLURM_JOB_ID": "7"})],
)
def test_ranks_may_be_on_other_hosts_where_something_names_those(words, variables) -> None:
    assert said("--worker_num", "8", "--local_worker_num", "4", *words, **variables) == []


def test_only_the_first_node_starts_ranks() -> None:
    assert msrun.starts_here(parsed())
    assert msrun.starts_here(parsed("--node_rank", "0"))
    assert not msrun.starts_here(parsed("--node_rank", "2", "--worker_num", "8", "--local_worker_num", "4"))
    assert len(said("--node_rank", "2", "--worker_num", "8", "--local_worker_num", "4")) == 1


def test_a_wrong_number_of_ranks_is_refused_by_the_name_that_was_given(capsys) -> None:
    with pytest.raises(SystemExit):
        parsed("--worker_num", "none")
    assert '--worker_num: "none" is not a number of ranks; give a whole number from 1' in capsys.readouterr().err


def test_the_names_have_no_value_where_they_are_not_given() -> None:
    assert not [name for name in vars(parsed()) if name.startswith("msrun")]
    assert parsed("--log_dir", "logs").log_dir == Path("logs")


FOUND = "no effect: MPI's ranks find each other by mpirun"
SIMULATED = "nothing is simulated; --dry-run shows the command and which rank runs where, mpiparallel plan forecasts"


@pytest.mark.parametrize(
    ("name", "value", "note"),
    [
        ("master_addr", "n1", FOUND),
        ("master_port", "8118", FOUND),
        ("node_rank", "1", "nothing is started here: the start with --node_rank 0 starts the ranks of all hosts"),
        ("join", "no", "no effect: run waits for the ranks; to go on meanwhile put & behind it"),
        ("bind_core", "0", "no effect: ranks are not bound to cores, each has its number of BLAS threads"),
        ("worker_log_name", "w", "no effect: the log of rank 3 is device3/train.log3"),
        ("sim_rank_id", "0", "no effect without --sim_level"),
    ],
)
def test_what_becomes_of_a_name_is_told_with_what_was_given(name: str, value: str, note: str) -> None:
    assert said(f"--{name}", value) == [f"--{name} {value}: {note}"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("master_addr", "localhost"),
        ("node_rank", "-1"),
        ("join", "true"),
        ("join", "TRUE"),
        ("bind_core", "false"),
        ("sim_level", "-1"),
        ("sim_rank_id", "-1"),
    ],
)
def test_a_value_that_means_what_is_so_anyway_is_not_spoken_of(name: str, value: str) -> None:
    assert said(f"--{name}={value}") == []


def test_a_simulation_and_ranks_of_unnamed_hosts_are_refused_word_for_word() -> None:
    with pytest.raises(LaunchError) as caught:
        said("--sim_level", "0")
    assert str(caught.value) == f"--sim_level 0: {SIMULATED}"
    with pytest.raises(LaunchError) as caught:
        said("--worker_num", "8", "--local_worker_num", "4")
    assert str(caught.value) == (
        "--local_worker_num 4 of --worker_num 8: no host is named for the others; name all with --hostfile or "
        "--rank-table"
    )
    assert said("--worker_num", "8", "--local_worker_num", "4", RANK_TABLE_FILE="t.json") == []


def test_each_name_is_explained_in_the_help() -> None:
    parser = argparse.ArgumentParser(usage="x")
    msrun.add_arguments(parser)
    text = " ".join(parser.format_help().split())
    assert "--worker_num WORKER_NUM the same as -n" in text
    assert "--cluster_time_out CLUSTER_TIME_OUT the same as --start-timeout" in text
    assert f"--master_port MASTER_PORT {FOUND}" in text
    assert "msrun's names: options of MindSpore's launcher, for scripts that give them" in text


def test_all_ranks_are_shown_where_minus_one_is_asked_for_and_others_by_their_list() -> None:
    for value, tee, ranks in (("-1", True, None), ("0,1", False, "0,1")):
        arguments = parsed(f"--tail_worker_log={value}")
        list(msrun.adopt(arguments, {}))
        assert (arguments.tee, arguments.tee_ranks) == (tee, ranks)
