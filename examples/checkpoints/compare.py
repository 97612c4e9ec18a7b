"""Say what the file of each rank holds, before and after a conversion.

python compare.py four converted
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import mpiparallel as ms


def held(folder):
    """Return the elements in the file of each rank."""
    files = sorted(folder.glob("rank_*/*.ckpt"))
    return {file.parent.name: sum(one.size for one in ms.load_checkpoint(str(file)).values()) for file in files}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    bars = {folder.name: held(folder) for folder in parser.parse_args().folders}
    for name, sizes in bars.items():
        print(name, sizes)
    Path("files.result.json").write_text(json.dumps({"y": "elements in the file", "bars": bars}))


if __name__ == "__main__":
    main()
