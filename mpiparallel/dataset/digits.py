"""Handwritten digits as a small stand-in for CIFAR-10, made without a download.

``python -m mpiparallel.dataset.digits FOLDER`` makes them.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset.cifar10_files import TEST, TRAIN, Bytes, write_cifar10
from mpiparallel.dataset.vision.resize import Resize
from mpiparallel.errors import DatasetError

# The labels run 0 to 9 again and again: a step that shares a factor with 10 would miss digits.
_TEST_STEP = 7
_BRIGHTEST = 16


def write_digit_images(folder: str | Path) -> Path:
    """Write scikit-learn's 1,797 digits to ``folder`` as CIFAR-10's six binary files, and return the folder.

    Each 8 x 8 picture is enlarged to 32 x 32 in three equal channels; its label is its digit. Every seventh picture is
    in test_batch.bin (256), the others are dealt to data_batch_1.bin to data_batch_5.bin (1,541). The files are the
    same in every run; those that are there already are left. ``Cifar10Dataset(folder)`` reads them.

    The pictures are of Alpaydin and Kaynak, Optical Recognition of Handwritten Digits (UCI, 1998).

    Raises:
        DatasetError: if scikit-learn is not installed, or ``folder`` holds other files of these names, or cannot be
            written to.
    """
    pictures, labels = _digits()
    images = _enlarged(pictures)
    place = Path(folder)
    is_test = np.arange(len(labels)) % _TEST_STEP == _TEST_STEP - 1
    training = np.flatnonzero(~is_test)
    parts = {stem: training[number :: len(TRAIN)] for number, stem in enumerate(TRAIN)}
    for stem, chosen in {**parts, TEST[0]: np.flatnonzero(is_test)}.items():
        write_cifar10(place, stem, images[chosen], labels[chosen])
    return place


def _digits() -> tuple[npt.NDArray[Any], Bytes]:
    """Return the pictures (n, 8, 8), 0 to 16, and their digits (n,)."""
    try:
        # Only this function needs scikit-learn, which is large and optional.
        datasets = importlib.import_module("sklearn.datasets")
    except ModuleNotFoundError as error:
        raise DatasetError(
            f"write_digit_images: scikit-learn, which has the digits, is not installed ({error}); "
            "pip install mpiparallel[digits], or scikit-learn itself"
        ) from error
    loaded = datasets.load_digits()
    return loaded.images, loaded.target.astype(np.uint8)


def _enlarged(pictures: npt.NDArray[Any]) -> Bytes:
    resize = Resize((32, 32))
    grey = np.stack([resize(picture.astype(np.float32)) for picture in pictures]) * (255 / _BRIGHTEST)
    return np.repeat(np.rint(grey).astype(np.uint8)[..., np.newaxis], 3, axis=-1)


def main(words: Sequence[str] | None = None) -> int:
    """Make the digits in the folder that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m mpiparallel.dataset.digits",
        description="Write scikit-learn's handwritten digits as CIFAR-10's six binary files.",
    )
    parser.add_argument("folder", type=Path, help="where to write them; files that are there already are left")
    arguments = parser.parse_args(words)
    try:
        folder = write_digit_images(arguments.folder)
    except DatasetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{folder}: 1541 training images in data_batch_1.bin to data_batch_5.bin, 256 test images in test_batch.bin")
    return 0


if __name__ == "__main__":
    sys.exit(main())
