"""The settings of data files: from the table's properties, or from the arguments of one write, to what pyarrow takes.

In: properties by their names (``parquet.page.size``, ``parquet.enable.dictionary#id``), whoever set them, and a schema.
Out: one `ParquetSettings` for every writer of data files, and the arguments of ``pyarrow.parquet.ParquetWriter``. The
names are parquet-java's: Spark's Delta passes a table's properties to it, so both writers obey the same ones. Only the
codec is Delta's own property there, which wins over ``parquet.compression``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import physical_name
from txlog.core.format.properties import (
    CODEC,
    CODEC_KEY,
    COLUMN_MARK,
    PARQUET,
    PREFIX,
    is_parquet_setting,
    parquet_values,
    validate,
    with_parquet_settings,
)
from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    PRIMITIVES,
    STRING,
    VOID,
    Array,
    DataType,
    Decimal,
    Map,
    Primitive,
    Struct,
    fold_name,
    type_name,
)
from txlog.core.util import invalid, logger
from txlog.core.wording import argument
from txlog.core.writing._data_file import ColumnSettings, ParquetSettings, WriterOptions
from txlog.errors import InvalidInputError

_CODECS = {"lz4_raw": "lz4", "uncompressed": "none"}
"""Parquet's codec names as Spark spells them -> pyarrow's, where they differ. pyarrow's ``lz4`` is LZ4_RAW in files."""

_DICTIONARY = "parquet.enable.dictionary"
_BLOOM = "parquet.bloom.filter.enabled"
_DISTINCT = "parquet.bloom.filter.expected.ndv"
_FALSE_POSITIVES = "parquet.bloom.filter.fpp"
_ENCODING = "txlog.parquet.encoding"

_FALSE_POSITIVES_USUAL = 0.01
"""parquet-java's."""

_INTEGER_DIGITS = 18
"""The digits of the longest decimal that data files store as an integer."""
_NUMBERS = tuple(Primitive(name) for name, facts in PRIMITIVES.items() if facts.stored.startswith("i"))


def checked_settings(given: Mapping[str, object] | None) -> dict[str, str]:
    """The settings that a caller passes for one write, by the names of properties. Raises InvalidInputError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise invalid(argument("parquet"), given, 'a mapping, as in {"parquet.page.size": 65536}')
    for key in given:
        if not str(key).lower().startswith((PARQUET, PREFIX + PARQUET)):
            raise _no_setting(key)
    checked = validate({key: repr(value) if isinstance(value, float) else value for key, value in given.items()})
    for key in checked:
        if not is_parquet_setting(key):
            raise _no_setting(key)
    return checked


def _no_setting(key: object) -> InvalidInputError:
    return InvalidInputError(
        f"{argument('parquet')} has {key!r}, which is not a setting of data files: there are {', '.join(_NAMES)}"
    )


_NAMES = (
    CODEC,
    "parquet.compression.codec.<codec>.level",
    "parquet.block.size",
    "parquet.block.row.count.limit",
    "parquet.page.size",
    "parquet.page.row.count.limit",
    "parquet.dictionary.page.size",
    f"{_DICTIONARY}[#column]",
    f"{_BLOOM}[#column]",
    f"{_DISTINCT}#column",
    f"{_FALSE_POSITIVES}#column",
    f"{_ENCODING}#column",
)


def settings_of(metadata: Metadata, schema: Struct, given: Mapping[str, str]) -> ParquetSettings:
    """The settings of a table, and of one write, ``given`` by the names of properties, which win.

    Raises InvalidInputError for a ``given`` setting of a column that the files do not have, or that does not fit it.
    Such properties of the table, which another engine may have set, are ignored.
    """
    check_columns(given, schema, metadata.partition_columns)
    configuration = with_parquet_settings(metadata.configuration, given)
    values = parquet_values(configuration)
    by_delta = parquet_values({CODEC: configuration.get(CODEC_KEY, "")})
    codec = (by_delta or values).get((CODEC, ""), "snappy")
    return ParquetSettings(
        codec=_CODECS.get(codec, codec),
        level=values.get((f"parquet.compression.codec.{codec}.level", "")),
        row_group_bytes=values.get(("parquet.block.size", "")),
        row_group_rows=values.get(("parquet.block.row.count.limit", "")),
        page_bytes=values.get(("parquet.page.size", "")),
        page_rows=values.get(("parquet.page.row.count.limit", "")),
        dictionary_page_bytes=values.get(("parquet.dictionary.page.size", "")),
        dictionary=values.get((_DICTIONARY, "")),
        bloom_filters=values.get((_BLOOM, ""), False),
        columns=tuple(_of_columns(values)),
    )


def _of_columns(values: Mapping[tuple[str, str], Any]) -> Iterator[ColumnSettings]:
    by_column: dict[str, dict[str, Any]] = {}
    for (name, column), value in values.items():
        if column:
            by_column.setdefault(fold_name(column), {})[name] = value
    for column, found in sorted(by_column.items()):
        yield ColumnSettings(
            column=column,
            dictionary=found.get(_DICTIONARY),
            bloom_filter=found.get(_BLOOM, True if _DISTINCT in found else None),
            distinct_values=found.get(_DISTINCT),
            false_positives=found.get(_FALSE_POSITIVES),
            encoding=found.get(_ENCODING),
        )


def check_columns(keys: Iterable[str], schema: Struct, partition_columns: Iterable[str]) -> None:
    """Raise InvalidInputError if a setting names a column that the data files lack, or an encoding does not fit it.

    ``keys`` are the names of settings; a mapping has their values too, without which encodings are not checked.
    """
    leaves: list[_ValueColumn] | None = None
    for key in keys:
        name, mark, column = key.partition(COLUMN_MARK)
        if not mark or not is_parquet_setting(key):
            continue
        if leaves is None:
            leaves = list(_leaves(schema.without(tuple(partition_columns))))
        named = [leaf for leaf in leaves if leaf.is_in(fold_name(column))]
        if not named:
            names = ", ".join(schema.without(tuple(partition_columns)).names)
            raise InvalidInputError(f"{key} names {column!r}, which is not a data column of the table ({names})")
        if name == _ENCODING and isinstance(keys, Mapping):
            for leaf in named:
                if keys[key] not in _encodings_of(leaf.type):
                    raise InvalidInputError(
                        f"{key} is {keys[key]}, which does not fit {leaf.path}, of type {type_name(leaf.type)}:"
                        f" {' or '.join(_encodings_of(leaf.type))} does"
                    )


# --- what pyarrow takes -------------------------------------------------------------------------------------------


def writer_options(settings: ParquetSettings, schema: Struct) -> WriterOptions:
    """The settings as arguments for files with these columns."""
    arguments: dict[str, Any] = {
        name: value
        for name, value in (
            ("compression_level", settings.level),
            ("data_page_size", settings.page_bytes),
            ("dictionary_pagesize_limit", settings.dictionary_page_bytes),
            ("max_rows_per_page", settings.page_rows),
        )
        if value is not None
    }
    dictionary: dict[str, bool] = {}
    filters: dict[str, dict[str, Any]] = {}
    encodings: dict[str, str] = {}
    for leaf in _leaves(schema) if settings.has_columns else ():
        is_boolean = leaf.type == BOOLEAN  # two values need neither, and pyarrow refuses a filter
        own = _merged([each for each in settings.columns if leaf.is_in(each.column)])
        encoding = own.encoding if own.encoding in _encodings_of(leaf.type) else None
        has_dictionary = settings.dictionary if own.dictionary is None else own.dictionary
        if encoding is not None:
            encodings[leaf.in_file] = encoding
            has_dictionary = False
        if has_dictionary is not None and not is_boolean:
            dictionary[leaf.in_file] = has_dictionary
        if not is_boolean and (settings.bloom_filters if own.bloom_filter is None else own.bloom_filter):
            filters[leaf.in_file] = {
                "fpp": own.false_positives or _FALSE_POSITIVES_USUAL,
                **({} if own.distinct_values is None else {"ndv": own.distinct_values}),
            }
    if encodings:
        arguments["column_encoding"] = encodings
    return _writable(arguments, dictionary, filters)


def _writable(
    arguments: dict[str, Any], dictionary: dict[str, bool], filters: dict[str, dict[str, Any]]
) -> WriterOptions:
    """The same without what the installed pyarrow cannot write: files without it are as right, and only slower."""
    from txlog.core.format.arrow.parquet import pq

    known = inspect.signature(pq.ParquetWriter.__init__).parameters
    for name, what in (("max_rows_per_page", "parquet.page.row.count.limit"), ("bloom_filter_options", _BLOOM)):
        if name not in known and (name in arguments or (filters and what == _BLOOM)):
            logger.warning("pyarrow %s does not write %s: install a newer one", pa.__version__, what)
            arguments.pop(name, None)
            filters = {} if what == _BLOOM else filters
    return WriterOptions(arguments, dictionary, filters)


def _merged(found: list[ColumnSettings]) -> ColumnSettings:
    """What the settings of a column and of the fields in it say together; the longest path wins."""
    merged: dict[str, Any] = {}
    for each in sorted(found, key=lambda settings: len(settings.column)):
        merged.update({name: value for name in each.__struct_fields__ if (value := getattr(each, name)) is not None})
    return ColumnSettings(**{"column": "", **merged})


# --- columns of files ---------------------------------------------------------------------------------------------


class _ValueColumn(msgspec.Struct, frozen=True):
    """A column that holds values: ``path`` has the table's names, as Delta and as Parquet write them (``element`` and
    ``list.element``), in lower case; ``in_file`` has the names of the file."""

    path: str
    parquet_path: str
    in_file: str
    type: DataType

    def is_in(self, column: str) -> bool:
        return any(path == column or path.startswith(f"{column}.") for path in (self.path, self.parquet_path))


def _leaves(schema: Struct) -> Iterator[_ValueColumn]:
    for member in schema.fields:
        if member.type != VOID:
            name = fold_name(member.name)
            yield from _below(name, name, physical_name(member), member.type)


def _below(path: str, parquet_path: str, in_file: str, data_type: DataType) -> Iterator[_ValueColumn]:
    match data_type:
        case Struct():
            for leaf in _leaves(data_type):
                yield _ValueColumn(
                    f"{path}.{leaf.path}", f"{parquet_path}.{leaf.parquet_path}", f"{in_file}.{leaf.in_file}", leaf.type
                )
        case Array():
            yield from _below(
                f"{path}.element", f"{parquet_path}.list.element", f"{in_file}.list.element", data_type.element
            )
        case Map():
            for part, inner in (("key", data_type.key), ("value", data_type.value)):
                yield from _below(
                    f"{path}.{part}", f"{parquet_path}.key_value.{part}", f"{in_file}.key_value.{part}", inner
                )
        case _:
            yield _ValueColumn(path, parquet_path, in_file, data_type)


def _encodings_of(data_type: DataType) -> tuple[str, ...]:
    """The encodings that fit how values of a type are stored."""
    if data_type in _NUMBERS or (isinstance(data_type, Decimal) and data_type.precision <= _INTEGER_DIGITS):
        return ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")
    if data_type in (FLOAT, DOUBLE):
        return ("PLAIN", "BYTE_STREAM_SPLIT")
    if data_type in (STRING, BINARY):
        return ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
    if isinstance(data_type, Decimal):
        return ("PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT")
    return ("PLAIN",)
