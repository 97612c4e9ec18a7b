"""Loops and gradients that users write themselves, run by MindSpore and here: equal answers."""

from __future__ import annotations

import numpy as np
import pytest

mindspore = pytest.importorskip("mindspore", reason="make test-interop-mindspore installs MindSpore")

import mpiparallel  # noqa: E402

pytestmark = pytest.mark.mindspore

X, Y = np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)


def cells(ms):
    """Return cells of the package ``ms``."""
    nn = ms.nn

    class Hundred(nn.Cell):
        def construct(self, x, y):
            return x * 2 + y

        def bprop(self, x, y, out, dout):
            return dout * 100, dout * y + out

    class Pair(nn.Cell):
        def construct(self, x, y):
            return x * y, x + y

        def bprop(self, x, y, out, dout):
            return dout[0] * 100 + out[0], dout[1] * 7

    class Weighted(nn.Cell):
        def __init__(self):
            super().__init__()
            self.weight = ms.Parameter(ms.Tensor(Y), name="weight")

        def construct(self, x, y, scale=3):
            return x * self.weight * y * scale

        def bprop(self, x, y, scale, out, dout):
            return dout * scale, dout * 2, 0

    class Around(nn.Cell):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def construct(self, x, y):
            return self.inner(x * 5, y) * 2

    class Named(nn.Cell):
        def construct(self, x, y, scale=2, mask=None, flag=True):
            out = x * y * scale
            if mask is not None:
                out = out * mask
            return out + x if flag else out

    return {
        "hundred": Hundred,
        "pair": Pair,
        "weighted": Weighted,
        "around": lambda: Around(Hundred()),
        "around weighted": lambda: Around(Weighted()),
        "named": Named,
    }


def plain(item):
    if isinstance(item, (tuple, list)):
        return [plain(one) for one in item]
    return item.asnumpy().tolist() if hasattr(item, "asnumpy") else item


WAYS = {
    "inputs": lambda ms, net, x, y: ms.grad(net, (0, 1))(x, y),
    "value": lambda ms, net, x, y: ms.value_and_grad(net, 1)(x, y),
    "ids": lambda ms, net, x, y: ms.grad(net, (1, 0), return_ids=True)(x, y),
    "one of several": lambda ms, net, x, y: ms.grad(net, (1,))(x, y),
    "all": lambda ms, net, x, y: ms.ops.GradOperation(get_all=True)(net)(x, y),
    "weights": lambda ms, net, x, y: ms.grad(net, 0, net.trainable_params())(x, y),
    "names": lambda ms, net, x, y: ms.grad(net, None, net.trainable_params(), return_ids=True)(x, y),
}


def cases():
    for cell in ("hundred", "pair", "weighted", "around", "around weighted", "named"):
        for way in WAYS:
            if way not in ("weights", "names") or "weighted" in cell:
                yield cell, way


@pytest.mark.parametrize(("cell", "way"), [*cases()])
def test_gradients_are_mindspores(cell, way) -> None:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    found = {ms: WAYS[way](ms, cells(ms)[cell](), ms.Tensor(X), ms.Tensor(Y)) for ms in (mindspore, mpiparallel)}
    assert plain(found[mpiparallel]) == plain(found[mindspore])


OPTIONS = ({}, {"scale": 5}, {"mask": Y}, {"flag": False, "mask": Y}, {"flag": False, "scale": 1})


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(options) or "none")
def test_arguments_by_name_are_mindspores(options) -> None:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    found = {}
    for ms in (mindspore, mpiparallel):
        given = {name: ms.Tensor(one) if isinstance(one, np.ndarray) else one for name, one in options.items()}
        net = cells(ms)["named"]()
        found[ms] = net(ms.Tensor(X), ms.Tensor(Y), **given), ms.grad(net)(ms.Tensor(X), ms.Tensor(Y), **given)
    assert plain(found[mpiparallel]) == plain(found[mindspore])


def test_mindspore_reads_what_has_been_drawn_beside_the_parameters_and_loads_them(tmp_path) -> None:
    path = str(tmp_path / "state.ckpt")
    network = mpiparallel.nn.SequentialCell([mpiparallel.nn.Dense(2, 3), mpiparallel.nn.Dropout(p=0.5)]).set_train()
    network(mpiparallel.Tensor(X[None]))
    mpiparallel.save_checkpoint(network, path)
    loaded = mindspore.load_checkpoint(path)
    assert int(loaded["random_draws"].asnumpy()) == 1
    theirs = mindspore.nn.SequentialCell([mindspore.nn.Dense(2, 3), mindspore.nn.Dropout(p=0.5)])
    missing, _ = mindspore.load_param_into_net(theirs, loaded)
    assert not missing
    np.testing.assert_array_equal(theirs[0].weight.asnumpy(), network[0].weight.asnumpy())
    mindspore.save_checkpoint(
        [{"name": name, "data": one} for name, one in loaded.items()], str(tmp_path / "back.ckpt")
    )
    mpiparallel.set_seed(0)
    assert mpiparallel.load_checkpoint(tmp_path / "back.ckpt", network)
    assert mpiparallel.get_rng_state().asnumpy().tolist() == [0, 1]
