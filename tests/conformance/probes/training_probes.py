"""Probes of what trains: models, callbacks, schedules, gradients."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import mpiparallel as ms
import mpiparallel.dataset as ds
from mpiparallel import Tensor, nn, ops, train
from mpiparallel.graph.parameter import Parameter
from tests.conformance.probes.argument_probe import ROWS, SQUARE, Beside, Noted, Probe, Refused, function, seen

SCHEDULED = {"is_stair": True}


def data(count: int = 6) -> ds.Dataset:
    """Return batches of two rows."""
    return ds.NumpySlicesDataset((ROWS[:1].repeat(count, 0), ROWS[:1, :1].repeat(count, 0)), ["x", "y"]).batch(2)


def network() -> nn.Dense:
    """Return a layer with known weights."""
    return nn.Dense(4, 1, weight_init=Tensor(SQUARE[:1]), bias_init="zeros")


def model(**options: Any) -> ms.Model:
    """Return a model of the layer; its optimizer may be given as the kind."""
    layer = network()
    kind = options.pop("optimizer", nn.Momentum)
    given = {"loss_fn": nn.MSELoss(), "optimizer": kind(layer.trainable_params(), 0.1, 0.9)} | options
    return ms.Model(layer, **given)


def modelled(**options: Any) -> Any:
    """Return the weights after a training, and what an evaluation measures."""
    one = model(**options)
    one.train(1, data(), dataset_sink_mode=False)
    return seen(one.train_network), one.eval(data())


def inferred(**options: Any) -> Any:
    """Return whether inference has placed the weights of its network."""
    layer = network()
    ms.Model(layer).infer_predict_layout(Tensor(ROWS), **options)
    return [one.layout is None for one in layer.get_parameters()]


def scaling(**options: Any) -> Any:
    """Return what a manager says of its scale."""
    cell: Any = train.DynamicLossScaleManager(**options).get_update_cell()
    return cell.get_loss_scale(), cell.scale_factor, cell.scale_window


def one_step(**options: Any) -> Any:
    """Return the weights after a step of build_train_network."""
    layer = network()
    options = {"loss_fn": nn.MSELoss()} | options
    step = ms.build_train_network(layer, nn.SGD(layer.trainable_params(), 0.1), **options).set_train()
    step(Tensor(ROWS), Tensor(ROWS[:, :1]))
    return seen(layer)


@contextlib.contextmanager
def printed() -> Iterator[io.StringIO]:
    """Have what is printed, numbers of time left out."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        yield stream


def trained(**options: Any) -> Any:
    """Return weights and lines after two epochs."""
    one = model()
    given = {"callbacks": None, "dataset_sink_mode": False} | options
    if given["callbacks"] == "loss":
        given["callbacks"] = train.LossMonitor()
    with printed() as stream:
        one.train(2, data(), **given)
    return seen(one.train_network), stream.getvalue()


def watched(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Return what trains with a callback."""
    return lambda **options: trained(callbacks=callback(**options))[1].split("ms")[0]


def watched_by_clock(**options: Any) -> Any:
    """Return the words of what is printed of time."""
    return re.findall("[a-z]+", trained(callbacks=train.TimeMonitor(**options))[1])


def schedule(kind: Callable[..., Any], *required: Any) -> Callable[..., Any]:
    """Return what tells a learning rate at some steps."""
    return lambda **options: [seen(kind(*required, **options)(Tensor(step))) for step in (1, 3, 7)]


def gradient_of(**options: Any) -> Any:
    """Return what GradOperation gives of a product."""
    weight = Parameter(SQUARE.copy(), "weight")

    class Product(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def construct(self, x: Tensor, y: Tensor) -> Tensor:
            return (ops.matmul(x, self.weight) * y).sum()

    by_list = (ms.ParameterTuple([weight]),) if options.get("get_by_list") else ()
    sens = (Tensor(np.float32(2)),) if options.get("sens_param") else ()
    return seen(ops.GradOperation(**options)(Product(), *by_list)(Tensor(ROWS), Tensor(ROWS + 1), *sens))


def stepped(**options: Any) -> Any:
    """Return the weights after a step of TrainOneStepCell."""
    layer = network()
    step = nn.TrainOneStepCell(nn.WithLossCell(layer, nn.MSELoss()), nn.SGD(layer.trainable_params(), 0.1), **options)
    step.set_train()(Tensor(ROWS), Tensor(ROWS[:, :1]))
    return seen(layer)


def differentiated(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return what takes a gradient of a sum of squares of a product."""

    def call(**options: Any) -> Any:
        weight = Parameter(SQUARE.copy(), "weight")
        chosen = {name: weight if value == "weight" else value for name, value in options.items()}

        def loss(x: Tensor, y: Tensor) -> Any:
            total = (ops.matmul(x, weight) * y).sum()
            return (total, x) if options.get("has_aux") else total

        sens = (Tensor(np.float32(2)),) if options.get("sens_param") else ()
        return seen(kind(loss, **chosen)(Tensor(ROWS), Tensor(ROWS + 1), *sens))

    return call


def on_device(**options: Any) -> Any:
    """Return the device that a rank is told to compute on."""
    before = ms.get_context("device_id")
    try:
        ms.set_device("CPU", **options)
        return ms.get_context("device_id")
    finally:
        ms.set_context(device_id=before)


GRADIENT = {
    "grad_position": 1,
    "weights": "weight",
    "has_aux": True,
    "return_ids": True,
    "sens_param": True,
}

TRAINING: dict[str, Probe] = {
    "DatasetHelper": Probe(
        lambda **options: [len(batch) for batch in ms.DatasetHelper(data(), **options)],
        {"dataset_sink_mode": False, "sink_size": 2, "epoch_num": Noted(2)},
    ),
    "set_device": Probe(on_device, {"device_id": 1}),
    "grad": Probe(differentiated(ops.grad), GRADIENT),
    "value_and_grad": Probe(differentiated(ops.value_and_grad), GRADIENT),
    "ops.GradOperation": Probe(gradient_of, {"get_all": True, "get_by_list": True, "sens_param": True}),
    "nn.TrainOneStepCell": Probe(stepped, {"sens": 2.0, "return_grad": Refused(True)}),
    "nn.ExponentialDecayLR": Probe(schedule(nn.ExponentialDecayLR, 0.1, 0.9, 4), SCHEDULED),
    "nn.InverseDecayLR": Probe(schedule(nn.InverseDecayLR, 0.1, 0.9, 4), SCHEDULED),
    "nn.NaturalExpDecayLR": Probe(schedule(nn.NaturalExpDecayLR, 0.1, 0.9, 4), SCHEDULED),
    "nn.PolynomialDecayLR": Probe(schedule(nn.PolynomialDecayLR, 0.1, 0.01, 4, 0.5), {"update_decay_steps": True}),
    "nn.exponential_decay_lr": Probe(function(nn.exponential_decay_lr, 0.1, 0.9, 6, 2, 2), SCHEDULED),
    "nn.polynomial_decay_lr": Probe(
        function(nn.polynomial_decay_lr, 0.1, 0.01, 6, 1, 2, 0.5), {"update_decay_epoch": True}
    ),
    "nn.SoftmaxCrossEntropyWithLogits": Probe(
        lambda **options: seen(nn.SoftmaxCrossEntropyWithLogits(**options)(Tensor(ROWS), Tensor(_labels(options)))),
        {"sparse": Beside(True, {"reduction": "mean"}), "reduction": "sum"},
    ),
    "nn.Accuracy": Probe(lambda **options: _measured(nn.Accuracy(**options)), {"eval_type": "multilabel"}),
    "DynamicLossScaleManager": Probe(scaling, {"init_loss_scale": 4.0, "scale_factor": 4, "scale_window": 7}),
    "Model": Probe(
        modelled,
        {
            "loss_fn": nn.L1Loss(),
            "optimizer": nn.SGD,
            "metrics": {"mae"},
            "amp_level": "O3",
            "boost_level": Refused("O1"),
        },
    ),
    "build_train_network": Probe(one_step, {"loss_fn": nn.L1Loss(), "level": "O3", "boost_level": Refused("O1")}),
    "Model.infer_predict_layout": Probe(inferred, {"skip_backend_compile": True}),
    "FixedLossScaleManager": Probe(
        lambda **options: (
            train.FixedLossScaleManager(**options).get_loss_scale(),
            train.FixedLossScaleManager(**options).get_drop_overflow_update(),
        ),
        {"loss_scale": 2.0, "drop_overflow_update": False},
    ),
    "train.LossMonitor": Probe(watched(train.LossMonitor), {"per_print_times": 2}),
    "Model.train": Probe(
        trained,
        {
            "callbacks": "loss",
            "dataset_sink_mode": Beside(True, {"callbacks": "loss"}),
            "sink_size": Beside(2, {"callbacks": "loss", "dataset_sink_mode": True}),
            "initial_epoch": 1,
        },
    ),
    "Model.eval": Probe(
        lambda **options: model(metrics={"loss"}).eval(data(), **options),
        {"callbacks": Noted([train.LossMonitor()]), "dataset_sink_mode": Noted(False)},
    ),
    "Model.build": Probe(
        lambda **options: model().build(**{"train_dataset": data()} | options) is None,
        {"sink_size": Noted(2), "epoch": Noted(2), "sink_mode": Noted(False), "train_dataset": None},
    ),
    "Model.predict": Probe(
        lambda **options: model().predict(Tensor(ROWS), **options),
        {"backend": Refused("ge"), "config": Refused({})},
    ),
    "train.TimeMonitor": Probe(watched_by_clock, {"data_time": True}),
    "Model.infer_train_layout": Probe(
        lambda **options: model().infer_train_layout(data(), **options),
        {"dataset_sink_mode": Noted(False), "sink_size": Noted(2)},
    ),
    "amp.auto_mixed_precision": Probe(
        lambda **options: seen(ms.amp.auto_mixed_precision(network(), **options)(Tensor(ROWS))),
        {"amp_level": "O3", "dtype": Refused(ms.float32)},
    ),
}


def _measured(metric: Any) -> Any:
    metric.update(np.array([[0, 1], [1, 1]]), np.array([[0, 1], [1, 0]]))
    return metric.eval()


def _labels(options: Mapping[str, Any]) -> Any:
    return np.array([3, 0, 3], np.int32) if options.get("sparse") else np.eye(4, dtype=np.float32)[[1, 0, 3]]
