"""Tables with features: rows and changes land in each, or are refused with the reason before they are answered."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

import txlog
from tests.serve.services import create
from tests.serve.test_http_door import ask, door

PLAIN = "id bigint, s string"


class Kind(NamedTuple):
    """A kind of table: how it is made, what its rows have beside ``id``, what they have there by then, and the reason
    for which it takes no changes, if it takes none."""

    columns: str = PLAIN
    how: Mapping[str, Any] = MappingProxyType({})
    line: Mapping[str, Any] = MappingProxyType({"s": "a"})
    there: Mapping[str, Any] | None = None
    refused: str | None = None


def of(**properties: str) -> dict[str, Any]:
    return {"properties": {name.replace("_", "."): value for name, value in properties.items()}}


IDENTITY = "n is an identity column, and merge-engine deduplicate replaces whole rows"
"""Where rows have kinds; a plain upsert keeps the numbers of rows that it replaces."""
KINDS = {
    "column mapping by name": Kind(how=of(delta_columnMapping_mode="name")),
    "column mapping by id": Kind("id bigint, `a b` string", of(delta_columnMapping_mode="id"), {"a b": "x"}),
    "deletion vectors": Kind(how=of(delta_enableDeletionVectors="true")),
    "a change data feed": Kind(how=of(delta_enableChangeDataFeed="true")),
    "row tracking": Kind(how=of(delta_enableRowTracking="true")),
    "times in commits": Kind(how=of(delta_enableInCommitTimestamps="true")),
    "a constraint": Kind(how=of(delta_constraints_positive="id > 0")),
    "partitions": Kind(how={"partition_by": "s"}),
    "clusters": Kind(how={"cluster_by": "id"}),
    "a merge engine": Kind(
        how={"properties": {"txlog.merge-engine": "partial-update"}}, refused="which merge-engine partial-update cannot"
    ),
    "generated columns": Kind("id bigint, ten bigint generated always as (id - id + 10)", line={}, there={"ten": 10}),
    "defaults": Kind(
        "id bigint, s string default 'x'", line={}, there={"s": "x"}, refused="lacks s: an upsert replaces whole rows"
    ),
    "nested columns": Kind("id bigint, s struct<a: int, b: array<string>>", line={"s": {"a": 1, "b": ["x"]}}),
    "times": Kind(
        "id bigint, d date, t timestamp_ntz",
        line={"d": "2024-02-29", "t": "2024-02-29T12:00:00.5"},
        there={"d": dt.date(2024, 2, 29), "t": dt.datetime(2024, 2, 29, 12, 0, 0, 500_000)},
    ),
    "appends only": Kind(how=of(delta_appendOnly="true"), refused="the table is append-only"),
}


def lines(line: Mapping[str, Any], *ids: int, **more: Any) -> bytes:
    return b"\n".join(json.dumps({"id": number, **line, **more}).encode() for number in ids)


@pytest.mark.parametrize("name", KINDS)
def test_rows_and_changes_land_or_are_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    table = create(tmp_path, columns=kind.columns, **kind.how)
    there = kind.line if kind.there is None else kind.there
    with door(tmp_path, journal=tmp_path / "journal") as (http_door, service):
        assert ask(http_door, "/tables/events/rows?answer=durable", lines(kind.line, 1)).status == 202
        assert ask(http_door, "/tables/events/rows", lines(kind.line, 2)).status == 200
        changes = "/tables/events/rows?answer=durable&mode=upsert&keys=id&row_kind=op"
        changed = ask(http_door, changes, lines(kind.line, 1, op="u") + b"\n" + lines(kind.line, 2, op="d"))
        assert changed.status == (202 if kind.refused is None else 422), changed.said
        assert kind.refused is None or kind.refused in changed.said["message"]
        service.close()
        assert service.health()["refused_files"] == 0
    left = (1,) if kind.refused is None else (1, 2)
    rows = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": number, **there} for number in left]


def test_numbers_of_an_identity_column_are_given_and_changes_that_would_replace_them_are_refused(
    tmp_path: Path,
) -> None:
    table = create(tmp_path, columns="id bigint, n bigint generated always as identity")
    with door(tmp_path, journal=tmp_path / "journal") as (http_door, _):
        for number in (1, 2):
            assert ask(http_door, "/tables/events/rows", lines({}, number)).status == 200
        upsert = "/tables/events/rows?answer=durable&mode=upsert&keys=id"
        assert ask(http_door, upsert, lines({}, 2, 3)).status == 202
        refused = ask(http_door, f"{upsert}&row_kind=op", lines({}, 1, op="u"))
        assert (refused.status, IDENTITY in refused.said["message"]) == (422, True)
    rows = table.to_arrow().to_pylist()
    assert sorted(row["id"] for row in rows) == [1, 2, 3]
    assert len({row["n"] for row in rows}) == 3


def test_changes_that_lack_columns_are_for_a_merge_engine_that_keeps_them(tmp_path: Path) -> None:
    properties = {"txlog.merge-engine": "partial-update", "txlog.partial-update.remove-record-on-delete": "true"}
    table = create(tmp_path, columns="id bigint, s string, n bigint", properties=properties)
    table.append(pa.table({"id": [1, 2], "s": ["a", "b"], "n": [1, 2]}))
    with door(tmp_path, journal=tmp_path / "journal") as (http_door, _):
        changes = "/tables/events/rows?answer=durable&mode=upsert&keys=id&row_kind=op"
        body = lines({"s": "x"}, 1, op="u") + b"\n" + lines({"s": None}, 2, op="d")
        assert ask(http_door, changes, body).status == 202
    assert table.to_arrow().to_pylist() == [{"id": 1, "s": "x", "n": 1}]


def test_json_and_arrow_rows_become_variants(tmp_path: Path) -> None:
    table = create(tmp_path, columns="id bigint, v variant")
    with door(tmp_path) as (http_door, _):
        assert ask(http_door, "/tables/events/rows", lines({"v": {"a": [1, None]}}, 1)).status == 200
        changes = "/tables/events/rows?mode=upsert&keys=id"
        assert ask(http_door, changes, lines({"v": "text"}, 1)).status == 200
        assert ask(http_door, "/tables/events/rows", lines({"v": 2.5}, 2)).status == 200
    files = [f"{table.uri}/{file}" for file in table.snapshot().files()["path"].to_pylist()]
    found = duckdb.sql(f"select id, v::varchar from read_parquet({files}) order by id").fetchall()
    assert found == [(1, "text"), (2, "2.5")]


def test_a_map_is_taken_from_arrow_and_refused_from_json(tmp_path: Path) -> None:
    from tests.serve.test_http_door import ARROW, arrow

    table = create(tmp_path, columns="id bigint, m map<string, int>")
    rows = pa.record_batch({"id": [1], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32()))})
    with door(tmp_path) as (http_door, _):
        assert ask(http_door, "/tables/events/rows", arrow(rows), ARROW).status == 200
        refused = ask(http_door, "/tables/events/rows", lines({"m": {"k": 1}}, 2))
        assert (refused.status, "has a map" in refused.said["message"]) == (422, True)
    assert table.to_arrow().to_pylist() == [{"id": 1, "m": [("k", 1)]}]


def test_a_branch_is_a_table_of_its_own_name_and_its_rows_stay_there(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.branch("dev")
    with door(tmp_path) as (http_door, _):
        for path in ("/tables/events@dev/rows", "/tables/events%40dev/rows?stream=x&batch=0"):
            assert ask(http_door, path, lines({"s": "a"}, 1)).status == 200
        assert ask(http_door, "/tables/events@other/rows", lines({"s": "a"}, 1)).status == 404
    assert txlog.Table.open(f"{table.uri}@dev").to_arrow().num_rows == 2
    assert table.to_arrow().num_rows == 0
