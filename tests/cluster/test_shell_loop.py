"""Ranks that a shell starts one by one, on each host its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster.hosts import Ended, Hosts
from tests.conformance import hand_started_ranks as _ranks_module  # noqa: F401

pytestmark = pytest.mark.cluster
