from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.dataset.digits import main, write_digit_images
from mpiparallel.errors import DatasetError


def enlarged(picture: np.ndarray) -> np.ndarray:
    """Return a picture of 0 to 16 four times as large and as bright as 0 to 255, linear between centres of pixels."""
    centres = (np.arange(32) + 0.5) / 4 - 0.5
    for axis in (0, 1):
        picture = np.apply_along_axis(lambda line: np.interp(centres, np.arange(8), line), axis, picture)
    return picture * 255 / 16


def test_the_digits_are_cifar10_files_with_every_digit_in_both_parts(tmp_path: Path) -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn, which has the digits, is not installed")
    folder = write_digit_images(tmp_path / "digits")
    parts = {usage: list(ds.Cifar10Dataset(folder, usage, shuffle=False).iterate()) for usage in ("train", "test")}
    assert {usage: len(rows) for usage, rows in parts.items()} == {"train": 1541, "test": 256}
    for rows in parts.values():
        assert {int(row["label"]) for row in rows} == set(range(10))
    digits = datasets.load_digits()
    assert [int(row["label"]) for row in parts["test"]] == digits.target[6::7].tolist()
    training = [number for number in range(1797) if number % 7 != 6]
    dealt = [number for start in range(5) for number in training[start::5]]
    assert [int(row["label"]) for row in parts["train"]] == digits.target[dealt].tolist()
    for row, number in ((parts["test"][0], 6), (parts["test"][-1], 1791), (parts["train"][0], 0)):
        expected = enlarged(digits.images[number])
        for channel in range(3):
            np.testing.assert_allclose(row["image"][..., channel], expected, atol=0.51)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_digit_images(folder)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_without_scikit_learn_the_mend_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(
        DatasetError,
        match=r"^write_digit_images: scikit-learn, which has the digits, is not installed \(.*sklearn.*\); "
        r"pip install mpiparallel\[digits\], or scikit-learn itself$",
    ):
        write_digit_images(tmp_path / "digits")
    assert not (tmp_path / "digits").exists()


def test_the_command_makes_them_and_says_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn.datasets", reason="scikit-learn, which has the digits, is not installed")
    folder = tmp_path / "new" / "digits"
    for _ in range(2):
        assert main([str(folder)]) == 0
        said = capsys.readouterr()
        assert said.out == (
            f"{folder}: 1541 training images in data_batch_1.bin to data_batch_5.bin, 256 test images in "
            "test_batch.bin\n"
        )
        assert not said.err
    assert len(list(folder.iterdir())) == 6


def test_the_command_wants_one_folder_and_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for words, code in (([], 2), (["a", "b"], 2), (["--help"], 0)):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == code
    help_of_it = " ".join(capsys.readouterr().out.split())
    assert "usage: python -m mpiparallel.dataset.digits [-h] folder" in help_of_it
    assert "Write scikit-learn's handwritten digits as CIFAR-10's six binary files." in help_of_it
    assert "where to write them; files that are there already are left" in help_of_it


def test_the_command_refuses_a_folder_with_other_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn.datasets", reason="scikit-learn, which has the digits, is not installed")
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(3073))
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        f"error: {tmp_path}/data_batch_1.bin: holds other samples, which would be lost; give an empty folder\n",
    )
    assert (tmp_path / "data_batch_1.bin").read_bytes() == bytes(3073)
