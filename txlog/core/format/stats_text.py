"""A checkpoint's typed statistics (``add.stats_parsed``) to the JSON text of ``add.stats``, column by column.

In: a struct array. Out: a string array with the JSON that a writer would write; null where the struct is null. For
checkpoints that hold typed statistics only (``delta.checkpoint.writeStatsAsJson=false``), so no file loses its
statistics. PROTOCOL.md, "Per-file Statistics", "Checkpoint Schema".
"""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa

from txlog.core.format.package_bounds import bounds_as_text, is_package_bound


def statistics_as_json(parsed: pa.StructArray) -> pa.StringArray:
    """One JSON object per row: absent (null) members are left out, numbers exact, timestamps cut to milliseconds."""
    return _json_text(parsed)


def _json_text(values: pa.Array) -> pa.StringArray:
    """The JSON text of each value; null stays null. Types without a JSON form in statistics become null."""
    from txlog.core.format.arrow.compute import pc

    kind = values.type
    if is_package_bound(kind):
        return _string_text(bounds_as_text(values))
    if pa.types.is_struct(kind):
        return _object_text(values)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())
    if pa.types.is_floating(kind):
        text = values.cast(pa.string())
        special = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
        for arrow_form, json_form in special.items():
            text = pc.if_else(pc.equal(text, arrow_form), json_form, text)
        return text
    if pa.types.is_date(kind):
        return _quoted(values.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        return _timestamp_text(values)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _string_text(values.cast(pa.string()))
    return pa.nulls(len(values), pa.string())


def _object_text(values: pa.StructArray) -> pa.StringArray:
    from txlog.core.format.arrow.compute import pc

    # The opening brace is a member itself: Arrow's join yields no rows at all if every member is null.
    members = [pa.repeat("{", len(values))]
    for field, column in zip(values.type, values.flatten(), strict=True):
        key = orjson.dumps(field.name).decode() + ":"
        # A null member yields null here, and is then skipped by the join together with its comma.
        members.append(pc.binary_join_element_wise(key, _json_text(column), ""))
    opened = pc.binary_join_element_wise(*members, ",", null_handling="skip")
    text = pc.binary_join_element_wise(pc.replace_substring(opened, "{,", "{", max_replacements=1), "}", "")
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))


def _timestamp_text(values: pa.Array) -> pa.StringArray:
    from txlog.core.format.arrow.compute import pc

    zoned = values.type.tz is not None
    milliseconds = pc.floor_temporal(values.cast(pa.timestamp("us", values.type.tz)), unit="millisecond")
    text = milliseconds.cast(pa.timestamp("ms")).cast(pa.string())
    return _quoted(pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "Z" if zoned else "", ""))


def _string_text(values: pa.StringArray) -> pa.StringArray:
    from txlog.core.format.arrow.compute import pc

    awkward = pc.match_substring_regex(values, r'["\\\x00-\x1f]')
    if not awkward.true_count:
        return _quoted(values)
    return pa.array([None if v is None else orjson.dumps(v).decode() for v in values.to_pylist()], pa.string())


def _quoted(text: Any) -> pa.StringArray:
    from txlog.core.format.arrow.compute import pc

    return pc.binary_join_element_wise('"', text, '"', "")
