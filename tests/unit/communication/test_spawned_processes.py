from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from mpiparallel.communication import spawned_processes
if spawned_processes.joined():
    print("joined", *sys.argv[1:])
else:
    import subprocess
    sys.stdout.flush()
    command = [sys.executable, *spawned_processes.arguments_of_this_program()]
    subprocess.run(command, cwd=spawned_processes.FOLDER, check=True)
"""


@pytest.mark.parametrize("how", [["program.py"], ["-m", "program"], ["-W", "error", "program.py"], ["-c", PROGRAM]])
def test_the_same_program_is_started_with_the_same_arguments(how: list[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, *how, "--epochs", "3", "-m"]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert output == "joined --epochs 3 -m\n"
