"""Train ResNet on CIFAR-10 in any parallel mode, as the parallel training tutorial does.

mpiparallel run -n 2 resnet50_cifar10.py --digits --network resnet18
mpiparallel run -n 4 resnet50_cifar10.py --data_path cifar-10-batches-bin --parallel_mode semi_auto_parallel
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import mpiparallel as ms
import mpiparallel.dataset as ds
import mpiparallel.dataset.transforms.c_transforms as C
import mpiparallel.dataset.vision.c_transforms as vision
from mpiparallel import Model, nn
from mpiparallel import dtype as mstype
from mpiparallel.communication import get_group_size, get_rank, init
from mpiparallel.dataset.digits import write_digit_images
from mpiparallel.errors import DatasetError
from mpiparallel.models.resnet import resnet18, resnet50
from mpiparallel.train.callback import (
    Callback,
    CheckpointConfig,
    LossGuard,
    LossMonitor,
    ModelCheckpoint,
    ProgressMonitor,
)

NETWORKS = {"resnet18": resnet18, "resnet50": resnet50}
DIGITS_FOLDER = "digits"


def create_dataset(data_path, batch_size, image_size, training=True, sharded=False, mirrored=True):
    """Return the tutorial's pipeline; with ``sharded`` each rank reads its share of the images."""
    shares = {"num_shards": get_group_size(), "shard_id": get_rank()} if sharded else {}
    images = ds.Cifar10Dataset(data_path, usage="train" if training else "test", shuffle=training, **shares)
    augment = [vision.RandomCrop((32, 32), (4, 4, 4, 4))] if training else []
    augment += [vision.RandomHorizontalFlip()] if training and mirrored else []
    resize = [vision.Resize((image_size, image_size))] if image_size != 32 else []
    scale = [
        vision.Rescale(1.0 / 255.0, 0.0),
        vision.Normalize((0.4465, 0.4822, 0.4914), (0.2010, 0.1994, 0.2023)),
        vision.HWC2CHW(),
    ]
    images = images.map(operations=C.TypeCast(mstype.int32), input_columns="label")
    images = images.map(operations=[*augment, *resize, *scale], input_columns="image")
    return images.batch(batch_size, drop_remainder=training)


class AccuracyMonitor(Callback):
    """Print the share of the test images that the network knows, after each epoch, on rank 0."""

    def __init__(self, model, test_images):
        self._model = model
        self._test_images = test_images

    def epoch_end(self, run_context):
        training = run_context.original_args()
        accuracy = self._model.eval(self._test_images)["acc"]
        if training.rank == 0:
            print(f"epoch: {training.cur_epoch_num} test accuracy is {accuracy:.4f}", flush=True)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_path", default=os.environ.get("DATA_PATH"), help="folder of CIFAR-10, or $DATA_PATH")
    parser.add_argument(
        "--digits",
        action="store_true",
        help=f"train on scikit-learn's digits, made in the data path (default: {DIGITS_FOLDER}) if they are not there",
    )
    parser.add_argument("--network", choices=sorted(NETWORKS), default="resnet50")
    parser.add_argument("--parallel_mode", choices=["data_parallel", "semi_auto_parallel"], default="data_parallel")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=32, help="images a step and rank")
    parser.add_argument("--image_size", type=int, help="height and width (default: 224, or 32 for digits)")
    parser.add_argument("--learning_rate", type=float, default=0.02, help="of the first epoch; falls along a cosine")
    parser.add_argument(
        "--grad_accumulation_step", type=int, default=1, help="batches a step: their gradients make one update"
    )
    parser.add_argument("--device_target", choices=["CPU", "GPU"], default="CPU", help="GPU needs CuPy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in checkpoints/")
    arguments = parser.parse_args()
    if arguments.image_size is None:
        arguments.image_size = 32 if arguments.digits else 224
    if arguments.data_path is None and not arguments.digits:
        parser.error(
            "give --data_path, or set DATA_PATH: the folder that holds cifar-10-batches-bin or -py; "
            "without CIFAR-10 at hand, --digits makes a small stand-in"
        )
    return arguments


def find_images(arguments):
    """Return the folder of the images; digits that are not there are made."""
    folder = Path(arguments.data_path or DIGITS_FOLDER)
    if arguments.digits and not (folder / "test_batch.bin").exists():
        if get_rank() == 0:
            print(f"making scikit-learn's digits, in CIFAR-10's format, in {folder}/", flush=True)
        write_digit_images(folder)
    return folder


def main():
    arguments = read_arguments()
    init()
    ms.set_context(device_target=arguments.device_target)
    ms.set_seed(arguments.seed)
    ds.config.set_seed(arguments.seed)
    own_batches = arguments.parallel_mode == "data_parallel"
    settings = {"grad_accumulation_step": arguments.grad_accumulation_step}
    if not own_batches:
        settings["full_batch"] = True
    ms.set_auto_parallel_context(parallel_mode=arguments.parallel_mode, gradients_mean=True, **settings)
    batch = arguments.batch_size * (1 if own_batches else get_group_size())
    folder = find_images(arguments)
    training = create_dataset(folder, batch, arguments.image_size, True, own_batches, not arguments.digits)
    test = create_dataset(folder, batch, arguments.image_size, training=False)

    network = NETWORKS[arguments.network](num_classes=10, last_gamma="zeros")
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    steps = training.get_dataset_size() // arguments.grad_accumulation_step
    if steps == 0:
        raise DatasetError(f"{folder}: too few images for one step on each rank; give a smaller --batch_size")
    rates = nn.cosine_decay_lr(0.0, arguments.learning_rate, arguments.epochs * steps, steps, arguments.epochs)
    optimizer = nn.Momentum(network.trainable_params(), rates, 0.9)
    model = Model(network, loss_fn=loss, optimizer=optimizer, metrics={"acc"})
    if arguments.resume:
        found = model.resume("checkpoints", training)
        if get_rank() == 0:
            print(f"resumed from {found}" if found else "no checkpoint in checkpoints/", flush=True)
    saver = ModelCheckpoint("resnet", "checkpoints", CheckpointConfig(steps, keep_checkpoint_max=1))
    monitors = [ProgressMonitor(), LossMonitor(), AccuracyMonitor(model, test)]
    model.train(arguments.epochs, training, [LossGuard(), *monitors, saver])


if __name__ == "__main__":
    main()
