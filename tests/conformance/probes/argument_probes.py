"""All probes by the name of what is called."""

from __future__ import annotations

from tests.conformance.probes.argument_probe import Probe
from tests.conformance.probes.cell_probes import CELLS
from tests.conformance.probes.checkpoint_probes import CHECKPOINTS
from tests.conformance.probes.data_probes import DATA
from tests.conformance.probes.function_probes import FUNCTIONS
from tests.conformance.probes.layer_probes import LAYERS
from tests.conformance.probes.operator_probes import OPERATORS
from tests.conformance.probes.training_probes import TRAINING

ARGUMENTS: dict[str, Probe] = {**CELLS, **CHECKPOINTS, **DATA, **FUNCTIONS, **LAYERS, **OPERATORS, **TRAINING}
