"""Everything in a table's definition that refers to a column by name: the one place that knows where to look.

In: a version of a table, and the path of a column. Out: a `ColumnReference` for each rule, property or layout that
names the column, a field in it, or the struct that contains it; and the definition with a new name in the places that
can be corrected. Iceberg exports and clustering use ids and physical names, so a new name changes nothing there. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from txlog.core.format.actions import Metadata
from txlog.core.format.clustering import clustering_columns
from txlog.core.format.properties import (
    COLUMN_MARK,
    FIELDS,
    KEY_INDEX,
    PREFIX,
    ColumnPath,
    column_list,
    column_paths,
    field_option,
    is_parquet_setting,
    merge_options,
    path_text,
)
from txlog.core.format.schema import Struct, fold_name
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.predicates.terms.tree import columns_of
from txlog.core.row_rules import stored_constraints, stored_generated, without_generated
from txlog.core.util import UTC
from txlog.core.versions.decisions.state import TableState
from txlog.errors import InvalidInputError

Place: TypeAlias = Literal[
    "rule", "generated column", "partitioning", "clustering", "statistics", "encoding", "key index", "merge engine"
]

STATISTICS_KEY = "delta.dataSkippingStatsColumns"
_SEQUENCE = "sequence.field"
_INVARIANT = "invariant of column "


class ColumnReference(msgspec.Struct, frozen=True):
    """One place that names a column. ``text`` describes it in messages; ``owner`` is the column with the rule: the
    generated column, or the column of an invariant."""

    place: Place
    text: str
    owner: str | None = None


def references_to(state: TableState, path: ColumnPath) -> list[ColumnReference]:
    """Every reference to the column at ``path``, to a field in it, or to a struct that contains it."""
    return ColumnReferences(state).to(path)


class ColumnReferences:
    """The references of one version of a table, which reads its rules once for many columns."""

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._rules = _rules(state)
        self._generated = _generated(state.schema)
        self._clustering = clustering_columns(state.domains, state.schema)

    def to(self, path: ColumnPath) -> list[ColumnReference]:
        """See `references_to`."""
        configuration = self._state.metadata.configuration
        found = [rule.reference for rule in self._rules if rule.reads(path)]
        found += [rule.reference for rule in self._generated if rule.reference.owner != path[0] and rule.reads(path)]
        if any(fold_name(name) == fold_name(path[0]) for name in self._state.partition_columns):
            found.append(ColumnReference("partitioning", f"the table is partitioned by {path_text(path[:1])}"))
        found += [
            ColumnReference("clustering", f"the table is clustered by {path_text(named)}")
            for named in self._clustering
            if _touches(named, path)
        ]
        found += [
            ColumnReference("statistics", f"{STATISTICS_KEY} names {path_text(named)}")
            for named in _listed(configuration, STATISTICS_KEY)
            if _touches(named, path)
        ]
        found += [
            ColumnReference("key index", f"{KEY_INDEX} names {path_text(named)}")
            for named in _listed(configuration, KEY_INDEX)
            if _touches(named, path)
        ]
        found += [
            ColumnReference("encoding", f"the property {key} names {path_text(path)}")
            for key in configuration
            if (named := _encoded_column(key)) and _touches(named, path)
        ]
        found += [
            ColumnReference("merge engine", f"the property {PREFIX}{option} = {value} names {path[0]}")
            for option, value in merge_options(configuration).items()
            if fold_name(path[0]) in map(fold_name, _merge_columns(option, value))
        ]
        return found


def with_new_name(metadata: Metadata, path: ColumnPath, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Partition columns and properties with a column's new name."""

    def new(names: str) -> str:
        return ",".join(name if fold_name(each.strip()) == fold_name(path[0]) else each for each in names.split(","))

    configuration = dict(metadata.configuration)
    for key in (STATISTICS_KEY, KEY_INDEX):
        if listed := _listed(configuration, key):
            configuration[key] = column_list(_renamed(each, path, name) for each in listed)
    for key in [*configuration]:
        if (named := _encoded_column(key)) and _touches(named, path):
            renamed_column = ".".join(_renamed(named, path, name))
            configuration[f"{key.partition(COLUMN_MARK)[0]}{COLUMN_MARK}{renamed_column}"] = configuration.pop(key)
    if path[1:]:
        return metadata.partition_columns, configuration
    for option, value in merge_options(configuration).items():
        split = field_option(option)
        if split is not None:
            del configuration[PREFIX + option]
            value = new(value) if split[1] == "sequence-group" else value
            configuration[f"{PREFIX}{FIELDS}{new(split[0])}.{split[1]}"] = value
        elif option == _SEQUENCE:
            configuration[PREFIX + option] = new(value)
    columns = tuple(name if fold_name(each) == fold_name(path[0]) else each for each in metadata.partition_columns)
    return columns, configuration


def without_column(configuration: Mapping[str, str], path: ColumnPath) -> dict[str, str]:
    """The properties without a dropped column: it leaves the list of columns with statistics, which Spark also writes
    anew, and the settings of data files for it. An index of keys that have the column is no longer kept."""
    left = {
        key: value
        for key, value in configuration.items()
        if not (named := _encoded_column(key)) or len(named) < len(path) or not _touches(named, path)
    }
    if any(_touches(each, path) for each in _listed(configuration, KEY_INDEX)):
        del left[KEY_INDEX]
    listed = _listed(configuration, STATISTICS_KEY)
    if not listed:
        return left
    kept = [each for each in listed if len(each) < len(path) or not _touches(each, path)]
    return {**left, STATISTICS_KEY: column_list(kept)}


# --- each place ---------------------------------------------------------------------------------------------------


class _Rule(msgspec.Struct, frozen=True):
    """An expression of the definition: the columns that it reads, or None if txlog cannot parse it."""

    reference: ColumnReference
    sql: str
    columns: frozenset[ColumnPath] | None

    def reads(self, path: ColumnPath) -> bool:
        """Whether it reads a column; if txlog cannot parse it, whether its text contains the name."""
        if self.columns is None:
            return fold_name(path[0]) in fold_name(self.sql)
        return any(_touches(each, path) for each in self.columns)


def _rules(state: TableState) -> list[_Rule]:
    """CHECK constraints and invariants. A column's own invariant moves with the column."""
    from txlog.core.predicates import parse_stored_condition

    found = []
    for name, sql in stored_constraints(state.metadata.configuration, state.schema).items():
        try:
            named = _named(parse_stored_condition(sql, state.schema, UTC))
        except InvalidInputError:
            named = None
        owner = name.removeprefix(_INVARIANT) if name.startswith(_INVARIANT) else None
        found.append(_Rule(ColumnReference("rule", f"the {name} ({sql}) names it", owner), sql, named))
    return found


def _generated(schema: Struct) -> list[_Rule]:
    from txlog.core.predicates import parse_stored_value

    found = []
    plain = without_generated(schema)
    for name, sql in stored_generated(schema).items():
        try:
            named = frozenset(each for _, each in columns_of(parse_stored_value(sql, plain, UTC)))
        except InvalidInputError:
            named = None
        text = f"the generated column {name} ({sql}) is computed from it"
        found.append(_Rule(ColumnReference("generated column", text, name), sql, named))
    return found


def _named(condition: Predicate) -> frozenset[ColumnPath]:
    from txlog.core.predicates.terms.predicate import paths_of

    return frozenset(paths_of(condition))


def _listed(configuration: Mapping[str, str], key: str) -> tuple[ColumnPath, ...]:
    try:
        return column_paths(configuration.get(key, ""))
    except ValueError:  # another writer's: ignored
        return ()


def _encoded_column(key: str) -> ColumnPath:
    """The column that a setting of data files is for; () if it is for all columns, or no such setting."""
    column = key.partition(COLUMN_MARK)[2]
    return tuple(column.split(".")) if column and is_parquet_setting(key) else ()


def _merge_columns(option: str, value: str) -> list[str]:
    split = field_option(option)
    names = [] if split is None else split[0].split(",")
    if option == _SEQUENCE or (split is not None and split[1] == "sequence-group"):
        names += value.split(",")
    return [name.strip() for name in names]


def _touches(one: ColumnPath, other: ColumnPath) -> bool:
    """Whether the paths are equal, or one leads into the other."""
    length = min(len(one), len(other))
    return [*map(fold_name, one[:length])] == [*map(fold_name, other[:length])]


def _renamed(named: ColumnPath, path: ColumnPath, name: str) -> ColumnPath:
    if len(named) < len(path) or not _touches(named, path):
        return named
    return (*path[:-1], name, *named[len(path) :])
