"""Typed statistics of live files, carried from one checkpoint into the next.

In: files as columns, and ``add.stats_parsed`` as read from their checkpoint. Out: the same files with a column
``stats_parsed`` of exactly the type that the next checkpoint needs. Typed values are carried over unchanged. JSON text
is parsed only if typed values are missing: once for each new file, and for all files if the checkpoint has no typed
statistics or other columns than the next one needs. PROTOCOL.md, "Checkpoint Schema", "Per-file Statistics".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import flags_of, from_flags, from_numbers
from txlog.core.format.package_bounds import is_package_bound, of_own_form, text_form
from txlog.core.format.stats_struct import statistics_as_struct

STATS_PARSED = "stats_parsed"


def with_typed_statistics(files: pa.RecordBatch, parsed: pa.Array | None, kind: pa.StructType) -> pa.RecordBatch:
    """``files`` (``FILES_SCHEMA``) with a last column ``stats_parsed`` of type ``kind``.

    Args:
        files: Live files, with the JSON text of their statistics.
        parsed: ``add.stats_parsed`` of the same files, of any type; None if their checkpoint has none.
        kind: The result of `statistics_type` for the columns that get statistics.
    """
    texts = files.column("stats")
    typed = None if parsed is None else _carried(parsed, kind)
    typed = statistics_as_struct(texts, kind) if typed is None else _completed(typed, texts)
    schema = files.schema.append(pa.field(STATS_PARSED, kind))
    return pa.RecordBatch.from_arrays([*files.columns, typed], schema=schema)


def _carried(parsed: pa.Array, kind: pa.StructType) -> pa.StructArray | None:
    """The same values as type ``kind``, with its field order; None if they are no struct, or a field is missing or has
    another type."""
    if parsed.type == kind and text_form(kind) == kind:
        return parsed
    if not pa.types.is_struct(parsed.type):
        return None
    members = []
    for field in kind:
        at = parsed.type.get_field_index(field.name)
        member = parsed.field(at) if at >= 0 else None
        if member is None and field.name == "tightBounds":  # the protocol defines it, but not every checkpoint has it
            member = pa.nulls(len(parsed), field.type)
        elif member is not None and is_package_bound(field.type):
            member = of_own_form(member, field.type)
        elif member is not None and pa.types.is_struct(field.type) and pa.types.is_struct(member.type):
            member = _carried(member, field.type)
        elif member is not None and member.type != field.type:
            return None
        if member is None:
            return None
        members.append(member)
    mask = parsed.is_null() if parsed.null_count else None
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)


def _completed(typed: pa.StructArray, texts: pa.StringArray) -> pa.StructArray:
    """``typed``, with parsed values for the rows that have only JSON text."""
    if not typed.null_count:
        return typed
    absent = flags_of(typed.is_null()) & flags_of(texts.is_valid())
    if not absent.any():
        return typed
    added = statistics_as_struct(texts.filter(from_flags(absent)), typed.type)
    rows = np.arange(len(typed))
    rows[absent] = len(typed) + np.arange(len(added))
    return pa.concat_arrays([typed, added]).take(from_numbers(rows))
