"""Print, as JSON, which BLAS NumPy has loaded, its kernels and its threads, after one product."""

from __future__ import annotations

import importlib
import json


def main() -> None:
    """Multiply once, as kernels that the processor lacks die only then."""
    numpy = importlib.import_module("numpy")
    threadpoolctl = importlib.import_module("threadpoolctl")
    ones = numpy.ones((64, 64), numpy.float32)
    (ones @ ones).sum()
    kept = ("internal_api", "version", "architecture", "num_threads")
    for pool in threadpoolctl.threadpool_info():
        if pool["user_api"] == "blas":
            print(json.dumps({name: pool.get(name) for name in kept}))


if __name__ == "__main__":
    main()
