"""The time that steps wait for data: between them where they are told apart, and unknown where not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from mpiparallel import Model, nn
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import TimeMonitor


@pytest.mark.parametrize(("waits", "shown"), [([3.0, 3.0], "3000.000"), ([4.0, 1.0], "2500.000")])
def test_the_time_of_data_is_what_steps_wait_for(waits, shown, capsys, monkeypatch) -> None:
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr("mpiparallel.train.callback.monitor.time", clock)
    monitor, parameters = TimeMonitor(data_time=True), SimpleNamespace(cur_step_num=0, batch_num=2)
    context = SimpleNamespace(original_args=lambda: parameters)
    monitor.epoch_begin(context)
    for wait in waits:
        clock.now += wait
        monitor.step_begin(context)
        clock.now += 10.0
        parameters.cur_step_num += 1
        monitor.step_end(context)
    monitor.epoch_end(context)
    assert capsys.readouterr().out.endswith(f"per step time: {clock.now * 500:.3f} ms (data time: {shown} ms)\n")


def test_the_time_of_data_of_sunk_steps_is_said_to_be_unknown(capsys, remarks) -> None:
    network = nn.Dense(3, 1)
    model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1))
    rows = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)
    model.train(1, NumpySlicesDataset(rows, ["x", "y"]).batch(2), TimeMonitor(data_time=True), dataset_sink_mode=True)
    assert "data time" not in capsys.readouterr().out
    assert [line[:43] for line in remarks()] == ["TimeMonitor: data_time=True has no effect h"]
