"""``export``: what of it can be done here, and where the rest is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.train.evaluation import not_training
from mpiparallel.train.serialization import save_checkpoint

FORMATS: Final = ("AIR", "MINDIR", "ONNX")


def export(net: Cell, *inputs: Any, file_name: str | Path, file_format: str, **kwargs: Any) -> NoReturn:
    """Save the whole parameters of a network as ``<file_name>.ckpt``, and raise: models for others are not written.

    MindSpore reads the file, and its own ``export`` writes the model from it and the same network there. Where the
    network is cut all ranks call it together.

    Parameters
    ----------
    net : Cell
        The network.
    *inputs : Tensor or array
        What it would be exported for; they are run through it first, so that a wrong shape shows here.
    file_name : str or Path
        Without suffix.
    file_format : {"MINDIR", "ONNX", "AIR"}
        Of the model.
    **kwargs
        MindSpore's.

    Raises
    ------
    ConfigurationError
        Always: it names the file, or what is wrong with the arguments.

    Examples
    --------
    >>> import tempfile
    >>> from mpiparallel import nn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:
    ...         export(nn.Dense(2, 1), file_name=f"{folder}/net", file_format="MINDIR")
    ...     except ConfigurationError:
    ...         [path.name for path in Path(folder).iterdir()]
    ['net.ckpt']
    """
    if file_format not in FORMATS:
        raise ConfigurationError(f"export: file_format {file_format!r} is not one of {', '.join(FORMATS)}")
    if not isinstance(net, Cell):
        raise ConfigurationError(f"export: net is a {type(net).__name__}; give a network")
    if inputs:
        with not_training(net) as network:
            network(*(one if isinstance(one, Tensor) else Tensor(np.asarray(one)) for one in inputs))
    path = Path(file_name)
    path = path.with_name(f"{path.name.removesuffix(f'.{file_format.lower()}')}.ckpt")
    save_checkpoint(net, path)
    raise ConfigurationError(
        f"export: {file_format} models are not written here. The parameters are in {path}, whole: in an environment "
        "with MindSpore make the same network, load_checkpoint and load_param_into_net that file, and call its export"
    )
