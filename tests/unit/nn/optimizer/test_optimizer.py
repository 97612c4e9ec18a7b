"""What optimizers share: the range of each argument, its default, rates, decay and scale, and what is saved of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from mpiparallel import nn, ops
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor


def made(*names: str) -> list[Parameter]:
    return [Parameter(Tensor(np.full(2, 1.0)), name) for name in names]


class Descent(nn.Optimizer):
    """As small as an optimizer can be."""

    def construct(self, gradients: Sequence[Tensor]) -> None:
        ready = self.decayed(self.unscaled(gradients))
        for parameter, gradient, rate in zip(self.parameters, ready, self.rates(), strict=True):
            ops.AssignSub()(parameter, rate * gradient)
        self.count_step()


OUT_OF_RANGE: list[tuple[type[nn.Optimizer], str, tuple[Any, ...], str]] = [
    (nn.Adam, "beta1", (0.0, -0.5, 1.0, 1.5), "above 0 and below 1"),
    (nn.Adam, "beta2", (0.0, -0.5, 1.0, 1.5), "above 0 and below 1"),
    (nn.Adam, "eps", (0.0, -0.5), "above 0"),
    (nn.Adam, "weight_decay", (-0.5,), "at least 0"),
    (nn.Adam, "loss_scale", (0.0, -0.5), "above 0"),
    (nn.AdamWeightDecay, "beta1", (0.0, -0.5, 1.0, 1.5), "above 0 and below 1"),
    (nn.AdamWeightDecay, "beta2", (0.0, -0.5, 1.0, 1.5), "above 0 and below 1"),
    (nn.AdamWeightDecay, "eps", (0.0, -0.5), "above 0"),
    (nn.AdamWeightDecay, "weight_decay", (-0.5,), "at least 0"),
    (nn.SGD, "momentum", (-0.5,), "at least 0"),
    (nn.SGD, "dampening", (-0.5,), "at least 0"),
    (nn.SGD, "learning_rate", (-0.5,), "at least 0"),
    (nn.SGD, "loss_scale", (0.0, -0.5), "above 0"),
]


@pytest.mark.parametrize(("kind", "name", "values", "wanted"), OUT_OF_RANGE)
def test_a_number_out_of_its_range_is_refused_with_the_range(
    kind: Any, name: str, values: tuple[float, ...], wanted: str
) -> None:
    for value in values:
        with pytest.raises(ConfigurationError, match=f"^{kind.__name__}: {name} {value} must be {wanted}$"):
            kind(made("a"), **{name: value})


def test_a_momentum_below_nothing_is_refused_and_none_at_all_is_taken() -> None:
    with pytest.raises(ConfigurationError, match=r"Momentum: momentum -0\.5 must be at least 0"):
        nn.Momentum(made("a"), 0.1, -0.5)
    assert nn.Momentum(made("a"), 0.0, 0.0).get_lr().item() == 0.0


DEFAULTS = [
    (nn.Adam, 1e-3, {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}),
    (nn.AdamWeightDecay, 1e-3, {"beta1": 0.9, "beta2": 0.999, "eps": 1e-6}),
    (nn.SGD, 0.1, {}),
]


@pytest.mark.parametrize(("kind", "rate", "numbers"), DEFAULTS)
def test_an_optimizer_that_is_told_nothing_has_the_numbers_of_its_page(
    kind: Any, rate: float, numbers: dict[str, float]
) -> None:
    optimizer = kind(made("a"))
    assert optimizer.get_lr().item() == pytest.approx(rate)
    assert {name: getattr(optimizer, name) for name in numbers} == numbers
    assert (optimizer.weight_decays, optimizer.loss_scale) == ((0.0,), 1.0)


@pytest.mark.parametrize("options", [{}, {"loss_scale": 2.0}, {"loss_scale": 4.0}, {"weight_decay": 0.5}])
def test_a_step_of_ones_own_optimizer_takes_back_the_scale_and_adds_the_decay(options: dict[str, float]) -> None:
    a, gamma, beta = made("a", "norm.gamma", "norm.beta")
    optimizer = Descent(0.25, [a, gamma, beta], **options)
    optimizer([Tensor(np.full(2, 3.0))] * 3)
    step = 0.25 * 3.0 / options.get("loss_scale", 1.0)
    decayed = step + 0.25 * options.get("weight_decay", 0.0)
    assert [one.asnumpy().tolist() for one in (a, gamma, beta)] == [[1 - decayed] * 2, [1 - step] * 2, [1 - step] * 2]


def test_the_count_of_steps_is_one_integer_and_goes_up_by_one() -> None:
    optimizer = Descent(0.25, made("a"))
    assert (optimizer.step, optimizer.global_step.shape, optimizer.global_step.dtype) == (0, (1,), np.int32)
    for step in (1, 2):
        optimizer([Tensor(np.ones(2))])
        assert optimizer.step == step


RATES: list[tuple[Any, list[float]]] = [
    (0.5, [0.5, 0.5, 0.5]),
    (1, [1.0, 1.0, 1.0]),
    (0, [0.0, 0.0, 0.0]),
    (Tensor(np.float32(0.5)), [0.5, 0.5, 0.5]),
    ([0.5, 0.25], [0.5, 0.25, 0.25]),
    (Tensor(np.array([0.5, 0.25], np.float32)), [0.5, 0.25, 0.25]),
    ([0.5], [0.5, 0.5, 0.5]),
]


@pytest.mark.parametrize(("rate", "wanted"), RATES)
def test_a_rate_may_be_a_number_a_tensor_or_a_list_whose_last_holds_on(rate: Any, wanted: list[float]) -> None:
    (a,) = made("a")
    optimizer = Descent(rate, [a])
    for step, one in enumerate(wanted):
        assert optimizer.get_lr().item() == one
        optimizer([Tensor(np.ones(2))])
        assert a.asnumpy().tolist() == [1 - sum(wanted[: step + 1])] * 2


@pytest.mark.parametrize("rate", [[[0.1, 0.2]], True, "0.1", [], None, np.zeros((0,))])
def test_what_is_no_rate_is_refused_by_its_type(rate: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"Descent: learning_rate is a {type(rate).__name__}; give a number"):
        Descent(rate, made("a"))


def test_the_rates_of_groups_are_told_for_each_parameter() -> None:
    a, b, c = made("a", "b", "c")
    optimizer = Descent(0.5, [{"params": [a, b]}, {"params": [c], "lr": 0.25}])
    assert [one.item() for one in optimizer.get_lr()] == [0.5, 0.5, 0.25]
    assert [one.name for one in optimizer.group_learning_rates] == ["learning_rate_group_1"]
    assert Descent(0.5, made("a", "b")).get_lr().item() == 0.5
    assert not Descent(0.5, made("a", "b")).group_learning_rates


A, B = made("a", "b")
MALFORMED: list[tuple[Any, str]] = [
    ([A, B, B], "SGD: parameter 'b' is given twice; give it once, in one group"),
    ([B, A, A], "SGD: parameter 'a' is given twice; give it once, in one group"),
    ([{"params": [A], "weight_decay": "0.1"}], "group 0 has weight_decay '0.1'; give a number of at least 0"),
    ([{"params": [A], "weight_decay": -0.5}], "group 0 has weight_decay -0.5; give a number of at least 0"),
    ([{"params": [A, 3]}], "SGD: group 0: element 1 is a int; give Parameters"),
    ([{"params": [A]}, {"params": [B], "zeal": 1}], "SGD: group 1 has the key 'zeal'; known are params, lr"),
    ([{"params": [A]}, {"order_params": []}], "SGD: order_params: there are no parameters"),
    ([{"params": [A]}, {"order_params": ["a"]}], "SGD: order_params: element 0 is a str; give Parameters"),
]


@pytest.mark.parametrize(("parameters", "said"), MALFORMED)
def test_malformed_groups_are_refused_by_the_place_of_the_fault(parameters: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        nn.SGD(parameters)


TAKEN: list[tuple[Callable[[], Any], list[str], tuple[float, ...]]] = [
    (lambda: A, ["a"], (0.25,)),
    (lambda: {"params": [A, B]}, ["a", "b"], (0.25, 0.25)),
    (lambda: iter([A, B]), ["a", "b"], (0.25, 0.25)),
    (lambda: [{"params": iter([A]), "weight_decay": 1}, {"params": [B]}], ["a", "b"], (1.0, 0.25)),
    (lambda: [{"params": [A, B]}, {"order_params": [B, A]}], ["b", "a"], (0.25, 0.25)),
]


@pytest.mark.parametrize(("given", "names", "decays"), TAKEN)
def test_parameters_may_be_given_alone_as_one_group_or_by_what_yields_them(
    given: Callable[[], Any], names: list[str], decays: tuple[float, ...]
) -> None:
    optimizer = nn.SGD(given(), weight_decay=0.25)
    assert [one.name for one in optimizer.parameters] == names
    assert optimizer.weight_decays == decays


def test_what_adam_does_not_offer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Adam: use_amsgrad=True is not supported; use False"):
        nn.Adam(made("a"), use_amsgrad=True)
    with pytest.raises(ConfigurationError, match="Descent: 3 gradients are given for 1 parameters"):
        Descent(0.1, made("a"))([Tensor(np.ones(2))] * 3)
