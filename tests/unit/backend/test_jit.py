"""Compiled loops: the functions that we wrote for them, and the folder in which they are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend import jit

SOURCE = "def kernel(n, x, y):\n    for k in range(n):\n        y[k] = {}(x[k])\n"


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    numba = pytest.importorskip("numba")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MPIPARALLEL_JIT", raising=False)
    return jit.compiler()


@pytest.mark.parametrize(("name", "most"), [("exp", 1.1), ("tanh", 2.0)])
def test_a_function_of_float32_is_exact_to_units_in_the_last_place_from_the_smallest_to_the_largest_number(
    compiler: Any, name: str, most: float
) -> None:
    x = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    found = np.empty_like(x)
    compiler.bind(SOURCE.format(f"{name}_f4"), (x.size, x, found))()
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(np.float64))
        wanted = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
    finite = np.isfinite(wanted)
    units = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(wanted[finite]))
    assert units.max() <= most


def test_a_kept_loop_that_is_damaged_is_compiled_anew(compiler: Any, tmp_path: Path) -> None:
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    source = SOURCE.format("f4")
    compiler.bind(source, (3, x, y))
    kept = list(tmp_path.rglob("*.nbc"))
    assert kept
    for path in kept:
        path.write_bytes(b"no loop")
    compiler._compiled.pop(source)
    compiler.bind(source, (3, x, y))()
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_a_folder_that_cannot_be_written_keeps_no_loop_and_hinders_none(
    compiler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    compiler.bind(SOURCE.format("f4") + "        y[k] += f4(1)\n", (3, x, y))()
    assert y.tolist() == [2.0, 2.0, 2.0]


class Loop:
    """A function that was not compiled, or that cannot be kept."""

    def __init__(self, function: Any, fails: Exception | None = None) -> None:
        self._function, self._fails = function, fails

    def compile(self, types: tuple[Any, ...]) -> None:
        if self._fails is not None:
            raise self._fails

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)


def kept_on_a_full_disk(loop: Loop) -> Loop:
    return Loop(loop, OSError("No space left on device"))


def kept_by_an_unknown_class(loop: Loop) -> Loop:
    return Loop(loop, AttributeError("module has no attribute"))


def kept_nowhere(loop: Loop) -> Loop:
    raise RuntimeError("cannot cache function: no locator available")


@pytest.mark.parametrize("kept", [kept_on_a_full_disk, kept_by_an_unknown_class, kept_nowhere])
def test_a_loop_that_cannot_be_kept_is_compiled_for_this_process(
    kept: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    made = jit.Compiler(Loop, kept, type, {"f4": np.float32})
    x, y = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    made.bind(SOURCE.format("f4"), (3, x, y))()
    assert y.tolist() == [0.0, 1.0, 2.0]


def test_an_error_of_the_compiler_is_shown_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    made = jit.Compiler(lambda function: Loop(function, TypeError("no such type")), lambda loop: loop, type, {})
    with pytest.raises(TypeError, match="no such type"):
        made.bind(SOURCE.format("float"), (0, None, None))


def test_a_folder_that_may_not_be_looked_into_hinders_no_loop(
    compiler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refused)
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    compiler.bind(SOURCE.format("f4") + "        y[k] += f4(2)\n", (3, x, y))()
    assert y.tolist() == [3.0, 3.0, 3.0]
    assert len(list(tmp_path.rglob("loop_*.py"))) == 1


def test_where_numba_cannot_be_imported_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPIPARALLEL_JIT", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(jit, "_load", jit._load.__wrapped__)
    assert jit.compiler() is None


def test_larger_and_smaller_are_of_two_floats_of_one_type(compiler: Any) -> None:
    numba = pytest.importorskip("numba")
    source = "def kernel(n, x, y):\n    for k in range(n):\n        y[k] = {}(x[k], y[k])\n"
    nan = float("nan")
    x, y = np.array([1.0, nan, 2.0], np.float32), np.array([3.0, 0.0, nan], np.float32)
    for name, wanted in (("maximum", 3.0), ("minimum", 1.0)):
        found = y.copy()
        compiler.bind(source.format(name), (3, x, found))()
        np.testing.assert_array_equal(found, np.array([wanted, nan, nan], np.float32))
        for other in (np.ones(3, np.float64), np.ones(3, np.int32)):
            with pytest.raises(numba.TypingError):
                compiler.bind(source.format(name), (3, other.astype(np.int32), other))


def test_the_package_is_imported_without_numba() -> None:
    program = "import sys, mpiparallel, mpiparallel.ops; print('numba' in sys.modules)"
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "False"


@pytest.mark.parametrize("value", ["0", "off", "No", "false"])
def test_compilation_can_be_switched_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "MPIPARALLEL_JIT", value)
    assert jit.compiler() is None


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, True),
        ({"MPIPARALLEL_JIT": ""}, True),
        ({"MPIPARALLEL_JIT": "1"}, True),
        ({"MPIPARALLEL_JIT": "on"}, True),
        *(({"MPIPARALLEL_JIT": word}, False) for word in ("0", "off", "OFF", "no", "False")),
    ],
    ids=str,
)
def test_loops_may_be_compiled_unless_the_environment_says_no(variables: dict[str, str], wanted: bool) -> None:
    assert jit.wanted(variables) is wanted


def test_loops_would_be_compiled_where_numba_is_and_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.delenv("MPIPARALLEL_JIT", raising=False)
    assert jit.is_there()
    monkeypatch.setenv("MPIPARALLEL_JIT", "off")
    assert not jit.is_there()


def test_a_source_is_made_a_function_once_and_compiled_for_each_kind_of_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    made: list[Any] = []
    kinds: list[tuple[Any, ...]] = []

    class Noted(Loop):
        def compile(self, types: tuple[Any, ...]) -> None:
            kinds.append(types)

    def decorate(function: Any) -> Loop:
        made.append(function)
        return Noted(function)

    compiler = jit.Compiler(decorate, lambda loop: loop, type, {"twice": lambda x: 2 * x})
    for arguments in ((1, [3], [0]), (1, (3,), [0])):
        compiler.bind(SOURCE.format("twice"), arguments)()
        assert arguments[2] == [6]
    compiler.bind(SOURCE.format("float"), (1, [3], [0]))
    assert kinds == [(int, list, list), (int, tuple, list), (int, list, list)]
    assert [function.__module__ for function in made] == ["mpiparallel.backend.jit"] * 2
    # Each source is a file, by which its loop is found again, and whose lines a traceback shows.
    files = {function.__code__.co_filename for function in made}
    assert files == {str(path) for path in (tmp_path / "mpiparallel").glob("loop_*.py")}
    assert SOURCE.format("twice") in {Path(file).read_text() for file in files}
