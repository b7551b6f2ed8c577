"""Partition values in the directories of a path, ``day=2026-11-20/city=S%C3%A3o/``, as Hive and Spark name them.

In: paths below a table's root, as the store has them. Out: the columns and texts in them, and types that fit. Delta
itself never reads directories: this is for files that other programs wrote. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from urllib.parse import unquote

from txlog.core.format.partition_values import decode
from txlog.core.format.paths import HIVE_NULL
from txlog.core.format.schema import DATE, INTEGER, LONG, STRING, DataType, Struct, fold_name
from txlog.core.util import pattern
from txlog.errors import CorruptLogError, InvalidInputError, TxlogError

_WHOLE = pattern(r"0|-?[1-9][0-9]{0,18}")
_DATE = pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def directories_of(path: str, names: Sequence[str] = ()) -> dict[str, str | None]:
    """The ``k=v`` directories above a file, in order: column -> text, None for null (and for no text, as in Delta).

    With ``names``, the directories are bare values, as in ``2024/01``: one for each of these columns.
    Raises InvalidInputError with the path if two of them name one column.
    """
    segments = path.split("/")[:-1]
    if names:
        return {name: None if text == HIVE_NULL else text for name, text in zip(names, segments, strict=True)}
    found: dict[str, str | None] = {}
    for segment in segments:
        key, equals, value = segment.partition("=")
        if equals:
            name = unquote(key)
            if fold_name(name) in map(fold_name, found):
                raise InvalidInputError(f"two directories above {path!r} name the partition column {name!r}", path=path)
            found[name] = None if value == HIVE_NULL else unquote(value) or None
    return found


def type_of_texts(texts: Iterable[str | None]) -> DataType:
    """The type of a partition column that has these values: int, bigint or date if all of them are written as such
    values always are, otherwise string."""
    known = [text for text in texts if text]
    if known and all(map(_WHOLE.fullmatch, known)):
        numbers = [int(text) for text in known]
        for data_type, bits in ((INTEGER, 31), (LONG, 63)):
            if all(-(1 << bits) <= number < 1 << bits for number in numbers):
                return data_type
    if known and all(map(_is_date, known)):
        return DATE
    return STRING


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and decode(text, DATE) is not None
    except CorruptLogError:
        return False


def values_in_path(
    path: str, schema: Struct, partition_columns: Collection[str], uri: str, names: Sequence[str] = ()
) -> dict[str, str | None]:
    """The values in the directories of a file, which must name every partition column and parse as its type.

    ``names`` are as for `directories_of`. Raises InvalidInputError with the table ``uri`` and the path.
    """
    with TxlogError.located(uri):
        named = {fold_name(key): text for key, text in directories_of(path, names).items()}
    values: dict[str, str | None] = {}
    for column in partition_columns:
        field = schema.find(column)
        if field is None or fold_name(column) not in named:
            raise InvalidInputError(
                f"the path has no value for partition column {column!r}: expected a directory like {column}=...",
                table=uri,
                path=path,
            )
        values[column] = named[fold_name(column)]
        try:
            decode(values[column], field.type, column=column)
        except CorruptLogError as error:
            raise InvalidInputError(error.message, table=uri, path=path) from error
        if values[column] is None and not field.nullable:
            raise InvalidInputError(
                f"partition column {column} is NOT NULL, but the path has null", table=uri, path=path
            )
    return values
