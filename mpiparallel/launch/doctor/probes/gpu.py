"""Print, as JSON, what CuPy says of GPUs, driver and NCCL, after one sum on each device."""

from __future__ import annotations

import importlib
import json
from typing import Any


def main() -> None:
    """Import CuPy, count devices, use them, ask for NCCL; a line each, as any of it may crash."""
    cupy = importlib.import_module("cupy")
    _say(cupy=cupy.__version__)
    runtime = cupy.cuda.runtime
    _say(driver=runtime.driverGetVersion(), runtime=runtime.runtimeGetVersion())
    _say(devices=runtime.getDeviceCount())
    for device in range(runtime.getDeviceCount()):
        with cupy.cuda.Device(device):
            _say(device=device, total=float(cupy.ones(1000).sum()))
    nccl = importlib.import_module("cupy.cuda.nccl")
    _say(nccl=nccl.get_version() if nccl.available else 0)


def _say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()
