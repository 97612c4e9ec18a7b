"""SlicePatches, and Resize by other interpolations: what OpenCV computes, which MindSpore uses."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel.dataset as ds
from mpiparallel.dataset import vision
from mpiparallel.dataset.vision import Inter, SliceMode
from mpiparallel.errors import DatasetError

IMAGE = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
# RESIZED is what MindSpore 2.10's vision.Resize(size, interpolation) makes of RAMP[..., np.newaxis].
RAMP = np.array([[0, 40, 80, 255], [10, 50, 90, 200]], np.uint8)


@pytest.mark.parametrize(
    ("mode", "shape", "corner"),
    [
        (SliceMode.PAD, (3, 3, 3), [[81, 9, 9], [102, 9, 9], [9, 9, 9]]),
        (SliceMode.DROP, (2, 2, 3), [[54, 57], [75, 78]]),
    ],
)
def test_patches_are_those_of_mindspore(mode, shape, corner) -> None:
    patches = vision.SlicePatches(2, 3, mode, 9)(IMAGE)
    assert [patch.shape for patch in patches] == [shape] * 6
    assert patches[5][..., 0].tolist() == corner


def test_patches_become_columns_of_which_a_rank_keeps_one() -> None:
    data = ds.NumpySlicesDataset((IMAGE[np.newaxis, :4, :6], [3]), ["image", "label"])
    columns = ["img0", "img1", "img2", "img3"]
    cut = data.map(vision.SlicePatches(2, 2), "image", columns, column_order=["img3", "label"])
    (row,) = cut.iterate()
    assert list(row) == ["img3", "label"]
    np.testing.assert_array_equal(row["img3"], IMAGE[2:4, 3:6])


def test_one_patch_is_the_image() -> None:
    np.testing.assert_array_equal(vision.SlicePatches()(IMAGE), IMAGE)


def test_what_cannot_be_sliced_is_refused() -> None:
    for given, message in (
        ({"num_height": 0}, "num_height"),
        ({"fill_value": 256}, "fill_value is 256"),
        ({"slice_mode": 0}, "give SliceMode.PAD or SliceMode.DROP"),
    ):
        with pytest.raises(DatasetError, match=message):
            vision.SlicePatches(**given)
    with pytest.raises(DatasetError, match=r"an image of \(5, 7\) cannot be cut into \(6, 1\) patches"):
        vision.SlicePatches(6, 1)(IMAGE)


RESIZED = {
    ("NEAREST", (2, 3)): [[0, 40, 80], [10, 50, 90]],
    ("NEAREST", (3, 5)): [[0, 0, 40, 80, 255], [0, 0, 40, 80, 255], [10, 10, 50, 90, 200]],
    ("LINEAR", (2, 3)): [[7, 60, 226], [17, 70, 182]],
    ("LINEAR", (3, 5)): [[0, 28, 60, 132, 255], [5, 33, 65, 127, 228], [10, 38, 70, 123, 200]],
    ("CUBIC", (2, 3)): [[5, 47, 231], [15, 63, 185]],
    ("CUBIC", (3, 5)): [[0, 24, 46, 134, 255], [3, 29, 55, 129, 236], [8, 35, 65, 124, 201]],
}


@pytest.mark.parametrize(("name", "size"), RESIZED)
def test_other_sizes_are_those_of_mindspore(name, size) -> None:
    found = vision.Resize(size, Inter[name])(RAMP[..., np.newaxis])[..., 0]
    # OpenCV computes in fixed point: one less or more.
    np.testing.assert_allclose(found.astype(int), RESIZED[name, size], atol=1)


def test_interpolations_that_are_not_offered_are_refused() -> None:
    with pytest.raises(DatasetError, match=r"Inter.AREA is not one of Inter.NEAREST, Inter.BILINEAR, Inter.BICUBIC"):
        vision.Resize(4, Inter.AREA)
    with pytest.raises(DatasetError, match="interpolation 2 is not one of"):
        vision.Resize(4, 2)


@pytest.mark.parametrize(
    ("shape", "size", "padding"),
    [
        ((4, 5), (4, 5), None),
        ((4, 5), (4, 3), None),
        ((4, 5), (3, 5), None),
        ((4, 5), (2, 4), (1, 0)),
        ((4, 5), (6, 3), None),
        ((4, 5), (3, 7), None),
        ((4, 5), (7, 7), (0, 1, 1, 0)),
        ((4, 5), (9, 9), (1, 1, 0, 2)),
        ((2, 3), (3, 4), (0, 0, 2, 0)),
    ],
)
def test_only_what_is_lacking_in_height_or_width_is_padded_on_both_sides(shape, size, padding) -> None:
    image = np.arange(1, 1 + shape[0] * shape[1]).reshape(shape)
    left, top, right, bottom = (padding * 2)[:4] if padding else (0, 0, 0, 0)
    high = max(size[0] - (shape[0] + top + bottom), 0)
    wide = max(size[1] - (shape[1] + left + right), 0)
    padded = np.pad(image, ((top + high, bottom + high), (left + wide, right + wide)))
    places = {
        padded[row : row + size[0], column : column + size[1]].tobytes()
        for row in range(padded.shape[0] - size[0] + 1)
        for column in range(padded.shape[1] - size[1] + 1)
    }
    crop = vision.RandomCrop(size, padding, pad_if_needed=True)
    parts = [crop(image, generator=np.random.default_rng(seed)) for seed in range(12 * len(places))]
    assert {part.shape for part in parts} == {size}
    assert {part.tobytes() for part in parts} == places


@pytest.mark.parametrize("size", [8, np.int64(8), np.uint8(8)])
def test_one_integer_of_any_kind_is_the_length_of_the_shorter_edge(size) -> None:
    assert vision.Resize(size)(IMAGE).shape == (8, 11, 3)
    assert vision.Resize(size)(IMAGE.transpose(1, 0, 2)).shape == (11, 8, 3)
    assert vision.Resize((size, size))(IMAGE).shape == (8, 8, 3)
    for wrong in (0, -1, True, 1.5, "8"):
        with pytest.raises(DatasetError, match=r"^Resize: size is "):
            vision.Resize(wrong)
