"""Counter-based random numbers: equal whatever the box, and random enough."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mpiparallel.backend.counter_random import RandomBox, stream_key
from mpiparallel.layout.box import Box

KEY = stream_key(7, "weights")


@settings(max_examples=100)
@given(data=st.data())
def test_a_box_has_the_numbers_of_the_whole(data, layouts, shapes) -> None:
    layout = data.draw(layouts(data.draw(shapes())))
    whole = RandomBox(np, layout.global_shape, Box.whole(layout.global_shape))
    for rank in range(layout.devices.first_rank, layout.devices.first_rank + layout.devices.size):
        box = layout.box(rank)
        part = RandomBox(np, layout.global_shape, box)
        index = box.within(Box.whole(layout.global_shape))
        np.testing.assert_array_equal(part.bits(KEY), whole.bits(KEY)[index])
        np.testing.assert_array_equal(part.normal(KEY), whole.normal(KEY)[index])


def test_bits_are_evenly_spread_and_neighbours_and_streams_are_independent() -> None:
    count = 1 << 20
    box = RandomBox(np, (count,), Box.whole((count,)))
    bits = box.bits(KEY)
    for position in range(32):
        share = ((bits >> np.uint32(position)) & np.uint32(1)).mean()
        assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(count), position
    buckets = np.bincount(bits >> np.uint32(24), minlength=256)
    chi_square = ((buckets - count / 256) ** 2 / (count / 256)).sum()
    assert 150 < chi_square < 370
    uniform = box.uniform(KEY) - 0.5
    other = box.uniform(stream_key(7, "weights", 1)) - 0.5
    for left, right in ((uniform[1:], uniform[:-1]), (uniform[256:], uniform[:-256]), (uniform, other)):
        assert abs((left * right).mean()) < 5 / 12 / np.sqrt(count)


def test_normal_numbers_have_the_moments_of_the_normal_distribution() -> None:
    count = 1 << 18
    numbers = RandomBox(np, (count,), Box.whole((count,))).normal(KEY)
    for power, moment, deviation in ((1, 0, 1), (2, 1, np.sqrt(2)), (3, 0, np.sqrt(15)), (4, 3, np.sqrt(96))):
        assert abs((numbers**power).mean() - moment) < 5 * deviation / np.sqrt(count)


def test_keep_is_true_as_often_as_asked() -> None:
    box = RandomBox(np, (1000, 1000), Box.whole((1000, 1000)))
    mask = np.empty((1000, 1000), bool)
    for probability in (0.0, 0.1, 0.9, 1.0):
        box.keep(KEY, probability, mask)
        assert abs(mask.mean() - probability) < 5 * 0.5 / 1000
