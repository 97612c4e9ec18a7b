from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch import docs
from mpiparallel.launch.cli import COMMANDS, command_line, main
from mpiparallel.launch.command_line.argument_types import seconds
from mpiparallel.launch.command_line.parser import Parser
from mpiparallel.launch.version import VERSION
from tests.conformance import patience

SHIPPED = Path(__file__).parents[3] / "rank_tables"


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK_TABLE_FILE", raising=False)
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        monkeypatch.delenv(name, raising=False)
    Path("train.py").write_text("")


def test_starting_a_job_imports_neither_numpy_nor_mpi() -> None:
    program = (
        "import sys, mpiparallel.launch.run, mpiparallel.launch.rank.worker\n"
        "print(sorted({'numpy', 'mpi4py', 'h5py', 'google.protobuf'} & set(sys.modules)))"
    )
    ended = patience.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_a_command_loads_no_other() -> None:
    others = {f"mpiparallel.launch.{module}" for name, module in COMMANDS.items() if name != "ranktable"}
    shown = SHIPPED / "rank_table_8pcs.json"
    program = "import sys; from mpiparallel.launch.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    words = [sys.executable, "-c", program, "ranktable", "show", str(shown)]
    loaded = patience.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert "mpiparallel.launch.ranktable.command" in loaded
    assert not others & set(loaded)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_loaded_alone_is_that_of_the_whole(name: str) -> None:
    assert command_line([name]).commands[name].format_help() == command_line().commands[name].format_help()


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"mpiparallel {VERSION}\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["run", "-n", "0", "train.py"], '"0" is not a number of ranks'),
        (["run", "-n", "two", "train.py"], '"two" is not a number of ranks'),
        (["run", "-n", "2", "--timeout", "0", "train.py"], '"0" is not a time'),
        (["run", "-n", "2", "--timeout", "nan", "train.py"], '"nan" is not a time'),
        (["run", "-n", "2", "--mpi", "lam", "train.py"], "lam"),
    ],
)
def test_wrong_words_are_refused(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-n", "2"], "no script to run"),
        (["train.py"], "how many ranks?"),
        (["-n", "2", "absent.py"], 'script "absent.py" is not a file'),
        (["--rank-table", "absent.json", "train.py"], "absent.json: cannot be read"),
        (["--rank-table", str(SHIPPED / "rank_table_8pcs.json"), "-n", "4", "train.py"], "has 8 ranks, -n asks for 4"),
        (["-n", "2", "--hostfile", "absent", "train.py"], "absent: cannot be read"),
    ],
)
def test_job_that_cannot_be_is_refused_in_one_message(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("mpiparallel: error: ")
    assert reason in captured.err
    assert captured.out == ""


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(LaunchError):
        main(["--debug", "run", "-n", "2", "absent.py"])


def dry_run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["run", "--dry-run", "--mpi", "openmpi", *words]) == 0
    return capsys.readouterr().out


def test_dry_run_prints_the_command_and_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    printed = dry_run(capsys, "-n", "4", "train.py", "-n", "5", "--dry-run")
    assert "RANK_SIZE=4" in printed
    assert printed.endswith("train.py -n 5 --dry-run\n")
    assert [path.name for path in Path().iterdir()] == ["train.py"]


def test_module_runs_like_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert dry_run(capsys, "-n", "4", "-m", "package.train", "-m", "x").endswith(" -m package.train -m x\n")


def test_ranks_are_those_of_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = str(SHIPPED / "rank_table_16pcs.json")
    assert " -n 16 " in dry_run(capsys, "--rank-table", table, "train.py")
    monkeypatch.setenv("RANK_TABLE_FILE", table)
    assert f"RANK_TABLE_FILE={table}" in dry_run(capsys, "train.py")


def test_warnings_of_the_table_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    text = (SHIPPED / "rank_table_2pcs.json").read_text().replace('"device_id": "1"', '"device_id": "5"')
    Path("table.json").write_text(text)
    assert main(["run", "--dry-run", "--mpi", "mpich", "--rank-table", "table.json", "train.py"]) == 0
    assert (
        "mpiparallel: warning: table.json: server_list[0].device: devices 0, 5 are in both halves"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("line", "usage", "reason"),
    [
        ("rum -n 2", "mpiparallel [options]", 'there is no command "rum"; did you mean run?'),
        ("fly", "mpiparallel [options]", 'there is no command "fly"; mpiparallel --help lists all'),
        ("ckpt shwo saved", "mpiparallel ckpt [options]", 'there is no command "shwo"; did you mean show?'),
        ("checkpoint ls saved", "mpiparallel [options]", "did you mean ckpt?"),
        ("run --rank 2 train.py", "mpiparallel run [options]", 'there is no option "--rank"; did you mean --ranks?'),
        ("run -np 2 train.py", "mpiparallel run [options]", '"p" is not a number of ranks'),
        ("run --nprocs=2 train.py", "mpiparallel run [options]", "mpiparallel run --help lists all"),
        ("run --worker-num 2 train.py", "mpiparallel run [options]", "did you mean --worker_num?"),
        ("run --mpi openmip train.py", "mpiparallel run [options]", "did you mean openmpi?"),
        ("ckpt ls --jsn .", "mpiparallel ckpt ls [options] DIR", "did you mean --json?"),
        ("ckpt ls one two", "mpiparallel ckpt ls [options] DIR", '"two" is one word too many'),
        ("--verison", "mpiparallel [options]", "did you mean --version?"),
    ],
)
def test_a_wrong_word_is_told_by_its_own_command_with_the_nearest_right_one(
    line: str, usage: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    captured = capsys.readouterr()
    first, last = captured.err.splitlines()
    assert first.startswith(f"usage: {usage}")
    assert reason in last
    assert captured.out == ""


@pytest.mark.parametrize(("line", "named"), [("", ["doctor", "run"]), ("ckpt", ["verify"]), ("slurm", ["make"])])
def test_a_command_that_lacks_its_subcommand_lists_them(
    line: str, named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert all(f"\n    {name} " in said for name in named)


def every_parser(parser: Parser) -> Iterator[Parser]:
    yield parser
    for inner in parser.commands.values():
        yield from every_parser(inner)


@pytest.mark.parametrize("parser", list(every_parser(command_line())), ids=lambda parser: str(parser.prog))
def test_help_ends_with_examples_that_can_be_typed(parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = parser.format_help()
    assert max(map(len, text.splitlines())) <= 80
    assert text.endswith("".join(["\nexamples:\n", *(f"  {example}\n" for example in parser.examples)]))
    assert parser.examples
    for example in parser.examples:
        name, *words = shlex.split(example)
        assert name == "mpiparallel"
        assert parser.prog == "mpiparallel" or example.startswith(f"{parser.prog} ") or example == parser.prog
        command_line().parse_args(words[: words.index(">")] if ">" in words else words)


WITHOUT_JSON = {"mpiparallel completion": "prints a program for a shell"}


@pytest.mark.parametrize(
    "parser", [one for one in every_parser(command_line()) if not one.commands], ids=lambda parser: str(parser.prog)
)
def test_a_command_answers_in_json_or_there_is_a_reason(parser: Parser) -> None:
    assert ("--json" in parser.format_help()) != (parser.prog in WITHOUT_JSON)


@pytest.mark.parametrize(
    "parser", [one for one in every_parser(command_line()) if one.commands], ids=lambda parser: str(parser.prog)
)
def test_every_subcommand_with_a_letter_too_few_is_told_its_name(
    parser: Parser, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in parser.commands:
        with pytest.raises(SystemExit) as ended:
            main([*parser.prog.split()[1:], name[:-1]])
        assert ended.value.code == 2
        assert "did you mean" in capsys.readouterr().err


@pytest.mark.parametrize("parser", list(every_parser(command_line())), ids=lambda parser: str(parser.prog))
def test_every_long_option_with_a_letter_too_many_is_told_its_name(
    parser: Parser, capsys: pytest.CaptureFixture[str]
) -> None:
    command = parser.prog.split()[1:]
    words = shlex.split(parser.examples[0])[1 + len(command) :]
    for option in [one for one in parser._option_string_actions if one.startswith("--")]:
        with pytest.raises(SystemExit) as ended:
            main([*command, f"{option}q", *words])
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith(f"usage: {parser.prog} ")
        told = said.partition(f'there is no option "{option}q"; did you mean ')[2]
        assert told.partition("?")[0].replace("-", "_") == option.replace("-", "_")


@pytest.mark.parametrize("words", [["--debug", "run", "absent.py"], ["run", "--debug", "absent.py"]])
def test_debug_may_stand_before_or_behind_the_command(words: list[str]) -> None:
    with pytest.raises(LaunchError):
        main(words)


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    seen = on_terminal(lambda: main(["run", "absent.py"]))
    assert ("\x1b[31merror:\x1b[0m" in seen) == coloured
    assert ("\x1b" in seen) == coloured
    assert "error:" in seen


def on_terminal(work: Callable[[], object]) -> str:
    """Return what ``work`` writes to stdout and stderr where these are a terminal."""
    ours, theirs = pty.openpty()
    try:
        with pytest.MonkeyPatch.context() as patch, open(theirs, "w", closefd=False) as stream:
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", stream)
            # A terminal holds a few kilobytes, so somebody must read while the work writes.
            with ThreadPoolExecutor(1) as reader:
                seen = reader.submit(_read_all, ours)
                work()
                stream.flush()
                os.close(theirs)
                return seen.result()
    finally:
        os.close(ours)


def _read_all(terminal: int) -> str:
    """Return what is written to a terminal until its other end is closed."""
    parts = []
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 1 << 16):
            parts.append(part)
    return b"".join(parts).decode()


@pytest.mark.parametrize(
    "line",
    [
        "run --hostfile absent train.py",
        "run --rank-table absent --on-failure restart:x train.py",
        "demo --file_path absent --ranks 3",
        "plan absent 0",
        "plan --shapes absent train.py 0",
        "ckpt transform absent new --cut rows",
        "ckpt cat absent w --box 9:1",
        "ranktable make --hostfile absent --visible-devices x --device-num y",
    ],
)
def test_a_file_that_is_not_there_is_told_before_any_number(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert "absent" in capsys.readouterr().err


def test_dry_run_tells_a_program_where_each_rank_runs_and_by_which_command(capsys: pytest.CaptureFixture[str]) -> None:
    table = str(SHIPPED / "rank_table_16pcs.json")
    told = json.loads(dry_run(capsys, "--json", "--rank-table", table, "train.py", "--lr", "1"))
    assert [place["rank"] for place in told["ranks"]] == list(range(16))
    listed = json.loads(Path(table).read_text())["server_list"]
    devices = [int(device["device_id"]) for server in listed for device in server["device"]]
    assert [place["device"] for place in told["ranks"]] == devices
    assert told["command"][-3:] == ["train.py", "--lr", "1"]
    assert told["environment"]["RANK_SIZE"] == "16"
    hostfile = str(SHIPPED.parent / "hostfiles" / "openmpi_2x8")
    told = json.loads(dry_run(capsys, "--json", "-n", "16", "--hostfile", hostfile, "train.py"))
    names = [line.split()[0] for line in Path(hostfile).read_text().splitlines() if line[:1] not in ("", "#")]
    assert told["hosts"] == [{"name": name, "slots": 8} for name in names]
    assert [place["host"] for place in told["ranks"]] == [name for name in names for _ in range(8)]
    assert main(["run", "-n", "2", "--json", "train.py"]) == 2
    assert "--json: goes with --dry-run" in capsys.readouterr().err


def test_lists_are_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    seen = on_terminal(lambda: main(["examples", "list"]))
    assert max(map(len, seen.splitlines())) <= 80
    assert "accumulated gradients" in " ".join(seen.split())


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_what_is_no_time_is_refused_with_what_to_give(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f'"{text}" is not a time; give seconds above 0'):
        seconds(text)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (LaunchError("no such thing"), 2),
        (FileNotFoundError(2, "No such file or directory", "gone.txt"), 2),
    ],
)
def test_an_error_ends_in_its_exit_code_and_after_debug_in_its_traceback(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_arguments: object) -> int:
        raise error

    monkeypatch.setattr(docs, "execute", fail)
    assert main(["docs"]) == code
    with pytest.raises(type(error)):
        main(["--debug", "docs"])


def test_an_error_of_the_system_that_names_no_file_is_no_mistake_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_arguments: object) -> int:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(docs, "execute", fail)
    with pytest.raises(OSError, match="Cannot allocate memory"):
        main(["docs"])


@pytest.mark.parametrize(("mpi", "is_said"), [("mpich", True), ("openmpi", False)])
def test_where_ranks_cannot_go_on_without_the_dead_the_job_is_restarted_instead(
    mpi: str, is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--dry-run", "--mpi", mpi, "-n", "2", "--on-failure", "shrink", "train.py"]) == 0
    told = capsys.readouterr()
    assert ("mpich ends the job with its first rank; a failure restarts the job instead" in told.err) == is_said
    assert ("ulfm" in told.out) != is_said


def test_msrun_on_another_host_starts_nothing_here(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--worker_num",
        "4",
        "--local_worker_num",
        "2",
        "--node_rank",
        "1",
        "--master_addr",
        "10.0.0.1",
        "train.py",
    ]
    assert main(["run", *words]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "--node_rank 1: nothing is started here" in told.err
