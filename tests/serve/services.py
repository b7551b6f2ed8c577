"""Services in this process, for tests of `txlog serve`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import txlog
from txlog.serve.batches import Terms
from txlog.serve.intake import Pace
from txlog.serve.journal import Journal
from txlog.serve.service import Limits, Service

PATIENT = Pace(max_delay_s=1e6, gather_s=0, maintain_every_s=0)
"""Rows that only the journal has wait until something else makes a commit."""


def create(folder: Path, name: str = "events", columns: str = "id bigint, s string", **how: Any) -> txlog.Table:
    return txlog.Catalog(folder).create(name, columns, **how)


@contextlib.contextmanager
def serving(folder: Path, *, journal: Path | None = None, limits: Limits | None = None) -> Iterator[Service]:
    service = Service(str(folder), pace=PATIENT, limits=limits, journal=journal and Journal(journal))
    service.recover()
    try:
        yield service
    finally:
        service.close()


def rows(*ids: int | None) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "s": [f"s{each}" for each in ids]})


def terms(table: str = "events", **given: Any) -> Terms:
    return Terms.of({"table": table, **given})


def ids(table: txlog.Table) -> list[int]:
    """The ids in the table, as deltalake reads them."""
    import deltalake

    return sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist())


@contextlib.contextmanager
def killed(folder: Path, journal: Path) -> Iterator[Service]:
    """A service whose process dies at the end of the block: it commits nothing more, and the journal is as it is."""
    service = Service(str(folder), pace=PATIENT, journal=Journal(journal))
    service.recover()
    yield service
    assert service.journal is not None
    service.journal._lock_file.close()  # what the end of a process does
