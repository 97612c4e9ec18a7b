"""What the doctor has found, as a person reads it in a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import IO

from mpiparallel.launch.doctor.finding import STATES, Finding
from mpiparallel.launch.doctor.other_hosts import GROUP
from mpiparallel.launch.job.terminal_text import Colour, painted

_WIDEST = 100
_NARROWEST = 60
_SUBJECT = 14
# Under the subject, so that most commands stay on one line and can be copied.
_MEND = " " * 11 + "-> "
_ALONE = 8
_COLOURS = {"ok": Colour.GREEN, "warning": Colour.YELLOW, "ERROR": Colour.RED}
_STATE = re.compile(rf"(?<=^  )({'|'.join(_COLOURS)})\b", re.MULTILINE)


def report(findings: Sequence[Finding], width: int, all_mends: bool = False) -> str:
    """Return the findings as lines of at most ``width`` characters, group by group, the summary last.

    Warnings and errors are followed by the line that mends them; with ``all_mends``, notes too. Of other hosts only
    those two states are shown.
    """
    width = max(_NARROWEST, min(width, _WIDEST))
    lines: list[str] = []
    group = None
    for finding in _shown(findings):
        title = GROUP if finding.host else finding.group
        if title != group:
            lines += ([""] if lines else []) + [title]
            group = title
        lines += _lines(finding, width, all_mends)
    return "\n".join([*lines, "", *_wrapped(summary(findings), width, "")])


def summary(findings: Sequence[Finding]) -> str:
    """Return one line: how much is wrong, and what to mend first.

    >>> summary([Finding("stack", "warning", "64 KiB", "ulimit -s 8192")])
    '1 warning; mend it: ulimit -s 8192'
    """
    counts = {state: sum(finding.state == state for finding in findings) for state in ("warning", "error")}
    told = ", ".join(f"{count} {state}{'s' * (count != 1)}" for state, count in counts.items() if count)
    worst = sorted((finding for finding in findings if finding.state in counts), key=lambda f: -STATES.index(f.state))
    if not worst:
        notes = sum(finding.state == "note" for finding in _shown(findings))
        return f"no errors, no warnings, {notes} notes" if notes != 1 else "no errors, no warnings, 1 note"
    first = worst[0]
    which = "it" if len(worst) == 1 else f"the {first.state} first" if counts[first.state] == 1 else "this first"
    return f"{told}; mend {which}: {f'on {first.host}, ' if first.host else ''}{first.mend}"


def coloured(text: str, stream: IO[str]) -> str:
    """Return a report with its states in the colours of ``stream``, where that shows any.

    >>> import io
    >>> coloured("  ok       Python", io.StringIO())
    '  ok       Python'
    """
    return _STATE.sub(lambda found: painted(found[0], _COLOURS[found[0]], stream), text)


def _shown(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield all findings of this machine, then the other hosts that answer, then their problems."""
    yield from (finding for finding in findings if not finding.host)
    others = [finding for finding in findings if finding.host]
    reached = [finding for finding in others if (finding.subject, finding.state) == ("host", "ok")]
    if len(reached) > _ALONE:
        yield Finding(
            "hosts", "ok", f"{len(reached)} answer, from {reached[0].host} to {reached[-1].host}", group=GROUP
        )
    else:
        yield from reached
    yield from (finding for finding in others if finding.state in ("warning", "error"))


def _lines(finding: Finding, width: int, all_mends: bool) -> Iterator[str]:
    state = finding.state.upper() if finding.state == "error" else finding.state
    subject = finding.subject
    what = finding.what
    if finding.host:
        subject = finding.host
        what = what if finding.subject == "host" else f"{finding.subject}: {what}"
    head = f"  {state:<9}{subject:<{_SUBJECT}} "
    yield from _wrapped(what, width, head)
    if finding.mend and (all_mends or finding.state in ("warning", "error")):
        yield from _wrapped(finding.mend, width, _MEND)


def _wrapped(text: str, width: int, head: str) -> list[str]:
    # A path or a command stays whole, so that it can be copied.
    return textwrap.wrap(
        text,
        width,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
