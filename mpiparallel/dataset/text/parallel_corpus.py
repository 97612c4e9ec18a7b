"""Readers of parallel text: tab-separated lines, and the .sgm files of the WMT news tests."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path

from mpiparallel.errors import DatasetError

Pair = tuple[str, str]
FilePath = str | PathLike[str]

_SGM = re.compile(
    r'<doc\b[^>]*?\bdocid="(?P<doc>[^"]*)"[^>]*>|<seg\b[^>]*?\bid="(?P<id>[^"]*)"[^>]*>(?P<text>.*?)</seg>',
    re.DOTALL | re.IGNORECASE,
)
_SEGMENT_START = re.compile(r"<seg\b", re.IGNORECASE)
_LANGUAGES = ("en", "fr")


def load_pairs(path: FilePath) -> list[Pair]:
    r"""Return the (English, French) pairs of a text file, of a folder with both .sgm files, or of one .sgm file.

    The file beside ``x.en.sgm`` is ``x.fr.sgm``, and the other way round.

    Parameters
    ----------
    path : str or Path
        The file, or the folder.

    Returns
    -------
    list of (str, str)
        In the order of the file.

    Raises
    ------
    DatasetError
        If the files are missing or malformed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "pairs.txt"
    ...     _ = path.write_text("the cat\tle chat\n", encoding="utf-8")
    ...     load_pairs(path)
    [('the cat', 'le chat')]
    """
    path = Path(path)
    if path.is_dir():
        english, french = (_only_sgm(path, language) for language in _LANGUAGES)
        return read_sgm_pairs(english, french)
    for language in _LANGUAGES:
        ending = f".{language}.sgm"
        if path.name.endswith(ending):
            stem = path.name.removesuffix(ending)
            english, french = (path.with_name(f"{stem}.{other}.sgm") for other in _LANGUAGES)
            return read_sgm_pairs(english, french)
    return read_pairs(path)


def read_pairs(path: FilePath) -> list[Pair]:
    r"""Return the pairs of a UTF-8 file with one ``source<TAB>target`` a line; empty lines are passed over.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    list of (str, str)
        Source and target, in the order of the file.

    Raises
    ------
    DatasetError
        If the file cannot be read, or a line is not two texts with one tab between them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "pairs.txt"
    ...     _ = path.write_text("the cat\tle chat\n", encoding="utf-8")
    ...     read_pairs(path)
    [('the cat', 'le chat')]
    """
    path = Path(path)
    pairs = []
    for number, raw in enumerate(_read(path).split(b"\n"), start=1):
        line = _decode(raw, f"{path}:{number}")
        if not line.strip():
            continue
        texts = [" ".join(text.split()) for text in line.split("\t")]
        if len(texts) != 2 or not all(texts):
            raise DatasetError(
                f"{path}:{number}: {len(texts)} tab-separated texts, {sum(map(bool, texts))} of them not empty; "
                "write source<TAB>target"
            )
        pairs.append((texts[0], texts[1]))
    if not pairs:
        raise DatasetError(f"{path}: there is no line in it; write source<TAB>target lines")
    return pairs


def read_sgm_pairs(source_path: FilePath, target_path: FilePath) -> list[Pair]:
    """Return the pairs of two .sgm files whose segments have the same document and segment ids in the same order.

    Entities such as ``&amp;`` become characters. Pairs with an empty text are left out.

    Parameters
    ----------
    source_path, target_path : str or Path
        The two files.

    Returns
    -------
    list of (str, str)
        In the order of the files.

    Raises
    ------
    DatasetError
        If a file cannot be read, a segment has no end, or the ids differ.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [Path(folder) / name for name in ("x.en.sgm", "x.fr.sgm")]
    ...     for path, text in zip(paths, ("the cat", "le chat")):
    ...         _ = path.write_text(f'<doc docid="a"><seg id="1">{text}</seg></doc>', encoding="utf-8")
    ...     read_sgm_pairs(*paths)
    [('the cat', 'le chat')]
    """
    sources, targets = _segments(Path(source_path)), _segments(Path(target_path))
    if len(sources) != len(targets):
        raise DatasetError(
            f"{source_path} has {len(sources)} segments, but {target_path} has {len(targets)}; "
            "give two files of the same news test"
        )
    pairs = []
    for (source_id, source_line, source), (target_id, target_line, target) in zip(sources, targets, strict=True):
        if source_id != target_id:
            raise DatasetError(
                f"{source_path}:{source_line}: segment {source_id} stands against segment {target_id} of "
                f"{target_path}:{target_line}; give two files of the same news test"
            )
        if source and target:
            pairs.append((source, target))
    return pairs


def _segments(path: Path) -> list[tuple[str, int, str]]:
    from html import unescape  # slow to import, for .sgm files alone

    content = _decode(_read(path), str(path))
    segments: list[tuple[str, int, str]] = []
    document, line, position = "", 1, 0
    for match in _SGM.finditer(content):
        line += content.count("\n", position, match.start())
        position = match.start()
        if match["doc"] is not None:
            document = match["doc"]
            continue
        if _SEGMENT_START.search(match["text"]):
            raise DatasetError(f"{path}:{line}: segment {match['id']} has no </seg>; get the file again")
        segments.append((f"{document}:{match['id']}", line, " ".join(unescape(match["text"]).split())))
    starts = len(_SEGMENT_START.findall(content))
    if not segments or starts != len(segments):
        raise DatasetError(
            f'{path}: {starts} segments begin, but {len(segments)} are whole (<seg id="1">text</seg>); '
            "get the file again"
        )
    return segments


def _only_sgm(folder: Path, language: str) -> Path:
    found = sorted(folder.glob(f"*.{language}.sgm"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise DatasetError(
            f"{folder}: there must be one *.{language}.sgm file, found {names}; put newstest2014-fren-ref.en.sgm and "
            "newstest2014-fren-ref.fr.sgm there, or give the path of one file"
        )
    return found[0]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}); check the path") from error


def _decode(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{where}: byte {error.start} is not UTF-8; convert the file to UTF-8") from error
