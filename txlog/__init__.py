"""txlog writes Delta tables: atomic, isolated, durable, and exactly once on request.

    table = txlog.Table.create("/data/orders", schema, partition_by=["day"])
    table.append(data)                  # pyarrow, polars, pandas, duckdb, or an iterator of record batches
    table.to_arrow(where="day = '2026-11-20'")

`write` and `Table` are the main interface, `Sink` is for other engines, and ``txlog.spark`` is for Spark. Everything
else is an error to catch or a value that they return. The steps of a write:

    rows -> TaskWriter -> TaskCommitter -> GlobalCommitter -> Transaction -> Committer -> _delta_log/

Names load on first use, so importing txlog stays cheap.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from txlog.core.whole_import import install as _install_whole_imports

__version__ = "0.1.0"

_install_whole_imports()

if TYPE_CHECKING:
    from txlog.catalog import Catalog
    from txlog.core.catalogs import probe_store
    from txlog.core.predicates import col, expr, lit
    from txlog.core.sink import Sink, SinkGroup
    from txlog.core.store import RetryPolicy
    from txlog.core.writing.committable import Committable
    from txlog.errors import (
        AccessError,
        ChecksFailedError,
        CommitRetriesExhaustedError,
        CommitStateUnknownError,
        ConcurrentAppendError,
        ConcurrentDeleteDeleteError,
        ConcurrentDeleteReadError,
        ConcurrentTransactionError,
        ConflictError,
        CorruptLogError,
        InvalidInputError,
        MetadataChangedError,
        NotFoundError,
        ProtocolChangedError,
        SchemaMismatchError,
        StorageError,
        TableExistsError,
        TableNotFoundError,
        TxlogError,
        UnsupportedFeatureError,
    )
    from txlog.hooks import CommitHooks
    from txlog.result import WriteResult
    from txlog.snapshot import Snapshot
    from txlog.statements.session import SqlSession
    from txlog.statements.sql import sql
    from txlog.table import Table, resolve, write
    from txlog.table_transaction import Transaction
    from txlog.together import read_together, transaction

_HOME = {
    "Catalog": "txlog.catalog",
    "CommitHooks": "txlog.hooks",
    "Committable": "txlog.core.writing.committable",
    "RetryPolicy": "txlog.core.store._retry",
    "Sink": "txlog.core.sink._sink",
    "SinkGroup": "txlog.core.sink._sink_group",
    "Snapshot": "txlog.snapshot",
    "SqlSession": "txlog.statements.session",
    "Table": "txlog.table",
    "Transaction": "txlog.table_transaction",
    "WriteResult": "txlog.result",
    "col": "txlog.core.predicates._unbound",
    "expr": "txlog.core.predicates._unbound",
    "lit": "txlog.core.predicates._build",
    "probe_store": "txlog.core.catalogs._probe",
    "read_together": "txlog.together",
    "resolve": "txlog.table",
    "sql": "txlog.statements.sql",
    "transaction": "txlog.together",
    "write": "txlog.table",
}

_OF_OTHERS = (
    "CommitProperties",
    "DeltaTable",
    "Field",
    "QueryBuilder",
    "Schema",
    "WriterProperties",
    "convert_to_deltalake",
    "create",
    "exists",
    "is_deltatable",
    "load",
    "open",
    "read",
    "spark",
    "write_deltalake",
)
"""Names that users of other libraries try; `txlog.core.util._names_elsewhere` has the txlog name for each."""

__all__ = [
    "AccessError",
    "Catalog",
    "ChecksFailedError",
    "CommitHooks",
    "CommitRetriesExhaustedError",
    "CommitStateUnknownError",
    "Committable",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentTransactionError",
    "ConflictError",
    "CorruptLogError",
    "InvalidInputError",
    "MetadataChangedError",
    "NotFoundError",
    "ProtocolChangedError",
    "RetryPolicy",
    "SchemaMismatchError",
    "Sink",
    "SinkGroup",
    "Snapshot",
    "SqlSession",
    "StorageError",
    "Table",
    "TableExistsError",
    "TableNotFoundError",
    "Transaction",
    "TxlogError",
    "UnsupportedFeatureError",
    "WriteResult",
    "col",
    "expr",
    "lit",
    "probe_store",
    "read_together",
    "resolve",
    "sql",
    "transaction",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _OF_OTHERS:
        from txlog.core.util import no_attribute

        raise no_attribute(sys.modules[__name__], name, None)
    if name not in __all__:
        raise AttributeError(f"module 'txlog' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME.get(name, "txlog.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
