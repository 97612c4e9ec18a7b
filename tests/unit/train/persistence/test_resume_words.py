"""What a resume says of itself: where it goes on, what was lost, and what it has left as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpiparallel import Model, Parameter, nn
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import CheckpointError
from mpiparallel.train import CheckpointConfig, ModelCheckpoint


class Sum(nn.Cell):
    """The sum of an input with parameters of these names; those of capital letters are not trained."""

    def __init__(self, names: str) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, Parameter(np.ones(1, np.float32), name, requires_grad=name.islower()))
        self.names = names

    def construct(self, x):
        loss = x.sum()
        for name in self.names:
            loss = loss + getattr(self, name).sum()
        return loss


DATA = NumpySlicesDataset((np.ones((4, 1), np.float32),), ["x"], shuffle=False).batch(1)


def model(names: str) -> Model:
    network = Sum(names)
    return Model(network, optimizer=nn.SGD(network.trainable_params(), 0.5))


def saved(folder: Path, names: str) -> None:
    saver = ModelCheckpoint("net", folder, CheckpointConfig(1))
    model(names).train(1, DATA, saver, dataset_sink_mode=False)


@pytest.mark.parametrize(
    ("names", "left"), [("abCDEF", "'C', 'D', 'E', 'F'"), ("abCDEFG", "'C', 'D', 'E', 'F' and 1 more")]
)
def test_up_to_four_parameters_that_are_not_in_the_checkpoint_are_named(
    names: str, left: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, "ab")
    found = model(names).resume(tmp_path, DATA, "net", strict=False)
    assert found is not None
    assert str(found) == f"{tmp_path}/net-1_4: step 4, saved by 1 rank"
    assert (found.epoch, found.step_in_epoch, found.ranks) == (1, 4, 1)
    words = f"Model.resume: resumed from {found}; not in it, and left as they are: {left}\n"
    assert capsys.readouterr().out == words
    with pytest.raises(CheckpointError) as caught:
        model(names).resume(tmp_path, DATA, "net")
    assert f"lacks {left} and has nothing besides; load the network and the optimizer" in str(caught.value)


def test_what_the_network_lacks_is_named_where_it_is_refused_and_else_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, "aBCDEFG")
    with pytest.raises(CheckpointError, match=r"lacks nothing and has 'B', 'C', 'D', 'E' and 2 more besides; load"):
        model("a").resume(tmp_path, DATA, "net")
    found = model("a").resume(tmp_path, DATA, "net", strict=False)
    assert found is not None
    assert found.missing == ()
    assert capsys.readouterr().out == ""


def test_damaged_checkpoints_are_told_and_where_all_are_four_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, "a")
    for step in (3, 4):
        (tmp_path / f"net-1_{step}.manifest.json").write_text("{")
    found = model("a").resume(tmp_path, DATA, "net")
    assert found is not None
    assert (found.step, sorted(found.lost)) == (2, ["net-1_3", "net-1_4"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[:2] for line in lines[:2]] == [
        ["Model.resume", f"{tmp_path}/net-1_{step} cannot be read"] for step in (4, 3)
    ]
    assert lines[2:] == [f"Model.resume: resumed from {tmp_path}/net-1_2: step 2, saved by 1 rank"]
    for step in (1, 2):
        (tmp_path / f"net-1_{step}.manifest.json").write_text("{")
    (tmp_path / "net-1_9.manifest.json").write_text("{")
    with pytest.raises(CheckpointError, match=r": none of 5 checkpoints can be read: ") as caught:
        model("a").resume(tmp_path, DATA, "net")
    assert sum(f"net-1_{step}: " in str(caught.value) for step in range(1, 10)) == 4


def test_a_folder_without_a_checkpoint_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert model("a").resume(tmp_path / "none", DATA) is None
    said = f"Model.resume: {tmp_path}/none has no checkpoint, so the training begins at its beginning\n"
    assert capsys.readouterr().out == said
