"""The table of MindSpore's signatures for the names that we share: it is what the installed version says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.conformance.cases.shared_callables import at, ours, parameters

pytest.importorskip("mindspore", reason="make test-interop-mindspore installs MindSpore")

pytestmark = pytest.mark.mindspore

TABLE = Path(__file__).parents[2] / "fixtures" / "mindspore" / "signatures.json"


def test_the_table_of_signatures_is_that_of_mindspore() -> None:
    theirs = {name: at("mindspore", name) for name in ours()}
    found = {name: words for name, one in theirs.items() if callable(one) and (words := parameters(one)) is not None}
    if os.environ.get("MPIPARALLEL_WRITE_SIGNATURES"):
        lines = (f"{json.dumps(name)}: {json.dumps(words)}" for name, words in sorted(found.items()))
        TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    kept = json.loads(TABLE.read_text(encoding="utf-8"))
    differing = sorted(name for name in kept.keys() | found.keys() if kept.get(name) != found.get(name))
    assert differing == [], "MPIPARALLEL_WRITE_SIGNATURES=1 writes the table anew"
