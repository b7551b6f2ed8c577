"""What others did to a table's definition since a branch of it began, and whether the branch's files follow it.

In: the branch's work and a later version of its table. Out: what stands against the work there, in words, or None.
Files have their columns under physical names, so names that change leave them valid; a column that a table with mapped
columns drops is not read any more; and narrower values are read as wider ones. A change feed is made of what a
publication does, and row ids are given to files that have none. What is checked in rows is `new_conditions`.
PROTOCOL.md, "Column Mapping", "Type Widening", "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from txlog.branch.branch_work import BranchWork
from txlog.branch.changes import BranchChanges
from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import MAPPING_PREFIX, MODE_KEY, mapping_mode, physical_name, schema_of
from txlog.core.format.identity import IDENTITY_PREFIX
from txlog.core.format.properties import CONSTRAINT_PREFIX, ColumnPath, TableProperties, path_text
from txlog.core.format.schema import Array, DataType, Field, Map, Struct, backquoted, type_name
from txlog.core.format.type_widening import TYPE_CHANGES_KEY, is_widening
from txlog.extend import TableState
from txlog.extend.commits import (
    ROW_TRACKING_PROPERTIES,
    changed_properties,
    is_same_definition,
    keeps_write_rules,
    lacked_columns,
)

_ABOUT_VERSIONS: Final = frozenset(
    (
        "delta.enableChangeDataFeed",
        "delta.enableInCommitTimestamps",
        "delta.enableTypeWidening",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.inCommitTimestampEnablementVersion",
        "delta.randomPrefixLength",
        "delta.randomizeFilePrefixes",
    )
)
"""Properties that say what later commits do, whatever files there are."""

_DEFAULT = "CURRENT_DEFAULT"
_WITHOUT_RULE = frozenset(("comment", _DEFAULT, TYPE_CHANGES_KEY, f"{IDENTITY_PREFIX}highWaterMark"))


def obstacle(work: BranchWork, state: TableState, *, is_rebased: bool) -> str | None:
    """What others did to the table's definition up to ``state`` that the branch's files do not follow, as a phrase
    with a verb. A rebase allows for more: it looks into rows, and shows the result before it is published."""
    before, after = work.metadata_in_table(state), state.metadata
    if keeps_write_rules(before, after):
        return None
    written = schema_of(work.state.metadata)
    lacked = lacked_columns(before, after, written)
    if lacked is not None and not lacked.fields:
        return None
    if work.definition is not None:
        return "changed the table's definition, as the branch does"
    found = [
        *_of_properties(work.changes, before, after, is_rebased=is_rebased),
        *_Columns(after, is_rebased=is_rebased).obstacles(before, written),
    ]
    return found[0] if found else None


def new_conditions(work: BranchWork, state: TableState) -> list[str]:
    """What rows of the table must meet at ``state``, and did not have to when the branch began: constraints, and
    columns that may not be null any more."""
    before, after = work.metadata_in_table(state), state.metadata
    if is_same_definition(before, after):
        return []
    had = before.configuration
    texts = [
        text for key, text in after.configuration.items() if key.startswith(CONSTRAINT_PREFIX) and had.get(key) != text
    ]
    known = {physical_name(field): field for field in schema_of(before).fields}
    required = [field for field in schema_of(after).fields if not field.nullable]
    names = [field.name for field in required if (was := known.get(physical_name(field))) and was.nullable]
    return [*texts, *(f"{backquoted(name)} IS NOT NULL" for name in names)]


# --- properties -------------------------------------------------------------------------------------------------------


def _of_properties(changes: BranchChanges, before: Metadata, after: Metadata, *, is_rebased: bool) -> Iterator[str]:
    properties = TableProperties.of(after.configuration)
    for key in changed_properties(before, after):
        value = after.configuration.get(key)
        if key in _ABOUT_VERSIONS or _is_loosened(key, value, properties):
            continue
        if key.startswith(CONSTRAINT_PREFIX):
            if not is_rebased:
                yield f"added the constraint {value}"
        elif key in ROW_TRACKING_PROPERTIES:
            if key in before.configuration and before.configuration[key] != "false":
                yield f"changed {key}, and files of the branch have row ids as it was"
            elif changes.rewrites_rows:
                yield "turned on row tracking: rows that the branch changed or copied before would lose their row ids"
        elif key == MODE_KEY:
            if "id" in (mapping_mode(each.configuration) for each in (before, after)):
                yield f"changed {MODE_KEY}"
        elif key == "delta.appendOnly":
            if not changes.is_blind:
                yield "allows only appends to the table, and the branch changed rows"
        elif key == "delta.enableDeletionVectors":
            if changes.has_vectors:
                yield "turned off deletion vectors, and the branch has some"
        else:
            yield f"{'removed' if value is None else 'set'} {key}{'' if value is None else f' = {value}'}"


def _is_loosened(key: str, value: str | None, properties: TableProperties) -> bool:
    """Whether a property allows more than before."""
    if key.startswith(CONSTRAINT_PREFIX):
        return value is None
    if key == "delta.appendOnly":
        return not properties.append_only
    return key == "delta.enableDeletionVectors" and properties.enable_deletion_vectors


# --- columns ----------------------------------------------------------------------------------------------------------


class _Columns:
    """Compares the columns of files with those of a later definition."""

    def __init__(self, after: Metadata, *, is_rebased: bool) -> None:
        self._after = after
        self._schema = schema_of(after)
        self._is_mapped = mapping_mode(after.configuration) != "none"
        self._is_rebased = is_rebased

    def obstacles(self, before: Metadata, written: Struct) -> Iterator[str]:
        columns = (
            [physical_name(found) if (found := schema.find(name)) else name for name in metadata.partition_columns]
            for metadata, schema in ((before, schema_of(before)), (self._after, self._schema))
        )
        if next(columns) != next(columns):
            yield "partitioned the table by other columns"
        yield from self._of_struct(written, self._schema, ())

    def _of_struct(self, written: Struct, there: Struct, above: ColumnPath) -> Iterator[str]:
        left = {physical_name(field): field for field in there.fields}
        for field in written.fields:
            found = left.pop(physical_name(field), None)
            path = (*above, field.name)
            if found is not None:
                yield from self._of_field(field, found, path)
            elif not self._is_mapped:
                yield f"removed the column {path_text(path)} without column mapping, and the branch's files have it"
        for field in left.values():
            needs_value = not field.nullable or bool(_rules(field))
            if needs_value or (_DEFAULT in field.metadata and not self._is_rebased):
                yield f"added the column {path_text((*above, field.name))}, whose values the branch's files lack"

    def _of_field(self, field: Field, found: Field, path: ColumnPath) -> Iterator[str]:
        if not found.nullable and field.nullable and not (self._is_rebased and len(path) == 1):
            yield f"made the column {path_text(path)} NOT NULL"
        if _rules(field) != _rules(found):
            yield f"changed the rules of the column {path_text(path)}"
        yield from self._of_type(field.type, found.type, found, path)

    def _of_type(self, old: DataType, new: DataType, found: Field, path: ColumnPath) -> Iterator[str]:
        match old, new:
            case Struct(), Struct():
                yield from self._of_struct(old, new, path)
            case Array(element, has_null), Array(other, may_have_null) if may_have_null or not has_null:
                yield from self._of_type(element, other, found, (*path, "element"))
            case Map(key, value, has_null), Map(other, last, may_have_null) if may_have_null or not has_null:
                yield from self._of_type(key, other, found, (*path, "key"))
                yield from self._of_type(value, last, found, (*path, "value"))
            case _ if old != new and not (is_widening(old, new) and TYPE_CHANGES_KEY in found.metadata):
                yield f"changed the type of the column {path_text(path)} from {type_name(old)} to {type_name(new)}"


def _rules(field: Field) -> dict[str, Any]:
    """What a field's metadata says of its values."""
    return {
        key: value
        for key, value in field.metadata.items()
        if key not in _WITHOUT_RULE and not key.startswith(MAPPING_PREFIX)
    }
