"""Delta's Iceberg compatibility: what a table must be so that Iceberg metadata can be made for its files as they are.

In: a table's protocol and metadata. Out: nothing, or an UnsupportedFeatureError that says which rule the definition
breaks and what to do. That files have the partition columns and the ids in them, and that the log has their numbers of
rows, is up to their writers. PROTOCOL.md, "Iceberg Compatibility V1" and "V2"; the RFC "IcebergCompatV3".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import MODE_KEY, mapping_mode, schema_of
from txlog.core.format.properties import ICEBERG_COMPAT, TableProperties
from txlog.core.format.schema import Array, DataType, Map, Primitive, Struct, type_name
from txlog.core.format.type_widening import changes_beyond_iceberg
from txlog.errors import UnsupportedFeatureError

_ROW_IDS = "delta.enableRowTracking"
_VECTORS = "delta.enableDeletionVectors"


def feature_of(version: int) -> str:
    """The table feature of a version of the rules."""
    return f"icebergCompatV{version}"


def versions_in_use(features: Collection[str], configuration: Mapping[str, str]) -> list[int]:
    """The versions of the rules that the table follows: its writers must know the feature, and the property is true."""
    return [
        version
        for version, key in ICEBERG_COMPAT.items()
        if feature_of(version) in features and _is_true(configuration, key)
    ]


def with_what_it_needs(configuration: Mapping[str, str], *, is_new: bool) -> dict[str, str]:
    """The properties, with those that go with compatibility where nothing else is asked for: as in Spark's Delta, a
    new table maps its columns by name, and with version 3 any table tracks rows."""
    asked = [version for version, key in ICEBERG_COMPAT.items() if _is_true(configuration, key)]
    needed = {MODE_KEY: "name"} if asked and is_new else {}
    needed |= {_ROW_IDS: "true"} if 3 in asked else {}
    return {**needed, **configuration}


def newly_required(before: Mapping[str, str], after: Mapping[str, str]) -> list[int]:
    """The versions of the rules whose property becomes true."""
    return [version for version, key in ICEBERG_COMPAT.items() if _is_true(after, key) and not _is_true(before, key)]


def check_compatible(features: Collection[str], metadata: Metadata) -> None:
    """Raise UnsupportedFeatureError if the definition breaks a rule of the compatibility that it promises.

    ``features`` are those that writers must know.
    """
    versions = versions_in_use(features, metadata.configuration)
    for version in versions:
        problem = _problem(version, versions, features, metadata)
        if problem is not None:
            raise UnsupportedFeatureError(
                f"{ICEBERG_COMPAT[version]} = true {problem}", features=(feature_of(version),)
            )


def check_same_partitioning(features: Collection[str], before: Metadata, after: Metadata) -> None:
    """Raise UnsupportedFeatureError if a table that Iceberg readers follow would be partitioned by other columns."""
    for version in versions_in_use(features, after.configuration):
        if before.partition_columns and before.partition_columns != after.partition_columns:
            raise UnsupportedFeatureError(
                f"{ICEBERG_COMPAT[version]} = true requires a partitioned table to keep its partition columns"
                f" ({', '.join(before.partition_columns)}), since its Iceberg readers know no others: keep them, create"
                " a new table, or set the property to false first",
                features=(feature_of(version),),
            )


def _problem(version: int, versions: list[int], features: Collection[str], metadata: Metadata) -> str | None:
    configuration = metadata.configuration
    properties = TableProperties.of(configuration)
    if len(versions) > 1:
        others = " and ".join(ICEBERG_COMPAT[other] for other in versions if other != version)
        return f"does not go with {others}: a table follows one version of the rules. Set the others to false"
    if mapping_mode(configuration) == "none":
        return (
            f"needs column ids: set {MODE_KEY} to name together with it, which readers of the table then have to know"
        )
    if version == 1 and "deletionVectors" in features:
        return "does not go with the table feature deletionVectors: drop that feature first, or use version 2"
    if version < 3 and properties.enable_deletion_vectors and "deletionVectors" in features:
        return f"does not go with deletion vectors: set {_VECTORS} to false and purge the table, or use version 3"
    if version == 3 and not properties.enable_row_tracking:
        return f"needs row ids: {_ROW_IDS} has to be true too"
    schema = schema_of(metadata)
    for path, kind in _unfit(schema, version):
        instead = ", or use version 2" if version == 1 and isinstance(kind, Array | Map) else ""
        return f"does not allow the column {path}, which is {type_name(kind)}: leave it out{instead}"
    changes = changes_beyond_iceberg(schema)
    if changes:
        return (
            f"does not allow changes of types that Iceberg does not know ({'; '.join(changes)}): write such values to a"
            " new column, or set the property to false"
        )
    return None


def _unfit(schema: Struct, version: int) -> Iterator[tuple[str, DataType]]:
    """The columns, and what is inside them, of a type that this version of the rules does not allow."""
    for field in schema.fields:
        yield from _unfit_in(field.type, field.name, version)


def _unfit_in(kind: DataType, path: str, version: int) -> Iterator[tuple[str, DataType]]:
    if version == 1 and isinstance(kind, Array | Map):
        yield path, kind
        return
    match kind:
        case Struct():
            yield from ((f"{path}.{inner}", found) for inner, found in _unfit(kind, version))
        case Array(element):
            yield from _unfit_in(element, f"{path}.element", version)
        case Map(key, value):
            yield from _unfit_in(key, f"{path}.key", version)
            yield from _unfit_in(value, f"{path}.value", version)
        case Primitive() if not kind.facts.iceberg or version < kind.facts.iceberg_from:
            yield path, kind


def _is_true(configuration: Mapping[str, str], key: str) -> bool:
    """Whether a boolean property is on. A value that is not a boolean counts as on, as in `features.Usage`."""
    return configuration.get(key, "false").strip().lower() != "false"
