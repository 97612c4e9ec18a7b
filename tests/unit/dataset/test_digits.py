from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.dataset.digits import main, write_digit_images
from mpiparallel.errors import DatasetError


def test_the_digits_are_cifar10_files_with_every_digit_in_both_parts(tmp_path: Path) -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn, which has the digits, is not installed")
    folder = write_digit_images(tmp_path / "digits")
    parts = {usage: list(ds.Cifar10Dataset(folder, usage, shuffle=False).iterate()) for usage in ("train", "test")}
    assert {usage: len(rows) for usage, rows in parts.items()} == {"train": 1541, "test": 256}
    for rows in parts.values():
        assert {int(row["label"]) for row in rows} == set(range(10))
    digits = datasets.load_digits()
    assert [int(row["label"]) for row in parts["test"]] == digits.target[6::7].tolist()
    image = parts["test"][0]["image"]
    assert np.array_equal(image[..., 0], image[..., 2])
    blocks = image[..., 0].reshape(8, 4, 8, 4).mean(axis=(1, 3))
    assert np.corrcoef(blocks.ravel(), digits.images[6].ravel())[0, 1] > 0.95
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_digit_images(folder)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_without_scikit_learn_the_mend_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(DatasetError, match=r"pip install mpiparallel\[digits\]"):
        write_digit_images(tmp_path / "digits")
    assert not (tmp_path / "digits").exists()


def test_the_command_makes_them_and_says_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn.datasets", reason="scikit-learn, which has the digits, is not installed")
    folder = tmp_path / "new" / "digits"
    for _ in range(2):
        assert main([str(folder)]) == 0
        said = capsys.readouterr()
        assert said.out.startswith(f"{folder}: 1541 training images")
        assert not said.err
    assert len(list(folder.iterdir())) == 6


def test_the_command_refuses_a_folder_with_other_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn.datasets", reason="scikit-learn, which has the digits, is not installed")
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(3073))
    assert main([str(tmp_path)]) == 1
    assert "data_batch_1.bin: holds other samples, which would be lost" in capsys.readouterr().err
    assert (tmp_path / "data_batch_1.bin").read_bytes() == bytes(3073)
