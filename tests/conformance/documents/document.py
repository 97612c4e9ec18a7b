"""The samples of a Markdown document: its fenced blocks, in order, and how each is run as it is pasted.

The language of a block says how: ``python`` is a program, ``pycon`` a session of the interpreter, ``console`` commands
after ``$`` with what they print, ``sh`` commands alone. Other languages are not run. A comment before a block, which
readers do not see, says what else there is to know::

    <!-- sample: file train.py -->      the block is written to that file too
    <!-- sample: only file train.py --> and not run: commands below do that
    <!-- sample: on 4 ranks -->         a program for so many ranks, which are threads
    <!-- sample: goes on -->            a program that goes on where the one before it has ended
    <!-- sample: not run: why -->       what cannot run here, and the reason

A comment that begins with ``<!-- sample: before`` holds a program that makes what the blocks after it need.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpiparallel import context
from mpiparallel.communication.threads import run_world
from tests.conformance import patience

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *EXAMPLES]
RUN = ("python", "pycon", "console", "sh")
DIRECTIVES = ("{include}", "{toctree}")

_BLOCK = re.compile(
    r"^<!-- sample: before\n(?P<before>.*?)^-->$"
    r"|(?:^<!-- sample: (?P<claim>[^\n]*?) -->\n+)?^```(?P<language>\{?[a-z]*\}?)[^\n]*\n(?P<text>.*?)^```$",
    re.S | re.M,
)
_NUMBER = re.compile(r"\d+\.\d+(?:e-?\d+)?")
_TOLERANCE = 0.02


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    page: Path
    line: int
    language: str
    text: str
    claim: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def reason(self) -> str:
        """Why it is not run; empty where it is."""
        return self.claim.removeprefix("not run: ") if self.claim.startswith("not run: ") else ""

    @property
    def is_run(self) -> bool:
        """Whether it is a sample that a test runs."""
        return self.language in RUN and not self.reason

    @property
    def starts_ranks(self) -> bool:
        """Whether a command of it starts processes by MPI."""
        return self.is_run and any(
            word in command
            for command in commands(self)
            for word in ("mpiparallel run", "mpiparallel demo", "mpirun", "mpiparallel doctor")
        )


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a document, in order."""
    text = page.read_text(encoding="utf-8")
    return [_block_of(page, text, found) for found in _BLOCK.finditer(text) if found["language"] not in DIRECTIVES]


def _block_of(page: Path, text: str, found: re.Match[str]) -> Block:
    line = text[: found.start()].count("\n") + 1
    if found["before"]:
        return Block(page, line, "python", found["before"], "")
    return Block(page, line, found["language"], found["text"], found["claim"] or "")


def commands(block: Block) -> list[str]:
    """Return the commands of a block of a shell."""
    return [command for command, _ in _session(block)] if block.language in ("console", "sh") else []


@dataclass
class Reader:
    """Somebody who pastes the blocks of a document, one after another, in one folder: the working folder."""

    folder: Path
    names: list[dict[str, Any]] = field(default_factory=list)

    def follow(self, page: Path) -> None:
        """Paste all blocks of a page; that of an example has its programs beside it, and so has the folder."""
        if page in EXAMPLES:
            shutil.copytree(page.parent, self.folder, dirs_exist_ok=True)
        for block in blocks(page):
            self.paste(block)

    def paste(self, block: Block) -> None:
        """Run a block; raise AssertionError where it does not do what the document shows."""
        if block.claim.startswith(("file ", "only file ")):
            (self.folder / block.claim.split()[-1]).write_text(block.text, encoding="utf-8")
        if not block.is_run or block.claim.startswith("only file "):
            return
        if block.language == "python":
            self._run_program(block)
        elif block.language == "pycon":
            _run_interpreter(block)
        else:
            for command, shown in _session(block):
                self._run_command(block, command, shown)

    def _run_program(self, block: Block) -> None:
        ranks = re.match(r"on (\d+) ranks", block.claim)
        size = int(ranks[1]) if ranks else len(self.names) if block.claim == "goes on" else 1
        if block.claim != "goes on":
            self.names = [{"__name__": "__main__"} for _ in range(size)]
        program = compile(block.text, str(block), "exec")

        def on_rank(communicator: Any) -> None:
            try:
                exec(program, self.names[communicator.rank])
            finally:
                context.reset_auto_parallel_context()

        with contextlib.redirect_stdout(io.StringIO()):
            run_world(size, on_rank)

    def _run_command(self, block: Block, command: str, shown: str) -> None:
        ended = patience.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if block.language == "console":
            assert is_like(ended.stdout, shown), f"{block}: {command}\nprints\n{ended.stdout}\nnot\n{shown}"
        else:
            assert ended.returncode == 0, f"{block}: {command}\n{ended.stdout}"


def is_like(printed: str, shown: str) -> bool:
    """Return whether a program has printed what a document shows.

    ``...`` stands for any text. Fractions may differ by rounding, spaces at the ends of lines do not count.

    >>> is_like("loss is 0.1660743 after 2.1 s", "loss is 0.1660742 after ... s")
    True
    >>> is_like("accuracy 0.61", "accuracy 0.98")
    False
    """
    pieces = [re.escape(piece) for piece in _NUMBER.sub("0.0", _stripped(shown)).split("...")]
    if re.fullmatch(".*".join(pieces), _NUMBER.sub("0.0", _stripped(printed)), re.S) is None:
        return False
    if "..." in shown:
        # Numbers around what is left out cannot be paired, so each that is shown must be among those printed.
        found = [float(number) for number in _NUMBER.findall(printed)]
        return all(any(_is_near(number, other) for other in found) for number in map(float, _NUMBER.findall(shown)))
    pairs = zip(_NUMBER.findall(printed), _NUMBER.findall(shown), strict=True)
    return all(_is_near(float(mine), float(theirs)) for mine, theirs in pairs)


def _is_near(first: float, second: float) -> bool:
    return abs(first - second) <= _TOLERANCE * max(abs(first), abs(second))


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _session(block: Block) -> Sequence[tuple[str, str]]:
    """Return each command with what is shown of its output; a line that ends in a backslash goes on."""
    text = block.text.replace("\\\n", " ")
    if block.language == "sh":
        return [(line, "") for line in text.splitlines() if line.split("#")[0].strip()]
    turns = re.split(r"^\$ ", text, flags=re.M)
    assert not turns[0].strip(), f"{block}: a console block begins with a command after $"
    return [(turn.split("\n")[0], turn.partition("\n")[2]) for turn in turns[1:]]


def _run_interpreter(block: Block) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, {}, str(block), str(block.page), block.line)
    report = io.StringIO()
    failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.write).failed
    assert not failed, report.getvalue()


def _environment() -> dict[str, str]:
    here = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
