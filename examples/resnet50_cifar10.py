"""Train ResNet on CIFAR-10 in any parallel mode, as the parallel training tutorial does.

python examples/resnet50_cifar10.py --data_path cifar-10-batches-bin
mpiparallel run -n 4 examples/resnet50_cifar10.py --data_path cifar-10-batches-bin --parallel_mode semi_auto_parallel
"""

from __future__ import annotations

import argparse
import os

import mpiparallel as ms
import mpiparallel.dataset as ds
import mpiparallel.dataset.transforms.c_transforms as C
import mpiparallel.dataset.vision.c_transforms as vision
from mpiparallel import Model, nn
from mpiparallel import dtype as mstype
from mpiparallel.communication import get_group_size, get_rank, init
from mpiparallel.models.resnet import resnet18, resnet50
from mpiparallel.train.callback import CheckpointConfig, LossMonitor, ModelCheckpoint, ProgressMonitor

NETWORKS = {"resnet18": resnet18, "resnet50": resnet50}


def create_dataset(data_path, batch_size, image_size, training, sharded):
    """Return the tutorial's pipeline; with ``sharded`` each rank reads its share of the images."""
    shares = {"num_shards": get_group_size(), "shard_id": get_rank()} if sharded else {}
    images = ds.Cifar10Dataset(data_path, usage="train" if training else "test", shuffle=training, **shares)
    augment = [vision.RandomCrop((32, 32), (4, 4, 4, 4)), vision.RandomHorizontalFlip()] if training else []
    resize = [vision.Resize((image_size, image_size))] if image_size != 32 else []
    scale = [
        vision.Rescale(1.0 / 255.0, 0.0),
        vision.Normalize((0.4465, 0.4822, 0.4914), (0.2010, 0.1994, 0.2023)),
        vision.HWC2CHW(),
    ]
    images = images.map(operations=C.TypeCast(mstype.int32), input_columns="label")
    images = images.map(operations=[*augment, *resize, *scale], input_columns="image")
    return images.batch(batch_size, drop_remainder=training)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_path", default=os.environ.get("DATA_PATH"), help="folder of CIFAR-10, or $DATA_PATH")
    parser.add_argument("--network", choices=sorted(NETWORKS), default="resnet50")
    parser.add_argument("--parallel_mode", choices=["data_parallel", "semi_auto_parallel"], default="data_parallel")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=32, help="images a step and rank")
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.data_path is None:
        parser.error("give --data_path, or set DATA_PATH: the folder that holds cifar-10-batches-bin or -py")
    return arguments


def main():
    arguments = read_arguments()
    init()
    ms.set_seed(arguments.seed)
    ds.config.set_seed(arguments.seed)
    own_batches = arguments.parallel_mode == "data_parallel"
    settings = {} if own_batches else {"full_batch": True}
    ms.set_auto_parallel_context(parallel_mode=arguments.parallel_mode, gradients_mean=True, **settings)
    batch = arguments.batch_size * (1 if own_batches else get_group_size())
    training = create_dataset(arguments.data_path, batch, arguments.image_size, True, own_batches)

    network = NETWORKS[arguments.network](num_classes=10)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), arguments.learning_rate, 0.9)
    model = Model(network, loss_fn=loss, optimizer=optimizer)
    every_epoch = CheckpointConfig(training.get_dataset_size(), keep_checkpoint_max=1)
    saver = ModelCheckpoint("resnet", "checkpoints", every_epoch)
    model.train(arguments.epochs, training, [ProgressMonitor(), LossMonitor(), saver])


if __name__ == "__main__":
    main()
