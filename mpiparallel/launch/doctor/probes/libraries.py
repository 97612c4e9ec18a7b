"""Import the modules that the arguments name, one after another, and print of each a line of JSON.

A line before the import names the module, so that a crash says whose it was.
"""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    """Print ``{"module": name}`` before each import, and what came of it after."""
    for name in sys.argv[1:]:
        print(json.dumps({"module": name}), flush=True)
        print(json.dumps({"module": name, **_imported(name)}), flush=True)


def _imported(name: str) -> dict[str, str]:
    try:
        module = importlib.import_module(name)
    except Exception as error:
        return {"failure": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
    version = getattr(module, "__version__", getattr(module, "VERSION", ""))
    hdf5 = getattr(getattr(module, "version", None), "hdf5_version", "")
    return {"version": str(version), "hdf5": str(hdf5)}


if __name__ == "__main__":
    main()
