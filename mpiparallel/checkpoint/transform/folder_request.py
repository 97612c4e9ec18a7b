"""The conversion of a whole folder, in shares that processes can take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from mpiparallel.checkpoint.formats.registry import FORMATS, write_file
from mpiparallel.checkpoint.transform.checkpoint_files import newest_files
from mpiparallel.checkpoint.transform.file_owner import FileOwner
from mpiparallel.checkpoint.transform.replica_comparison import check_copies, check_unnamed
from mpiparallel.checkpoint.transform.report import TransformReport
from mpiparallel.checkpoint.transform.source_state import SourceState, open_source
from mpiparallel.checkpoint.transform.target_slices import (
    Missing,
    Target,
    infos_of_boxes,
    read_slices,
    replacements,
    strategy_stages,
)
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError, ConfigurationError, TransformError
from mpiparallel.layout.box import Box


@dataclass(frozen=True)
class FolderRequest:
    """The arguments of ``transform_checkpoints``, all of them texts and flags."""

    source_folder: str
    target_folder: str
    prefix: str
    source_strategy: str | None
    target_strategy: str | None
    output_format: str | None
    missing: Missing
    compare_replicas: bool

    def __post_init__(self) -> None:
        if self.output_format is not None and self.output_format not in FORMATS:
            raise ConfigurationError(f"output_format is {self.output_format!r}; give one of {', '.join(FORMATS)}")
        if not self.prefix or not self.prefix.isprintable() or "/" in self.prefix or self.prefix.startswith("."):
            raise ConfigurationError(f"ckpt_prefix {self.prefix!r} cannot begin a file's name; use letters and digits")

    def run(self, share: int = 0, shares: int = 1) -> TransformReport:
        """Make the files of each ``shares``-th target rank, from rank ``share`` on."""
        target = Target(strategy_stages(self.target_strategy), self.missing)
        root, target_root = Path(self.source_folder), Path(self.target_folder)
        if root.resolve() == target_root.resolve():
            raise TransformError(f"{root}: is source and target; give dst_checkpoints_dir another folder")
        files = newest_files(root)
        with open_source(files, strategy_stages(self.source_strategy), root) as source:
            suffix = source.suffix if self.output_format is None else FORMATS[self.output_format].suffix
            paths = {
                rank: target_root / f"rank_{rank}" / f"{self.prefix}{rank}{suffix}"
                for rank in range(share, target.rank_count, shares)
            }
            names = list(source.tensors) if self.compare_replicas else []
            return convert(source, target, paths, names[share::shares], clear=True)


def convert(
    source: SourceState, target: Target, paths: Mapping[int, Path], compared: Iterable[str], clear: bool = False
) -> TransformReport:
    """Make the files of the target ranks in ``paths``, after all checks that can be made before.

    ``compared`` are the parameters of which all copies must be equal. With ``clear`` what is at the paths goes first:
    if this is broken off, no files of two conversions lie side by side. Raises ``TransformError`` or
    ``StrategyFileError``, and ``CheckpointError`` where reading or writing fails.
    """
    layouts = {name: tensor.layout for name, tensor in source.tensors.items()}
    shared = {name: layout for name, layout in layouts.items() if name not in source.own}
    target.check(shared)
    boxes = {rank: target.boxes(rank, layouts, source.own) for rank in paths}
    replaced: dict[int, str] = {}
    for rank in paths:
        replaced |= replacements(rank, boxes[rank], source)
    if target.missing != "replicated":
        check_unnamed(source)
    check_copies(source, compared)
    if clear:
        _remove(paths.values())
    for rank, path in paths.items():
        _write(source, rank, target.rank_count, boxes[rank], path)
    replicated = tuple(sorted(source.unnamed)) if source.rank_count > 1 else ()
    return TransformReport(paths, {**replaced, **source.state.replaced}, replicated, target.omitted(shared))


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CheckpointError(f"{path}: is in the way and cannot be deleted ({error}); move it away") from error


def _write(source: SourceState, rank: int, ranks: int, boxes: Mapping[str, Box], path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{path.parent}: cannot be made ({error}); choose a writable folder") from error
    attributes = source.attributes(rank) if path.suffix == source.suffix else {}
    told = attributes | FileOwner(rank, ranks).attributes
    write_file(path, infos_of_boxes(source.state, boxes), read_slices(source.state, boxes), told)
