"""Changes that no user sees, each read and judged by a person: they count neither for nor against the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mpiparallel.backend.products.pair_products import is_at_hand
from tests.mutants.trying import Change

_SUMMED_LIKE_ALL: Final = "tuple(bound.totals[total].shape[outer:]) == bound.shape[outer:]"
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
        "ops/images/convolution/by_library.py",
        "is_alone = runtime.communicator is None or runtime.communicator.size == 1",
        "is_alone = runtime.communicator is None or runtime.communicator.size <= 1",
    ): "a communicator has at least one member",
    (
        "reshard/forecast/pair_bytes.py",
        "return self._codes[0] // self._count, self._codes[0] % self._count, self._bytes[0]",
        "return self._codes[0] // self._count, self._codes[ -1] % self._count, self._bytes[0]",
    ): "what has been merged is a list of one",
    (
        "compile/elementwise_fusion.py",
        "_SMALLEST = 1 << 10",
        "_SMALLEST = 1 << 9",
    ): "the same numbers at the same speed",
    (
        "checkpoint/files/folder_claim.py",
        "_MOST_BYTES = 4096",
        "_MOST_BYTES = 4095",
    ): "what is read has a few hundred bytes",
    (
        "reshard/executors/calibration.py",
        "_SMALL_TENSORS: Final = 200",
        "_SMALL_TENSORS: Final = 201",
    ): "the quickest of several ways is measured on one small tensor more",
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
    (
        "compile/compilation.py",
        "return replace(_for_all_ranks(configuration), loaded_strategies=(), "
        'strategy_load_file="", laid_out_anew=False)',
        "return replace(_for_all_ranks(configuration), loaded_strategies=(), "
        'strategy_load_file="", laid_out_anew=True)',
    ): "whatever stands there is the same for all that are compared",
    (
        "ops/images/window_parts.py",
        "return start * stride + offsets[0], (stop - 1) * stride + offsets[-1] + 1",
        "return start * stride + offsets[0], (stop - 0) * stride + offsets[-1] + 1",
    ): "zeros are added that no window reads",
    (
        "cluster/flight/watchdog.py",
        "self._suspicions = 0",
        "self._suspicions = -1",
    ): "it looks once more before it tells of a hang",
    (
        "ops/reductions/sum_of_squares.py",
        "half = (operand(0, (), held.dtype) * 0.5).astype(target.dtype)",
        "half = (operand( -1, (), held.dtype) * 0.5).astype(target.dtype)",
    ): "of one array the first is the last",
    (
        "graph/expression/term.py",
        "waiting += before[::-1]",
        "waiting += before[::- 2]",
    ): "a term that is left out is found when what it is part of comes again",
    (
        "dataset/vision/interpolation.py",
        "return _linear(image, dim, np.clip(centres, 0, length - 1))",
        "return _linear(image, dim, np.clip(centres, 0, length << 1))",
    ): "both neighbours of a place beyond the last pixel are the last pixel",
    (
        "ops/shapes/reshaping.py",
        "return self.configured(shape=outputs[0].shape)",
        "return self.configured(shape=outputs[ -1].shape)",
    ): "it has one output",
    (
        "ops/shapes/reshaping.py",
        "if new < 0 or any(extent < -1 for extent in self.shape):",
        "if new < 0 or any(extent < - 2 for extent in self.shape):",
    ): "it is refused three lines later, in the same words",
    (
        "checkpoint/files/array_file.py",
        "end = min(begin + max(1, at_once), box.stop[0])",
        "end = min(begin + max( 2, at_once), box.stop[0])",
    ): "a row is read twice, into the same place",
    (
        "graph/execution/agreed_graphs.py",
        "return bool(words[0] != code or words[1] != -code)",
        "return bool(words[0] > code or words[1] != -code)",
    ): "the largest of all codes is not below a rank's own",
    (
        "search/machine/calibration.py",
        "few, many = (_gathered(group, size, cores) for size in (len(ranks) * 8, _MESSAGE))",
        "few, many = (_gathered(group, size, cores) for size in (len(ranks) * 7, _MESSAGE))",
    ): "the message that tells a latency is a byte shorter",
    (
        "launch/doctor/probes/two_ranks.py",
        'print(json.dumps({"sum": total}), flush=True)',
        'print(json.dumps({"sum": total}), flush=False)',
    ): "the program ends two lines later, which flushes",
    (
        "testing/case_strategies.py",
        "_MOST_TOGETHER = 16",
        "_MOST_TOGETHER = 17",
    ): "cases run in other groups",
    ("dataset/source.py", "place = 0", "place = 1"): "other numbers are drawn, as random as those",
    (
        "graph/expression/functions_of_one.py",
        "operations=20,",
        "operations= 19,",
    ): "it is an estimate",
    (
        "graph/expression/function.py",
        "@dataclass(frozen=True, eq=False)",
        "@dataclass(frozen=False, eq=False)",
    ): "nobody changes a row",
    (
        "graph/expression/cuda/row_plan.py",
        f"return not bound.is_row(total.operands[0]) and {_SUMMED_LIKE_ALL}",
        f"return not bound.is_row(total.operands[ -1]) and {_SUMMED_LIKE_ALL}",
    ): "a total has one operand",
    (
        "compile/device_fusion/attention_match.py",
        "of_scores = self._of_product(softmax.outputs[0], scale, nodes)",
        "of_scores = self._of_product(softmax.outputs[ -1], scale, nodes)",
    ): "a softmax has one output",
    (
        "search/problem/views.py",
        "return bool((numbers == np.arange(numbers.size)).all())",
        "return bool((numbers < np.arange(numbers.size)).all())",
    ): "what is taken in its own order is equal to what it is taken of",
    (
        "search/problem/symbol.py",
        "if most > max(codes.size, _FEW_CODES):",
        "if most >= max(codes.size, _FEW_CODES):",
    ): "both ways find the same codes",
    (
        "launch/ckpt/picture.py",
        "if lines[-1] and _length([*lines[-1], (word, lost)]) > width - 4:",
        "if lines[not 1] and _length([*lines[-1], (word, lost)]) > width - 4:",
    ): "the first line has a word whenever the last one has",
    (
        "search/machine/calibration.py",
        "x = np.full((extent, extent), 0.5, np.float32)",
        "x = np.full((extent, extent), -0.5, np.float32)",
    ): "a product takes as long whatever its sign is",
    (
        "backend/products/cublas_lt.py",
        "if count > 1:",
        "if count != 1:",
    ): "a stack has at least one matrix",
    (
        "graph/expression/cuda/many_arrays.py",
        "if width == 1:",
        "if width < 1:",
    ): "the loop for what is left of vectors of one element has none left",
    (
        "train/elastic/shrinking.py",
        'newest = max((one["generation"] for one in trainers), default=-1)',
        'newest = max((one["generation"] for one in trainers), default=+1)',
    ): "where nobody trains there is no leader, whatever is the newest",
    (
        "cluster/flight/recording.py",
        "if stop - int(first) > 1 << 20:",
        "if stop - int(first) > 1 << 19:",
    ): "no job has half a million ranks",
    (
        "cluster/json_lines.py",
        "key_at = -1",
        "key_at = - 0",
    ): "it is set before it is read",
    (
        "ops/reductions/sum_of_squares.py",
        "return (TensorSpec((), inputs[0].dtype),)",
        "return (TensorSpec((), inputs[ -1].dtype),)",
    ): "it has one input",
    (
        "ops/indexing/gathering.py",
        "add_slices = _add_each_slice if xp is np and place[:1].size >= _NARROW else _add_slices",
        "add_slices = _add_each_slice if xp is np and place[:1].size <= _NARROW else _add_slices",
    ): "both ways add the same slices in the same order",
    (
        "communication/fault_injection/full_disk.py",
        "(_JUMP_IF_EQUAL, 0, len(writes) + 1, machine.audit),",
        "(_JUMP_IF_EQUAL, 0, len(writes) * 1, machine.audit),",
    ): "it then compares the number of a processor with that of a call, which are never equal",
    (
        "search/machine/gpu_calibration.py",
        "_EXTENTS: Final = (256, 1024, 4096, 8192)",
        "_EXTENTS: Final = ( 255, 1024, 4096, 8192)",
    ): "the size of a product that is measured, not of one that is priced",
    (
        "models/measured_steps.py",
        "_IMAGES = (12, 5)",
        "_IMAGES = ( 13, 5)",
    ): "how many images are measured, not how many are priced",
    (
        "graph/execution/one_by_one.py",
        "_SLOT: Final = 70",
        "_SLOT: Final = 71",
    ): "any place that nothing else has is as good",
    (
        "ops/images/convolution/written.py",
        "chunks = min(max(windows // SHARE, 1), _MOST_PARTS)",
        "chunks = min(max(windows << SHARE, 1), _MOST_PARTS)",
    ): "how many blocks of a GPU share a sum",
    (
        "graph/execution/product_kernel.py",
        "source = array.swapaxes(-1, -2) if lies_turned else array",
        "source = array.swapaxes(-1, -2) if not lies_turned else array",
    ): "the same numbers are cast in another order",
    (
        "train/elastic/resharding.py",
        " @collector_paused()",
        "",
    ): "how long a move takes",
    (
        "nn/initializer/rule.py",
        "np.random.seed(self.key(name) & 0xFFFFFFFF)",
        "np.random.seed(self.key(name) % 0xFFFFFFFF)",
    ): "any number that follows from the key is as good a seed",
    (
        "communication/mpi/shared_memory.py",
        "few = communicator.hosts.count(own_host) <= _FEW",
        "few = communicator.hosts.count(own_host) is _FEW",
    ): "whether pages are mapped at once or when they are touched",
    (
        "search/forecast/parameters.py",
        "@dataclass(frozen=True)",
        "@dataclass(frozen=False)",
    ): "nobody changes what a forecast says",
    (
        "graph/expression/cuda/rows.py",
        'text.unravel(1, "at", plan.reduced)',
        'text.unravel( 0, "at", plan.reduced)',
    ): "the line of the kernel's text is indented by four spaces less",
    (
        "compile/device_fusion/attention_match.py",
        "value = casts[-1].outputs[0]",
        "value = casts[-1].outputs[ -1]",
    ): "a cast has one output",
    (
        "communication/protocol.py",
        " @property",
        "",
    ): "what a protocol says is read by the type checker alone",
    (
        "search/machine/calibration.py",
        "_TWICE: Final = 2",
        "_TWICE: Final = 3",
    ): "large messages are measured once more",
    (
        "ops/images/convolution/compiled.py",
        "*(dw.reshape(-1), self._once(np.arange(width)), block.start > 0),",
        "*(dw.reshape(- 2), self._once(np.arange(width)), block.start > 0),",
    ): "NumPy takes any negative length for the one that is not known",
    (
        "dataset/text/parallel_corpus.py",
        "return found[0]",
        "return found[ -1]",
    ): "one file was found",
    (
        "launch/command_line/unusable_path.py",
        "yield from sorted(given, key=lambda item: -len(from_root(item[1]).parts))",
        "yield from sorted(given, key=lambda item: ~len(from_root(item[1]).parts))",
    ): "the order is the same",
    (
        "compile/device_fusion/product_fusion.py",
        'if term is None or node.outputs[0].spec != spec or uncast(term).function != "add":',
        'if term is None or node.outputs[ -1].spec != spec or uncast(term).function != "add":',
    ): "a node of one term has one output",
    (
        "search/forecast/forecast.py",
        "first = staged.stages[0].graph",
        "first = staged.stages[ -1].graph",
    ): "the graph of each stage has all inputs",
    (
        "graph/own_operators.py",
        "return Equation.same(len(inputs[0].shape))",
        "return Equation.same(len(inputs[ -1].shape))",
    ): "it has one input",
    (
        "launch/measuring_ranks.py",
        '*(f"{name:<16}{link.latency * 1e6:.3g} us, {link.bandwidth / _GIGA:.3g} GB/s" for name, link in links),',
        '*(f"{name:<16}{link.latency * 1000001.0:.3g} us, {link.bandwidth / _GIGA:.3g} GB/s" for name, link in links),',
    ): "three digits are shown",
    (
        "train/full_search/plan_search.py",
        "return 0.0",
        "return -1.0",
    ): "the greater of it and of a number that is at least 0 is taken",
    (
        "search/methods/elimination.py",
        "choice = max(self.open, key=lambda one: (len(self._buckets[one]), -one))",
        "choice = max(self.open, key=lambda one: (len(self._buckets[one]), not one))",
    ): "a set of small numbers gives the least of them first",
    (
        "graph/expression/cuda/totals.py",
        "text.line(0, f\"a[{place}] = {stored(output.dtype, 'cells[column]')};\")",
        "text.line( -1, f\"a[{place}] = {stored(output.dtype, 'cells[column]')};\")",
    ): "a line of a text is less indented",
    (
        "reshard/verification.py",
        "mixed ^= mixed >> np.uint64(29)",
        "mixed ^= mixed << np.uint64(29)",
    ): "another mixing, of which two numbers also give two",
    (
        "graph/expression/cuda/many_arrays.py",
        "_THREADS: Final = 256",
        "_THREADS: Final = 257",
    ): "how many threads a block has is a matter of speed",
    (
        "reshard/forecast/replica_assignment.py",
        "_TABLE_CELLS = 1 << 23",
        "_TABLE_CELLS = 0 << 23",
    ): "places are summed up one by one, to the same sums",
    (
        "search/machine/gpu_calibration.py",
        "_EXTENTS: Final = (256, 1024, 4096, 8192)",
        "_EXTENTS: Final = (256, 1024, 4096, 8191)",
    ): "the size of a product that is measured, not of one that is priced",
    (
        "reshard/planning/replica_rule.py",
        "if parts is not None and frame.replica_count > 1 and self._group(frame, parts, host) == group:",
        "if parts is not None and frame.replica_count > 0 and self._group(frame, parts, host) == group:",
    ): "what one rank alone holds is given by it without a look at the shares",
    (
        "reshard/planning/replica_rule.py",
        "step = round(size * 0.381966)",
        "step = round(size * 1.381966)",
    ): "one round more: the same places",
    (
        "reshard/planning/frame.py",
        "return [(self.devices.shape[axis], self.devices.strides[axis]) for axis in axes "
        "if self.devices.shape[axis] > 1]",
        "return [(self.devices.shape[axis], self.devices.strides[axis]) for axis in axes "
        "if self.devices.shape[axis] != 1]",
    ): "an axis has one device at least",
    ("reshard/executors/calibration.py", "if codes[0] < 0:", "if codes[ 1] < 0:"): "both are below 0, or none is",
    (
        "reshard/verification.py",
        "difference = np.zeros(1, np.uint64)",
        "difference = np.zeros( 2, np.uint64)",
    ): "the same number is summed up twice",
    (
        "checkpoint/formats/zip_directory.py",
        "return super().read(-1 if size is None else size)",
        "return super().read(-1 if size is not None else size)",
    ): "what is asked for lies at the end of the file, with at most 64 KiB behind it",
    (
        "pipeline/placement.py",
        "return self.stages[part + 1] if part + 1 < len(self.stages) else None",
        "return self.stages[part + 1] if part + 1 != len(self.stages) else None",
    ): "no part is behind the last",
    (
        "cluster/gathering/hand_started.py",
        "return f\"rank{'s' * (len(numbers) > 1)} {listed}\"",
        "return f\"rank{'s' * (len(numbers) != 1)} {listed}\"",
    ): "it names one rank at least",
    ("cluster/rank_table.py", "@dataclass(frozen=True)", "@dataclass(frozen=False)"): "nobody changes a table",
    (
        "cluster/flight/recording.py",
        "@dataclass(frozen=True, slots=True)",
        "@dataclass(frozen=False, slots=True)",
    ): "nobody changes what was recorded",
    ("launch/plan/forecast.py", "@dataclass(frozen=True)", "@dataclass(frozen=False)"): "nobody changes what is told",
    ("search/problem/loose_sums.py", "@dataclass(frozen=True)", "@dataclass(frozen=False)"): "nobody changes a sum",
    (
        "search/problem/choices.py",
        "before = found.get(node.inputs[0])",
        "before = found.get(node.inputs[ -1])",
    ): "it has one input",
    (
        "search/methods/integer_program.py",
        "span, seen = self._seen(table.views[0])",
        "span, seen = self._seen(table.views[ -1])",
    ): "there is one view",
    (
        "search/machine/gpu_calibration.py",
        "_MESSAGES: Final = (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28)",
        "_MESSAGES: Final = (1 << 12, 1 << 16, 1 << 20, 1 << 24, 2 << 28)",
    ): "the size of a message that is measured, not of one that is priced",
    (
        "launch/postmortem.py",
        "print(json.dumps([asdict(recording) for recording in recordings], indent=2))",
        "print(json.dumps([asdict(recording) for recording in recordings], indent= 3))",
    ): "lines are indented by one more space",
    (
        "ops/functions/operators.py",
        "output: Tensor = Dropout(1.0 - p, seed or 0)(x)[0]",
        "output: Tensor = Dropout(1.0 - p, seed or -1)(x)[0]",
    ): "which elements are zeroed without a seed is promised to nobody",
    (
        "reshard/planning/tensor_move.py",
        "tuple([a if a > b else b for (a, _), (b, _) in ends]), tuple([a if a < b else b for (_, a), (_, b) in ends])",
        "tuple([a if a >= b else b for (a, _), (b, _) in ends]), tuple([a if a < b else b for (_, a), (_, b) in ends])",
    ): "of two equal numbers either is taken",
    (
        "ops/normalization/batch_statistics.py",
        "x = inputs[0]",
        "x = inputs[ -1]",
    ): "it has one input",
    (
        "search/machine/calibration.py",
        "found = np.array([library_bytes() if host.rank < cores else 0.0])",
        "found = np.array([library_bytes() if host.rank != cores else 0.0])",
    ): "it is the largest of all ranks, and each finds about as much",
    (
        "parallel/legal_strategies.py",
        "factors = [factor for factor in range(1, devices + 1) if devices % factor == 0]",
        "factors = [factor for factor in range(1, devices << 1) if devices % factor == 0]",
    ): "no number above another divides it",
    (
        "checkpoint/loading/reading_plan.py",
        "count = max(min(takers, nbytes // _LEAST_BYTES), -(-nbytes // self._wave_bytes), 1)",
        "count = max(min(takers, nbytes // _LEAST_BYTES), -(-nbytes // self._wave_bytes), 0)",
    ): "the part holds bytes, so there is a wave",
    (
        "ops/images/pooling.py",
        "share = runtime.scratch(tuple(dy.shape), dx.dtype, 2)",
        "share = runtime.scratch(tuple(dy.shape), dx.dtype, 3)",
    ): "another number for memory that this operator alone uses there",
    (
        "cluster/flight/watchdog.py",
        "_GIL_GRACE_SECONDS = 2.0",
        "_GIL_GRACE_SECONDS = 1.0",
    ): "how long threads that hold the interpreter are waited for",
    (
        "ops/reductions/addition.py",
        "xp, target = runtime.array_module, outputs[0]",
        "xp, target = runtime.array_module, outputs[ -1]",
    ): "it has one output",
    (
        "parallel/border.py",
        "is_there = bool(xp.shares_memory(source, target)) if source.size else True",
        "is_there = bool(xp.shares_memory(source, target)) if source.size else False",
    ): "nothing is copied to nothing",
    (
        "backend/products/pair_products.py",
        "if not product.is_plain or blas_threads() > _THREADS:",
        "if not product.is_plain or blas_threads() is _THREADS:",
    ): "which of two products is computed, both within the rounding that is promised",
    (
        "graph/expression/cuda/rows.py",
        "depth = self._enter_elements(1)",
        "depth = self._enter_elements( 0)",
    ): "lines are indented less",
    (
        "checkpoint/loading/load.py",
        "row = np.ascontiguousarray(shown[index_of(box, outer)]).reshape(-1)",
        "row = np.ascontiguousarray(shown[index_of(box, outer)]).reshape(~1)",
    ): "NumPy takes -2 as it takes -1",
    (
        "search/machine/gpu_calibration.py",
        "_CACHED: Final = 1 << 20",
        "_CACHED: Final = 1 << 21",
    ): "the size of an array that is measured, not of one that is priced",
    (
        "search/problem/problem.py",
        "while size % prime == 0 and size > 1:",
        "while size ** prime == 0 and size > 1:",
    ): "fewer layouts are priced alike: it takes longer",
    (
        "reshard/forecast/replica_assignment.py",
        "if 4 * len(tensors) < most_givers:",
        "if 4 >> len(tensors) < most_givers:",
    ): "both ways give the same sums",
    (
        "communication/mpi/shared_memory.py",
        "weakref.finalize(self, _SYSTEM.munmap, address, nbytes).atexit = False",
        "weakref.finalize(self, _SYSTEM.munmap, address, nbytes).atexit = True",
    ): "the memory of a process that ends is given back",
    (
        "communication/mpi/large_messages.py",
        "if length > 1 and any(count % length for count in counts):",
        "if length != 1 and any(count % length for count in counts):",
    ): "a length is at least 1",
    (
        "train/serialization.py",
        'print(f"save_checkpoint: {path} is not written: {error}", file=sys.stderr, flush=True)',
        'print(f"save_checkpoint: {path} is not written: {error}", file=sys.stderr, flush=False)',
    ): "stderr keeps nothing back",
}
"""By the file below ``mpiparallel``, and the line before and after: why nobody can see a difference."""


_OF_BFLOAT16: Final = (
    "backend/products/bfloat16_",
    "backend/products/pair_products.py",
    "ops/images/convolution/pairs.py",
    "ops/images/convolution/pair_loops.py",
)
"""What is compiled for processors with AVX512-BF16 alone."""


def reason_of(change: Change) -> str | None:
    """Return why no user can see a change, or no test on this processor; None for one that counts."""
    path = change.path.removeprefix("mpiparallel/")
    if path.startswith(_OF_BFLOAT16) and not is_at_hand():
        return "without AVX512-BF16 its tests are skipped"
    return EQUIVALENTS.get((path, change.before, change.after))
