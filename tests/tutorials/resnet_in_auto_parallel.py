"""The training of the first tutorial in ``auto_parallel``, as its reader types it."""

from __future__ import annotations

from pathlib import Path

from tests.tutorials.reader import Reader

DOCUMENT = "parallel_training_example_ascend"
LISTINGS = ("create_dataset", "loss", "train", "auto_parallel")
RESNET = """
from mpiparallel.models.resnet import ResNet

def resnet50(batch_size, num_classes):
    return ResNet((1, 1, 1, 1), num_classes, expansion=4, widths=(8, 16, 32, 64))
"""
"""The ``resnet.py`` that the tutorial imports and does not show; a narrower one, for ranks that share cores."""


def types_resnet_in_auto_parallel(reader: Reader) -> Path:
    """Type the program and the network that it imports; return the program, which wants DEVICE_ID and DATA_PATH."""
    reader.types("resnet.py", RESNET)
    parts = [reader.listing("create_dataset", "few"), reader.listing("loss"), reader.listing("train", "few")]
    assert reader.listing("auto_parallel").strip() in parts[-1]
    return reader.types("auto_parallel.py", *parts, "test_train_cifar()")
