"""Five steps of each optimizer are those of its formula."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import nn
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor

STEPS = 5
GENERATOR = np.random.default_rng(8)
START = {"weight": GENERATOR.normal(size=(3, 4)), "norm.beta": GENERATOR.normal(size=4)}
GRADIENTS = [{name: GENERATOR.normal(size=array.shape) for name, array in START.items()} for _ in range(STEPS)]
RATE, DECAY = np.float32(0.1), 0.01
SCALE = 4.0


def trained():
    return [Parameter(Tensor(array.copy()), name) for name, array in START.items()]


def run(optimizer, scale=1.0):
    for gradients in GRADIENTS:
        optimizer([Tensor(gradients[parameter.name] * scale) for parameter in optimizer.parameters])
    return {parameter.name: parameter.asnumpy() for parameter in optimizer.get_parameters()}


def momentum(x, gradients, decay, nesterov=False):
    moment, coefficient = np.zeros_like(x), np.float32(0.9)
    for gradient in gradients:
        step = gradient + decay * x
        moment = coefficient * moment + step
        x = x - RATE * (step + coefficient * moment if nesterov else moment)
    return {"": x, "moments": moment}


def sgd(x, gradients, decay, coefficient=0.0, dampening=0.0, nesterov=False):
    accum = None
    for gradient in gradients:
        step = gradient + decay * x
        if coefficient:
            accum = step if accum is None else coefficient * accum + (1 - dampening) * step
            step = step + coefficient * accum if nesterov else accum
        x = x - RATE * step
    return {"": x, "stat": np.full_like(x, 0.0 if coefficient else 1.0)}


def adam(x, gradients, decay, nesterov=False):
    m, v = np.zeros_like(x), np.zeros_like(x)
    power1 = power2 = np.float32(1)
    for gradient in gradients:
        gradient = gradient + decay * x
        power1, power2 = power1 * np.float32(0.9), power2 * np.float32(0.999)
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        rate = RATE * np.sqrt(1 - float(power2)) / (1 - float(power1))
        along = 0.9 * m + 0.1 * gradient if nesterov else m
        x = x - rate * along / (np.sqrt(v) + 1e-8)
    return {"": x, "moment1": m, "moment2": v}


def adam_weight_decay(x, gradients, decay):
    m, v = np.zeros_like(x), np.zeros_like(x)
    for gradient in gradients:
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        x = x - RATE * (m / (np.sqrt(v) + 1e-6) + decay * x)
    return {"": x, "adam_m": m, "adam_v": v}


CASES = {
    "momentum": (lambda p: nn.Momentum(p, 0.1, 0.9), momentum, {}),
    "momentum decayed and scaled": (lambda p: nn.Momentum(p, 0.1, 0.9, DECAY, SCALE), momentum, {}),
    "nesterov momentum": (
        lambda p: nn.Momentum(p, 0.1, 0.9, use_nesterov=True),
        momentum,
        {"nesterov": True},
    ),
    "sgd": (lambda p: nn.SGD(p, 0.1), sgd, {}),
    "sgd decayed and scaled": (lambda p: nn.SGD(p, 0.1, weight_decay=DECAY, loss_scale=SCALE), sgd, {}),
    "sgd with momentum": (
        lambda p: nn.SGD(p, 0.1, 0.5, 0.25, DECAY),
        sgd,
        {"coefficient": 0.5, "dampening": 0.25},
    ),
    "nesterov sgd": (lambda p: nn.SGD(p, 0.1, 0.5, nesterov=True), sgd, {"coefficient": 0.5, "nesterov": True}),
    "adam": (lambda p: nn.Adam(p, 0.1), adam, {}),
    "adam decayed and scaled": (lambda p: nn.Adam(p, 0.1, weight_decay=DECAY, loss_scale=SCALE), adam, {}),
    "nesterov adam": (lambda p: nn.Adam(p, 0.1, use_nesterov=True), adam, {"nesterov": True}),
    "adam weight decay": (lambda p: nn.AdamWeightDecay(p, 0.1, weight_decay=DECAY), adam_weight_decay, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_five_steps_are_those_of_the_formula(case):
    make, formula, options = CASES[case]
    optimizer = make(trained())
    found = run(optimizer, optimizer.loss_scale)
    for name, start in START.items():
        decayed = "decay" in case or "sgd with momentum" in case
        spared = name == "norm.beta" and not isinstance(optimizer, nn.SGD)
        wanted = formula(start, [g[name] for g in GRADIENTS], DECAY if decayed and not spared else 0.0, **options)
        for prefix, array in wanted.items():
            np.testing.assert_allclose(found[f"{prefix}.{name}" if prefix else name], array, rtol=1e-11, atol=1e-13)
    assert optimizer.step == STEPS


@pytest.mark.parametrize(
    ("make", "states"),
    [
        (lambda p: nn.Momentum(p, 0.1, 0.9), ["momentum", "moments.weight", "moments.norm.beta"]),
        (lambda p: nn.SGD(p), ["momentum", "accum.weight", "accum.norm.beta", "stat.weight", "stat.norm.beta"]),
        (
            lambda p: nn.Adam(p),
            [
                "beta1_power",
                "beta2_power",
                "moment1.weight",
                "moment1.norm.beta",
                "moment2.weight",
                "moment2.norm.beta",
            ],
        ),
        (
            lambda p: nn.AdamWeightDecay(p),
            ["adam_m.weight", "adam_m.norm.beta", "adam_v.weight", "adam_v.norm.beta"],
        ),
    ],
    ids=["Momentum", "SGD", "Adam", "AdamWeightDecay"],
)
def test_states_are_named_as_mindspore_names_them_and_are_not_trained(make, states):
    parameters = trained()
    parameters[0].parallel_optimizer = False
    optimizer = make(parameters)
    found = {parameter.name: parameter for parameter in optimizer.untrainable_params()}
    assert list(found) == ["global_step", "learning_rate", *states]
    assert [parameter.name for parameter in optimizer.trainable_params()] == ["weight", "norm.beta"]
    assert all(found[name].parallel_optimizer == ("weight" not in name) for name in states)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: nn.Momentum(p, -0.1, 0.9), "Momentum: learning_rate -0.1"),
        (lambda p: nn.Momentum(p, 0.1, -0.9), "Momentum: momentum -0.9 must be at least 0"),
        (lambda p: nn.Momentum(p, "fast", 0.9), "learning_rate is a str"),
        (lambda p: nn.Momentum(p, [], 0.9), "learning_rate is a list"),
        (lambda p: nn.SGD(p, weight_decay=-1.0), "SGD: weight_decay -1.0"),
        (lambda p: nn.SGD(p, nesterov=True), "SGD: momentum 0.0 must be above 0 with nesterov=True"),
        (lambda p: nn.SGD(p, momentum=0.9, dampening=0.1, nesterov=True), "needs dampening=0.0"),
        (lambda p: nn.Adam(p, beta1=1.0), "Adam: beta1 1.0 must be above 0 and below 1"),
        (lambda p: nn.Adam(p, eps=0.0), "Adam: eps 0.0 must be above 0"),
        (lambda p: nn.AdamWeightDecay(p, beta1=0.0), "AdamWeightDecay: beta1 0.0"),
        (lambda p: nn.AdamWeightDecay(p, beta2=0.0), "AdamWeightDecay: beta2 0.0"),
        (lambda p: nn.Adam(p, loss_scale=0.0), "Adam: loss_scale 0.0 must be above 0"),
    ],
)
def test_values_out_of_range_are_refused(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make(trained())


def test_another_number_of_gradients_is_refused():
    with pytest.raises(ConfigurationError, match="1 gradients are given for 2 parameters"):
        nn.SGD(trained())([Tensor(GRADIENTS[0]["weight"])])


def test_a_table_gives_each_step_its_learning_rate_and_its_last_holds_on():
    rates = np.array([0.5, 0.25, 0.125], np.float32)
    optimizer = nn.SGD(trained(), rates)
    found = run(optimizer)["weight"]
    wanted = START["weight"] - sum(rates[min(t, 2)] * GRADIENTS[t]["weight"] for t in range(STEPS))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_the_learning_rate_can_be_changed_between_steps():
    optimizer = nn.SGD(trained(), 0.1)
    optimizer.learning_rate.set_data(np.asarray(0.0))
    np.testing.assert_array_equal(run(optimizer)["weight"], START["weight"])
