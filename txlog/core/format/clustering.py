"""Clustered tables: the columns that a table is clustered by, and the tags of clustered files.

In: the domains of one version. Out: the columns as paths of the table's names, and the tags of files whose rows were
clustered by them. For columns that a caller names, also the domain to write. PROTOCOL.md, "Clustered Table".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from txlog.core.format.actions import DomainMetadata
from txlog.core.format.column_mapping import physical_name
from txlog.core.format.properties import TableProperties, column_paths
from txlog.core.format.schema import DataType, Struct, has_bounds, type_name
from txlog.core.format.statistics import ColumnPath, StatisticsPolicy
from txlog.core.util import invalid, names_in
from txlog.core.wording import argument
from txlog.errors import CorruptLogError, InvalidInputError

CLUSTERING_DOMAIN = "delta.clustering"
CLUSTERING_FEATURE = "delta.feature.clustering"
"""The property that requests the table feature; this also brings the feature ``domainMetadata``."""
CLUSTERING_PROVIDER = "liquid"
"""The value of ``add.clusteringProvider`` for files that Spark's Delta may cluster again."""
CLUSTERED_BY = "txlog.clusteredBy"
"""txlog's own tag of a data file whose rows were clustered: the columns, as a JSON list."""

_IS_CLUSTERED = "the table is clustered (CLUSTER BY in Spark)"
_REPAIR = "set it again with table.cluster_by(columns), or in Spark with ALTER TABLE ... CLUSTER BY"
_CUBE, _COLUMNS = "ZCUBE_ID", "ZCUBE_ZORDER_BY"
_COLUMNS_MAX = 4
"""Spark's Delta accepts no more, unless a setting of its session allows it."""


def named_columns(argument_name: str, given: Any, schema: Struct) -> list[ColumnPath]:
    """The columns that an argument names; a struct field is ``a.b``. A column whose own name has the dot comes first.

    Raises ``InvalidInputError`` if ``given`` is not a list of names.
    """
    names = [given] if isinstance(given, str) else names_in(argument_name, given)
    found: list[ColumnPath] = []
    for name in names:
        if schema.find(name) is not None:
            found.append((name,))
            continue
        try:
            parsed = column_paths(name)
        except ValueError:
            expected = (
                "column names, such as 'a, b.c', with backticks around a name with characters other than letters,"
                " digits and '_'"
            )
            raise invalid(argument_name, given, expected) from None
        found += [(joined,) if schema.find(joined := ".".join(path)) is not None else path for path in parsed]
    return found


def clustering_domain(given: Any, schema: Struct, properties: TableProperties) -> DomainMetadata:
    """The domain of a table clustered by the columns that ``given`` names. An empty list means no clustering.

    Raises ``InvalidInputError`` for more columns than Spark's Delta accepts, for a column that the table lacks, and
    for one without bounds in the files.
    """
    named = named_columns("cluster_by", given, schema)
    if len(named) > _COLUMNS_MAX:
        raise InvalidInputError(f"a table is clustered by at most {_COLUMNS_MAX} columns, not {len(named)}")
    covered = {path for path, _ in StatisticsPolicy.of(schema, properties, ()).leaves}
    columns: list[ColumnPath] = []
    for path in named:
        name = ".".join(path)
        stored, data_type = _stored(path, schema)
        if not has_bounds(data_type):
            raise InvalidInputError(
                f"{argument('cluster_by')} names {name}, a {type_name(data_type)}: use number, string, date or"
                " timestamp columns"
            )
        if stored not in covered:
            raise InvalidInputError(
                f"{argument('cluster_by')} names {name}, which has no statistics, since only the first"
                f" {properties.data_skipping_num_indexed_cols} columns do: move it further to the front, or name it"
                " in the property delta.dataSkippingStatsColumns"
                if properties.data_skipping_stats_columns is None
                else f"{argument('cluster_by')} names {name}, which delta.dataSkippingStatsColumns leaves out: name"
                " it there too"
            )
        if stored in columns:
            raise InvalidInputError(
                f"{argument('cluster_by')} names a column twice: {', '.join('.'.join(each) for each in named)}"
            )
        columns.append(stored)
    return _domain(columns)


def clustering_columns(domains: Mapping[str, DomainMetadata], schema: Struct) -> tuple[ColumnPath, ...]:
    """A table's clustering columns, as paths of names in ``schema``; () if there are none.

    Raises ``CorruptLogError`` if the domain cannot be read, or names a column that the table lacks.
    """
    return tuple(_named(path, schema) for path in _physical_columns(domains))


def clustering_text(columns: Sequence[ColumnPath]) -> str:
    """``clustered by id, place.city``, or ``not clustered``."""
    return f"clustered by {', '.join('.'.join(path) for path in columns)}" if columns else "not clustered"


def check_clustering(
    domains: Mapping[str, DomainMetadata],
    schema: Struct,
    properties: TableProperties,
    partition_columns: tuple[str, ...],
) -> None:
    """Raise ``InvalidInputError`` if a table could not stay clustered with this definition.

    Each column needs statistics in every file, and the table must not be partitioned.
    """
    columns = _physical_columns(domains)
    if not columns:
        return
    if partition_columns:
        raise InvalidInputError(f"{_IS_CLUSTERED}, so it cannot be partitioned by {', '.join(partition_columns)}")
    covered = {path for path, _ in StatisticsPolicy.of(schema, properties, ()).leaves}
    for path in columns:
        if path not in covered:
            raise _lost(_name_or_path(path, schema))


def replaced_clustering(domains: Mapping[str, DomainMetadata], schema: Struct, new: Struct) -> DomainMetadata | None:
    """The domain of a clustered table whose ``schema`` is replaced by ``new``: the same columns by name, where ``new``
    stores them. None if it stays as it is.

    Raises ``InvalidInputError`` for a column that ``new`` lacks.
    """
    columns: list[ColumnPath] = []
    for path in clustering_columns(domains, schema):
        try:
            columns.append(_stored(path, new)[0])
        except InvalidInputError:
            raise _lost(path) from None
    return None if tuple(columns) == _physical_columns(domains) else _domain(columns)


def cube_tags(cube_id: str, names: Sequence[str]) -> dict[str, str | None]:
    """``add.tags`` of files that were clustered together by the columns ``names``, as Spark's Delta writes them."""
    return {_CUBE: cube_id, **dict([cube_columns(names)])}


def cube_columns(names: Sequence[str]) -> tuple[str, str]:
    """The tag, and its value, by which files with `CLUSTERING_PROVIDER` show that any writer clustered them by these
    columns."""
    return _COLUMNS, orjson.dumps(list(names)).decode()


def _domain(columns: Sequence[ColumnPath]) -> DomainMetadata:
    configuration = {"clusteringColumns": columns, "domainName": CLUSTERING_DOMAIN}
    return DomainMetadata(CLUSTERING_DOMAIN, orjson.dumps(configuration).decode(), False)


def _lost(path: ColumnPath) -> InvalidInputError:
    return InvalidInputError(
        f"{_IS_CLUSTERED} by {'.'.join(path)}, a column that would be dropped or without statistics: keep it, and let"
        " delta.dataSkippingStatsColumns or delta.dataSkippingNumIndexedCols include it; or cluster the table"
        " by other columns first: table.cluster_by(columns)"
    )


def _physical_columns(domains: Mapping[str, DomainMetadata]) -> tuple[ColumnPath, ...]:
    domain = domains.get(CLUSTERING_DOMAIN)
    if domain is None:
        return ()
    try:
        found = orjson.loads(domain.configuration)["clusteringColumns"]
        if not all(isinstance(path, list) and path and all(isinstance(name, str) for name in path) for path in found):
            raise TypeError("a column is a list of names")
        return tuple(map(tuple, found))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLogError(f"domain {CLUSTERING_DOMAIN} cannot be read ({error}): {_REPAIR}") from error


def _stored(path: ColumnPath, schema: Struct) -> tuple[ColumnPath, DataType]:
    """The path of a column in the files, and its type."""
    here: DataType = schema
    stored: list[str] = []
    for name in path:
        field = here.find(name) if isinstance(here, Struct) else None
        if field is None:
            raise InvalidInputError(
                f"there is no column {'.'.join(path)} to cluster by; the table has {', '.join(schema.names)}"
            )
        stored.append(physical_name(field))
        here = field.type
    return tuple(stored), here


def _name_or_path(path: ColumnPath, schema: Struct) -> ColumnPath:
    """The column's name for a message; the names in the files if the table has no such column."""
    try:
        return _named(path, schema)
    except CorruptLogError:
        return path


def _named(path: ColumnPath, schema: Struct) -> ColumnPath:
    for field in schema.fields:
        if physical_name(field) == path[0]:
            if len(path) == 1:
                return (field.name,)
            if isinstance(field.type, Struct):
                return (field.name, *_named(path[1:], field.type))
    raise CorruptLogError(
        f"domain {CLUSTERING_DOMAIN} names {'.'.join(path)}, a column that the table lacks: {_REPAIR}"
    )
