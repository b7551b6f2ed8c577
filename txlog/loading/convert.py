"""Makes a table of the Parquet files in a folder, as they lie there: one commit, version 0.

In: an open location with files and no log. Out: a `ConvertResult`. The files are listed, or taken from Iceberg metadata
(``converted_iceberg``). Their footers are read in parallel, and nothing is written but the log. PROTOCOL.md, "Add File
and Remove File", "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from txlog.core.definition import Definition, definition_builder, new_table, probe_new_location
from txlog.core.format.actions import AddFile, operation_parameters
from txlog.core.format.column_mapping import MODE_KEY, mapping_mode, physical_name, schema_of
from txlog.core.format.iceberg_compat import newly_required
from txlog.core.format.paths import encode_path, is_hidden, readable_path
from txlog.core.format.properties import ICEBERG_COMPAT, TableProperties, validate
from txlog.core.format.schema import Struct, leaf_paths
from txlog.core.progress import OnDone
from txlog.core.row_rules import check_same_conditions
from txlog.core.store import ObjectMeta
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo
from txlog.core.wording import argument, in_python, setting, spelled
from txlog.core.workers import GivenWorkers, Workers
from txlog.core.writing import UnsentFiles
from txlog.errors import InvalidInputError, MetadataChangedError, ProtocolChangedError, TxlogError
from txlog.iceberg.foreign_files import has_iceberg_metadata
from txlog.loading.converted_iceberg import from_iceberg
from txlog.loading.converted_schema import (
    bare_levels,
    merged_schema,
    names_given,
    names_of_levels,
    partition_fields,
)
from txlog.loading.footer_facts import FooterFacts, ReadFooter
from txlog.loading.footers import footer_facts
from txlog.loading.hive_paths import values_in_path
from txlog.loading.source_folders import files_in
from txlog.result.maintenance import ConvertResult

_FOOTERS_AT_ONCE = 16


class ConvertOptions(msgspec.Struct, frozen=True):
    """The arguments of `Table.convert`."""

    partition_by: Any = None
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    iceberg_metadata: str | None = None
    user_metadata: str | None = None


def convert(
    open_table: OpenTable,
    *,
    on_progress: OnDone | None = None,
    workers: GivenWorkers | None = None,
    **given: Any,
) -> ConvertResult:
    """Convert the folder; the other arguments are those of `ConvertOptions`. Raises what `Table.convert` raises."""
    options = ConvertOptions(**given)
    there = open_table.state_if_exists()
    if there is not None:
        return ConvertResult(open_table.uri, there.version, "already_a_table")
    probe_new_location(open_table)
    options = replace(options, properties=validate(options.properties))
    with TxlogError.located(open_table.uri):
        check_same_conditions({}, options.properties)  # only footers are read, so no row would be checked
        if new := newly_required({}, options.properties):
            raise InvalidInputError(
                f"{ICEBERG_COMPAT[new[0]]} is about how files are written, and these are there already: convert them"
                " without it, and set it on the table, whose new files then follow it"
            )
    store, running = open_table.store, open_table.workers(workers, _FOOTERS_AT_ONCE)
    if options.iceberg_metadata is not None or has_iceberg_metadata(store):
        if options.partition_by is not None:
            raise InvalidInputError(
                f"the Iceberg metadata says how the table is partitioned: leave {argument('partition_by')} out",
                table=store.uri,
            )
        with UnsentFiles(store.files) as unsent:
            work = ReadFooter(open_table.task_store(), options.properties, ())
            found = from_iceberg(store, options.iceberg_metadata, work, unsent, on_progress, running)
            return _committed(open_table, *found, options, "iceberg", unsent)
    _check_finds_by_name(options.properties, open_table.uri)
    files = _files_below(open_table, options.partition_by)
    paths = [each.name for each in files]
    with TxlogError.located(open_table.uri):
        partition = partition_fields(paths, options.partition_by, open_table.uri)
    read = ReadFooter(open_table.task_store(), options.properties, tuple(field.name for field in partition))
    facts = footer_facts(read, files, running, on_progress)
    with TxlogError.located(open_table.uri):
        widens = TableProperties.of(options.properties).enable_type_widening
        columns = {path: each.schema for path, each in facts.items()}
        schema = merged_schema(columns, partition, open_table.uri, widens=widens)
        names = [field.name for field in partition]
        definition = Definition(*new_table(schema, names, options.properties, keeps_names=True))
    facts |= _facts_again(replace(read, schema=schema), facts, schema, names, running)
    adds = _adds(facts, definition, open_table.uri, names_of_levels(paths, options.partition_by))
    open_table.store.files.make_durable(paths, with_contents=True)
    done = _committed(open_table, definition, adds, options, "parquet")
    return done if partition else replace(done, notes=_notes(paths))


def _notes(paths: Sequence[str]) -> tuple[str, ...]:
    """What directories could mean that name nothing."""
    count = bare_levels(paths)
    if not count:
        return ()
    first, names = paths[0].rpartition("/")[0], ", ".join(f"level_{number}" for number in range(1, count + 1))
    note = (
        f"The directories, such as {first}, name no partition columns, so the table has none. If they are values of"
        f" some, delete the folder _delta_log and convert again with {setting('partition_by', names)}: a name for each"
        " level, or a type too"
    )
    return (spelled(note, in_python),)


def _check_finds_by_name(properties: Mapping[str, str], uri: str) -> None:
    """The files have no column ids, or ids that mean nothing to the table."""
    if mapping_mode(properties) == "id":
        raise InvalidInputError(
            f"{MODE_KEY} = id has readers find columns by ids, and Parquet files of other programs have none, or others"
            f" than the table's: use {MODE_KEY} = name",
            table=uri,
        )


def _files_below(open_table: OpenTable, partition_by: Any) -> list[ObjectMeta]:
    """The files in the folder but for hidden ones, sorted. A directory of a partition column is not hidden."""
    columns = names_given(partition_by)
    found = files_in(open_table.store, lambda name: is_hidden(name, columns))
    if not found:
        raise InvalidInputError(
            "there is no file to convert: expected Parquet files in this folder or below it. Names that begin with _ or"
            " . are left out",
            table=open_table.uri,
        )
    with TxlogError.located(open_table.uri):
        for each in found:
            readable_path(encode_path(each.name))
    return found


def _facts_again(
    read: ReadFooter, facts: Mapping[str, FooterFacts], schema: Struct, names: Sequence[str], workers: Workers
) -> dict[str, FooterFacts]:
    """The facts of files with other columns than the table's: which ones have statistics depends on their order."""
    wanted = [path for path, _ in leaf_paths(schema.without(tuple(names)))]
    others = [
        ObjectMeta(path, each.size_bytes, each.modified_ms)
        for path, each in facts.items()
        if [path for path, _ in leaf_paths(each.schema.without(tuple(names)))] != wanted
    ]
    return footer_facts(read, others, workers) if others else {}


def _adds(facts: Mapping[str, FooterFacts], definition: Definition, uri: str, levels: Sequence[str]) -> list[AddFile]:
    schema, columns = schema_of(definition.metadata), definition.metadata.partition_columns
    keys = {name: physical_name(field) for name in columns if (field := schema.find(name)) is not None}
    adds = []
    for path, each in facts.items():
        try:
            values = values_in_path(path, schema, columns, uri, levels)
        except InvalidInputError as error:
            error.template = f"{path}: {error.template}"
            raise
        partition_values = {keys[name]: text for name, text in values.items()}
        size_bytes, modified_ms = each.size_bytes, each.modified_ms
        adds.append(AddFile(encode_path(path), partition_values, size_bytes, modified_ms, True, each.stats))
    return adds


def _committed(
    open_table: OpenTable,
    definition: Definition,
    adds: Sequence[AddFile],
    options: ConvertOptions,
    source_format: str,
    unsent: UnsentFiles | None = None,
) -> ConvertResult:
    builder = definition_builder(None, definition)
    builder.add(*adds, are_new=False)
    columns = definition.metadata.partition_columns
    info = OperationInfo(
        "CONVERT",
        operation_parameters(
            numFiles=len(adds), partitionedBy=list(columns), collectStats=True, sourceFormat=source_format
        ),
        metrics={"numConvertedFiles": str(len(adds))},
        user_metadata=options.user_metadata,
    )
    try:
        version = open_table.commit_change(builder, info, Isolation.SERIALIZABLE, unsent=unsent).version
    except (MetadataChangedError, ProtocolChangedError):  # another writer created the table first
        return ConvertResult(open_table.uri, open_table.log.newest_state().version, "already_a_table")
    assert version is not None
    return ConvertResult(open_table.uri, version, "committed", len(adds), sum(add.size for add in adds), columns)
