"""Files that users name: written whole or not at all, and refused by the option that named them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.command_line.output_file import EXECUTABLE, output_file, write_output
from mpiparallel.launch.command_line.unusable_path import unusable


@pytest.mark.parametrize(
    ("mode", "umask", "wanted"),
    [
        (None, 0o027, 0o640),
        (None, 0, 0o666),
        (0o600, 0o027, 0o600),
        (EXECUTABLE, 0o027, 0o750),
        (EXECUTABLE, 0, 0o777),
    ],
)
def test_a_file_may_be_used_as_is_said_less_the_umask(
    tmp_path: Path, mode: int | None, umask: int, wanted: int
) -> None:
    given = [] if mode is None else [mode]
    before = os.umask(umask)
    try:
        write_output("--out", tmp_path / "made", b"text", *given)
        with output_file("--out", tmp_path / "other", *given) as descriptor:
            os.write(descriptor, b"text")
    finally:
        os.umask(before)
    for path in (tmp_path / "made", tmp_path / "other"):
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"text", wanted)


def test_a_file_is_replaced_when_the_body_has_ended_well_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / "made"
    path.write_text("before")
    with output_file("--out", path) as descriptor:
        os.write(descriptor, b"after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"

    def half() -> None:
        with output_file("--out", path) as descriptor:
            os.write(descriptor, b"half")
            raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        half()
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_refused_by_its_option(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere" / "made"
    with pytest.raises(ConfigurationError) as refused:
        write_output("--out", missing, b"text")
    assert str(refused.value) == f"--out {missing}: No such file or directory; give a file that can be written"
    with pytest.raises(ConfigurationError, match=f"^-o {tmp_path}: .*; give a file that can be written$"):
        write_output("-o", tmp_path, b"text")


def refused(name: str | None, code: int = 13) -> OSError:
    return OSError(code, os.strerror(code), name)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("/a/b/c", 'out-dir "/a/b": "/a/b/c": Permission denied; give a path that can be used'),
        ("/a/x", 'source "/a": "/a/x": Permission denied; give a path that can be used'),
        ("/a", 'source "/a": "/a": Permission denied; give a path that can be used'),
        ("/ab", '"/ab": Permission denied; mpiparallel --debug shows where'),
        ("/l/2/x", 'many "/l/2": "/l/2/x": Permission denied; give a path that can be used'),
    ],
)
def test_a_path_that_the_system_refuses_is_told_with_the_argument_that_led_there(file: str, said: str) -> None:
    arguments = argparse.Namespace(
        source="/a", out_dir=Path("/a/b"), count=3, empty="", many=["/l/1", "/l/2"], flag=True, nothing=None
    )
    assert unusable(refused(file), arguments) == said


def test_a_path_is_told_from_the_root_on_and_the_argument_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = unusable(refused("in/../saved/x"), argparse.Namespace(source="saved"))
    assert said.startswith('source "saved": "')
    assert "in/.." not in said
