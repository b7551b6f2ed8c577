"""What a version changed: which rows of which files, and whether an earlier schema can be read as a later one.

In: one commit, or two schemas. Out: a `ChangedRows` for each file to read. If a version names change files, only these
count; otherwise its added and removed files do, except those that change no data (``dataChange`` false). If a file is
removed and added again with another deletion vector, the difference of the vectors is what changed. PROTOCOL.md, "Add
CDC File", "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from txlog.core.format.actions import AddCDCFile, AddFile, CommitInfo, RemoveFile
from txlog.core.format.changed_rows import ChangedRows, rows_added, rows_removed
from txlog.core.format.column_mapping import PHYSICAL_NAME_KEY, physical_name
from txlog.core.format.commit_file import Commit
from txlog.core.format.paths import canonical_path
from txlog.core.format.schema import Array, DataType, Field, Map, Struct, fold_name, places_by_name, type_name
from txlog.core.format.type_widening import is_widening
from txlog.errors import CorruptLogError


def added_files(commit: Commit) -> tuple[list[AddFile], bool]:
    """The files that a commit added, without files that only moved rows, and whether it also removed rows."""
    added = [action for action in commit.actions if isinstance(action, AddFile) and action.data_change]
    return added, any(isinstance(action, RemoveFile) and action.data_change for action in commit.actions)


def changed_rows(commit: Commit, *, is_partitioned: bool) -> list[ChangedRows]:
    """The files to read for the changes of one version: first removed rows, then added rows.

    Raises:
        CorruptLogError: A removed file of a partitioned table lacks its partition values.
    """
    changes = [action for action in commit.actions if isinstance(action, AddCDCFile)]
    if changes:
        return [ChangedRows(each.path, each.partition_values, each.size, None) for each in changes]
    if _declares_no_change(commit.commit_info):
        return []
    adds = {canonical_path(a.path): a for a in commit.actions if isinstance(a, AddFile) and a.data_change}
    removes = {canonical_path(r.path): r for r in commit.actions if isinstance(r, RemoveFile) and r.data_change}
    gone = [each for key, remove in removes.items() for each in rows_removed(remove, adds.get(key))]
    come = [each for key, add in adds.items() for each in rows_added(add, removes.get(key))]
    if is_partitioned:
        for each in gone:
            if each.partition_values is None:
                raise CorruptLogError(
                    "a removed file has no partition values in the log (extendedFileMetadata), so the rows that were"
                    " removed with it are unknown: read from a later version",
                    version=commit.version,
                    path=each.path,
                )
    return gone + come


def _declares_no_change(info: CommitInfo | None) -> bool:
    """Whether it is a MERGE that only copied rows: Spark's reader leaves its files out too."""
    metrics = info.fields.get("operationMetrics") if info is not None and info.operation == "MERGE" else None
    names = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    return isinstance(metrics, dict) and all(str(metrics.get(name)) == "0" for name in names)


# --- schemas --------------------------------------------------------------------------------------------------------


def incompatible_change(earlier: Struct, later: Struct, names: frozenset[str] | None = None) -> str | None:
    """What keeps the later schema from reading rows of the earlier one; None if nothing does.

    ``names`` are the columns of ``later`` that are read; None means all, and then no column may be missing.
    Columns are the same if their physical names are.
    """
    return _incompatible(earlier, later, names, "")


def as_mapped_before(schema: Struct, unmapped: Struct, mapped: Struct) -> Struct:
    """A schema under the physical names that its columns had before the table's column mapping was removed.

    ``mapped`` and ``unmapped`` are the schemas right before and after that; ``schema`` is ``unmapped`` or a later one.
    From then on names alone tell the columns apart, and a new column may take the name that another one, dropped or
    renamed, had in older files. A column that came after the removal gets a name that no column had.
    """
    then = {fold_name(physical_name(field)): field for field in unmapped.fields}
    before = {fold_name(field.name): field for field in mapped.fields}
    fields = []
    for field in schema.fields:
        kept = then.get(fold_name(physical_name(field)))
        old = None if kept is None else before.get(fold_name(kept.name))
        name = f"\0{field.name}" if old is None else physical_name(old)
        inner = field.type if kept is None or old is None else _inner_as_mapped(field.type, kept.type, old.type)
        fields.append(replace(field, type=inner, metadata={**field.metadata, PHYSICAL_NAME_KEY: name}))
    return Struct(tuple(fields))


def redefinition(known: Struct, newer: Struct, names: frozenset[str] | None = None) -> str | None:
    """What a reader that knows the schema ``known`` would miss or misread in rows of ``newer``; None if nothing.

    ``names`` are the columns of ``known`` that it reads; None means all, and then a new column would be missed.
    """
    places_of = places_by_name(map(physical_name, newer.fields))
    for old in known.fields:
        if names is not None and old.name not in names:
            continue
        new = _first(newer, places_of(physical_name(old)))
        if new is None or fold_name(new.name) != fold_name(old.name):
            return f"column {old.name} was dropped or renamed"
        if _type_problem(old.type, new.type, old.name) or _type_problem(new.type, old.type, old.name):
            return f"the type of column {old.name} changed"
    there = places_by_name(map(physical_name, known.fields))
    added = sorted(field.name for field in newer.fields if not there(physical_name(field)))
    return f"column {', '.join(added)} was added" if names is None and added else None


def _first(schema: Struct, places: Sequence[int]) -> Field | None:
    return schema.fields[places[0]] if places else None


def _inner_as_mapped(data_type: DataType, unmapped: DataType, mapped: DataType) -> DataType:
    match data_type, unmapped, mapped:
        case Struct(), Struct(), Struct():
            return as_mapped_before(data_type, unmapped, mapped)
        case Array(), Array(), Array():
            return replace(data_type, element=_inner_as_mapped(data_type.element, unmapped.element, mapped.element))
        case Map(), Map(), Map():
            key = _inner_as_mapped(data_type.key, unmapped.key, mapped.key)
            return replace(data_type, key=key, value=_inner_as_mapped(data_type.value, unmapped.value, mapped.value))
    return data_type


def _incompatible(earlier: Struct, later: Struct, names: frozenset[str] | None, prefix: str) -> str | None:
    places_of = places_by_name(map(physical_name, later.fields))
    for old in earlier.fields:
        new = _first(later, places_of(physical_name(old)))
        if names is not None and (new is None or new.name not in names):
            continue
        problem = _field_problem(old, new, f"{prefix}{old.name}")
        if problem is not None:
            return problem
    if names is None:
        return None
    # A column may have taken the name of another one that was read before, but has other rows.
    places_before = places_by_name(earlier.names)
    for field in later.fields:
        before = _first(earlier, places_before(field.name))
        if field.name in names and before is not None and physical_name(before) != physical_name(field):
            return f"column {prefix}{field.name} is not the same column as before (it was dropped or renamed)"
    return None


def _field_problem(old: Field, new: Field | None, name: str) -> str | None:
    if new is None:
        return f"column {name} was dropped or renamed"
    if fold_name(new.name) != fold_name(old.name):
        return f"column {name} was renamed to {new.name}"
    if old.nullable and not new.nullable:
        return f"column {name} was made NOT NULL"
    return _type_problem(old.type, new.type, name)


def _type_problem(old: DataType, new: DataType, name: str) -> str | None:
    match old, new:
        case Struct(), Struct():
            return _incompatible(old, new, None, f"{name}.")
        case Array(), Array():
            return _type_problem(old.element, new.element, f"{name}.element")
        case Map(), Map():
            found = _type_problem(old.key, new.key, f"{name}.key")
            return found or _type_problem(old.value, new.value, f"{name}.value")
    if old == new or is_widening(old, new):
        return None
    return f"column {name} changed from {type_name(old)} to {type_name(new)}"
