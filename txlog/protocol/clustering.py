"""Clustered tables: by which columns a table's rows are to lie together, and what a clustered file says of it.

In: the domains of one version. Out: the columns as paths of the table's names, and the tags of files whose rows were
clustered by them. PROTOCOL.md, "Clustered Table".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from txlog.errors import CorruptLogError, InvalidInputError
from txlog.protocol.actions import AddFile, DomainMetadata
from txlog.protocol.column_mapping import physical_name
from txlog.protocol.properties import TableProperties
from txlog.protocol.schema import Struct
from txlog.protocol.statistics import ColumnPath, StatisticsPolicy

__all__ = [
    "CLUSTERING_DOMAIN",
    "CLUSTERING_PROVIDER",
    "check_clustering",
    "clustering_columns",
    "cube_tags",
    "in_a_cube",
]

CLUSTERING_DOMAIN = "delta.clustering"
CLUSTERING_PROVIDER = "liquid"
"""What ``add.clusteringProvider`` says of files that Spark's Delta may cluster again."""

_CUBE, _COLUMNS = "ZCUBE_ID", "ZCUBE_ZORDER_BY"


def clustering_columns(domains: Mapping[str, DomainMetadata], schema: Struct) -> tuple[ColumnPath, ...]:
    """The columns by which a table is clustered, as paths of the names in ``schema``; () for none.

    Raises ``CorruptLogError`` where the domain cannot be read, or names a column that the table lacks.
    """
    return tuple(_named(path, schema) for path in _physical_columns(domains))


def check_clustering(
    domains: Mapping[str, DomainMetadata],
    schema: Struct,
    properties: TableProperties,
    partition_columns: tuple[str, ...],
) -> None:
    """Raise ``InvalidInputError`` where a table could not go on being clustered with this definition.

    Each column needs statistics in every file, and the table no partitions.
    """
    columns = _physical_columns(domains)
    if not columns:
        return
    words = "the table is clustered (CLUSTER BY in Spark)"
    if partition_columns:
        raise InvalidInputError(f"{words}, so it cannot be partitioned by {', '.join(partition_columns)}")
    covered = {path for path, _ in StatisticsPolicy.of(schema, properties, ()).leaves}
    for path in columns:
        if path not in covered:
            raise InvalidInputError(
                f"{words} by {'.'.join(path)}, a column that would be gone or without statistics: keep it, and let"
                " delta.dataSkippingStatsColumns or delta.dataSkippingNumIndexedCols include it; or let Spark cluster"
                " the table by other columns first, ALTER TABLE ... CLUSTER BY"
            )


def cube_tags(cube_id: str, names: Sequence[str]) -> dict[str, str | None]:
    """``add.tags`` of files that were clustered together by the columns ``names``, as Spark's Delta writes them."""
    return {_CUBE: cube_id, _COLUMNS: orjson.dumps(list(names)).decode()}


def in_a_cube(add: AddFile, names: Sequence[str]) -> bool:
    """Whether a file was clustered by the columns ``names``, by whichever writer."""
    tags = add.tags or {}
    return add.clustering_provider == CLUSTERING_PROVIDER and tags.get(_COLUMNS) == cube_tags("", names)[_COLUMNS]


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
        raise CorruptLogError(
            f"domain {CLUSTERING_DOMAIN} cannot be read ({error}): set it again in Spark, ALTER TABLE ... CLUSTER BY"
        ) from error


def _named(path: ColumnPath, schema: Struct) -> ColumnPath:
    for field in schema.fields:
        if physical_name(field) == path[0]:
            if len(path) == 1:
                return (field.name,)
            if isinstance(field.type, Struct):
                return (field.name, *_named(path[1:], field.type))
    raise CorruptLogError(
        f"domain {CLUSTERING_DOMAIN} names {'.'.join(path)}, a column that the table lacks: set it again in Spark,"
        " ALTER TABLE ... CLUSTER BY"
    )
