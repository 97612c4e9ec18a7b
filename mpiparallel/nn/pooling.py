"""Pooling layers, and the one that makes images rows."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel import ops
from mpiparallel.compatibility.arguments import no_effect, only
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell

Size = int | tuple[int, int]

_PADDED = "pad_mode='same' gives as many windows as strides fit"


class MaxPool2d(Cell):
    """The largest element of each window of images (n, c, h, w).

    The operator is ``max_pool``; ``cell.max_pool.shard(((2, 4, 2, 1),))`` cuts images, channels and height.

    Parameters
    ----------
    kernel_size, stride : int or tuple of int
        Height and width of a window, and from one to the next, in pixels.
    pad_mode : {"valid", "same"}
        Whether windows lie within the image, or there is ``ceil(h / stride)`` by ``ceil(w / stride)`` output.
    padding, dilation, return_indices, ceil_mode
        Only their defaults: there is no padding by numbers, no dilation, no indices and no partial windows.
    data_format : str
        "NCHW".

    Raises
    ------
    ConfigurationError
        For what is not supported.

    Examples
    --------
    >>> MaxPool2d(2, 2)(Tensor([[[[1.0, 4.0], [3.0, 2.0]]]])).asnumpy().tolist()
    [[[[4.0]]]]
    """

    def __init__(
        self,
        kernel_size: Size = 1,
        stride: Size = 1,
        pad_mode: str = "valid",
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        only("MaxPool2d", "padding", padding, 0, _PADDED)
        only("MaxPool2d", "dilation", dilation, 1)
        only("MaxPool2d", "return_indices", return_indices, False)
        only("MaxPool2d", "ceil_mode", ceil_mode, False, _PADDED)
        self.max_pool = ops.MaxPool(kernel_size, stride, pad_mode, data_format)

    def construct(self, x: Tensor) -> Tensor:
        """Return images of as many channels."""
        pooled: Tensor = self.max_pool(x)
        return pooled


class AvgPool2d(Cell):
    """The mean of each window of images (n, c, h, w), over the elements in it that are not padding.

    The operator is ``avg_pool``; ``cell.avg_pool.shard(((2, 4, 2, 1),))`` cuts images, channels and height.

    Parameters
    ----------
    kernel_size, stride : int or tuple of int
        Height and width of a window, and from one to the next, in pixels.
    pad_mode : {"valid", "same"}
        Whether windows lie within the image, or there is ``ceil(h / stride)`` by ``ceil(w / stride)`` output.
    padding, ceil_mode, count_include_pad, divisor_override
        Only their defaults: there is no padding by numbers, no partial windows and no other divisor.
    data_format : str
        "NCHW".

    Raises
    ------
    ConfigurationError
        For what is not supported.

    Examples
    --------
    >>> AvgPool2d(2, 2)(Tensor([[[[1.0, 4.0], [3.0, 2.0]]]])).asnumpy().tolist()
    [[[[2.5]]]]
    """

    def __init__(
        self,
        kernel_size: Size = 1,
        stride: Size = 1,
        pad_mode: str = "valid",
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        only("AvgPool2d", "padding", padding, 0, _PADDED)
        only("AvgPool2d", "ceil_mode", ceil_mode, False, _PADDED)
        only("AvgPool2d", "divisor_override", divisor_override, None)
        no_effect("AvgPool2d", "count_include_pad", count_include_pad, "padding never counts", default=True)
        self.avg_pool = ops.AvgPool(kernel_size, stride, pad_mode, data_format)

    def construct(self, x: Tensor) -> Tensor:
        """Return images of as many channels."""
        pooled: Tensor = self.avg_pool(x)
        return pooled


class Flatten(Cell):
    """Dims ``start_dim`` to ``end_dim`` as one; by default the tensor (n, ...) as n rows.

    Parameters
    ----------
    start_dim, end_dim : int
        The dims.

    Examples
    --------
    >>> Flatten(start_dim=0, end_dim=1)(Tensor([[[1.0, 2.0]], [[3.0, 4.0]]])).shape
    (2, 2)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def construct(self, x: Tensor) -> Tensor:
        """Return a tensor of fewer dims."""
        return ops.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim)


class AdaptiveAvgPool2d(Cell):
    """Images (n, c, h, w) averaged to ``output_size``: a number, or (height, width) where None keeps the extent.

    With 1 it is global pooling. The operator is ``adaptive_avg_pool``; its strategy leaves height and width whole,
    ``((2, 4, 1, 1),)``.

    Parameters
    ----------
    output_size : int or tuple of int
        Of images, in pixels.

    Examples
    --------
    >>> AdaptiveAvgPool2d(1)(Tensor([[[[1.0, 3.0]]]])).asnumpy().tolist()
    [[[[2.0]]]]
    """

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.adaptive_avg_pool = ops.AdaptiveAvgPool2D(output_size)

    def construct(self, x: Tensor) -> Tensor:
        """Return images of as many channels."""
        pooled: Tensor = self.adaptive_avg_pool(x)
        return pooled
