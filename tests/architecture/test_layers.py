"""What the contracts in setup.cfg promise, seen from a running interpreter; lint-imports checks the contracts."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIBRARIES = ("cupy", "google.protobuf", "h5py", "mpi4py", "numpy")
PURE = (
    "mpiparallel",
    "mpiparallel.cluster.rank_table",
    "mpiparallel.errors",
    "mpiparallel.layout.layout",
    "mpiparallel.pipeline",
    "mpiparallel.reshard.planning.plan",
)


def loaded_after(statement: str) -> list[str]:
    program = f"import sys; {statement}; print(*(name for name in {LIBRARIES} if name in sys.modules))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("module", PURE)
def test_launching_and_planning_load_no_array_mpi_or_file_library(module: str) -> None:
    assert loaded_after(f"import {module}") == []


def test_the_commands_load_no_array_mpi_or_file_library() -> None:
    assert loaded_after("from mpiparallel.launch.cli import command_line; command_line()") == []


NOT_OF_EACH_RANK = (
    "html",
    "mpiparallel.backend.cupy_backend",
    "mpiparallel.checkpoint.formats.mindspore_checkpoint",
    "mpiparallel.checkpoint.formats.numpy_archive",
    "mpiparallel.checkpoint.formats.safetensors",
    "mpiparallel.communication.gathering",
    "mpiparallel.compile.graph_text",
    "mpiparallel.ops.images.convolution.kernels",
    "mpiparallel.pipeline.svg_drawing",
    "mpiparallel.search",
)


def test_a_rank_loads_no_gpus_drawings_images_formats_of_others_or_search_before_it_needs_them() -> None:
    program = f"import sys; from mpiparallel import Model, nn, ops; print({{*{NOT_OF_EACH_RANK}}} & {{*sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded == "set()\n"


def test_the_whole_public_front_loads_no_mpi_and_no_gpu_library() -> None:
    loaded = loaded_after("import mpiparallel; [getattr(mpiparallel, name) for name in mpiparallel.__all__]")
    assert not {"cupy", "mpi4py"} & set(loaded)


def test_a_rank_that_only_communicates_loads_no_operators() -> None:
    """Python asks a package for each submodule that is imported by name; that is no wrong name to tell of."""
    program = "import sys; from mpiparallel.communication import world; print('mpiparallel.ops' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
