"""A write on an open table, for tests that work below `Table`."""

from __future__ import annotations

from typing import Any

from txlog.core.operations import WriteOptions, write_steps
from txlog.core.versions import OpenTable
from txlog.result import WriteResult

__all__ = ["write_batch"]


def write_batch(open_table: OpenTable, data: Any, options: WriteOptions) -> WriteResult:
    return open_table.run(write_steps(open_table, data, options))
