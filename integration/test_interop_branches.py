"""Branches, opened by other engines: each does what docs/branches.md says of it, and none shows other rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError, TableNotFoundError
from rows import read_by_deltalake
from servers import S3Location

import txlog

PAGE = Path(__file__).parent.parent / "docs" / "branches.md"
VECTORS = {"delta.enableDeletionVectors": "true"}
Read = Callable[[str, dict[str, str] | None], list[int]]


def rows_of(*ids: int, odd: str = "a b%") -> pa.Table:
    return pa.table({"id": list(ids), "p": [odd if n % 2 else "ü" for n in ids]})


@pytest.fixture(params=["disk", pytest.param("bucket", marks=pytest.mark.hunt(part="branches"))])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> S3Location:
    if request.param == "bucket":
        found: S3Location = request.getfixturevalue("s3_location")
        return S3Location(found.uri.replace("a table", "t"), found.storage_options)
    return S3Location(f"{tmp_path}/t", {})


def branch_of(place: S3Location, properties: dict[str, str]) -> txlog.Table:
    """A branch with rows 0 to 5 of its table and row 6 of its own; if the table has deletion vectors, without row 3."""
    options = place.storage_options
    table = txlog.Table.create(place.uri, "id bigint, p string", ["p"], properties, storage_options=options)
    table.append(rows_of(*range(6), odd="a%" if options else "a b%"))  # Polars finds no key in a bucket with a space
    if properties:
        table.delete("id = 3")
    branch = table.branch("b")
    branch.append(rows_of(6))
    return branch


# --- the readers ------------------------------------------------------------------------------------------------------


def _opened(uri: str, options: dict[str, str] | None) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(uri, storage_options=options)


def _by_duckdb(uri: str, options: dict[str, str] | None, reader: str = "delta_scan") -> list[int]:
    connection = _duckdb()
    if options is not None:
        endpoint = options["endpoint_url"].partition("//")[2]
        connection.execute(
            f"create or replace secret (type s3, endpoint '{endpoint}', use_ssl false, url_style 'path',"
            f" region 'us-east-1', key_id '{options['access_key_id']}', secret '{options['secret_access_key']}')"
        )
    return [row[0] for row in connection.execute(f"select id from {reader}(?)", [uri]).fetchall()]


@cache
def _duckdb() -> Any:
    extensions = pytest.importorskip("duckdb_extensions", reason="NOT TESTED: DuckDB's Delta reader is not installed")
    connection = duckdb.connect()
    for name in ("icu", "avro", "httpfs", "delta", "iceberg"):
        extensions.import_extension(name)
        connection.load_extension(name)
    return connection


READERS: dict[str, Read] = {
    "QueryBuilder": lambda uri, options: read_by_deltalake(_opened(uri, options), "id")["id"].to_pylist(),
    "to_pyarrow_table": lambda uri, options: _opened(uri, options).to_pyarrow_table()["id"].to_pylist(),
    "to_pandas": lambda uri, options: _opened(uri, options).to_pandas()["id"].to_list(),
    "to_pyarrow_dataset": lambda uri, options: _opened(uri, options).to_pyarrow_dataset().to_table()["id"].to_pylist(),
    "scan_delta": lambda uri, options: pl.scan_delta(uri, storage_options=options).collect()["id"].to_list(),
    "read_delta": lambda uri, options: pl.read_delta(uri, storage_options=options)["id"].to_list(),
    "delta_scan": _by_duckdb,
}


def said() -> dict[str, str]:
    """What the page says of each of the calls."""
    section = PAGE.read_text().split("## Read a branch with other engines")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return {call: outcome.strip() for name, outcome, _ in cells for call in re.findall(r"`(\w+)`", name)}


def outcome(read: Read, place: S3Location, uri: str, expected: list[int]) -> str:
    try:
        found = sorted(read(uri, place.storage_options or None))
    except (FileNotFoundError, duckdb.Error):
        return "fails"
    return "reads" if found == expected else f"shows {found}"


def test_each_reader_does_with_a_branch_what_the_page_says(place: S3Location) -> None:
    branch = branch_of(place, {})
    assert {call: outcome(READERS[call], place, branch.uri, [*range(7)]) for call in READERS} == said()


@pytest.mark.hunt(part="clones")
def test_each_reader_does_the_same_with_a_shallow_clone(place: S3Location) -> None:
    branch = branch_of(place, {})
    branch.publish()
    table = txlog.Table.open(place.uri, storage_options=place.storage_options)
    clone = table.clone(f"{place.uri}-clone", shallow=True)
    assert {call: outcome(READERS[call], place, clone.uri, [*range(7)]) for call in READERS} == said()


def test_each_reader_reads_what_the_page_gives_it_instead(place: S3Location) -> None:
    branch = branch_of(place, VECTORS)
    left = [0, 1, 2, 4, 5, 6]
    rows = branch.to_dataset()
    assert _duckdb().register("rows", rows).sql("select id from rows order by id").fetchall() == [(n,) for n in left]
    assert branch.to_lazy().filter(pl.col("id") > 2).sort("id").collect()["id"].to_list() == left[3:]

    done = branch.export_iceberg()
    options = place.storage_options or None
    s3 = options and {
        "s3.endpoint": options["endpoint_url"],
        "s3.access-key-id": options["access_key_id"],
        "s3.secret-access-key": options["secret_access_key"],
        "s3.region": options["region"],
    }
    assert sorted(pl.scan_iceberg(done.metadata_location, storage_options=s3).collect()["id"].to_list()) == left
    assert sorted(_by_duckdb(done.metadata_location, options, "iceberg_scan")) == left

    copy = branch.clone(f"{place.uri}-copy")
    for call in ("QueryBuilder", "delta_scan"):
        assert outcome(READERS[call], place, copy.uri, left) == "reads"
    assert branch.publish().outcome == "committed"


def test_polars_and_pandas_read_a_copy_of_a_branch(tmp_path: Path) -> None:
    place = S3Location(str(tmp_path / "t"), {})
    copy = branch_of(place, {}).clone(tmp_path / "copy")
    for call in ("scan_delta", "to_pandas"):
        assert outcome(READERS[call], place, copy.uri, [*range(7)]) == "reads"


def test_deltalake_appends_to_a_branch_and_refuses_to_change_files_of_its_table(tmp_path: Path) -> None:
    branch = branch_of(S3Location(str(tmp_path / "t"), {}), {})
    there = deltalake.DeltaTable(branch.uri)
    with pytest.raises(DeltaError, match="Cannot infer storage location"):
        there.delete("id = 1")
    with pytest.raises(DeltaError, match="Cannot infer storage location"):
        there.update(updates={"id": "id + 100"}, predicate="id = 1")
    merge = there.merge(rows_of(1, 9), "t.id = s.id", source_alias="s", target_alias="t").when_matched_delete()
    with pytest.raises(TableNotFoundError, match="outside table root"):
        merge.execute()
    with pytest.raises(DeltaError, match="Cannot infer storage location"):
        there.optimize.compact()
    deltalake.write_deltalake(branch.uri, rows_of(7), mode="append")
    deltalake.DeltaTable(branch.uri).delete("p = 'ü'")
    assert sorted(branch.snapshot().to_arrow(["id"])["id"].to_pylist()) == [1, 3, 5, 7]
    branch.publish()
    assert sorted(txlog.Table.open(tmp_path / "t").to_arrow(["id"])["id"].to_pylist()) == [1, 3, 5, 7]
