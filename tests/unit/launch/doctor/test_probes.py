"""What the doctor's children print: lines of JSON, each before the next step, as any step may crash."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import importlib
import importlib.metadata
import io
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.doctor import host_facts
from mpiparallel.launch.doctor.host_facts import facts_of
from mpiparallel.launch.doctor.probes import cuda_aware, folder, gpu, host_name, libraries, mpi_library, two_ranks
from mpiparallel.launch.version import VERSION
from tests.unit.launch.doctor.faked_machine import OPENMPI, FakedMachine, cpuinfo

Said = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    """Run a probe with arguments, and return the lines that it prints."""

    def run(main: Callable[[], None], *arguments: str) -> list[dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["probe", *arguments])
        main()
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def refuse(error: OSError) -> Callable[..., Any]:
    def refused(*words: object, **named: object) -> Any:
        raise error

    return refused


@pytest.mark.parametrize(
    ("lock", "told"),
    [
        (fcntl.flock, ""),
        (lambda *words: None, "two processes get the same lock"),
        (refuse(OSError(errno.ENOLCK, "No locks available")), "No locks available"),
    ],
)
def test_a_lock_works_only_where_a_second_one_is_refused(
    lock: Callable[..., None], told: str, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lock)
    room, files, *lines = said(folder.main, str(tmp_path))
    truth = os.statvfs(tmp_path)
    assert (room["folder"], room["size"]) == (str(tmp_path), truth.f_blocks * truth.f_frsize)
    assert files["has_file_count"] == (truth.f_files > 0)
    assert [list(line) for line in lines] == [["seconds"], ["skew"], ["lock"]]
    assert lines[-1] == {"lock": told}
    assert not list(tmp_path.iterdir())


def test_what_a_probe_says_is_out_before_its_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    printed = io.BytesIO()
    library = SimpleNamespace(MPIX_Query_cuda_support=lambda: 1)

    def step(*words: object) -> Any:
        seen.append(printed.getvalue().decode())
        return library if words == ("/libmpi.so",) else []

    mpi = SimpleNamespace(Init=step, Finalize=step)
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(rc=SimpleNamespace()))
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)
    monkeypatch.setattr(socket, "gethostname", lambda: "node1")
    monkeypatch.setattr(socket, "getaddrinfo", step)
    monkeypatch.setattr(ctypes, "CDLL", step)
    monkeypatch.setattr(Path, "read_text", lambda path, **_: "7f00-7f01 r--p 0 08:01 5  /libmpi.so\n")
    monkeypatch.setattr(sys, "argv", ["probe", "gpu"])
    file, takes = '{"file": "/libmpi.so"}\n', '{"takes_gpu_memory": true}\n'
    said: list[tuple[Callable[[], None], list[str]]] = [
        (lambda: step(folder._say(seconds=0.5)), ['{"seconds": 0.5}\n']),
        (lambda: step(gpu._say(devices=2)), ['{"devices": 2}\n']),
        (lambda: step(cuda_aware._say(SimpleNamespace(rank=0), sent=True)), ['{"sent": true}\n']),
        (host_name.main, ['{"name": "node1"}\n']),
        (mpi_library.main, [file, file, file + takes]),
    ]
    for main, told in said:
        seen.clear()
        printed = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed))
        main()
        assert seen == told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EROFS, "Read-only file system", "/there/name"), "Read-only file system (name)"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
    ],
)
def test_a_folder_that_cannot_be_written_is_told_with_the_name_that_could_not_be(
    error: OSError, told: str, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", refuse(error))
    assert said(folder.main, str(tmp_path))[2:] == [{"failure": told}]


@pytest.mark.parametrize(("stamp", "skew"), [(1000.0, -10.0), (1010.0, 0.0), (1012.0, 0.0), (1015.0, 3.0)])
def test_the_clock_of_a_file_server_is_off_by_what_its_stamp_lies_outside_of_the_write(
    stamp: float, skew: float, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([1010.0, 1012.0])
    rename = Path.rename

    def stamped(path: Path, target: Path) -> Path:
        os.utime(path, (stamp, stamp))
        return rename(path, target)

    monkeypatch.setattr(time, "time", lambda: next(times))
    monkeypatch.setattr(Path, "rename", stamped)
    assert {"skew": skew} in said(folder.main, str(tmp_path))


class FakedCuda:
    """CuPy with so many devices; a sum on some of them fails."""

    __version__ = "14.2.0"

    def __init__(self, capabilities: Sequence[str], failing: int | None = None, buses: int = 0) -> None:
        self._current = -1
        self.cuda = SimpleNamespace(runtime=self, Device=self._device)
        self._capabilities, self._failing = capabilities, failing
        self._buses = buses or len(capabilities)
        self.driverGetVersion, self.runtimeGetVersion = lambda: 12080, lambda: 12090
        self.getDeviceCount = lambda: len(capabilities)
        self.deviceGetPCIBusId = lambda number: number % self._buses

    def _device(self, number: int) -> Any:
        self._current = number
        device = nullcontext()
        device.compute_capability = self._capabilities[number]  # type: ignore[attr-defined]
        return device

    def ones(self, count: int) -> Any:
        if self._current == self._failing:
            raise RuntimeError("cudaErrorMemoryAllocation: out of memory\nmore")
        return SimpleNamespace(sum=lambda: count)


def nccl(version: int | None) -> Any:
    return SimpleNamespace(available=version is not None, get_version=lambda: version)


def cudnn(problem: Exception | None = None) -> Any:
    def create() -> int:
        if problem is not None:
            raise problem
        return 7

    def destroy(handle: int) -> None:
        assert handle == 7

    return SimpleNamespace(create_handle=create, destroy_handle=destroy, backend_version_string=lambda: "9.28.0")


HEAD = [{"cupy": "14.2.0"}, {"driver": 12080, "runtime": 12090}]
BOTH = [{"device": number, "total": 1000.0} for number in (0, 1)]
OLD = (
    "GPU 1 has compute capability 7.5, and kernels of tensor cores (float16, bfloat16, TF32) want 8.0 (Ampere) or "
    "later; train in float32: amp_level='O0', no allow_tf32 in gpu_config"
)


@pytest.mark.parametrize(
    ("cuda", "version", "library", "told"),
    [
        (
            FakedCuda(["90", "90"]),
            22707,
            cudnn,
            [{"devices": 2}, {"own": 2}, *BOTH, {"nccl": 22707}, {"cudnn": "9.28.0"}],
        ),
        (
            FakedCuda(["80", "75"], buses=1),
            None,
            lambda: None,
            [{"devices": 2}, {"own": 1}, *BOTH, {"too_old": OLD}, {"nccl": 0}, {}],
        ),
        (
            FakedCuda(["75", "90"], failing=0),
            22707,
            lambda: cudnn(RuntimeError("CUDNN_STATUS\n  NOT_INITIALIZED")),
            [
                *({"devices": 2}, {"own": 2}, {"problem": "GPU 0: cudaErrorMemoryAllocation: out of memory"}),
                *({"device": 1, "total": 1000.0}, {"nccl": 22707}, {"cudnn_problem": "CUDNN_STATUS NOT_INITIALIZED"}),
            ],
        ),
        (
            FakedCuda([]),
            None,
            refuse(ConfigurationError("cuDNN 9 is wanted")),  # type: ignore[arg-type]
            [{"devices": 0}, {"own": 0}, {"nccl": 0}, {"cudnn_problem": "cuDNN 9 is wanted"}],
        ),
    ],
    ids=["two", "an old one", "one that fails", "none"],
)
def test_each_gpu_is_tried_and_told_in_a_line_of_its_own(
    cuda: FakedCuda,
    version: int | None,
    library: Callable[[], Any],
    told: list[dict[str, Any]],
    said: Said,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "problem_here", lambda: None)
    monkeypatch.setattr(gpu, "find_cudnn", library)
    monkeypatch.setitem(sys.modules, "cupy", cuda)
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", nccl(version))
    assert said(gpu.main) == [*HEAD, *told]


def test_where_no_gpu_can_be_used_only_that_is_told(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "problem_here", lambda: "no driver; install it")
    assert said(gpu.main) == [{"problem": "no driver; install it"}]


def test_each_address_of_the_own_name_is_told_once_and_in_order(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(0, 0, 0, "", (address, 0)) for address in ("10.0.0.9", "10.0.0.1", "10.0.0.9")]
    monkeypatch.setattr(socket, "gethostname", lambda: "node1")
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, port: found if name == "node1" else [])
    first, second = said(host_name.main)
    assert first == {"name": "node1"}
    assert second.pop("seconds") >= 0.0
    assert second == {"addresses": ["10.0.0.1", "10.0.0.9"]}


def test_a_name_without_an_address_is_told_with_the_resolver_s_words(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "node1")
    monkeypatch.setattr(socket, "getaddrinfo", refuse(socket.gaierror(-2, "Name or service not known")))
    first, second = said(host_name.main)
    assert first == {"name": "node1"}
    assert second.pop("seconds") >= 0.0
    assert second == {"failure": "Name or service not known"}


def test_each_library_is_named_before_its_import_and_told_of_after(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    modules = {
        "probed_one": "__version__ = '1.5'\nclass version: hdf5_version = '2.0.0'",
        "probed_two": "VERSION = (7, 1)",
        "probed_silent": "raise ValueError",
        "probed_broken": "raise ImportError('  no libblas.so.3\\nand more')",
    }
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text)
    found = [
        {"version": "1.5", "hdf5": "2.0.0"},
        {"version": "(7, 1)", "hdf5": ""},
        {"failure": "ValueError: "},
        {"failure": "ImportError: no libblas.so.3"},
    ]
    pairs = zip(modules, found, strict=True)
    assert said(libraries.main, *modules) == [
        line for name, told in pairs for line in ({"module": name}, {"module": name, **told})
    ]


def test_a_library_whose_import_crashes_was_named_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.BytesIO()
    seen: list[bytes] = []
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed))
    monkeypatch.setattr(sys, "argv", ["probe", "one", "two"])
    monkeypatch.setattr(importlib, "import_module", lambda name: seen.append(printed.getvalue()))
    libraries.main()
    told = b'{"module": "%s", "version": "", "hdf5": ""}\n'
    assert seen == [b'{"module": "one"}\n', b'{"module": "one"}\n' + told % b"one" + b'{"module": "two"}\n']
    assert printed.getvalue() == seen[1] + told % b"two"


@pytest.mark.parametrize(
    ("library", "arguments", "told"),
    [
        (SimpleNamespace(MPIX_Query_cuda_support=lambda: 1), ["gpu"], [{"takes_gpu_memory": True}]),
        (SimpleNamespace(MPIX_Query_cuda_support=lambda: 0), ["gpu"], [{"takes_gpu_memory": False}]),
        (SimpleNamespace(), ["gpu"], [{"takes_gpu_memory": None}]),
        (SimpleNamespace(), [], []),
    ],
)
def test_mpi_is_started_only_to_ask_it_for_gpu_memory(
    library: Any, arguments: list[str], told: list[dict[str, Any]], said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    package = SimpleNamespace(rc=SimpleNamespace(initialize=True))
    mpi = SimpleNamespace(Init=lambda: calls.append("Init"), Finalize=lambda: calls.append("Finalize"))
    monkeypatch.setitem(sys.modules, "mpi4py", package)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)
    maps = "7f00-7f01 r--p 0 08:01 5  /usr/lib/libm.so.6\n7f02-7f03 r-xp 0 08:01 7  /opt/an mpi/libmpi.so.40\n"
    monkeypatch.setattr(Path, "read_text", lambda path, **_: maps if str(path) == "/proc/self/maps" else "")
    loaded: list[str | None] = []

    def load(name: str | None) -> Any:
        loaded.append(name)
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert said(mpi_library.main, *arguments) == [{"file": "/opt/an mpi/libmpi.so.40"}, *told]
    assert package.rc.initialize is False
    assert calls == (["Init", "Finalize"] if arguments else [])
    assert loaded == (["/opt/an mpi/libmpi.so.40"] if arguments else [])


def test_only_rank_0_of_the_two_tells_their_sum(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank, told in ((0, [{"sum": 2}]), (1, [])):
        world = SimpleNamespace(rank=rank, allreduce=lambda one: 2 * one)
        monkeypatch.setitem(sys.modules, "mpi4py.MPI", SimpleNamespace(COMM_WORLD=world))
        assert said(two_ranks.main) == told


def test_facts_of_a_machine_are_empty_where_they_are_not_known(
    faked: FakedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = faked(files={"proc/cpuinfo": cpuinfo("fpu")}, probes={"launcher": OPENMPI, "mpi_library": "true"})
    facts = {
        "host": socket.gethostname(),
        "mpiparallel": VERSION,
        "mpi": "Open MPI v5.0.11",
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "kernels": "chosen by OpenBLAS",
    }
    assert facts_of(machine) == facts
    monkeypatch.setattr(host_facts, "version", refuse(importlib.metadata.PackageNotFoundError()))  # type: ignore[arg-type]
    assert facts_of(machine) == {**facts, "numpy": ""}
