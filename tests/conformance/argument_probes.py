"""All probes by the name of what is called."""

from __future__ import annotations

from tests.conformance.argument_probe import Probe
from tests.conformance.cell_probes import CELLS
from tests.conformance.checkpoint_probes import CHECKPOINTS
from tests.conformance.data_probes import DATA
from tests.conformance.function_probes import FUNCTIONS
from tests.conformance.layer_probes import LAYERS
from tests.conformance.operator_probes import OPERATORS
from tests.conformance.training_probes import TRAINING

ARGUMENTS: dict[str, Probe] = {**CELLS, **CHECKPOINTS, **DATA, **FUNCTIONS, **LAYERS, **OPERATORS, **TRAINING}
