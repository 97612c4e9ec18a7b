"""One change is made to the copy of the package, and tests are run on it."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from types import CodeType

import cosmic_ray.plugins
from cosmic_ray.ast import get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.work_item import MutationSpec

_TOLD = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """A change as people read it: the file, the number of the line, and its text before and after."""

    path: str
    line: int
    before: str
    after: str
    source: str

    @property
    def name(self) -> str:
        return hashlib.sha256(f"{self.path}\0{self.source}".encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\n    - {self.before}\n    + {self.after}"


def described(spec: MutationSpec) -> Change | None:
    """Return a change with the whole source that it makes; None where that compiles to the same, or not at all."""
    operator = cosmic_ray.plugins.get_operator(spec.operator_name)(**spec.operator_args)
    old = spec.module_path.read_text()
    try:
        new = MutationVisitor(spec.occurrence, operator).walk(get_ast(old)).get_code()
        if _steps(compile(old, "", "exec", dont_inherit=True)) == _steps(compile(new, "", "exec", dont_inherit=True)):
            return None
    except (SyntaxError, ValueError, AttributeError):
        # An AttributeError is cosmic-ray's, of exceptions that have a dot in their name.
        return None
    lines = list(unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm=""))[3:]
    before, after = (" ".join(one[1:].strip() for one in lines if one.startswith(sign)) for sign in "-+")
    return Change(str(spec.module_path), spec.start_pos[0], before, after, new)


def _steps(code: CodeType) -> object:
    """Return what a program does, without the numbers of its lines."""
    constants = [_steps(one) if isinstance(one, CodeType) else (type(one), repr(one)) for one in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, constants


def noticed_by(tests: Sequence[str], marked: str, seconds: float) -> str | None:
    """Run tests until one fails, and return which; "" where none does, None where the time is up before.

    The seconds are those of a processor; what waits gets ten times as many. Tests that are there no more, because a
    change has taken away what they are made for, are run as whole files.
    """
    chosen = Path.cwd().parent / "chosen.txt"
    chosen.write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", "-m", marked]
    with subprocess.Popen(
        ["prlimit", f"--cpu={int(seconds)}", *command, f"@{chosen}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            output, _ = running.communicate(timeout=10 * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            return None
    if running.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    if running.returncode in (0, 5):
        return ""
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))
    if running.returncode == 4 and files != list(tests):
        return noticed_by(files, marked, seconds)
    told = _TOLD.search(output)
    return told[1] if told else f"pytest, which ends with {running.returncode}"
