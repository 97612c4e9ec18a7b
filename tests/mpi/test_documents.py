"""What the documents show of real ranks runs as it is pasted."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from tests.conformance.documents.document import EXAMPLES, PAGES, ROOT, Reader, blocks
from tests.conformance.documents.example_pictures import DRAWN_BY_ITSELF, merged

OF_SEVERAL_THINGS = ("own_operator",)
"""Whose curves are not those of one training, or one function, on other ranks."""
PAGES_WITH_RANKS = [page for page in PAGES if any(block.starts_ranks for block in blocks(page))]


@pytest.mark.mpi
@pytest.mark.parametrize("page", PAGES_WITH_RANKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_sample_of_a_page_runs_as_it_is_pasted(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Reader(tmp_path).follow(page)
    if page in EXAMPLES and page.parent.name not in DRAWN_BY_ITSELF:
        result = merged(tmp_path)
        assert result, "no program of the example has left a result"
        curves = [] if page.parent.name in OF_SEVERAL_THINGS else list(result.get("lines", {}).values())
        for one, other in combinations(map(by_place, curves), 2):
            shared = one.keys() & other.keys()
            assert [one[x] for x in shared] == pytest.approx([other[x] for x in shared], rel=1e-3, abs=1e-3)


def by_place(curve: list[list[float]]) -> dict[float, float]:
    return dict(zip(*curve, strict=True))
