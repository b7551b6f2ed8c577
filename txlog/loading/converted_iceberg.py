"""An Iceberg table as a Delta table: the same data files, found by the same column ids, with the same rows deleted.

In: the store of the table's folder, and its metadata. Out: the definition and the ``add`` actions of version 0.
Position deletes and Iceberg's deletion vectors become Delta's; the error for what Delta cannot have names it.
PROTOCOL.md, "Column Mapping", "Deletion Vectors".
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from txlog.core.definition import Definition, new_table, random_name
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor
from txlog.core.format.arrow.arrays import coded
from txlog.core.format.bitmaps import bitmap_of, deserialized
from txlog.core.format.column_mapping import (
    MAX_COLUMN_ID_KEY,
    MODE_KEY,
    PHYSICAL_NAME_KEY,
    field_id,
    physical_name,
)
from txlog.core.format.deletion_vector import bitmap_in_block, vector_files
from txlog.core.format.paths import encode_path, is_location, readable_path, uri_of
from txlog.core.format.schema import DATE, Array, DataType, Field, Map, Struct, fold_name, type_name
from txlog.core.progress import OnDone
from txlog.core.store import ObjectMeta, TableFiles, TableStore
from txlog.core.workers import Workers
from txlog.core.writing import UnsentFiles, write_vectors
from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError, TxlogError, UnsupportedFeatureError
from txlog.iceberg.foreign_files import Deletes, ForeignFile, ForeignFiles, read_foreign
from txlog.loading.footer_facts import FooterFacts, ReadFooter
from txlog.loading.footers import footer_facts

if TYPE_CHECKING:
    from pyroaring import BitMap64

_MAGIC_BYTES = 4
_VECTORS = "delta.enableDeletionVectors"
_PARTITION_TYPES = ("integer", "long", "string", "date", "boolean")
"""Types whose partition values are read from entries; a table is not partitioned by others."""


def from_iceberg(
    store: TableStore,
    metadata: str | None,
    read: ReadFooter,
    unsent: UnsentFiles,
    on_files: OnDone | None,
    workers: Workers,
) -> tuple[Definition, list[AddFile]]:
    """The table's definition, and its files. ``read`` reads a footer, and has the properties of the table. ``unsent``
    gets the files with deletion vectors.

    Raises InvalidInputError, UnsupportedFeatureError, NotFoundError, StorageError; each names the file.
    """
    found = read_foreign(store, metadata)
    given = read.configuration.get(MODE_KEY)
    by_id = replace(read, schema=found.table.schema, by_id=True)
    facts = footer_facts(by_id, [file.path for file in found.files], workers, on_files)
    _check_sizes(store, found, facts)
    mode, schema = _mapping(store, found, facts)
    if given not in (None, mode):
        raise InvalidInputError(
            f"the files of the Iceberg table need {MODE_KEY} = {mode}, not {given}", table=store.uri
        )
    if mode == "name":
        known = [ObjectMeta(path, each.size_bytes, each.modified_ms) for path, each in facts.items()]
        facts = footer_facts(replace(read, schema=schema), known, workers)
    _check_types(store, found, facts, schema, mode)
    columns = _partition_columns(store, found, facts, schema, mode)
    configuration = {**read.configuration, MODE_KEY: mode, MAX_COLUMN_ID_KEY: str(found.table.last_column_id)}
    if found.deletes:
        configuration = {_VECTORS: "true", **configuration}
    with TxlogError.located(store.uri):
        definition = Definition(*new_table(schema, [field.name for field in columns], configuration, keeps_names=True))
    vectors = _vectors(store, found, unsent)
    with TxlogError.located(store.uri):
        adds = [_add(found, file, facts[file.path], columns, vectors.get(file.path)) for file in found.files]
    store.files.make_durable([file.path for file in found.files if not is_location(file.path)], with_contents=True)
    return definition, adds


def _check_sizes(store: TableStore, found: ForeignFiles, facts: Mapping[str, FooterFacts]) -> None:
    for file in found.files:
        if facts[file.path].size_bytes != file.size_bytes:
            raise InvalidInputError(
                f"{file.path} has {facts[file.path].size_bytes} bytes, and the Iceberg metadata records"
                f" {file.size_bytes}: it was damaged or replaced",
                table=store.uri,
                path=file.path,
            )


# --- columns ----------------------------------------------------------------------------------------------------------


def _mapping(store: TableStore, found: ForeignFiles, facts: Mapping[str, FooterFacts]) -> tuple[str, Struct]:
    """How the table finds its columns in files, and the columns with their names there."""
    without = [path for path, each in facts.items() if not any(each.ids.values())]
    if not without:
        return "id", found.table.schema
    if len(without) < len(facts):
        raise UnsupportedFeatureError(
            f"{without[0]} has no column ids, and other files have them: Delta finds columns by one or the other. Write"
            " such files again in Iceberg, with rewrite_data_files",
            features=("Iceberg name mapping",),
            table=store.uri,
            path=without[0],
        )
    if not found.table.names:
        raise UnsupportedFeatureError(
            f"{without[0]} has no column ids, and the table has no schema.name-mapping.default that says which column"
            " is which",
            features=("Iceberg name mapping",),
            table=store.uri,
            path=without[0],
        )
    there = {path for each in facts.values() for path in each.ids}
    return "name", _named(found.table.schema, found.table.names, there, (), store.uri)


def _named(
    schema: Struct, names: Mapping[int, tuple[str, ...]], there: set[tuple[str, ...]], above: tuple[str, ...], uri: str
) -> Struct:
    """The columns with the names that files without ids have them under. One that no file has gets a new name if its
    own stands in files for another column, or for a dropped one."""
    others = {fold_name(path[-1]) for path in there if path[:-1] == above}
    fields = []
    for field in schema.fields:
        known = names.get(field_id(field) or -1, ())
        used = [name for name in known if (*above, name) in there]
        if len(used) > 1:
            raise UnsupportedFeatureError(
                f"column {field.name} has the names {' and '.join(used)} in files without column ids, and Delta can"
                " have one: write the files again in Iceberg, with rewrite_data_files",
                features=("Iceberg name mapping",),
                table=uri,
            )
        own = random_name(field) if fold_name(field.name) in others else field.name
        name = used[0] if used else own
        inner = _named_inside(field.type, names, there, (*above, name), uri)
        fields.append(replace(field, type=inner, metadata={**field.metadata, PHYSICAL_NAME_KEY: name}))
    return Struct(tuple(fields))


def _named_inside(
    data_type: DataType,
    names: Mapping[int, tuple[str, ...]],
    there: set[tuple[str, ...]],
    path: tuple[str, ...],
    uri: str,
) -> DataType:
    match data_type:
        case Struct():
            return _named(data_type, names, there, path, uri)
        case Array(element):
            return replace(data_type, element=_named_inside(element, names, there, (*path, "element"), uri))
        case Map(key, value):
            key = _named_inside(key, names, there, (*path, "key"), uri)
            return replace(data_type, key=key, value=_named_inside(value, names, there, (*path, "value"), uri))
    return data_type


def _check_types(
    store: TableStore, found: ForeignFiles, facts: Mapping[str, FooterFacts], schema: Struct, mode: str
) -> None:
    """Refuse files with narrower types, from before a column was widened: in Delta the column would have to say so."""
    checked: list[tuple[Struct, Mapping[Any, Any]]] = []
    for file in found.files:
        each = facts[file.path]
        if (each.schema, each.ids) in checked:
            continue
        checked.append((each.schema, each.ids))
        for name, table, other in _unlike(schema, each.schema, each.ids, (), by_id=mode == "id"):
            raise UnsupportedFeatureError(
                f"{file.path} has column {name} as {type_name(other)}, and the table as {type_name(table)}: write the"
                " file again in Iceberg, with rewrite_data_files",
                features=("Iceberg type promotion",),
                table=store.uri,
                path=file.path,
            )


def _unlike(
    table: DataType, file: DataType, ids: Mapping[tuple[str, ...], int | None], path: tuple[str, ...], *, by_id: bool
) -> Iterator[tuple[str, DataType, DataType]]:
    """The places below ``path`` where the types differ, by their names in the table."""
    inside: list[tuple[str, DataType, DataType, tuple[str, ...]]] = []
    match table, file:
        case Struct(fields), Struct(others):
            for field, other in product(fields, others):
                there = (*path, other.name)
                if ids.get(there) == field_id(field) if by_id else other.name == physical_name(field):
                    inside.append((field.name, field.type, other.type, there))
        case Array(element), Array(other_element):
            inside.append(("element", element, other_element, (*path, "element")))
        case Map(key, value), Map(other_key, other_value):
            inside.append(("key", key, other_key, (*path, "key")))
            inside.append(("value", value, other_value, (*path, "value")))
        case _ if table != file:
            yield "", table, file
    for name, mine, others_type, there in inside:
        for below, one, another in _unlike(mine, others_type, ids, there, by_id=by_id):
            yield f"{name}.{below}" if below else name, one, another


def _partition_columns(
    store: TableStore, found: ForeignFiles, facts: Mapping[str, FooterFacts], schema: Struct, mode: str
) -> list[Field]:
    """The columns by whose values all live files are partitioned. Other transforms partition no Delta table."""
    identity = found.table.identity
    specs = {file.spec_id for file in found.files} or {*identity}
    columns = []
    for field in schema.fields:
        number = field_id(field)
        parts = [identity[spec].get(number or -1) for spec in specs]
        fits = getattr(field.type, "name", None) in _PARTITION_TYPES and None not in parts
        # Delta reads an empty text as null.
        if fits and all(file.partition[identity[file.spec_id][number or -1]] != "" for file in found.files):
            columns.append(field)
        elif any(part is not None for part in parts):
            _require_in_files(store, found, facts, field, mode)
    return columns if len(columns) < len(schema.fields) else []


def _require_in_files(
    store: TableStore, found: ForeignFiles, facts: Mapping[str, FooterFacts], field: Field, mode: str
) -> None:
    for file in found.files:
        ids = facts[file.path].ids
        has = field_id(field) in ids.values() if mode == "id" else (physical_name(field),) in ids
        if not has:
            raise UnsupportedFeatureError(
                f"{file.path} has no column {field.name}, by which Iceberg partitions the table. In a Delta table,"
                " the files need this column: write the files again in Iceberg, with rewrite_data_files",
                features=("Iceberg partitions without columns",),
                table=store.uri,
                path=file.path,
            )


# --- files ------------------------------------------------------------------------------------------------------------


def _add(
    found: ForeignFiles,
    file: ForeignFile,
    facts: FooterFacts,
    columns: Sequence[Field],
    vector: DeletionVectorDescriptor | None,
) -> AddFile:
    parts = found.table.identity.get(file.spec_id, {})
    values = {
        physical_name(field): _text(file.partition[parts[field_id(field) or -1]], field.type) for field in columns
    }
    path = readable_path(uri_of(file.path) if is_location(file.path) else encode_path(file.path))
    size_bytes, modified_ms = facts.size_bytes, facts.modified_ms
    return AddFile(path, values, size_bytes, modified_ms, True, facts.stats, deletion_vector=vector)


def _text(value: Any, data_type: DataType) -> str | None:
    """A value of an Avro record as Delta writes it."""
    if value is None:
        return None
    if data_type == DATE:
        return (dt.date(1970, 1, 1) + dt.timedelta(days=value)).isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- deleted rows -----------------------------------------------------------------------------------------------------


def _vectors(store: TableStore, found: ForeignFiles, unsent: UnsentFiles) -> dict[str, DeletionVectorDescriptor]:
    """Delta's deletion vectors, by the path of the data file, written in the table's folder."""
    dead: dict[str, BitMap64] = {}
    by_name = {file.name: file for file in found.files}
    for deletes in found.deletes:
        for name, rows in _deleted(store, deletes):
            file = by_name.get(name)
            if file is not None and file.sequence <= deletes.sequence:
                dead[file.path] = rows if file.path not in dead else dead[file.path] | rows
    rows_of = {file.path: file.rows for file in found.files}
    for path, rows in dead.items():
        if rows and rows.max() >= rows_of[path]:
            raise InvalidInputError(
                f"Iceberg deletes mark row {rows.max()} of {path}, which has {rows_of[path]} rows",
                table=store.uri,
                path=path,
            )
    paths = [path for path, rows in dead.items() if rows]
    descriptors, _ = write_vectors(store.files, [dead[path] for path in paths])
    unsent.own(vector_files(descriptors))
    return dict(zip(paths, descriptors, strict=True))


def _deleted(store: TableFiles, deletes: Deletes) -> Iterator[tuple[str, BitMap64]]:
    """The names of data files, and the positions of their deleted rows, that a file lists."""
    at: dict[str, Any] = {"table": store.uri, "path": deletes.path}
    try:
        with store.files.open(deletes.path) as source:
            if deletes.offset is not None:
                yield deletes.of or "", _blob(source, deletes)
                return
            rows = pq.read_table(source, columns=["file_path", "pos"])
    except (FileNotFoundError, NotFoundError):
        message = f"the Iceberg metadata names {deletes.path}, which is missing: deleted rows would come back"
        raise NotFoundError(message, **at) from None
    except (pa.ArrowException, OSError, ValueError, IndexError, CorruptLogError) as error:
        raise InvalidInputError(f"{deletes.path} cannot be read: {error}", **at) from None
    names, numbers = coded(rows["file_path"])
    positions = rows["pos"].to_numpy()
    for number, name in enumerate(names.to_pylist()):
        yield name, bitmap_of(positions[numbers == number])


def _blob(source: Any, deletes: Deletes) -> BitMap64:
    """A deletion vector in a Puffin file, which has the same bytes as one of Delta."""
    size_bytes = (deletes.size_bytes or 0) - 2 * _MAGIC_BYTES
    source.seek(deletes.offset)
    block = source.read(deletes.size_bytes or 0)
    bitmap = bitmap_in_block(block, DeletionVectorDescriptor("p", deletes.path, deletes.offset, size_bytes, 0))
    found: BitMap64 = deserialized(bitmap[_MAGIC_BYTES:])
    return found
