from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats.registry import FORMATS, open_file, write_file
from mpiparallel.checkpoint.maintenance.export import export
from mpiparallel.errors import CheckpointError
from tests.conformance.trainings.saved_checkpoint import LAYOUTS, announced, contents, save, whole


@pytest.mark.parametrize("format_", FORMATS)
def test_whole_tensors_come_back_from_every_format(tmp_path: Path, format_: str) -> None:
    save(tmp_path)
    path = tmp_path / f"all{FORMATS[format_].suffix}"
    done = export(tmp_path, path)
    assert (done.format, done.tensors, done.replaced) == (format_, len(LAYOUTS), {})
    assert done.nbytes == sum(whole(name, 77).nbytes for name in LAYOUTS)
    with open_file(path) as file:
        assert file.arrays.keys() == LAYOUTS.keys()
        for name in LAYOUTS:
            np.testing.assert_array_equal(read_array(file, name), whole(name, 77), strict=True)


def test_other_programs_read_what_was_exported(tmp_path: Path) -> None:
    save(tmp_path)
    export(tmp_path, tmp_path / "all.npz", wanted=lambda name: name != "empty")
    with np.load(tmp_path / "all.npz") as archive:
        assert sorted(archive) == sorted(LAYOUTS.keys() - {"empty"})
        np.testing.assert_array_equal(archive["net.w"], whole("net.w", 77), strict=True)
    export(tmp_path, tmp_path / "all.h5")
    with h5py.File(tmp_path / "all.h5") as file:
        np.testing.assert_array_equal(file["table"][()], whole("table", 77), strict=True)


def test_what_is_lost_comes_from_replicas_and_is_told(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / "rank_0" / "net-1_77.h5").unlink()
    done = export(tmp_path, tmp_path / "all.safetensors")
    assert list(done.replaced) == [0]
    assert "read from rank 4" in done.replaced[0]
    with open_file(tmp_path / "all.safetensors") as file:
        np.testing.assert_array_equal(read_array(file, "net.w"), whole("net.w", 77))


def test_the_format_may_be_named_apart_from_the_file(tmp_path: Path) -> None:
    save(tmp_path)
    assert export(tmp_path, tmp_path / "all.bin", "safetensors").format == "safetensors"
    with FORMATS["safetensors"].open(tmp_path / "all.bin") as file:
        assert file.arrays.keys() == LAYOUTS.keys()


def test_a_file_is_exported_to_another_format(tmp_path: Path) -> None:
    save(tmp_path)
    export(tmp_path, tmp_path / "all.h5")
    export(tmp_path / "all.h5", tmp_path / "all.npz")
    with np.load(tmp_path / "all.npz") as archive:
        np.testing.assert_array_equal(archive["net.b"], whole("net.b", 77), strict=True)


@pytest.mark.parametrize(
    ("name", "format_", "wanted", "reason"),
    [
        ("all.xyz", None, True, "tells no format"),
        ("all.h5", "zip", True, 'all.h5: there is no format "zip"; use one of h5, ckpt, safetensors, npz$'),
        ("all.h5", None, False, "/net-1_77: has no tensor that was asked for; mpiparallel ckpt show lists them$"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    tmp_path: Path, name: str, format_: str | None, wanted: bool, reason: str
) -> None:
    save(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match=reason):
        export(tmp_path, tmp_path / name, format_, lambda _: wanted)
    assert contents(tmp_path) == before


def test_a_lost_slice_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / "all.h5").write_bytes(b"old")
    for rank in (1, 5):
        (tmp_path / f"rank_{rank}" / "net-1_77.h5").unlink()
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match="is lost"):
        export(tmp_path, tmp_path / "all.h5")
    assert contents(tmp_path) == before


def test_what_a_file_tells_besides_its_arrays_is_exported_too(tmp_path: Path) -> None:
    arrays = {"w": np.arange(3.0)}
    write_file(tmp_path / "one.h5", infos_of(arrays), arrays.items(), {"step": 7, "note": "né"})
    export(tmp_path / "one.h5", tmp_path / "all.safetensors")
    with open_file(tmp_path / "all.safetensors") as file:
        assert file.attributes == {"step": "7", "note": "né"}


def test_a_tensor_for_which_there_is_no_memory_is_named_and_the_old_file_stays(tmp_path: Path) -> None:
    announced(tmp_path, 2**50)
    (tmp_path / "all.safetensors").write_bytes(b"old")
    with pytest.raises(CheckpointError, match=r'tensor "w" needs 1125899906842624 bytes of memory; no room for it'):
        export(tmp_path, tmp_path / "all.safetensors")
    assert (tmp_path / "all.safetensors").read_bytes() == b"old"


@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_tells_of_which_step_it_is_where_that_is_taken_for_no_parameter(tmp_path: Path, format_: str) -> None:
    save(tmp_path)
    path = tmp_path / f"all{FORMATS[format_].suffix}"
    export(tmp_path, path)
    with open_file(path) as file:
        assert dict(file.attributes) == {
            "h5": {"prefix": "net", "epoch": 1, "step": 77},
            "safetensors": {"prefix": "net", "epoch": "1", "step": "77"},
        }.get(format_, {})


def test_progress_of_an_export_ends_with_all_bytes_of_what_was_wanted(tmp_path: Path) -> None:
    save(tmp_path)
    told: list[tuple[int, int]] = []
    wanted = {"net.w", "net.b"}
    done = export(tmp_path, tmp_path / "all.npz", None, wanted.__contains__, lambda *both: told.append(both))
    nbytes = sum(whole(name, 77).nbytes for name in wanted)
    assert (done.tensors, done.nbytes) == (2, nbytes)
    assert [total for _, total in told] == [nbytes] * len(told)
    assert sorted(done for done, _ in told) == [done for done, _ in told]
    assert told[-1][0] == nbytes


def test_a_tensor_of_several_portions_is_exported_whole(tmp_path: Path) -> None:
    array = np.arange(5 << 18).reshape(5, 1 << 18)
    write_file(tmp_path / "one.h5", infos_of({"w": array}), [("w", array)], {})
    told: list[int] = []
    export(tmp_path / "one.h5", tmp_path / "all.npz", progress=lambda done, total: told.append(done))
    np.testing.assert_array_equal(np.load(tmp_path / "all.npz")["w"], array)
    assert told == [8 << 20, 10 << 20]
