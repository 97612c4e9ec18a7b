"""What the subcommands of ``mpiparallel ckpt`` take."""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase

from mpiparallel.launch.command_line.argument_types import count, file_path, path_text

IndexBounds = tuple[tuple[int | None, int | None], ...]

_CHECKPOINT = "folder (its newest checkpoint), folder/name, or manifest"
_STATE = f"{_CHECKPOINT}; or a file of arrays"


def ls(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take what ``ls`` needs."""
    parser.add_argument("folder", metavar="DIR", type=file_path, help="folder of checkpoints")


def show(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take what ``show`` needs."""
    parser.add_argument("state", metavar="CHECKPOINT", type=path_text, help=f"{_STATE}, a strategy or a group file")
    _add_pattern(parser)
    parser.add_argument("--svg", type=file_path, metavar="FILE", help="draw who holds which part into this .svg file")


def verify(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take what ``verify`` needs."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=path_text, help=_CHECKPOINT)


def diff(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take what ``diff`` needs."""
    parser.add_argument("first", metavar="A", type=path_text, help=_STATE)
    parser.add_argument("second", metavar="B", type=path_text, help="the same")


def cat(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take what ``cat`` needs."""
    parser.add_argument("state", metavar="CHECKPOINT", type=path_text, help=_STATE)
    parser.add_argument("tensor", metavar="NAME", help="of the tensor")
    parser.add_argument(
        "--box",
        type=bounds,
        metavar="0:2,3:5",
        help="of the whole tensor: start:stop of its dims, the first ones first",
    )
    parser.add_argument("-o", "--output", type=file_path, metavar="FILE", help="write a .npy file instead")


def transform(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take what ``transform`` needs."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=path_text, help=_CHECKPOINT)
    parser.add_argument("target", metavar="TARGET_DIR", type=file_path, help="folder for the new checkpoint")
    parser.add_argument(
        "--strategy", metavar="FILE", type=path_text, help="strategy file that says how it is cut: protobuf or .json"
    )
    parser.add_argument("-n", "--ranks", type=count, metavar="N", help="instead: a simple cut over N ranks")
    parser.add_argument(
        "--cut",
        choices=["rows", "whole", "same"],
        help="with --ranks. rows (default): dim 0 over all ranks, tensors with fewer rows whole on each; whole: every "
        "tensor on each rank; same: the cuts that it has, with other numbers of replicas or optimizer shards",
    )
    parser.add_argument(
        "--replicate-missing", action="store_true", help="give tensors that --strategy does not name whole to each rank"
    )
    parser.add_argument(
        "--remove-redundancy", action="store_true", help="write a slice that several ranks hold for one of them only"
    )


def merge(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take what ``merge`` needs."""
    parser.add_argument("state", metavar="CHECKPOINT", type=path_text, help=_STATE)
    parser.add_argument("path", metavar="FILE.h5", type=file_path, help="file to write")
    _add_pattern(parser)
    parser.set_defaults(format="h5")


def export(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take what ``export`` needs."""
    parser.add_argument("state", metavar="CHECKPOINT", type=path_text, help=_STATE)
    parser.add_argument("path", metavar="FILE", type=file_path, help="file to write: .h5, .ckpt, .safetensors or .npz")
    _add_pattern(parser)
    parser.add_argument(
        "--format", choices=["h5", "ckpt", "safetensors", "npz"], help="default: what the name of FILE says"
    )


def recover(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take what ``recover`` needs."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=path_text, help=_CHECKPOINT)


def prune(parser: argparse.ArgumentParser) -> None:
    """Let ``parser`` take what ``prune`` needs."""
    parser.add_argument("folder", metavar="DIR", type=file_path, help="folder of checkpoints")
    parser.add_argument("--keep", type=count, metavar="N", help="keep the newest N checkpoints, delete the others")
    parser.add_argument("--prefix", metavar="PREFIX", help="of this prefix only; otherwise N of each")
    parser.add_argument(
        "--leftovers",
        action="store_true",
        help="delete files of saves that never ended, unless one was written in the last 10 minutes",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be deleted, and delete nothing")


def bounds(text: str) -> IndexBounds:
    """Return the start and stop of each dim that ``text`` names, None for the end of the dim.

    >>> bounds("0:2,:,3:")
    ((0, 2), (None, None), (3, None))
    """
    found = []
    for part in text.split(","):
        start, colon, stop = part.partition(":")
        if not colon or any(end and not (end.isascii() and end.isdigit() and len(end) < 19) for end in (start, stop)):
            raise argparse.ArgumentTypeError(f'"{text}" is no box; give start:stop for each dim, like 0:2,3:5')
        found.append((int(start) if start else None, int(stop) if stop else None))
    return tuple(found)


def wanted(name: str, patterns: list[str]) -> bool:
    """Return whether a tensor is one of those that ``patterns`` choose: all where there are none.

    >>> wanted("moment1.net.w", ["net.*", "*.w"]), wanted("net.b", ["*.w"])
    (True, False)
    """
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _add_pattern(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="tensors of such names, like 'net.*'; may be given again",
    )
