"""What a shell completes at a TAB, by the scripts that ``mpiparallel completion`` prints."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from mpiparallel.launch.cli import COMMANDS, main
from tests.conformance import patience

COMPLETED = {
    "mpiparallel ck": ["ckpt"],
    "mpiparallel ckpt re": ["recover"],
    "mpiparallel run --dr": ["--dry-run"],
    "mpiparallel run --mpi ": ["mpich", "openmpi"],
    "mpiparallel run -n 4 tr": ["train.py", "trained/"],
    "mpiparallel run --hostfile ho": ["hosts"],
    "mpiparallel ckpt ls tr": ["trained/"],
}
# What bash does at a TAB: it tells the function the words, and which of them is to be completed.
BASH = """
for line in "$@"; do
    read -ra COMP_WORDS <<<"$line"
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _shtab_mpiparallel mpiparallel "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    echo "${COMPREPLY[*]}"
done
"""
FISH = """
for line in $argv
    string join -- " " (complete -C$line | string replace -r "\\t.*" "")
end
true
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "hosts"):
        Path(name).touch()
    Path("trained").mkdir()


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_is_the_shell_s_own_and_knows_all_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    assert all(name in text for name in COMMANDS)
    # bash shows words alone.
    assert ("look at checkpoints, mend them and convert them" in text) == (shell != "bash")
    if shutil.which(shell):
        Path("script").write_text(text)
        patience.run([shell, "-n", "script"], check=True)


@pytest.mark.parametrize(("shell", "asking"), [("bash", BASH), ("fish", FISH)], ids=["bash", "fish"])
def test_words_and_files_are_completed(shell: str, asking: str, capsys: pytest.CaptureFixture[str]) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here")
    Path("ask").write_text(script(shell, capsys) + asking)
    ended = patience.run([shell, "ask", *COMPLETED], capture_output=True, text=True, check=True)
    found = [sorted(word.rstrip("/") for word in shlex.split(line)) for line in ended.stdout.splitlines()]
    assert found == [[word.rstrip("/") for word in words] for words in COMPLETED.values()]
