"""The operations on images, against what NumPy says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.dataset import vision
from mpiparallel.dataset.vision import c_transforms, transforms
from mpiparallel.errors import DatasetError

Array = npt.NDArray[Any]


def picture(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape).astype(np.uint8)


def drawn(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def interpolated(line: Array, length: int) -> Array:
    """Return ``line`` at the centres of ``length`` pixels; np.interp goes on with the outermost values."""
    centres = (np.arange(length) + 0.5) * len(line) / length - 0.5
    return np.interp(centres, np.arange(len(line)), line)


@given(*(st.integers(1, 9) for _ in range(4)))
def test_resize_is_linear_between_the_centres_of_pixels(height: int, width: int, tall: int, wide: int) -> None:
    image = picture(height, width, 3).astype(np.float64)
    rows = np.apply_along_axis(interpolated, 1, image, wide)
    exact = np.apply_along_axis(interpolated, 0, rows, tall)
    np.testing.assert_allclose(vision.Resize((tall, wide))(image), exact, atol=1e-9)
    rounded = vision.Resize((tall, wide))(image.astype(np.uint8))
    assert rounded.dtype == np.uint8
    assert np.abs(rounded - exact).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.float32, np.float64])
def test_resize_keeps_the_dtype_and_the_dims(dtype: type) -> None:
    assert vision.Resize((5, 7))(picture(3, 4, 2).astype(dtype)).shape == (5, 7, 2)
    assert vision.Resize([5, 7])(picture(3, 4).astype(dtype)).shape == (5, 7)
    assert vision.Resize((5, 7))(picture(3, 4).astype(dtype)).dtype == dtype


@pytest.mark.parametrize(
    ("shape", "size", "result"), [((4, 6), 8, (8, 12)), ((6, 4), 8, (12, 8)), ((5, 7), 3, (3, 4)), ((4, 4), 2, (2, 2))]
)
def test_resize_to_one_integer_keeps_the_ratio(shape: tuple[int, int], size: int, result: tuple[int, int]) -> None:
    assert vision.Resize(size)(picture(*shape, 3)).shape == (*result, 3)


def test_random_crop_draws_every_place_of_the_padded_image() -> None:
    image = picture(4, 5, 3)
    padded = np.pad(image, ((2, 4), (1, 3), (0, 0)), constant_values=7)
    places = [padded[top : top + 6, left : left + 7] for top in range(5) for left in range(3)]
    crop = vision.RandomCrop((6, 7), (1, 2, 3, 4), fill_value=7)
    found = [crop(image, generator=drawn(seed)).tobytes() for seed in range(200)]
    assert set(found) == {place.tobytes() for place in places}
    assert found == [crop(image, generator=drawn(seed)).tobytes() for seed in range(200)]


@pytest.mark.parametrize(
    ("padding", "widths"),
    [
        (None, (0, 0, 0, 0)),
        (2, (2, 2, 2, 2)),
        ((1, 2), (1, 2, 1, 2)),
        ([1, 2, 3, 4], (1, 2, 3, 4)),
        ([3, 0, 0, 0], (3, 0, 0, 0)),
        ([0, 3, 0, 0], (0, 3, 0, 0)),
        ([0, 0, 3, 0], (0, 0, 3, 0)),
        ([0, 0, 0, 3], (0, 0, 0, 3)),
    ],
)
def test_padding_is_left_top_right_bottom(
    padding: int | tuple[int, ...] | None, widths: tuple[int, int, int, int]
) -> None:
    left, top, right, bottom = widths
    expected = np.pad(picture(3, 4), ((top, bottom), (left, right)))
    crop = vision.RandomCrop(expected.shape, padding)
    np.testing.assert_array_equal(crop(picture(3, 4), generator=drawn(0)), expected)


def test_what_is_too_small_with_its_padding_is_padded_by_what_it_lacks_on_both_sides() -> None:
    image = picture(2, 3)
    padded = np.pad(image, ((4, 4), (1, 1)))
    places = [padded[top : top + 7, left : left + 3] for top in range(4) for left in range(3)]
    crop = vision.RandomCrop((7, 3), 1, pad_if_needed=True)
    found = {crop(image, generator=drawn(seed)).tobytes() for seed in range(150)}
    assert found == {place.tobytes() for place in places}


def test_random_crop_fills_each_channel_with_its_value() -> None:
    crop = vision.RandomCrop(3, 1, fill_value=(1, 2, 3))
    assert crop(picture(1, 1, 3), generator=drawn(0))[0, 0].tolist() == [1, 2, 3]
    with pytest.raises(DatasetError, match=r"fill_value is \(1, 2, 3\), but the image has shape \(1, 1\)"):
        crop(picture(1, 1), generator=drawn(0))


def test_random_crop_pads_what_is_too_small_only_when_told() -> None:
    image = np.ones((2, 3), np.uint8)
    for seed in range(20):
        part = vision.RandomCrop((4, 3), pad_if_needed=True)(image, generator=drawn(seed))
        assert part.shape == (4, 3)
    with pytest.raises(DatasetError, match=r"is \(2, 3\), smaller than the size \(4, 3\); .* pad_if_needed=True"):
        vision.RandomCrop((4, 3))(image, generator=drawn(0))


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((6, 8), (2, 4), picture(6, 8)[2:4, 2:6]),
        ((5, 5), 2, picture(5, 5)[1:3, 1:3]),
        ((2, 2), (5, 2), np.pad(picture(2, 2), ((2, 1), (0, 0)))),
        ((2, 6), 4, np.pad(picture(2, 6), ((1, 1), (0, 0)))[:, 1:5]),
    ],
)
def test_center_crop_is_the_middle(shape: tuple[int, int], size: int | tuple[int, int], expected: Array) -> None:
    np.testing.assert_array_equal(vision.CenterCrop(size)(picture(*shape)), expected)


def test_a_flip_mirrors_with_its_probability() -> None:
    image = picture(2, 3, 3)
    assert vision.RandomHorizontalFlip.random
    for prob, least, most in ((0.0, 0, 0), (0.25, 180, 320), (1.0, 1000, 1000)):
        flip = vision.RandomHorizontalFlip(prob)
        results = [flip(image, generator=drawn(seed)) for seed in range(1000)]
        flipped = sum(np.array_equal(result, np.fliplr(image)) for result in results)
        assert least <= flipped <= most
        assert flipped + sum(np.array_equal(result, image) for result in results) == 1000


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64])
def test_rescale_and_normalize_give_float32_and_leave_their_input(dtype: type) -> None:
    image = picture(4, 5, 3).astype(dtype)
    before = image.copy()
    mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    scaled = vision.Rescale(1 / 255, -0.5)(image)
    normalized = vision.Normalize(mean, std)(image)
    planes = vision.Normalize(mean, std, is_hwc=False)(image.transpose(2, 0, 1))
    np.testing.assert_allclose(scaled, image / 255 - 0.5, atol=1e-6)
    np.testing.assert_allclose(normalized, (image - np.array(mean)) / np.array(std), rtol=1e-5)
    np.testing.assert_array_equal(planes, normalized.transpose(2, 0, 1))
    assert scaled.dtype == normalized.dtype == planes.dtype == np.float32
    np.testing.assert_array_equal(image, before)


def test_normalize_does_not_change_a_float32_image_in_place() -> None:
    image = np.ones((2, 2, 1), np.float32)
    vision.Normalize([1.0], [2.0])(image)
    vision.Rescale(3, 4)(image)
    assert (image == 1).all()


def test_channels_come_first() -> None:
    image = picture(4, 5, 3)
    moved = vision.HWC2CHW()(image)
    assert moved.dtype == np.uint8
    assert moved.flags.c_contiguous
    assert all(np.array_equal(moved[channel], image[..., channel]) for channel in range(3))


@pytest.mark.parametrize("output_type", [np.float16, np.float32, np.float64])
def test_to_tensor_is_planes_of_0_to_1(output_type: type) -> None:
    image = picture(4, 5, 3)
    tensor = vision.ToTensor(output_type)(image)
    assert tensor.dtype == output_type
    assert tensor.flags.c_contiguous
    np.testing.assert_allclose(tensor, np.moveaxis(image, -1, 0) / 255, atol=1e-3)
    assert vision.ToTensor()(picture(4, 5)).shape == (1, 4, 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vision.RandomCrop(0), "RandomCrop: size is 0"),
        (lambda: vision.RandomCrop((1, 2, 3)), r"size is \(1, 2, 3\); give an integer, or \(height, width\)"),
        (lambda: vision.RandomCrop(1, padding=-1), "padding is -1"),
        (lambda: vision.RandomCrop(1, padding=(1, 2, 3)), r"padding is \(1, 2, 3\)"),
        (lambda: vision.RandomCrop(1, fill_value=256), "fill_value is 256; give integers from 0 to 255"),
        (lambda: vision.CenterCrop((2, -1)), "CenterCrop: size is -1"),
        (lambda: vision.Resize(0), "Resize: size is 0"),
        (lambda: vision.Resize((1.5, 2)), "Resize: size is 1.5"),  # type: ignore[arg-type]
        (lambda: vision.RandomHorizontalFlip(1.5), "prob is 1.5; give a number from 0 to 1"),
        (lambda: vision.Rescale(float("nan"), 0), "rescale is nan"),
        (lambda: vision.Normalize([1.0], [0.0]), r"std is \[0.0\]; give positive numbers"),
        (lambda: vision.Normalize([1.0], [1.0, 1.0]), "give both one number for each channel"),
        (lambda: vision.ToTensor("int32"), "output_type is int32; give a float dtype"),
        (lambda: vision.Normalize([1.0], [1.0])(picture(2, 2, 3)), "has 3 channels, but mean has 1"),
        (lambda: vision.HWC2CHW()(picture(2, 2)), r"HWC2CHW: the image has shape \(2, 2\)"),
        (lambda: vision.Resize(2)(picture(2, 2, 2, 3)), r"Resize: the image has shape \(2, 2, 2, 3\).*before batch"),
    ],
)
def test_what_has_no_meaning_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        make()


@pytest.mark.parametrize("door", [c_transforms, transforms])
def test_every_door_leads_to_the_same_operations(door: Any) -> None:
    assert door.__all__ == vision.__all__
    assert all(getattr(door, name) is getattr(vision, name) for name in vision.__all__)
