"""What a parser of arguments has said before it left by ``sys.exit(2)``: the cause, which the code does not tell."""

from __future__ import annotations

import argparse
import traceback


def parser_exit(error: BaseException) -> str | None:
    """Return in one line what argparse had to say of the arguments when it raised ``error``; None if it did not.

    >>> parser = argparse.ArgumentParser(prog="train.py")
    >>> _ = parser.add_argument("--steps", type=int)
    >>> try:
    ...     parser.error("argument --steps: invalid int value: 'x'")
    ... except SystemExit as end:
    ...     parser_exit(end)
    "SystemExit: train.py: argument --steps: invalid int value: 'x'"
    """
    if not isinstance(error, SystemExit):
        return None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        parser, message = frame.f_locals.get("self"), frame.f_locals.get("message")
        if frame.f_code.co_name == "error" and isinstance(parser, argparse.ArgumentParser) and isinstance(message, str):
            return f"SystemExit: {parser.prog}: {' '.join(message.split())}"
    return None
