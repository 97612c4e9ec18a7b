"""What the Transformer tutorials leave to their reader: sentences, a network with its dataset, and scripts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

TABLES = Path(__file__).parents[2] / "rank_tables"
NETWORK = """
import argparse
import numpy as np
import mpiparallel as ms
import mpiparallel.communication as D
from mpiparallel import Tensor
from mpiparallel.dataset import text
from mpiparallel.models.translation import TranslationConfig, TranslationNetwork
from mpiparallel.nn import Momentum
from mpiparallel.nn.transformer import TransformerOpParallelConfig
from mpiparallel.train import LossMonitor, TimeMonitor

parser = argparse.ArgumentParser()
parser.add_argument("--file_path")
parser.add_argument("--mp", type=int, default=4)
parser.add_argument("--pipeline_stage", type=int, default=1)
parser.add_argument("--enable_parallel_optimizer", type=int, default=0)
parser.add_argument("--ckpt_file", default="")
args_opt = parser.parse_args()
ms.set_seed(1)
ms.set_auto_parallel_context(full_batch=True, enable_parallel_optimizer=bool(args_opt.enable_parallel_optimizer))
SIZES = TranslationConfig(8, 6, 6, 64, 32, num_heads=4, dropout_rate=0.0)
pairs = text.load_pairs(args_opt.file_path)
dataset = text.translation_dataset(pairs, 6, 6, 64, 8, 1, shuffle=False)
callback_size = 1

def Net():
    stages, mp = args_opt.pipeline_stage, args_opt.mp
    cut = TransformerOpParallelConfig(D.get_group_size() // mp // stages, mp, pipeline_stage=stages)
    return TranslationNetwork(SIZES, cut)
"""
COUNT = 64


def write_sentences(path: Path) -> Path:
    """Write pairs of sentences of made-up words, a tab between them; each word has one translation."""
    draw = np.random.default_rng(1)
    lines = []
    for _ in range(COUNT):
        words = draw.integers(0, 40, draw.integers(4, 9))
        lines.append(" ".join(f"word{word}" for word in words) + "\t" + " ".join(f"mot{word}" for word in words))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def script(program: str, ranks: int, folder: str, options: str) -> str:
    """Return a script that starts ``program`` ``ranks`` times, each in a folder of its own; $1 is the dataset.

    As those of the tutorials it gives each process RANK_ID, RANK_SIZE and RANK_TABLE_FILE; nothing else starts ranks.
    """
    return f"""
export RANK_SIZE={ranks} RANK_TABLE_FILE={TABLES}/rank_table_{ranks}pcs.json
for ((i = {ranks - 1}; i >= 0; i--)); do
    rm -rf {folder}$i && mkdir {folder}$i && cd {folder}$i
    RANK_ID=$i DEVICE_ID=$i python ../{program} --file_path=$1 {options} > train.log$i 2>&1 &
    started[$i]=$!
    cd ..
done
for ((i = 0; i < {ranks}; i++)); do
    wait ${{started[$i]}} || code=$?
done
test -z "$code" || cat {folder}0/train.log0
exit $code
"""
