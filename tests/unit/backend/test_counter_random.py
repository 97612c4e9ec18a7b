"""Counter-based random numbers: equal whatever the box, and random enough."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpiparallel.backend.counter_random import RandomBox, keep_limit, stream_key
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


WORD = 1 << 32


def finalized(bits: int) -> int:
    """Return Chris Wellons' mixing of 32 bits with the constants of bias 0.17, in whole numbers."""
    bits = (bits ^ bits >> 16) * 0x21F0AAAD % WORD
    bits = (bits ^ bits >> 15) * 0xD35A2D97 % WORD
    return bits ^ bits >> 15


@pytest.mark.parametrize("key", [0, 7, KEY, (1 << 64) - 1])
@pytest.mark.parametrize("start", [(0, 0), (1, 5), (1 << 20, 77), ((1 << 33) // 100, 0), ((1 << 40) - 1, 99)])
def test_each_number_is_two_keyed_rounds_over_its_place_in_the_tensor(key: int, start: tuple[int, int]) -> None:
    shape = (1 << 40, 100)
    stop = (start[0] + 1, min(start[1] + 3, 100))
    wanted = []
    for column in range(start[1], stop[1]):
        high, low = divmod(start[0] * 100 + column, WORD)
        wanted.append(finalized((finalized(low ^ key % WORD) + high) % WORD ^ key // WORD))
    assert RandomBox(np, shape, Box(start, stop)).bits(key).tolist() == [wanted]


@pytest.mark.parametrize("extent", [WORD, WORD + 1])
def test_numbers_of_tensors_about_as_large_as_32_bits_count_do_not_depend_on_their_size(extent: int) -> None:
    last = RandomBox(np, (extent,), Box((WORD - 2,), (WORD,))).bits(KEY)
    assert last.tolist() == [finalized(finalized(place ^ KEY % WORD) ^ KEY // WORD) for place in (WORD - 2, WORD - 1)]


def test_a_box_longer_than_what_is_made_at_once_has_all_its_numbers() -> None:
    count = (1 << 15) + 2
    bits = RandomBox(np, (count,), Box.whole((count,))).bits(KEY)
    assert bits.shape == (count,)
    for place in (0, 1, (1 << 15) - 1, 1 << 15, count - 1):
        assert bits[place] == finalized(finalized(place ^ KEY % WORD) ^ KEY // WORD)
    assert RandomBox(np, (), Box((), ())).bits(KEY).shape == ()


def test_numbers_lie_in_the_middle_of_their_steps_and_follow_box_and_muller() -> None:
    box = RandomBox(np, (2, 3), Box.whole((2, 3)))
    uniform, angle = ((box.bits(key) + 0.5) / WORD for key in (KEY, stream_key(KEY, "angle")))
    np.testing.assert_array_equal(box.uniform(KEY), uniform)
    wanted = np.sqrt(-2 * np.log(uniform)) * np.cos(2 * np.pi * angle)
    np.testing.assert_allclose(box.normal(KEY), wanted, rtol=1e-12)
    assert box.uniform(KEY).dtype == box.normal(KEY).dtype == np.float64


@pytest.mark.parametrize(
    ("probability", "limit"), [(0.0, 0), (0.5, 1 << 31), (0.25, 1 << 30), (1.0, WORD - 1), (0.3, 1288490189)]
)
def test_what_is_kept_are_the_numbers_below_a_share_of_all(probability: float, limit: int) -> None:
    assert keep_limit(probability) == limit
    box, kept = RandomBox(np, (50, 4), Box.whole((50, 4))), np.empty((50, 4), bool)
    box.keep(KEY, probability, kept)
    np.testing.assert_array_equal(kept, box.bits(KEY) < limit)


def test_keys_are_digests_of_names_that_are_told_apart() -> None:
    digest = hashlib.blake2b(b"7\x1fweights", digest_size=8).digest()
    assert stream_key(7, "weights") == KEY == sum(byte << 8 * place for place, byte in enumerate(digest))
    assert len({stream_key(*names) for names in ((), ("",), ("a", "b"), ("ab",), ("a", "", "b"), ("b", "a"))}) == 5
