"""``python -m mpiparallel`` is the command ``mpiparallel``."""

from __future__ import annotations

import sys

from mpiparallel.launch.cli import main

if __name__ == "__main__":
    sys.exit(main())
