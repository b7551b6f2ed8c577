"""Lets the tests in this folder import ``small_table`` from it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from txlog.table import Table

sys.path.insert(0, str(Path(__file__).parent))
from small_table import SCHEMA


@pytest.fixture
def table(make_table: Callable[..., Table]) -> Table:
    return make_table(schema=SCHEMA)
