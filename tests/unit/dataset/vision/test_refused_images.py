"""Sizes, values and images at the edge of what operations take, and beyond it with what is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.dataset import vision
from mpiparallel.dataset.vision import Inter, SliceMode
from mpiparallel.errors import DatasetError

IMAGE = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)


def drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def refusal_of(act: Callable[[], Any]) -> str:
    with pytest.raises(DatasetError) as caught:
        act()
    return str(caught.value)


@pytest.mark.parametrize("shape", [(3,), (0, 4), (4, 0, 3), (2, 2, 2, 2), ()])
def test_an_image_has_two_or_three_dims_and_a_pixel(shape: tuple[int, ...]) -> None:
    for name, operation in (
        ("Resize", vision.Resize(2)),
        ("CenterCrop", vision.CenterCrop(2)),
        ("SlicePatches", vision.SlicePatches()),
        ("ToTensor", vision.ToTensor()),
    ):
        assert refusal_of(lambda operation=operation: operation(np.zeros(shape))) == (
            f"{name}: the image has shape {shape}; give one image, (height, width, channels) or (height, width), "
            "before batch"
        )


@pytest.mark.parametrize("shape", [(3,), (4, 4), (2, 2, 2, 2)])
def test_an_image_with_channels_has_three_dims(shape: tuple[int, ...]) -> None:
    for name, operation in (("HWC2CHW", vision.HWC2CHW()), ("Normalize", vision.Normalize([1.0], [1.0]))):
        assert refusal_of(lambda operation=operation: operation(np.zeros(shape))) == (
            f"{name}: the image has shape {shape}; give one image of three dims, one of them the channels"
        )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: vision.CenterCrop(True), "CenterCrop: size is True; give an integer of 1 or more"),
        (lambda: vision.CenterCrop((2,)), "CenterCrop: size is (2,); give an integer, or (height, width)"),
        (lambda: vision.CenterCrop((0, 2)), "CenterCrop: size is 0; give an integer of 1 or more"),
        (lambda: vision.RandomCrop((2, 0)), "RandomCrop: size is 0; give an integer of 1 or more"),
        (
            lambda: vision.RandomCrop(1, (1, 2, 3)),
            "RandomCrop: padding is (1, 2, 3); give one integer, (left and right, top and bottom) or (left, top, "
            "right, bottom)",
        ),
        (lambda: vision.RandomCrop(1, [1, -2]), "RandomCrop: padding is -2; give an integer of 0 or more"),
        (
            lambda: vision.RandomCrop(1, fill_value=(255, 256, 0)),
            "RandomCrop: fill_value is (255, 256, 0); give integers from 0 to 255",
        ),
        (lambda: vision.RandomCrop(1, fill_value=-1), "RandomCrop: fill_value is -1; give an integer of 0 or more"),
        (
            lambda: vision.RandomCrop(9)(IMAGE, generator=drawn()),
            "RandomCrop: the image with its padding is (5, 7), smaller than the size (9, 9); give a smaller size, more "
            "padding or pad_if_needed=True",
        ),
        (
            lambda: vision.RandomCrop(3, 1, fill_value=(1, 2))(IMAGE, generator=drawn()),
            "RandomCrop: fill_value is (1, 2), but the image has shape (5, 7, 3); give one integer, or one for each "
            "channel",
        ),
        (lambda: vision.SlicePatches(num_width=0), "SlicePatches: num_width is 0; give an integer of 1 or more"),
        (lambda: vision.SlicePatches(fill_value=-1), "SlicePatches: fill_value is -1; give an integer of 0 or more"),
        (lambda: vision.SlicePatches(fill_value=256), "SlicePatches: fill_value is 256; give an integer from 0 to 255"),
        (
            lambda: vision.SlicePatches(1, 8)(IMAGE),
            "SlicePatches: an image of (5, 7) cannot be cut into (1, 8) patches; give fewer",
        ),
        (lambda: vision.RandomHorizontalFlip(True), "RandomHorizontalFlip: prob is True; give a number from 0 to 1"),
        (lambda: vision.RandomHorizontalFlip(-0.1), "RandomHorizontalFlip: prob is -0.1; give a number from 0 to 1"),
        (lambda: vision.RandomHorizontalFlip("1"), "RandomHorizontalFlip: prob is '1'; give a number from 0 to 1"),
        (lambda: vision.Rescale(1, float("inf")), "Rescale: shift is inf; give a finite number"),
        (lambda: vision.Rescale("1", 0), "Rescale: rescale is '1'; give a finite number"),
        (
            lambda: vision.Normalize([], []),
            "Normalize: mean is [] and std is []; give both one number for each channel",
        ),
        (
            lambda: vision.Normalize([float("nan")], [1.0]),
            "Normalize: mean is [nan] and std is [1.0]; give both one number for each channel",
        ),
        (
            lambda: vision.Normalize([0.0], [float("inf")]),
            "Normalize: std is [inf]; give positive numbers, for they divide",
        ),
        (
            lambda: vision.Normalize([0.0], [-1.0]),
            "Normalize: std is [-1.0]; give positive numbers, for they divide",
        ),
        (
            lambda: vision.Normalize([1.0] * 5, [1.0] * 5)(IMAGE),
            "Normalize: an image of shape (5, 7, 3) has 3 channels, but mean has 5 values; give one for each channel, "
            "or is_hwc=False",
        ),
        (
            lambda: vision.Normalize([1.0] * 3, [1.0] * 3, is_hwc=False)(IMAGE),
            "Normalize: an image of shape (5, 7, 3) has 5 channels, but mean has 3 values; give one for each channel, "
            "or is_hwc=True",
        ),
        (
            lambda: vision.ToTensor("complex64"),
            "ToTensor: output_type is complex64; give a float dtype, for values are below 1",
        ),
        (
            lambda: vision.Resize(2, Inter.PILCUBIC),
            "Resize: interpolation Inter.PILCUBIC is not one of Inter.NEAREST, Inter.BILINEAR, Inter.BICUBIC",
        ),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_told(make: Callable[[], Any], said: str) -> None:
    assert refusal_of(make) == said


def test_numbers_at_the_edge_are_taken() -> None:
    for fill_value in (0, 255, (255, 0, 255)):
        part = vision.RandomCrop((7, 9), 1, fill_value=fill_value)(IMAGE, generator=drawn())
        assert part[0, 0].tolist() == (list(fill_value) if isinstance(fill_value, tuple) else [fill_value] * 3)
    assert vision.SlicePatches(2, 1, fill_value=255)(IMAGE)[1][2, 0].tolist() == [255] * 3
    assert [patch.shape for patch in vision.SlicePatches(5, 7)(IMAGE)] == [(1, 1, 3)] * 35
    for prob, mirrored in ((0, False), (1, True), (0.0, False), (1.0, True)):
        found = vision.RandomHorizontalFlip(prob)(IMAGE, generator=drawn())
        np.testing.assert_array_equal(found, IMAGE[:, ::-1] if mirrored else IMAGE)
    np.testing.assert_array_equal(vision.Rescale(np.float64(2), -1)(np.uint8([3])), np.float32([5]))


@pytest.mark.parametrize("mode", SliceMode)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 7), (2, 3), (3, 2), (1, 4)])
def test_patches_put_together_are_the_image_filled_up_or_cut_off(mode: SliceMode, rows: int, columns: int) -> None:
    found = vision.SlicePatches(rows, columns, mode, 9)(IMAGE)
    patches = found if isinstance(found, tuple) else (found,)
    whole = np.concatenate([np.concatenate(patches[r * columns : (r + 1) * columns], axis=1) for r in range(rows)])
    if mode is SliceMode.PAD:
        high, wide = -5 % rows, -7 % columns
        expected = np.pad(IMAGE, ((0, high), (0, wide), (0, 0)), constant_values=9)
    else:
        expected = IMAGE[: 5 // rows * rows, : 7 // columns * columns]
    np.testing.assert_array_equal(whole, expected, strict=True)


@pytest.mark.parametrize("inter", [Inter.NEAREST, Inter.LINEAR, Inter.CUBIC])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
def test_an_image_of_its_own_size_and_one_of_one_colour_stay_as_they_are(inter: Inter, dtype: type) -> None:
    image = (IMAGE % 100).astype(dtype)
    np.testing.assert_array_equal(vision.Resize((5, 7), inter)(image), image, strict=True)
    flat = np.full((3, 4, 2), 100, dtype)
    np.testing.assert_array_equal(vision.Resize((8, 3), inter)(flat), np.full((8, 3, 2), 100, dtype), strict=True)


def test_a_cubic_is_keys_kernel_and_stays_within_the_dtype() -> None:
    point = np.zeros((1, 12))
    point[0, 5] = 1
    # Of -3/4: 5/4 d^3 - 9/4 d^2 + 1 up to a distance of 1, and -3/4 d^3 + 15/4 d^2 - 6 d + 3 from there to 2.
    weights = [-0.03515625, -0.10546875, 0.26171875, 0.87890625]
    expected = [0.0] * 7 + weights + weights[::-1] + [0.0] * 9
    np.testing.assert_allclose(vision.Resize((1, 24), Inter.CUBIC)(point)[0], expected, atol=1e-15)
    step = np.array([[0, 0, 0, 255, 255, 255]], np.uint8)
    assert vision.Resize((1, 12), Inter.CUBIC)(step).tolist()[0][:5] == [0] * 5
    assert vision.Resize((1, 12), Inter.CUBIC)(step).tolist()[0][-5:] == [255] * 5


def test_the_names_of_interpolations_have_mindspores_numbers() -> None:
    numbers = {"NEAREST": 0, "ANTIALIAS": 1, "BILINEAR": 2, "LINEAR": 2, "BICUBIC": 3, "CUBIC": 3, "AREA": 4}
    assert {name: int(Inter[name]) for name in numbers} == numbers
    assert (int(Inter.PILCUBIC), int(SliceMode.PAD), int(SliceMode.DROP)) == (5, 0, 1)


@pytest.mark.parametrize(
    ("shape", "size", "widths"),
    [
        ((2, 2), (2, 5), (0, 0, 2, 1)),
        ((3, 1), (3, 4), (0, 0, 2, 1)),
        ((2, 4), 7, (3, 2, 2, 1)),
        ((1, 1), 6, (3, 2, 3, 2)),
    ],
)
def test_a_middle_larger_than_the_image_has_one_row_more_at_the_top_and_left(
    shape: tuple[int, int], size: Any, widths: tuple[int, int, int, int]
) -> None:
    image = np.arange(1, 1 + shape[0] * shape[1]).reshape(shape)
    top, bottom, left, right = widths
    expected = np.pad(image, ((top, bottom), (left, right)))
    np.testing.assert_array_equal(vision.CenterCrop(size)(image), expected, strict=True)


def test_an_image_may_have_hundreds_of_channels() -> None:
    image = np.arange(600.0).reshape(1, 2, 300)
    mean, std = np.arange(300.0), np.full(300, 0.5)
    found = vision.Normalize(mean.tolist(), std.tolist())(image)
    np.testing.assert_array_equal(found, ((image - mean) / std).astype(np.float32), strict=True)
