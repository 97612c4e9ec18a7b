from __future__ import annotations

import io
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mpiparallel.checkpoint.shard.sparse_image import SparseImage

calls = st.one_of(
    st.tuples(st.just("seek"), st.integers(0, 10_000)),
    st.tuples(
        st.just("write"), st.integers(0, 9_000).map(lambda size: bytes(index % 251 + 1 for index in range(size)))
    ),
    st.tuples(st.just("read"), st.integers(0, 9_000)),
    st.tuples(st.just("truncate"), st.integers(0, 9_000)),
)


@settings(max_examples=400)
@given(calls=st.lists(calls, max_size=8))
def test_it_behaves_as_any_file_in_memory(calls: list[tuple[str, object]]) -> None:
    image, known = SparseImage(), io.BytesIO()
    for name, argument in calls:
        if name == "truncate":
            # BytesIO, unlike a file, does not grow.
            argument = min(int(str(argument)), len(known.getvalue()))
        assert getattr(image, name)(argument) == getattr(known, name)(argument)
    assert image.seek(0, io.SEEK_END) == known.seek(0, io.SEEK_END)
    assert image.tell() == known.tell()


def test_truncation_and_holes_are_those_of_a_file(tmp_path: Path) -> None:
    image = SparseImage()
    with (tmp_path / "known").open("w+b") as known:
        for file in (image, known):
            file.seek(20_000)
            file.write(b"x" * 9_000)
            file.truncate(25_000)
            file.seek(3)
            file.write(b"start")
    content = (tmp_path / "known").read_bytes()
    assert image.content(0, image.seek(0, io.SEEK_END)) == content
    assert image.content(2, 20_003) == content[2:20_003]


def test_buffers_of_python_write_and_read_it_as_a_file() -> None:
    image = SparseImage()
    with io.BufferedRandom(image, 16) as buffered:
        buffered.seek(5000)
        buffered.write(b"0123456789" * 3)
        buffered.seek(4998)
        assert buffered.read() == bytes(2) + b"0123456789" * 3
        assert image.content(0, 5030) == bytes(5000) + b"0123456789" * 3
