"""Changes that no user sees, each read and judged by a person: they count neither for nor against the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.mutants.trying import Change

EQUIVALENTS: Final[Mapping[tuple[str, str, str], str]] = {
    ("backend/freed_memory.py", "trim(0)", "trim( 1)"): "one byte more is kept",
    (
        "dataset/vision/flip.py",
        "return array[:, ::-1] if generator.random() < self.prob else array",
        "return array[:, ::-1] if generator.random() <= self.prob else array",
    ): "they differ once in 2 ** 53 draws",
    (
        "search/cost/moves.py",
        "left = np.where(scattered > 0, 0, changed)",
        "left = np.where(scattered > 0, -1, changed)",
    ): "it is asked only whether it is 1, and whether it is above 0",
    (
        "backend/products/bfloat16_tiles.py",
        "for part in range(0, self.panels * LINES * 2, _LINE):",
        "for part in []:",
    ): "memory is fetched ahead or not, for the same numbers",
    (
        "nn/optimizer/adam.py",
        "use_locking: bool = False,",
        "use_locking: bool = True,",
    ): "it has no effect on any device here",
    (
        "graph/expression/cuda/rows.py",
        'text.unravel(0, "rest", plan.kept)',
        'text.unravel( 1, "rest", plan.kept)',
    ): "the line of the kernel's text is indented by four more spaces",
    (
        "communication/mpi/collective_monitor.py",
        "words = NO_STAGE, 0, 0",
        "words = NO_STAGE, 0, -1",
    ): "the micro-batch is read only of who is in a stage",
    (
        "communication/mpi/collective_monitor.py",
        "words = NO_STAGE, 0, 0",
        "words = NO_STAGE, 1, 0",
    ): "the text is read only of who is in a stage",
    (
        "reshard/executors/calibration.py",
        "_SMALL_TENSORS: Final = 200",
        "_SMALL_TENSORS: Final = 201",
    ): "the quickest of several ways is measured on one small tensor more",
    (
        "launch/watching/abort.py",
        "return cls(outside[0] if len(outside) == 1 else None, result.code)",
        "return cls(outside[ -1] if len(outside) == 1 else None, result.code)",
    ): "the list has one item",
    (
        "reshard/forecast/pair_bytes.py",
        "_ENTRIES = 1 << 24",
        "_ENTRIES = 2 << 24",
    ): "entries are merged later, to the same sums",
    (
        "compile/device_fusion/cross_entropy_fusion.py",
        "return replace(joined, nodes=nodes, gradient=product.outputs[0], factor=factor), makers",
        "return replace(joined, nodes=nodes, gradient=product.outputs[ -1], factor=factor), makers",
    ): "a product has one output",
    (
        "ops/images/convolution/convolution.py",
        "return self.of_part(x, x.box, outputs[0], dy)",
        "return self.of_part(x, x.box, outputs[ -1], dy)",
    ): "the gradient of a weight is one output",
    (
        "graph/execution/program.py",
        "self._agreed = AgreedGraphs(meets if meets is not None and meets.size > 1 else None, self._stretches)",
        "self._agreed = AgreedGraphs(meets if meets is not None and meets.size > 0 else None, self._stretches)",
    ): "a rank that is alone agrees with itself",
}
"""By the file below ``mpiparallel``, and the line before and after: why nobody can see a difference."""


def reason_of(change: Change) -> str | None:
    """Return why no user can see a change; None for one that counts."""
    return EQUIVALENTS.get((change.path.removeprefix("mpiparallel/"), change.before, change.after))
