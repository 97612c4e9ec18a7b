"""Reading ahead in a thread: the same batches, bounded, errors in their place, and no thread that is left over."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from contextlib import closing
from itertools import islice

import numpy as np
import pytest

import mpiparallel as ms
import mpiparallel.dataset as ds
from mpiparallel import nn
from mpiparallel.context.seeds import get_seed
from mpiparallel.dataset import transforms
from mpiparallel.dataset.read_ahead import ReadAhead
from mpiparallel.errors import DatasetError
from tests.conformance import patience

_NAME = "dataset read ahead"


@pytest.fixture(autouse=True)
def _prefetch_size():
    before = ds.config.get_prefetch_size()
    if readers():
        # What other tests have dropped in a circle.
        gc.collect()
        patience.wait_until(lambda: not readers())
    yield
    ds.config.set_prefetch_size(before)
    assert not readers(), "a thread is left over"


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == _NAME]


class Images:
    """Twenty samples, and which of them were read, in order."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        self.read.append(index)
        return np.full(3, index, np.float32), index % 2

    def __len__(self) -> int:
        return 20


class Jitter:
    """An operation that counts its calls and adds what its generator draws."""

    random = True

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, image: np.ndarray, *, generator: np.random.Generator) -> np.ndarray:
        self.calls += 1
        return image + generator.random(dtype=np.float32)


def pipeline(images: Images, jitter: Jitter) -> ds.Dataset:
    dataset: ds.Dataset = ds.GeneratorDataset(images, ["image", "label"])
    return dataset.map(jitter, "image", num_parallel_workers=2).shuffle(7).batch(2, drop_remainder=True).repeat(2)


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("skip", [0, 7, 20])
def test_the_batches_are_those_without_a_thread(size, skip) -> None:
    def batches(prefetched):
        ds.config.set_prefetch_size(prefetched)
        found = [list(pipeline(Images(), Jitter()).iterate(epoch, skip)) for epoch in range(2)]
        return [[(batch["image"].tolist(), batch["label"].tolist()) for batch in epoch] for epoch in found]

    assert batches(size) == batches(0)
    assert len(batches(size)[0]) == 20 - skip


def test_what_a_resume_skips_is_neither_read_nor_decoded() -> None:
    ds.config.set_prefetch_size(0)
    images, jitter = Images(), Jitter()
    assert len(list(pipeline(images, jitter).iterate(epoch=1, skip=7))) == 13
    assert len(images.read) == jitter.calls == 26


def test_no_more_is_read_than_the_size_says_and_only_one_item_for_the_first() -> None:
    made: list[int] = []
    wanted = threading.Semaphore(0)

    def count():
        for number in range(100):
            made.append(number)
            wanted.release()
            yield number

    with closing(ReadAhead(count, size=3)) as numbers:
        assert (made, readers()) == ([], []), "it starts when it is asked"
        assert next(numbers) == 0
        assert made == [0]
        assert next(numbers) == 1
        for _ in range(5):
            patience.wait_until(lambda: wanted.acquire(blocking=False))
        assert len(made) == 5, "the two that were taken, and three ahead"
        assert next(numbers) == 2
        patience.wait_until(lambda: wanted.acquire(blocking=False))
        assert len(made) == 6


def test_an_error_comes_where_its_batch_would_have_come_with_its_message_and_place() -> None:
    def fails(image):
        if image[0] == 6:
            raise ValueError("a hole in the image")
        return image

    dataset = ds.GeneratorDataset(Images(), ["image", "label"], shuffle=False).map(fails, "image").batch(2)
    batches = dataset.iterate()
    assert [batch["image"][0, 0] for batch in islice(batches, 3)] == [0.0, 2.0, 4.0]
    with pytest.raises(DatasetError, match="map: fails on image in row 6: ValueError: a hole in the image") as caught:
        next(batches)
    names = {entry.name for entry in caught.traceback}
    assert {"_apply", "take"} <= names, "both the thread's frames and the user's are shown"
    assert isinstance(caught.value.__cause__, ValueError)
    assert list(batches) == []


def test_an_exit_of_the_source_reaches_the_user() -> None:
    def rows():
        yield (1.0,)
        raise SystemExit(3)

    batches = ds.GeneratorDataset(rows, ["x"]).iterate()
    next(batches)
    with pytest.raises(SystemExit):
        next(batches)


def test_the_thread_ends_when_the_iterator_is_dropped_closed_or_used_up() -> None:
    dataset = ds.GeneratorDataset(Images(), ["image", "label"])
    batches = dataset.iterate()
    list(islice(batches, 2))
    assert len(readers()) == 1
    del batches
    assert not readers()

    batches = dataset.iterate()
    list(islice(batches, 2))
    batches.close()
    assert not readers()
    assert list(batches) == []
    batches.close()

    for _ in dataset.create_dict_iterator(num_epochs=1):
        pass
    patience.wait_until(lambda: not readers())

    epochs = dataset.create_tuple_iterator()
    list(islice(epochs, 2))
    assert len(readers()) == 1
    del epochs
    assert not readers()


def test_a_source_is_closed_in_its_thread_and_set_free() -> None:
    ended: list[str] = []

    def rows():
        try:
            for number in range(100):
                yield (float(number),)
        finally:
            ended.append(threading.current_thread().name)

    images = Images()
    batches = ds.GeneratorDataset(rows, ["x"]).iterate()
    next(batches)
    batches.close()
    assert ended == [_NAME]
    seen = weakref.ref(images)
    batches = ds.GeneratorDataset(images, ["image", "label"]).iterate()
    next(batches)
    del batches, images
    gc.collect(1)
    assert seen() is None


def test_a_seed_that_the_user_sets_holds_in_the_thread_too() -> None:
    ms.set_seed(77)
    try:
        dataset = ds.NumpySlicesDataset(np.zeros(3), ["x"]).map(lambda x: x + get_seed(), "x")
        assert [float(row["x"]) for row in dataset.iterate()] == [77.0] * 3
    finally:
        ms.set_seed(0)


def test_training_that_ends_stops_or_fails_leaves_no_thread() -> None:
    class Stop(ms.train.callback.Callback):
        def __init__(self, fails: bool) -> None:
            self.fails = fails

        def step_end(self, run_context) -> None:
            if self.fails:
                raise KeyboardInterrupt
            run_context.request_stop()

    def model():
        network = nn.Dense(3, 2)
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        return ms.Model(network, loss, nn.SGD(network.trainable_params(), 0.1))

    def broken(x):
        if x[0] == 12:
            raise OSError("the disk is gone")
        return x

    numbers = np.repeat(np.arange(50, dtype=np.float32)[:, np.newaxis], 3, axis=1)
    whole = ds.NumpySlicesDataset((numbers, np.arange(50) % 2), ["x", "y"], shuffle=False)
    whole = whole.map(transforms.TypeCast("int32"), "y")
    broken_at_step_7 = whole.map(broken, "x").batch(2)
    whole = whole.batch(2)
    model().train(1, whole)
    assert not readers()
    model().train(1, whole, Stop(False), dataset_sink_mode=False)
    assert not readers()
    with pytest.raises(KeyboardInterrupt):
        model().train(1, whole, Stop(True), dataset_sink_mode=False)
    assert not readers()
    broken_model = model()
    with pytest.raises(DatasetError, match="broken on x in row 12: OSError: the disk is gone"):
        broken_model.train(1, broken_at_step_7)
    assert broken_model.step == 6
    assert not readers()


@pytest.mark.parametrize("ending", ["pass", "raise KeyboardInterrupt", "raise SystemExit(0)"])
def test_the_interpreter_ends_while_a_thread_reads(ending) -> None:
    program = f"""
import itertools, numpy as np, mpiparallel.dataset as ds
rows = ds.GeneratorDataset(lambda: ((np.ones(100000),) for _ in itertools.count()), ["x"]).batch(8).iterate()
print(len(list(itertools.islice(rows, 3))), flush=True)
{ending}
"""
    done = patience.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "3\n"
    assert (done.returncode == 0) == ("Keyboard" not in ending), done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    assert "Fatal" not in done.stderr, done.stderr


@pytest.mark.usefixtures("heeded_interrupts")
def test_an_interrupt_ends_a_program_whose_source_blocks_for_ever() -> None:
    program = """
import signal, threading, mpiparallel.dataset as ds
def rows():
    signal.raise_signal(signal.SIGINT)
    threading.Event().wait()
    yield 1.0
next(ds.GeneratorDataset(rows, ["x"]).iterate())
"""
    done = patience.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("size", [-1, 1.5, True, "2"])
def test_a_wrong_prefetch_size_is_refused(size) -> None:
    with pytest.raises(DatasetError, match=r"set_prefetch_size: size is .*; give an integer of 0 or more"):
        ds.config.set_prefetch_size(size)
