"""What a protocol upgrade means for other programs, in words: who can still read and write the table.

In: the protocol before and after. Out: sentences for results, logs and errors. ``integration/test_interop_readers.py``
tests what the named readers do. PROTOCOL.md, "Protocol Evolution".
"""

from __future__ import annotations

from txlog.protocol.actions import Metadata, Protocol
from txlog.protocol.features import features_in_use, features_of

__all__ = ["readers_note", "upgrade_note"]

_READERS = {
    "columnMapping": "deltalake's to_pyarrow_table and to_pandas, and DuckDB through them, then read nulls without an"
    " error, and Polars refuses the table; txlog, Spark's Delta and deltalake's QueryBuilder read it",
    "typeWidening": "deltalake, Polars and DuckDB through them then refuse the table; txlog and Spark's Delta read it",
    "deletionVectors": "deltalake's to_pyarrow_table and to_pandas, and DuckDB through them, then refuse the table;"
    " txlog, Spark's Delta, Polars and deltalake's QueryBuilder read it",
    "v2Checkpoint": "deltalake's to_pyarrow_table and to_pandas, and DuckDB through them, then refuse the table; txlog,"
    " Spark's Delta, Polars and deltalake's QueryBuilder read it",
    "timestampNtz": "txlog, Spark's Delta, deltalake and Polars read it",
}
_UNKNOWN = "readers that do not know it refuse the table; txlog and Spark's Delta read it"


def readers_note(feature: str) -> str:
    """Which known readers can read a table with a reader feature, as a sentence."""
    return f"For readers: {_READERS.get(feature, _UNKNOWN)}."


def upgrade_note(before: Protocol, after: Protocol, metadata: Metadata) -> str | None:
    """What changed for readers and writers from one protocol to a later one; None if nothing did.

    Also names features that are now required although the table of ``metadata`` does not use them.
    """
    (had, wrote), (reads, writes) = features_of(before), features_of(after)
    for_readers = [name for name in reads if name not in had]
    for_writers = [name for name in writes if name not in wrote and name not in for_readers]
    if not for_readers and not for_writers:
        return None
    used = features_in_use(metadata)
    unused = [name for name in (*for_readers, *for_writers) if name not in used]
    parts = [f"the table's protocol is now {_versions(after)} (was {_versions(before)})"]
    parts += [f"readers need {name}: {_READERS.get(name, _UNKNOWN)}" for name in for_readers]
    parts += [f"writers need {', '.join(for_writers)}"] if for_writers else []
    parts += [] if for_readers else ["every reader still works"]
    parts += [f"the table does not use {', '.join(unused)} yet"] if unused else []
    return "; ".join(parts)


def _versions(protocol: Protocol) -> str:
    return f"reader version {protocol.min_reader_version}, writer version {protocol.min_writer_version}"
