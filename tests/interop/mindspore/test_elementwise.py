"""The table of MindSpore's values of element-wise functions at the edges: it is what the installed version says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mindspore = pytest.importorskip("mindspore", reason="make test-interop-mindspore installs MindSpore")

pytestmark = pytest.mark.mindspore

TABLE = json.loads((Path(__file__).parents[2] / "fixtures" / "mindspore" / "elementwise.json").read_text("utf-8"))
CASES = [(group, name) for group in ("one", "two") for name in TABLE[group]["values"]]


@pytest.mark.parametrize(("group", "name"), CASES)
def test_the_table_of_edge_values_is_what_mindspore_says(group: str, name: str) -> None:
    listed: Any = TABLE[group]["inputs"]
    arrays = [np.array(one, np.float32) for one in (listed if group == "two" else [listed])]
    found = getattr(mindspore.ops, name)(*map(mindspore.Tensor, arrays)).asnumpy()
    np.testing.assert_allclose(found, np.array(TABLE[group]["values"][name], float), rtol=1e-6)
