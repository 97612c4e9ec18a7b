"""The child process that runs the cases in PyTorch: it reads orders from standard input and answers with seconds.

Its only argument is JSON: ``device`` ("cuda" or "cpu"), ``count`` of timed calls, and ``cases``. It writes first which
version it is, and on which device. An order is a line ``<way> <name of the case> <calls>``; the answer is a list of one
number, the median seconds of a call, and is empty where it failed.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from on_gpu.clock import Stream, median_seconds, sets_beyond_caches, turns
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from training_step import torch_networks

Call = Callable[[], object]
Work = tuple[Callable[..., Any], list[Any]]
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "TF32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


_BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}


class Peer:
    """Makes the calls of cases on a device."""

    def __init__(self, device: str, count: int) -> None:
        self._device = device
        self._count = count
        self._stream = self._cuda_stream() if device == "cuda" else None

    def seconds(self, way: str, case: SimpleNamespace) -> float:
        """Return the median seconds of a call."""
        for switches in (torch.backends.cuda.matmul, torch.backends.cudnn):
            switches.allow_tf32 = case.dtype == "TF32"
        if case.kind.endswith("step"):
            make = resnet_step if case.kind.startswith("ResNet") else encoder_step
            call = make(case, way == "compiled", self._device)
            return median_seconds(call, min(self._count, 20), self._stream, is_long=True)
        with sdpa_kernel(_BACKENDS[way]) if way in _BACKENDS else nullcontext():
            sets = 1 if case.operations else sets_beyond_caches(case.bytes, self._count)
            works = [self._work(case) for _ in range(sets)]
            if way == "compiled":
                # One compiled function takes all sets of arrays, as their shapes are the same.
                works = [(compiled, given) for compiled in [torch.compile(works[0][0])] for _, given in works]
            calls = [partial(function, *given) for function, given in works]
            seconds = median_seconds(turns(calls), self._count, self._stream)
        calls.clear()
        del works
        gc.collect()
        return seconds

    def _cuda_stream(self) -> Stream:
        large = [torch.zeros(1 << 28, device="cuda") for _ in range(2)]

        def keep_busy() -> None:
            for _ in range(8):
                large[0].copy_(large[1])

        return Stream(
            lambda: torch.cuda.Event(enable_timing=True), lambda first, last: first.elapsed_time(last), keep_busy
        )

    def _numbers(self, case: SimpleNamespace, *shape: int) -> Tensor:
        return (torch.rand(shape or tuple(case.sizes), device=self._device) - 0.5).to(DTYPES[case.dtype])

    def _work(self, case: SimpleNamespace) -> Work:
        rows = case.sizes[-1:]
        match case.kind:
            case "copy":
                return lambda target, source: target.copy_(source), [self._numbers(case), self._numbers(case)]
            case "product":
                m, n, k = case.sizes
                return torch.mm, [self._numbers(case, m, k), self._numbers(case, k, n)]
            case "layer norm":
                vector = self._numbers(case, *rows)
                return lambda x, *others: functional.layer_norm(x, rows, *others), [self._numbers(case), vector, vector]
            case "softmax":
                return lambda x: functional.softmax(x, -1), [self._numbers(case)]
            case "bias and GELU":
                return lambda x, bias: torch_networks.GELU(x + bias), [self._numbers(case), self._numbers(case, *rows)]
            case "AdamWeightDecay":
                weights = torch.nn.Parameter(self._numbers(case))
                weights.grad = self._numbers(case)
                return torch.optim.AdamW([weights], fused=True).step, []
        return self._gradient(case)

    def _gradient(self, case: SimpleNamespace) -> Work:
        if case.kind.startswith("convolution"):
            return self._convolution(case)
        if "attention" in case.kind:
            return self._attention(case)
        return self._row_gradient(case)

    def _row_gradient(self, case: SimpleNamespace) -> Work:
        """Return the operators that PyTorch's own gradients are made of."""
        dy, x = self._numbers(case), self._numbers(case)
        aten, rows = torch.ops.aten, case.sizes[-1:]
        match case.kind:
            case "layer norm gradient":
                vector = self._numbers(case, *rows)
                _, mean, inverse_deviation = aten.native_layer_norm(x, rows, vector, vector, 1e-5)
                given = [dy, x, rows, mean, inverse_deviation, vector, vector, [True] * 3]
                return aten.native_layer_norm_backward, given
            case "softmax gradient":
                return aten._softmax_backward_data, [dy, x, -1, x.dtype]
            case "cross entropy gradient":
                labels = torch.randint(0, case.sizes[1], (case.sizes[0],), device=self._device)
                return cross_entropy_gradient, [x, labels]
            case "GELU gradient and bias gradient":
                return gelu_and_bias_gradient, [dy, x]
        raise SystemExit(f"the peer has no case of kind {case.kind!r}")

    def _attention(self, case: SimpleNamespace) -> Work:
        heads = [self._numbers(case) for _ in range(3)]
        is_causal = case.kind.startswith("causal")
        if not case.kind.endswith("gradient"):
            return lambda *given: functional.scaled_dot_product_attention(*given, is_causal=is_causal), heads
        heads = [one.requires_grad_() for one in heads]
        y = functional.scaled_dot_product_attention(*heads, is_causal=is_causal)
        dy = torch.rand_like(y)
        return lambda: torch.autograd.grad(y, heads, dy, retain_graph=True), []

    def _convolution(self, case: SimpleNamespace) -> Work:
        images, channels, extent, outputs, kernel, stride = case.sizes
        torch.backends.cudnn.benchmark = True
        last = {"memory_format": torch.channels_last}
        x = self._numbers(case, images, channels, extent, extent).to(**last)
        weight = self._numbers(case, outputs, channels, kernel, kernel).to(**last)
        # "same" padding puts the odd pixel behind: the peer's even padding does the same work.
        padding = kernel // 2
        if case.kind.endswith("forward"):
            return lambda *given: functional.conv2d(*given, stride=stride, padding=padding), [x, weight]
        after = functional.conv2d(x[:1], weight, stride=stride, padding=padding).shape[2:]
        dy = self._numbers(case, images, outputs, *after).to(**last)
        wanted = [case.kind.endswith("input gradient"), case.kind.endswith("weight gradient"), False]
        pairs = [stride, stride], [padding, padding], [1, 1], False, [0, 0], 1
        return torch.ops.aten.convolution_backward, [dy, x, weight, None, *pairs, wanted]


def cross_entropy_gradient(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient of the mean cross entropy."""
    one_hot = functional.one_hot(labels, logits.shape[1]).to(logits.dtype)
    return (functional.softmax(logits, -1) - one_hot) / len(labels)


def gelu_and_bias_gradient(dy: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of GELU, and its sum over rows."""
    dx = torch.ops.aten.gelu_backward(dy, x, approximate="tanh")
    return dx, dx.sum(0)


def encoder_step(case: SimpleNamespace, is_compiled: bool, device: str) -> Call:
    """Return a training step of the encoder."""
    batch, length, width, layers = case.sizes
    vocabulary = 20000
    network = torch_networks.Encoder(vocabulary, length, width, max(width // 64, 1), 4 * width, layers).to(device)
    ids, labels = (torch.randint(4, vocabulary, (batch, length), device=device) for _ in range(2))
    positions = torch.arange(length, device=device).repeat(batch, 1)
    adam = torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    return _step(case, network, adam, (ids, positions), labels.flatten(), is_compiled)


def resnet_step(case: SimpleNamespace, is_compiled: bool, device: str) -> Call:
    """Return a training step of ResNet-50, with images in channels-last order."""
    images, extent = case.sizes
    torch.backends.cudnn.benchmark = True
    network = torch_networks.ResNet50().to(device, memory_format=torch.channels_last)
    x = torch.randn(images, 3, extent, extent, device=device).to(memory_format=torch.channels_last)
    momentum = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, fused=True)
    return _step(case, network, momentum, (x,), torch.randint(0, 10, (images,), device=device), is_compiled)


def _step(
    case: SimpleNamespace,
    network: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: tuple[Tensor, ...],
    labels: Tensor,
    is_compiled: bool,
) -> Call:
    device = labels.device.type
    run = torch.compile(network, mode="reduce-overhead") if is_compiled else network

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=case.dtype == "bfloat16"):
            logits = run(*inputs)
            loss = functional.cross_entropy(logits.flatten(0, -2), labels)
        loss.backward()
        optimizer.step()

    return step


def main() -> None:
    """Answer orders until standard input ends."""
    told = json.loads(sys.argv[1])
    # Whatever a library prints must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    torch.manual_seed(1)
    peer = Peer(told["device"], told["count"])
    cases = {case["name"]: SimpleNamespace(**case) for case in told["cases"]}
    name = torch.cuda.get_device_name() if told["device"] == "cuda" else "the CPU"
    ready = {"version": f"{torch.__version__} on {name}", "variants": ["eager", "compiled", *_BACKENDS]}
    print(json.dumps(ready), file=answers, flush=True)
    for order in sys.stdin:
        way, rest = order.split(maxsplit=1)
        try:
            found = [peer.seconds(way, cases[rest.rsplit(maxsplit=1)[0]])]
        except Exception as error:
            # One case that this PyTorch or this card does not take must not end the others.
            print(f"the peer, {order.strip()}: {type(error).__name__}: {error}", file=sys.stderr)
            found = []
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
