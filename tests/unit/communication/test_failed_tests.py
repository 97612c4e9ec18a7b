"""A program that pytest runs ends the job when its tests have failed, after pytest has reported them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import patience

PROGRAM = """
import os
from mpiparallel.communication.failed_tests import end_after_failed_tests

def end(code, summary):
    print("ends", code, summary, flush=True)
    os._exit(77)

end_after_failed_tests(end)
end_after_failed_tests(end)

def test_one():
    assert {condition}
"""


@pytest.mark.parametrize(("condition", "code"), [("True", 0), ("False", 77)])
def test_the_job_ends_after_the_report_of_failed_tests(tmp_path: Path, condition: str, code: int) -> None:
    (tmp_path / "test_program.py").write_text(PROGRAM.format(condition=condition))
    ended = patience.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_program.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert ended.returncode == code, ended.stdout
    if code:
        assert "1 failed" in ended.stdout
        assert ended.stdout.endswith("ends 1 pytest ended with exit code 1\n")


def test_outside_of_pytest_nothing_is_registered() -> None:
    program = PROGRAM.format(condition="True") + "print('went on')\n"
    said = patience.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout == "went on\n"
