"""A training that goes on when ranks die: with the losses of one that never lost any."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.conformance.mpi_launcher import library
from tests.conformance.surviving_job import run_surviving
from tests.mpi.train.shrink_ranks import EPOCHS, RANK_STEPS, KINDS
