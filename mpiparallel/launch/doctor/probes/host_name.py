"""Print, as JSON, the name of this machine, its addresses by that name, and the seconds it took to find them."""

from __future__ import annotations

import json
import socket
import time


def main() -> None:
    """Look the name up as MPI libraries do."""
    name = socket.gethostname()
    print(json.dumps({"name": name}), flush=True)
    start = time.monotonic()
    try:
        found = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None)})
        print(json.dumps({"addresses": found, "seconds": time.monotonic() - start}))
    except OSError as error:
        print(json.dumps({"failure": str(error.strerror), "seconds": time.monotonic() - start}))


if __name__ == "__main__":
    main()
