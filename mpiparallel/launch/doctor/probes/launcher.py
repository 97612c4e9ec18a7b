"""Print, as JSON, the MPI that ``mpiparallel run`` would take, or why it finds none."""

from __future__ import annotations

import json

from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.installation import find_installation

if __name__ == "__main__":
    try:
        found = find_installation()
        print(json.dumps({"vendor": found.vendor, "library": found.library, "launcher": found.launcher}))
    except LaunchError as error:
        print(json.dumps({"failure": str(error)}))
