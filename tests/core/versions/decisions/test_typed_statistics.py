"""Statistics between two checkpoints: what one has typed stands typed in the next, and only new text is parsed."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import adds_to_batch
from txlog.core.format.schema import LONG, STRING, Primitive
from txlog.core.format.stats_struct import statistics_type
from txlog.core.versions.decisions.typed_statistics import with_typed_statistics

ID, NAME, NESTED = (("id",), LONG), (("name",), STRING), (("s", "x"), Primitive("date"))
KIND = statistics_type([ID, NAME, NESTED])
TEXT = {"numRecords": 9, "minValues": {"id": 1, "name": "a", "s": {"x": "2024-01-02"}}, "nullCount": {"id": 0}}
SAYS_OTHERWISE = {
    "numRecords": 7,
    "minValues": {"id": 5, "name": None, "s": None},
    "maxValues": None,
    "nullCount": None,
}


def typed(texts: list[Any], parsed: pa.Array | None, kind: pa.StructType = KIND) -> list[Any]:
    files = [
        AddFile(f"f{n}", {}, 1, 2, True, None if text is None else orjson.dumps(text).decode())
        for n, text in enumerate(texts)
    ]
    found = with_typed_statistics(adds_to_batch(files), parsed, kind)
    assert found.schema.names[-1] == "stats_parsed"
    assert found.column("path").to_pylist() == [file.path for file in files]
    column = found.column("stats_parsed")
    assert column.type == kind
    column.validate(full=True)
    return [
        None if row is None else (row["numRecords"], row["minValues"] and row["minValues"]["id"])
        for row in column.to_pylist()
    ]


def test_what_is_typed_already_is_carried_and_its_text_not_looked_at() -> None:
    assert typed([TEXT, "no object"], pa.array([SAYS_OTHERWISE] * 2, KIND)) == [(7, 5)] * 2


def test_what_is_not_typed_is_parsed() -> None:
    assert typed([TEXT, None], None) == [(9, 1), None]


def test_what_another_writer_typed_as_no_struct_is_parsed_from_the_text() -> None:
    assert typed([TEXT, None], pa.array(["", "x"])) == [(9, 1), None]


def test_of_some_files_without_typed_statistics_the_text_is_parsed_and_the_others_keep_theirs() -> None:
    parsed = pa.array([None, SAYS_OTHERWISE, None, None, SAYS_OTHERWISE], KIND)
    assert typed([TEXT, TEXT, None, TEXT, None], parsed) == [(9, 1), (7, 5), None, (9, 1), (7, 5)]


def test_a_part_of_a_column_is_carried_as_the_rows_it_is() -> None:
    parsed = pa.array([None, SAYS_OTHERWISE, None], KIND)
    assert typed([TEXT, TEXT], parsed.slice(1)) == [(7, 5), (9, 1)]


def test_columns_in_another_order_among_others_are_carried() -> None:
    theirs = statistics_type([(("other",), LONG), NESTED, NAME, ID])
    theirs = pa.struct([field for field in reversed(list(theirs)) if field.name != "tightBounds"])
    row = {**SAYS_OTHERWISE, "minValues": {"id": 5, "other": 3, "name": "n", "s": None}}
    assert typed([TEXT, TEXT], pa.array([row, None], theirs)) == [(7, 5), (9, 1)]


@pytest.mark.parametrize(
    "theirs",
    [
        statistics_type([ID, NAME]),
        statistics_type([(("id",), Primitive("integer")), NAME, NESTED]),
        statistics_type([ID, NAME, (("s",), LONG)]),
        pa.struct([("numRecords", pa.int64())]),
        pa.struct([("numRecords", pa.int64()), ("minValues", pa.int64())]),
    ],
    ids=["a column fewer", "a narrower type", "no struct", "no bounds", "no tree"],
)
def test_what_lacks_a_column_or_has_it_in_another_type_is_parsed_from_text(theirs: pa.StructType) -> None:
    assert typed([TEXT], pa.array([{"numRecords": 7}], theirs)) == [(9, 1)]
