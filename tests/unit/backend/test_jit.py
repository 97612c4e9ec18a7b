"""Compiled loops: the functions that we wrote for them, and the folder in which they are kept."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend import jit

SOURCE = "def kernel(n, x, y):\n    for k in range(n):\n        y[k] = {}(x[k])\n"


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("numba")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return jit.Compiler()


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


@pytest.mark.parametrize("damaged", [lambda code: b"no loop", lambda code: code[:-1] + bytes([code[-1] ^ 1])])
def test_a_kept_loop_that_is_damaged_is_compiled_anew(
    damaged: Callable[[bytes], bytes], compiler: Any, tmp_path: Path
) -> None:
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    source = SOURCE.format("f4")
    compiler.bind(source, (3, x, y))
    (path,) = tmp_path.rglob("*.o")
    sound = path.read_bytes()
    path.write_bytes(damaged(sound))
    jit.Compiler().bind(source, (3, x, y))()
    assert y.tolist() == [1.0, 1.0, 1.0]
    assert path.read_bytes()[-100:] == sound[-100:]


def test_what_another_user_has_left_is_not_run(compiler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, (x, y) = SOURCE.format("f4"), np.ones((2, 3), np.float32)
    compiler.bind(source, (3, x, y))
    made = noted_sources(monkeypatch)
    jit.Compiler().bind(source, (3, x, y))
    assert made == []
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    jit.Compiler().bind(source, (3, x, y))
    assert made == [source]


def noted_sources(patch: pytest.MonkeyPatch) -> list[str]:
    """Return the sources that are compiled from now on."""
    from mpiparallel.backend import loop_compiler

    made: list[str] = []
    real = loop_compiler.compiled_loop

    def noted(source: str, kinds: Sequence[str]) -> bytes:
        made.append(source)
        return real(source, kinds)

    patch.setattr(loop_compiler, "compiled_loop", noted)
    return made


def test_another_process_runs_what_is_kept_without_numba(compiler: Any, tmp_path: Path) -> None:
    source = SOURCE.format("exp_f8")
    compiler.bind(source, (3, np.ones(3), np.ones(3)))
    program = (
        "import sys; sys.modules['numba'] = None; import numpy as np\n"
        "from mpiparallel.backend import jit\n"
        "x, y = np.arange(3.0), np.zeros(3)\n"
        f"jit.Compiler().bind({source!r}, (3, x, y))()\n"
        "np.testing.assert_allclose(y, np.exp(x), 1e-15)\n"
        "print('compiled' if jit.Compiler().bind('def kernel(x): x[0] = 1', (x,)) else 'not compiled')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "not compiled", done.stderr


def test_processes_that_need_a_loop_at_once_compile_it_once(compiler: Any, tmp_path: Path) -> None:
    program = (
        "import numpy as np; from mpiparallel.backend import jit, loop_compiler\n"
        "real = loop_compiler.compiled_loop\n"
        "loop_compiler.compiled_loop = lambda *given: print('compiled') or real(*given)\n"
        "print('ready', flush=True); input()\n"
        f"jit.Compiler().bind({SOURCE.format('abs')!r}, (3, np.ones(3), np.ones(3)))()\n"
    )
    ranks = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for rank in ranks:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "ready\n"
    for rank in ranks:
        assert rank.stdin is not None
        rank.stdin.write("\n")
        rank.stdin.flush()
    outputs = [rank.communicate()[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * 3
    assert "".join(outputs).split() == ["compiled"]
    assert [path.suffix for path in (tmp_path / "mpiparallel").iterdir()] == [".o"]


def test_a_loop_is_compiled_though_another_process_never_ends_compiling_it(
    compiler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "_PATIENCE", 0.02)
    monkeypatch.setattr(jit, "_lock", lambda file: False)
    x, y = np.ones(3), np.zeros(3)
    compiler.bind(SOURCE.format("5 + "), (3, x, y))()
    assert y.tolist() == [6.0] * 3


def test_a_loop_that_needs_what_no_library_has_is_not_run(compiler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from mpiparallel.backend import machine_code

    needed: list[str] = []
    real = machine_code._needed
    monkeypatch.setattr(machine_code, "_needed", lambda code: [needed.append(name) or name for name in real(code)])
    x, y = np.ones(3), np.zeros(3)
    assert compiler.bind(SOURCE.format("exp_f8"), (3, x, y)) is not None
    assert needed == ["exp"]
    monkeypatch.setattr(machine_code, "_needed", lambda code: ["no_function_of_this_name"])
    assert compiler.bind(SOURCE.format("tanh_f8"), (3, x, y)) is None


def test_a_loop_that_ends_badly_says_so(compiler: Any) -> None:
    run = compiler.bind("def kernel(x):\n    raise ValueError('so')\n", (np.ones(3),))
    with pytest.raises(RuntimeError, match="a compiled loop has ended with status"):
        run()


def test_a_folder_that_cannot_be_written_keeps_no_loop_and_hinders_none(
    compiler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    compiler.bind(SOURCE.format("f4") + "        y[k] += f4(1)\n", (3, x, y))()
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_an_error_of_the_compiler_is_shown_as_it_is(compiler: Any) -> None:
    numba = pytest.importorskip("numba")
    with pytest.raises(numba.TypingError, match="no_such_function"):
        compiler.bind(SOURCE.format("no_such_function"), (3, np.ones(3), np.ones(3)))


def test_a_folder_that_may_not_be_looked_into_hinders_no_loop(compiler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    made = noted_sources(monkeypatch)
    source = SOURCE.format("f4") + "        y[k] += f4(2)\n"
    with monkeypatch.context() as patch:
        # The compiler's own files are read before.
        jit._compiled_by()
        patch.setattr(Path, "read_bytes", refused)
        compiler.bind(source, (3, x, y))()
    assert y.tolist() == [3.0, 3.0, 3.0]
    jit.Compiler().bind(source, (3, x, y))
    assert made == [source]


def test_where_what_runs_loops_cannot_be_imported_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPIPARALLEL_JIT", raising=False)
    monkeypatch.setitem(sys.modules, "mpiparallel.backend.machine_code", None)
    monkeypatch.setattr(jit, "_load", jit._load.__wrapped__)
    assert jit.compiler() is None


def test_a_numba_that_would_end_the_process_is_told_and_not_used(
    monkeypatch: pytest.MonkeyPatch, remarks: Callable[[], list[str]]
) -> None:
    pytest.importorskip("numba")
    from mpiparallel.backend import machine_code

    monkeypatch.delenv("MPIPARALLEL_JIT", raising=False)
    monkeypatch.setattr(jit, "_load", jit._load.__wrapped__)
    for version, works in (((20, 0, 0), True), ((15, 0, 7), False)):
        monkeypatch.setattr(machine_code.binding, "llvm_version_info", version)
        assert (jit.compiler() is not None) == works
    (said,) = remarks()
    assert said.startswith("loops are not compiled: this numba is too old; pip install 'numba>=0.62'")


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


def test_a_source_is_compiled_once_for_each_kind_of_arguments(compiler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = noted_sources(monkeypatch)
    twice, thrice = (SOURCE.format("") + f"        y[k] *= {number}\n" for number in (2, 3))
    for source, dtype in ((twice, np.float32), (twice, np.float64), (thrice, np.float32), (twice, np.float32)):
        x, y = np.ones((2, 3), dtype)
        compiler.bind(source, (3, x, y))()
        assert y.tolist() == [2 if source is twice else 3] * 3
    assert made == [twice, twice, thrice]


def test_elements_may_begin_at_any_byte(compiler: Any) -> None:
    x, y = (np.frombuffer(bytearray(8 * 99 + 1), np.float64, 99, offset=1) for _ in range(2))
    x[:] = np.arange(99)
    for left, right in ((x, y), (x.copy(), np.zeros(99)), (x.copy(), y)):
        right[:] = 0
        compiler.bind(SOURCE.format("2 * "), (99, left, right))()
        np.testing.assert_array_equal(right, 2 * left)
    assert {kind for _, kinds in compiler._codes for kind in kinds} == {"int", "<f8", "<f8 unaligned"}


def test_a_call_keeps_the_memory_that_it_works_on(compiler: Any) -> None:
    x, y = np.ones(3), np.zeros(3)
    run = compiler.bind(SOURCE.format("2 + "), (3, x, y))
    kept = weakref.ref(x)
    del x
    gc.collect(1)
    assert kept() is not None
    run()
    assert y.tolist() == [3.0] * 3
    del run
    gc.collect(1)
    assert kept() is None
