"""What a protocol upgrade means for other programs, in words: who can still read and write the table.

In: the protocol before and after. Out: sentences for results, logs and errors. ``integration/test_interop_readers.py``
tests what the named readers do. PROTOCOL.md, "Protocol Evolution".
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias

from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.features import DELETED_BRANCH, FeatureUsage, features_in_use, features_of
from txlog.core.format.schema import Struct, parse_schema

_READERS = {
    "columnMapping": "deltalake's to_pyarrow_table and to_pandas, and DuckDB through them, then read nulls without an"
    " error, and Polars refuses the table; txlog, Spark's Delta and deltalake's QueryBuilder read it",
    "typeWidening": "deltalake, Polars and DuckDB through them then refuse the table; txlog and Spark's Delta read it",
    "deletionVectors": "deltalake's to_pyarrow_table and to_pandas, and DuckDB through them, then refuse the table;"
    " txlog, Spark's Delta, Polars and deltalake's QueryBuilder read it",
    "v2Checkpoint": "deltalake's to_pyarrow_table and to_pandas, DuckDB through them, and Polars then refuse the table;"
    " txlog, Spark's Delta and deltalake's QueryBuilder read it",
    "timestampNtz": "readers that do not know it refuse the table; txlog, Spark's Delta, deltalake and Polars read it",
    "variantType": "readers that do not know it, such as Polars, refuse the table; txlog, Spark's Delta and deltalake"
    " read it",
    "variantShredding": "deltalake, Polars and DuckDB through them then refuse the table; txlog and Spark's Delta read"
    " it",
}
_NTZ = "timestampNtz"
_UNKNOWN = "readers that do not know it refuse the table; txlog and Spark's Delta read it"

Verdict: TypeAlias = Literal["reads", "reads nulls", "refuses", "unknown"]
READERS = ("txlog", "Spark's Delta", "deltalake QueryBuilder", "deltalake to_pandas, to_pyarrow_table", "Polars")
"""DuckDB's reader is what deltalake's dataset reads, as in the column before Polars."""
_VERDICTS: dict[str, tuple[Verdict, ...]] = {
    "columnMapping": ("reads", "reads", "reads", "reads nulls", "refuses"),
    "typeWidening": ("reads", "reads", "refuses", "refuses", "refuses"),
    "deletionVectors": ("reads", "reads", "reads", "refuses", "reads"),
    "v2Checkpoint": ("reads", "reads", "reads", "refuses", "refuses"),
    "timestampNtz": ("reads", "reads", "reads", "reads", "reads"),
    "variantType": ("reads", "reads", "reads", "reads", "refuses"),
    "variantShredding": ("reads", "reads", "refuses", "refuses", "refuses"),
}


def reader_verdicts(feature: str) -> tuple[Verdict, ...]:
    """What each of `READERS` does with a table whose readers need ``feature``."""
    return _VERDICTS.get(feature, ("reads", "reads", "unknown", "unknown", "unknown"))


def readers_note(feature: str) -> str:
    """Which known readers can read a table with a reader feature, as a sentence."""
    return f"For readers: {_READERS.get(feature, _UNKNOWN)}."


def concerns_readers(before: Protocol, after: Protocol) -> bool:
    """Whether a program that could read the table may be unable to read it now."""
    return not {*features_of(after)[0]} <= {*features_of(before)[0]}


def new_table_note(protocol: Protocol, metadata: Metadata) -> str | None:
    """Which readers a table shuts out whose columns got their types from data; None if none.

    Data has times without a zone more often than anybody asks for them: pandas makes them of most texts.
    """
    if _NTZ not in features_of(protocol)[0]:
        return None
    schema = parse_schema(metadata.schema_string)
    names = ", ".join(field.name for field in schema.fields if FeatureUsage(Struct((field,)), {}).needs(_NTZ))
    return (
        f"The times in {names} have no zone, so the table's protocol is {_versions(protocol)}. Readers need {_NTZ}:"
        f" {_READERS[_NTZ]}. Times with a zone, as pyarrow.timestamp('us', 'UTC') has them, need no such reader"
    )


def upgrade_note(before: Protocol, after: Protocol, metadata: Metadata) -> str | None:
    """What changed for readers and writers from one protocol to a later one; None if nothing did.

    Also names features that are now required although the table of ``metadata`` does not use them.
    """
    (had, wrote), (reads, writes) = features_of(before), features_of(after)
    for_readers = [name for name in reads if name not in had]
    for_writers = [name for name in writes if name not in wrote and name not in for_readers]
    if (not for_readers and not for_writers) or DELETED_BRANCH in for_readers:
        return None
    used = features_in_use(metadata)
    versions = _versions(after)
    is_same = versions == _versions(before)
    names = ", ".join((*for_readers, *for_writers))
    parts = [f"The table now has {names}" if is_same else f"The table's protocol is now {versions}"]
    parts += [f"Readers need {name}{_unless_used(name, used)}: {_READERS.get(name, _UNKNOWN)}" for name in for_readers]
    if for_writers:
        needed = [name for name in for_writers if name in used]
        unused = [name for name in for_writers if name not in used]
        also = f"{', and ' if needed else ''}{', '.join(unused)}, which the table does not use yet" if unused else ""
        parts.append(f"Writers need {', '.join(needed)}{also}")
    parts += [] if for_readers else ["Every reader still works"]
    return ". ".join(parts)


def _unless_used(name: str, used: Collection[str]) -> str:
    return "" if name in used else ", which the table does not use yet"


def _versions(protocol: Protocol) -> str:
    return f"reader version {protocol.min_reader_version}, writer version {protocol.min_writer_version}"
