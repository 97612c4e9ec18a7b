"""The page of ``mpiparallel show --html``, opened as a person would: what is read there is what arithmetic says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.launch.cli import main
from tests.browser.chromium import opened, problem

SCRIPT = """
import numpy as np
from mpiparallel import Model, context, nn
from mpiparallel.dataset import NumpySlicesDataset
context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Dense(64, 256, has_bias=False), nn.Dense(256, 64, has_bias=False)
        self.wide.matmul.shard(((4, 1), (2, 1)))
        self.narrow.matmul.shard(((4, 2), (1, 2)))
    def construct(self, x):
        return x + self.narrow(self.wide(x))
network = nn.SequentialCell(*(Block() for _ in range(6)))
data = NumpySlicesDataset((np.zeros((128, 64), np.float32),) * 2, ["x", "y"], shuffle=False).batch(128)
Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), 0.1)).train(1, data)
"""

STAGES = """
import numpy as np
from mpiparallel import Model, context, nn
from mpiparallel.dataset import NumpySlicesDataset
context.set_auto_parallel_context(
    parallel_mode="semi_auto_parallel", full_batch=True, pipeline_stages=2,
    pipeline_config={"pipeline_scheduler": "gpipe"})
network = nn.SequentialCell(*(nn.Dense(64, 64, activation="relu") for _ in range(4)))
for place, layer in enumerate(network):
    layer.pipeline_stage = place // 2
data = NumpySlicesDataset((np.zeros((128, 64), np.float32),) * 2, ["x", "y"], shuffle=False).batch(128)
whole = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), 4)
Model(whole, optimizer=nn.Adam(network.trainable_params(), 0.1)).train(1, data)
"""


pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(problem()), reason=problem())]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the script on 8 ranks."""
    return _written(tmp_path_factory.mktemp("page"), SCRIPT)


def _written(folder: Path, script: str) -> Path:
    (folder / "train.py").write_text(script, encoding="utf-8")
    assert main(["show", str(folder / "train.py"), "-n", "8", "--html", str(folder / "network.html")]) == 0
    return folder / "network.html"


@pytest.fixture
def page(written: Path) -> Iterator[Any]:
    """The page, open; what it asks of others and what goes wrong in it fails the test."""
    with opened(written.as_uri(), lambda url: url == written.as_uri()) as found:
        yield found


def test_an_operator_is_found_with_its_cut_its_moves_and_who_holds_its_weight(page: Any) -> None:
    page.fill("#search", "narrow/matmul")
    assert page.inner_text("#hits") == "6 operators, 1 shown"
    page.press("#search", "Enter")
    assert page.inner_text("#cuts") == "(4,2) (1,2)"
    moves = page.inner_text("#moves")
    # The gradient of half of the weight, summed over the four ranks that have rows of the batch.
    assert "AllReduce\t4\t1\t32.8 kB" in moves
    assert "gradients: gradient of" in moves
    held = page.inner_text(".holders")
    assert "float32, kept as 64 x 256/2, 4 copies: 32.8 kB a rank" in held
    assert "[0:64, 0:128]\t0, 2, 4, 6" in held
    assert "[0:64, 128:256]\t1, 3, 5, 7" in held


def test_it_says_why_and_what_other_cuts_would_cost(page: Any) -> None:
    page.fill("#search", "wide")
    page.press("#search", "Enter")
    why = page.inner_text("#why")
    assert "Strategy that the program sets by shard. The best alternative, (" in why
    assert "(4,1) (2,1) (this)" in why
    assert why.count(" %") > 5


def test_layers_that_are_alike_stand_as_one_until_they_are_unfolded(page: Any) -> None:
    rows = "svg [data-name]"
    page.click("#fold")
    folded = page.locator(rows).count()
    page.click("#unfold")
    assert page.locator(rows).count() > folded
    assert "0 to 5 are alike" in page.text_content("#canvas svg")
    names = [page.locator(rows).nth(place).get_attribute("data-name") for place in range(page.locator(rows).count())]
    assert len(names) == len(set(names))
    before = page.locator("#canvas svg").bounding_box()["width"]
    page.click("#larger")
    assert page.locator("#canvas svg").bounding_box()["width"] == pytest.approx(1.25 * before)


def test_communication_memory_and_parameters_have_pages_of_their_own(page: Any) -> None:
    page.click("[data-tab=communication]")
    assert "12 gradients" in page.inner_text("#panel")
    page.click("[data-tab=memory]")
    # Twelve weights of 64 x 256 in two parts.
    assert "weights\t393 kB" in page.inner_text("#panel")
    page.fill("#search", "moment1")
    page.click("[data-tab=parameters]")
    assert "moment1." in page.inner_text("#panel h3 >> nth=0")


def test_without_stages_there_is_no_picture_of_them(page: Any) -> None:
    assert not page.is_visible("#lines")


def test_stages_are_drawn_with_what_each_does_when_large_enough_to_be_read(tmp_path: Path) -> None:
    found = _written(tmp_path, STAGES).as_uri()
    with opened(found, lambda url: url == found) as page:
        drawn = page.locator("#lines svg")
        words = drawn.text_content()
        assert all(
            one in words for one in ("GPipe", "stage 0", "stage 1", "forward", "weight gradient", "update", "idle")
        )
        # Each micro-batch goes forward in both stages; the second gives the first the gradient of its input.
        numbers = drawn.locator("g text")
        shown = [numbers.nth(place).text_content() for place in range(numbers.count())]
        assert [shown.count(str(micro_batch)) for micro_batch in range(5)] == [5, 5, 5, 5, 0]
        boxes = [numbers.nth(place).bounding_box() for place in range(numbers.count())]
        assert min(box["height"] for box in boxes) > 10
        width = page.viewport_size["width"]
        assert all(box["x"] > 0 and box["x"] + box["width"] < width for box in boxes)
        # The second stage waits until the first has its first micro-batch done.
        rows = sorted({round(box["y"]) for box in boxes})
        firsts = [min(box["x"] for box in boxes if round(box["y"]) == row) for row in rows]
        assert len(rows) == 2
        assert firsts[0] < firsts[1]
        page.click("[data-tab=memory]")
        assert page.inner_text("#panel").count(" % of a step.") == 2
        page.click("#lines summary")
        assert not page.is_visible("#times")
