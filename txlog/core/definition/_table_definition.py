"""Changes of a table's definition: the actions that create it, set properties, or add columns.

In: the table's current state (or None) and the requested change. Out: ``protocol`` and ``metaData`` actions, or None
if nothing changes. Pure except for the id and time of a new table. PROTOCOL.md, "Change Metadata".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.definition._row_changes import check_definition as check_merging
from txlog.core.format.actions import DomainMetadata, Metadata, Protocol
from txlog.core.format.change_data import reserved_columns
from txlog.core.format.clustering import (
    CLUSTERING_DOMAIN,
    CLUSTERING_FEATURE,
    check_clustering,
    clustering_columns,
    clustering_domain,
    clustering_text,
    replaced_clustering,
)
from txlog.core.format.column_mapping import (
    MAPPING_PREFIX,
    MAX_COLUMN_ID_KEY,
    MODE_KEY,
    assign,
    ids_of,
    mapping_mode,
    repeated_physical_names,
    without_metadata,
)
from txlog.core.format.column_rules import dropped_rules, with_rules_of
from txlog.core.format.features import (
    CATALOG_MANAGED,
    check_can_write,
    check_promises,
    features_of,
    merged,
    protocol_for,
    upgraded_for,
    without_feature,
)
from txlog.core.format.iceberg_compat import (
    check_same_partitioning,
    newly_required,
    versions_in_use,
    with_what_it_needs,
)
from txlog.core.format.identity import IDENTITY_PREFIX, check_identity_columns, created_again_ms, with_later_marks
from txlog.core.format.loaded_files import is_of_loaded_files
from txlog.core.format.partition_values import partitioning_text
from txlog.core.format.properties import (
    DAY_MS,
    FEATURE_PREFIX,
    ICEBERG_COMPAT,
    KEY_INDEX,
    OTHER_FORMATS,
    SHORT_LOG_RETENTION,
    ColumnPath,
    TableProperties,
    means_same,
    of_packages,
    path_text,
    stored,
    validate,
)
from txlog.core.format.schema import (
    DataType,
    Field,
    Struct,
    fold_name,
    from_arrow,
    parse_schema,
    schema_to_json,
    type_name,
)
from txlog.core.format.schema_changes import type_at
from txlog.core.format.schema_input import from_any
from txlog.core.format.schema_merge import OF_ONE_TABLE, check_partition_columns, check_schema, merge
from txlog.core.format.statistics import check_statistics_columns
from txlog.core.format.type_widening import TYPE_CHANGES_KEY, retyped, wider_types
from txlog.core.row_rules import (
    check_added_are_plain,
    check_computed_columns,
    check_constraints,
    check_defaults_are_literals,
    check_same_conditions,
    key_columns,
    with_limits_kept,
)
from txlog.core.util import names_in
from txlog.core.versions import OpenTable, raise_conflict
from txlog.core.versions.decisions.definition_changes import is_same_definition
from txlog.core.versions.decisions.in_commit_timestamps import ENABLEMENT_KEYS
from txlog.core.versions.decisions.proposal import OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.row_tracking import SUSPENDED, is_suspended
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import argument, call, in_python, setting, spelled
from txlog.core.writing import check_columns
from txlog.errors import ConflictReason, InvalidInputError, SchemaMismatchError
from txlog.result import WriteResult


class Definition(msgspec.Struct, frozen=True):
    """A table's new metadata, with the protocol it needs if that changes too, and the domains that it sets."""

    metadata: Metadata
    protocol: Protocol | None = None
    domains: tuple[DomainMetadata, ...] = ()
    notes: tuple[str, ...] = ()
    """What its user should know, as sentences."""

    @property
    def clustering_columns(self) -> tuple[tuple[str, ...], ...]:
        """The columns by which a new table is clustered."""
        domains = {domain.domain: domain for domain in self.domains}
        return clustering_columns(domains, parse_schema(self.metadata.schema_string))


def new_table(
    schema: Any,
    partition_by: str | Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    cluster_by: str | Iterable[str] | None = None,
    *,
    keeps_names: bool = False,
) -> tuple[Metadata, Protocol, tuple[DomainMetadata, ...]]:
    """The first metadata and protocol of a table, and the clustering domain if the table is clustered.

    ``schema`` is a pyarrow, Spark or Delta schema. ``keeps_names``: there are files that have the columns under these
    names, or under the ids and physical names that the schema says, so a table that maps its columns keeps both.
    Raises ``InvalidInputError`` (schema, partition or clustering columns, property values) and
    ``UnsupportedFeatureError`` for what this release could not write.
    """
    struct = from_any(schema) if keeps_names else without_metadata(from_any(schema), *OF_ONE_TABLE)
    configuration = with_what_it_needs(validate(properties or {}), is_new=True)
    check_promises(configuration)
    _check_log_retention({}, configuration)
    _check_row_id_promise({}, configuration)
    _check_row_id_columns_are_free(struct, configuration)
    check_schema(struct, any_name=mapping_mode(configuration) != "none")
    columns = check_partition_columns(struct, names_in("partition_by", partition_by))
    check_constraints(configuration, struct)
    check_computed_columns(struct)
    check_identity_columns(struct, columns)
    check_columns(configuration, struct, columns)
    struct, configuration = _mapped(struct, configuration, _own_name if keeps_names else random_name)
    if repeated := repeated_physical_names(struct):
        raise InvalidInputError(
            f"several columns would have the name {repeated[0]} in data files, where readers find them by it"
        )
    configuration = _with_row_tracking_columns(configuration)
    metadata = Metadata(
        id=ambient.uuid4(),
        schema_string=schema_to_json(struct),
        partition_columns=columns,
        configuration=stored(configuration),
        format={"provider": "parquet", "options": {}},
        created_time=ambient.now_ms(),
    )
    domains: tuple[DomainMetadata, ...] = ()
    if cluster_by:
        _check_not_partitioned(columns)
        domains = (clustering_domain(cluster_by, struct, TableProperties.of(configuration)),)
        configuration = {**configuration, CLUSTERING_FEATURE: "supported"}
    protocol = protocol_for(struct, configuration)
    _check(protocol, metadata, struct, {domain.domain: domain for domain in domains})
    return metadata, protocol, domains


def _check_not_partitioned(partition_columns: tuple[str, ...]) -> None:
    if partition_columns:
        raise InvalidInputError(
            f"a table is either partitioned or clustered: give {argument('partition_by')} or {argument('cluster_by')}"
        )


def with_properties(
    state: TableState, properties: Mapping[str, str], *, has_row_ids: bool = False
) -> Definition | None:
    """Set table properties. ``has_row_ids``: every file of the table has row ids.

    Raises ``InvalidInputError`` with the key and value that are not valid.
    """
    return _reconfigured(state, {**state.metadata.configuration, **validate(properties)}, has_row_ids=has_row_ids)


def without_properties(state: TableState, keys: Iterable[str]) -> Definition | None:
    """Unset table properties. Raises ``InvalidInputError`` for one that is not set."""
    configuration = dict(state.metadata.configuration)
    for key in keys:
        if key not in configuration:
            known = ", ".join(sorted(configuration)) or "none"
            raise InvalidInputError(f"property {key!r} is not set; the table has: {known}")
        del configuration[key]
    return _reconfigured(state, configuration)


def with_columns(state: TableState, new: Struct) -> Definition | None:
    """Add the columns of ``new`` that the table lacks, including struct fields; None if it lacks none.

    Raises ``SchemaMismatchError`` if a column exists with another type, ``InvalidInputError`` for a new column that is
    generated or has a default.
    """
    check_added_are_plain(_added(state.schema, new))
    schema = state.schema
    for path, wider in wider_columns(state, new):
        check_retyped(state, path, wider)
        schema = retyped(schema, path, wider)
    return redefined(state, merge(schema, new), added=new)


def wider_columns(state: TableState, new: Struct) -> list[tuple[ColumnPath, DataType]]:
    """The columns of the table, with their new types, that grow to hold values of ``new``: none unless the table allows
    it (``delta.enableTypeWidening``)."""
    return list(wider_types(state.schema, new)) if state.properties.enable_type_widening else []


def is_wider(state: TableState, column: pa.Field) -> bool:
    """Whether a column of data has a wider type than the table's column, which takes it, at any depth."""
    there = state.schema.find(column.name)
    if there is None or not state.properties.enable_type_widening:
        return False
    return any(wider_types(Struct((there,)), from_arrow(pa.schema([column]))))


def check_retyped(state: TableState, path: ColumnPath, wider: DataType) -> None:
    """Raises ``InvalidInputError`` if a rule of the table would mean something else with the column's new type, or if
    a property of the table forbids it."""
    from txlog.core.definition._column_references import references_to

    configuration = state.metadata.configuration
    for key, rule in of_packages(configuration).items():
        if rule is not None and rule.retyped is not None:
            rule.retyped(configuration[key], path, type_at(state.schema, path), wider)
    rules = [each.text for each in references_to(state, path) if each.place in ("rule", "generated column")]
    if rules:
        raise InvalidInputError(
            f"{path_text(path)} cannot become {type_name(wider)}: {'; '.join(rules)}, and would be computed with other"
            " types. Drop the rule first, and add it again after"
        )


def redefined(
    state: TableState,
    schema: Struct,
    *,
    configuration: Mapping[str, str] | None = None,
    partition_columns: tuple[str, ...] | None = None,
    needs: Iterable[str] = (),
    added: Struct = Struct(()),  # noqa: B008 -- immutable
) -> Definition | None:
    """The table with changed columns; new ones get ids if it maps its columns. None if nothing would change.

    ``needs`` are table features that do not show in the metadata; ``added`` has the columns to add as they were given.
    Raises the errors of `with_columns`.
    """
    schema, configuration = _mapped(
        schema, state.metadata.configuration if configuration is None else configuration, random_name
    )
    schema = with_limits_kept(state.schema, schema, added)
    columns = state.partition_columns if partition_columns is None else partition_columns
    check_identity_columns(schema, columns)
    metadata = replace(
        state.metadata, schema_string=schema_to_json(schema), partition_columns=columns, configuration=configuration
    )
    if schema == state.schema and metadata == replace(state.metadata, schema_string=metadata.schema_string):
        return None
    needed = {**configuration, **{f"{FEATURE_PREFIX}{name}": "supported" for name in needs}}
    protocol = upgraded_for(state.protocol, schema, needed)
    _check(protocol or state.protocol, metadata, schema, state.domains)
    return Definition(metadata, protocol)


def check_added_columns(state: TableState, new: Struct) -> None:
    """Raises ``InvalidInputError`` for a column of ``new`` that the table lacks and that may not be null."""
    required = [name for name, field in _added(state.schema, new) if not field.nullable]
    if required:
        names = ", ".join(required)
        raise InvalidInputError(
            f"cannot add {names} as NOT NULL: existing rows would be null there. Add it without NOT NULL"
        )


def _added(there: Struct, new: Struct, prefix: str = "") -> Iterator[tuple[str, Field]]:
    """The columns and struct fields that ``there`` lacks, with their paths."""
    for field in new.fields:
        found = there.find(field.name)
        if found is None:
            yield f"{prefix}{field.name}", field
        elif isinstance(found.type, Struct) and isinstance(field.type, Struct):
            yield from _added(found.type, field.type, f"{prefix}{field.name}.")


def with_schema(
    state: TableState, schema: Any, partition_by: Iterable[str] | None, column_rules: str | None = None
) -> Definition | None:
    """Replace the table's schema and partitioning, by a commit that also replaces every file.

    The properties stay, and so does the clustering, by the names of its columns. ``partition_by`` None keeps the
    partitioning. ``column_rules`` "keep" keeps NOT NULL, comments and other rules of columns that the new schema has
    too; what is dropped is noted unless it is "drop". If the table maps its columns, all get new ids and physical
    names. None if nothing would change.
    Raises ``InvalidInputError`` for columns that no table can have or be partitioned by, and
    ``UnsupportedFeatureError`` for what this release could not write.
    """
    struct = without_metadata(from_any(schema), *OF_ONE_TABLE, IDENTITY_PREFIX)
    if column_rules == "keep":
        struct = with_rules_of(state.schema, struct)
    rules = () if column_rules == "drop" else tuple(dropped_rules(state.schema, struct))
    configuration = dict(state.metadata.configuration)
    check_schema(struct, any_name=mapping_mode(configuration) != "none")
    if partition_by is None and (gone := [name for name in state.partition_columns if struct.find(name) is None]):
        raise InvalidInputError(
            f"the table is partitioned by {', '.join(state.partition_columns)}, and the data has no {', '.join(gone)}:"
            f" pass the new partition columns as {argument('partition_by')}; [] means an unpartitioned table"
        )
    columns = check_partition_columns(
        struct, state.partition_columns if partition_by is None else names_in("partition_by", partition_by)
    )
    is_same = without_metadata(state.schema, MAPPING_PREFIX, TYPE_CHANGES_KEY) == struct
    if is_same and columns == state.partition_columns:
        return None
    check_constraints(configuration, struct)
    check_computed_columns(struct)
    check_identity_columns(struct, columns)
    struct, configuration = _mapped(struct, configuration, random_name)
    metadata = replace(
        state.metadata, schema_string=schema_to_json(struct), partition_columns=columns, configuration=configuration
    )
    protocol = upgraded_for(state.protocol, struct, configuration)
    check_same_partitioning(features_of(protocol or state.protocol)[1], state.metadata, metadata)
    clustering = replaced_clustering(state.domains, state.schema, struct)
    domains = () if clustering is None else (clustering,)
    _check(protocol or state.protocol, metadata, struct, {**state.domains, **{each.domain: each for each in domains}})
    return Definition(metadata, protocol, domains, _notes_of_dropped(rules))


def _notes_of_dropped(rules: tuple[str, ...]) -> tuple[str, ...]:
    if not rules:
        return ()
    note = (
        f"the new columns are without {', '.join(rules)}: {setting('column_rules', 'keep')} keeps what the data's types"
        f" allow, {setting('column_rules', 'drop')} drops it without a note"
    )
    return (spelled(note, in_python),)


def cloned(source: TableState, there: TableState | None, properties: Mapping[str, str]) -> Definition:
    """The definition of a clone of ``source``, in place of the table ``there`` if there is one.

    It has the source's columns, partitioning, clustering and properties, with ``properties`` over them. Its id, its
    name, and the columns for row ids are its own. What says where the source is registered does not come along.
    Raises ``InvalidInputError`` for properties that a clone cannot have, and ``UnsupportedFeatureError``.
    """
    overrides = validate(properties)
    configuration = _cloned_configuration(source, there, overrides)
    metadata = replace(
        source.metadata,
        id=ambient.uuid4() if there is None else there.metadata.id,
        name=None if there is None else there.metadata.name,
        description=None if there is None else there.metadata.description,
        configuration=stored(configuration),
    )
    protocol = source.protocol
    if CATALOG_MANAGED in (protocol.writer_features or ()):  # what manages the source does not manage its clone
        protocol = without_feature(protocol, CATALOG_MANAGED, protects_history=False)
    protocol = upgraded_for(protocol, source.schema, configuration) or protocol
    if there is not None:
        protocol = merged(there.protocol, protocol)
    domains = {name: domain for name, domain in source.domains.items() if _is_taken_over(name)}
    for name, domain in ({} if there is None else there.domains).items():
        if _is_taken_over(name):
            domains.setdefault(name, replace(domain, removed=True))
    if overrides:
        check_columns(configuration, source.schema, source.partition_columns)
        _check(protocol, metadata, source.schema, source.domains)
    else:
        check_can_write(protocol, metadata)
    if there is not None:
        check_same_partitioning(features_of(protocol)[1], there.metadata, metadata)
        created_ms = created_again_ms(there.metadata, metadata, ambient.now_ms())
        metadata = with_later_marks(replace(metadata, created_time=created_ms), there.metadata)
    return Definition(metadata, protocol, tuple(domains.values()))


def _cloned_configuration(source: TableState, there: TableState | None, overrides: Mapping[str, str]) -> dict[str, str]:
    """The properties of a clone. Raises ``InvalidInputError`` for what it cannot have."""
    of_its_own = {*_OF_ITS_OWN, *_of_one_table(source.metadata.configuration)}
    configuration = {key: value for key, value in source.metadata.configuration.items() if key not in of_its_own}
    configuration.update(overrides)
    check_promises(configuration)
    _check_log_retention(source.metadata.configuration, configuration)
    _check_row_id_promise(source.metadata.configuration, configuration)
    check_same_conditions(source.metadata.configuration, configuration)
    _check_files_of_source(source.metadata.configuration, configuration)
    own = {} if there is None else there.metadata.configuration
    if there is not None:
        _check_row_id_columns(own, {**own, **overrides})
    _check_row_id_columns_are_free(source.schema, overrides)
    for before in (source.metadata.configuration, own if there is not None else configuration):
        if mapping_mode(before) != mapping_mode(configuration):
            raise InvalidInputError(
                f"{MODE_KEY} cannot change from {mapping_mode(before)} to {mapping_mode(configuration)} in a clone: the"
                " files of the two tables name their columns in different ways"
            )
    kept = (*_OF_ITS_OWN, *_of_one_table(own))
    configuration.update({key: own[key] for key in kept if key in own and key not in overrides})
    if MAX_COLUMN_ID_KEY in configuration:
        marks = (TableProperties.of(each).max_column_id for each in (configuration, own))
        configuration[MAX_COLUMN_ID_KEY] = str(max(*marks, *ids_of(source.schema)))
    return _with_row_tracking_columns(configuration)


def _check_files_of_source(source: Mapping[str, str], clone: Mapping[str, str]) -> None:
    if new := newly_required(source, clone):
        raise InvalidInputError(
            f"a clone has the files of its source, which does not follow {ICEBERG_COMPAT[new[0]]}: leave the property"
            " out, and set it on the clone"
        )


def _of_one_table(configuration: Mapping[str, str]) -> list[str]:
    return [key for key, rule in of_packages(configuration).items() if rule is not None and rule.is_of_one_table]


def _is_taken_over(domain: str) -> bool:
    """Whether a domain is about the table's rows, so that a clone has it too."""
    return domain == CLUSTERING_DOMAIN or is_of_loaded_files(domain)


def check_agrees(state: TableState, asked: Definition, properties: Mapping[str, str]) -> None:
    """Check that the table of ``state`` can be used where ``asked``, with ``properties``, was to be created.

    It may have more properties, and nullable columns that were added later. Raises ``SchemaMismatchError`` listing
    every difference.
    """
    found = [*_differences(state.schema, parse_schema(asked.metadata.schema_string))]
    there, wanted = ([*map(fold_name, names)] for names in (state.partition_columns, asked.metadata.partition_columns))
    if there != wanted:
        wants = partitioning_text(asked.metadata.partition_columns)
        found.append(f"it is {partitioning_text(state.partition_columns)}, and you asked for one that is {wants}")
    if asked.domains and (clustering := clustering_columns(state.domains, state.schema)) != asked.clustering_columns:
        wants = clustering_text(asked.clustering_columns)
        found.append(f"it is {clustering_text(clustering)}, and you asked for one that is {wants}  -> table.cluster_by")
    for key, value in stored(validate(properties)).items():
        has = state.metadata.configuration.get(key)
        if not means_same(key, has, value):
            found.append(f"{key} is {'not set' if has is None else repr(has)}, not {value!r}  -> table.set_properties")
    if found:
        raise SchemaMismatchError("\n  ".join(["the existing table differs from the requested one", *found]))


def commit_definition(
    open_table: OpenTable,
    state: TableState | None,
    definition: Definition | None,
    operation: str,
    parameters: dict[str, str],
    user_metadata: str | None = None,
) -> WriteResult:
    """Commit a table's new definition. None, if nothing would change, commits nothing."""
    if definition is None:
        assert state is not None
        return WriteResult(state.version, "committed", 0, "")
    info = OperationInfo(operation, parameters, user_metadata=user_metadata)
    return open_table.commit_change(definition_builder(state, definition), info)


def definition_builder(state: TableState | None, definition: Definition) -> ProposalBuilder:
    """A builder that sets the definition of a table at ``state``."""
    builder = ProposalBuilder(state)
    define(builder, definition)
    return builder


def define(builder: ProposalBuilder, definition: Definition) -> None:
    """Set the definition as a part of a change, which then depends on the table's clustering."""
    builder.define(definition.metadata, definition.protocol)
    for domain in definition.domains:
        builder.set_domain(domain)
    builder.read_domain(CLUSTERING_DOMAIN)


def require_definition(open_table: OpenTable, state: TableState, made_for: Metadata) -> None:
    """Raises ``MetadataChangedError`` if ``state`` does not have the definition that a change of it was made for."""
    if not is_same_definition(made_for, state.metadata):
        detail = "or an earlier commit changed the table's schema, partitioning or properties"
        raise_conflict((ConflictReason("MetadataChangedError", state.version, "unknown", detail),), open_table.uri)


def _differences(there: Struct, asked: Struct, prefix: str = "") -> Iterator[str]:
    have = {fold_name(field.name): field for field in there.fields}
    for field in asked.fields:
        found, name = have.pop(fold_name(field.name), None), prefix + field.name
        if found is None:
            yield f"{name}  asked for as {_shown(field)}, not in the table  -> table.add_columns"
        elif isinstance(found.type, Struct) and isinstance(field.type, Struct) and found.nullable == field.nullable:
            yield from _differences(found.type, field.type, f"{name}.")
        elif _shown(found).lower() != _shown(field).lower():
            yield f"{name}  table {_shown(found)}, asked for as {_shown(field)}"
    for field in have.values():
        if not field.nullable:
            yield f"{prefix}{field.name}  table {_shown(field)}, not asked for"


def _shown(field: Field) -> str:
    return f"{type_name(field.type)}{'' if field.nullable else ' NOT NULL'}"


def _reconfigured(state: TableState, configuration: dict[str, str], *, has_row_ids: bool = False) -> Definition | None:
    before = state.metadata.configuration
    _check_changes(before, configuration)
    new = {key: value for key, value in configuration.items() if before.get(key) != value}
    check_columns(new, state.schema, state.partition_columns)
    if TableProperties.of(configuration).enable_row_tracking and not state.properties.enable_row_tracking:
        if not has_row_ids:
            raise InvalidInputError(
                "delta.enableRowTracking = true promises row ids, and the files of the table may have none: set it by"
                " table.set_properties, outside of a transaction, which gives them ids first"
            )
        configuration = _with_row_tracking_columns(configuration)
    schema, configuration = _mapped(state.schema, configuration, _own_name)
    metadata = replace(state.metadata, configuration=stored(configuration))
    if schema != state.schema:
        metadata = replace(metadata, schema_string=schema_to_json(schema))
    protocol = upgraded_for(state.protocol, schema, configuration)
    if protocol is None and metadata == state.metadata:
        return None
    _check(protocol or state.protocol, metadata, schema, state.domains)
    return Definition(metadata, protocol)


def _check_log_retention(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse a retention below a day, unless a property of the table allows it.

    Clean-up cuts at midnight UTC, so a shorter retention can remove a version minutes after its commit. Then a writer
    that planned on an older version can no longer be checked against it. And a writer that does not check for the
    version before its own, as in other engines, can put a commit where no reader looks. Most jobs take less than a day.
    The permission is a property, so that everyone who opens the table sees it.
    """
    if TableProperties.of(after).log_retention_ms >= DAY_MS or after.get(SHORT_LOG_RETENTION) == "true":
        return
    if all(before.get(key) == after.get(key) for key in (_LOG_RETENTION, SHORT_LOG_RETENTION)):
        return  # another engine set it before
    raise InvalidInputError(
        f"{_LOG_RETENTION} = {after[_LOG_RETENTION]} is shorter than 1 day: versions would leave the log while jobs"
        " that read them still run, and a slow writer of another engine could lose its commit. Choose 1 day or more."
        f" If no reader and no writer takes that long, also set {SHORT_LOG_RETENTION} = true"
    )


def _check_row_id_columns(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse other columns for row ids: rows whose ids are in the columns named so far would get new ids."""
    for key in _ROW_TRACKING_COLUMNS:
        if before.get(key) != after.get(key):
            raise InvalidInputError(
                f"{key} names the column in which the table's files keep row ids or their versions, so it cannot be set"
                f" or unset: leave it out. {call('drop_feature', 'rowTracking')} removes it with the row ids"
            )


def _check_row_id_columns_are_free(schema: Struct, configuration: Mapping[str, str]) -> None:
    for key in _ROW_TRACKING_COLUMNS:
        name = configuration.get(key)
        if name is not None and (column := schema.find(name)) is not None:
            raise InvalidInputError(
                f"{key} = {column.name}, and the table has a column of this name: leave the property out, and row ids"
                " get a column of their own"
            )


def _check_row_id_promise(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse to promise row ids and to give new files none. What another engine did before may stay."""

    def breaks(configuration: Mapping[str, str]) -> bool:
        return TableProperties.of(configuration).enable_row_tracking and is_suspended(configuration)

    if breaks(after) and not breaks(before):
        raise InvalidInputError(
            f"{SUSPENDED} = true lets new files have no row ids, and delta.enableRowTracking = true promises an id for"
            " every row: set one of them to false"
        )


def _check_changes(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse properties that cannot be changed alone, since the files or the schema would have to change too."""
    check_promises(after)
    _check_log_retention(before, after)
    _check_row_id_columns(before, after)
    _check_row_id_promise(before, after)
    check_same_conditions(before, after)
    modes = mapping_mode(before), mapping_mode(after)
    if modes[0] != modes[1] and modes != ("none", "name"):
        raise InvalidInputError(
            f"{MODE_KEY} can be set from none to name, not from {modes[0]} to {modes[1]}, since the existing files"
            f" would not fit: create a new table, or end the mapping with"
            f" {call('drop_feature', 'columnMapping')}, which rewrites them"
        )
    if modes[0] != "none" and before.get(MAX_COLUMN_ID_KEY) != after.get(MAX_COLUMN_ID_KEY):
        raise InvalidInputError(f"{MAX_COLUMN_ID_KEY} counts the ids given to columns and cannot be set")


def _mapped(
    schema: Struct, configuration: Mapping[str, str], new_name: Callable[[Field], str]
) -> tuple[Struct, dict[str, str]]:
    """In a table with column mapping, give each new column an id and a physical name, and record the highest id."""
    if mapping_mode(configuration) == "none":
        return schema, dict(configuration)
    schema, highest = assign(schema, TableProperties.of(configuration).max_column_id, new_name)
    return schema, {**configuration, MAX_COLUMN_ID_KEY: str(highest)}


def random_name(field: Field) -> str:
    """The physical name of a column that no file has yet."""
    return f"col-{ambient.uuid4()}"


def _own_name(field: Field) -> str:
    """The physical name of a column that existed before column mapping: its own name."""
    return field.name


def _with_row_tracking_columns(configuration: dict[str, str]) -> dict[str, str]:
    """The names under which rewritten files would keep row ids. They are fixed when row tracking is enabled."""
    if not TableProperties.of(configuration).enable_row_tracking:
        return configuration
    names = {key: f"_{word}-{ambient.uuid4()}" for key, word in _ROW_TRACKING_COLUMNS.items()}
    return {**names, **configuration}


def _check(protocol: Protocol, metadata: Metadata, schema: Struct, domains: Mapping[str, DomainMetadata]) -> None:
    """Check that this release can write the resulting table."""
    check_can_write(protocol, metadata)
    if 3 in versions_in_use(features_of(protocol)[1], metadata.configuration):
        check_defaults_are_literals(schema, ICEBERG_COMPAT[3])
    check_merging(metadata.configuration, schema)
    properties = TableProperties.of(metadata.configuration)
    check_statistics_columns(schema, properties, metadata.partition_columns)
    if properties.key_index:
        try:
            key_columns(map(path_text, properties.key_index), schema, metadata.partition_columns)
        except InvalidInputError as error:
            raise InvalidInputError(f"table property {KEY_INDEX}: {error.message}; change or unset it") from None
    check_clustering(domains, schema, properties, metadata.partition_columns)
    if properties.enable_change_data_feed and (taken := reserved_columns(schema)):
        raise InvalidInputError(
            f"delta.enableChangeDataFeed needs the name {taken[0]}, and the table has a column of that name:"
            " rename the column, or leave the property off"
        )


_LOG_RETENTION = "delta.logRetentionDuration"

_ROW_TRACKING_COLUMNS = {
    "delta.rowTracking.materializedRowIdColumnName": "row-id-col",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "row-commit-version-col",
}

_OF_ITS_OWN = (
    *_ROW_TRACKING_COLUMNS,
    *ENABLEMENT_KEYS,
    OTHER_FORMATS,
    "delta.requireCheckpointProtectionBeforeVersion",
    "io.unitycatalog.tableId",
)
"""Properties that are about one table's files, versions or place, so that a clone does not take them over."""
