"""Tables that are clustered from the start, or from some version on, as Spark's CLUSTER BY makes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of
from txlog.core.versions.decisions.state import TableState
from txlog.errors import ConflictError, InvalidInputError, SchemaMismatchError

COLUMNS = (
    "id bigint, day date, place struct<city: string, at: struct<x: double>>, `a.b` int, flag boolean, tags array<int>"
)
ROWS = pa.table({"id": range(100), "x": [(7 * n) % 100 for n in range(100)]})


def state_of(table: txlog.Table) -> TableState:
    return table._open_table.log.newest_state()


def stored(table: txlog.Table) -> list[list[str]]:
    """The columns in the log, by the names that they have in files."""
    found: list[list[str]] = json.loads(state_of(table).domains["delta.clustering"].configuration)["clusteringColumns"]
    return found


def adds(table: txlog.Table) -> list[AddFile]:
    return add_files_of(table._open_table.log.files(state_of(table)))


def test_a_clustered_table_has_the_features_and_the_domain_of_the_protocol(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, COLUMNS, cluster_by=["id", "PLACE.at.x", "a.b"])
    protocol = table.snapshot().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 7)
    assert {"clustering", "domainMetadata"} <= {*(protocol.writer_features or ())}
    domain = state_of(table).domains["delta.clustering"]
    assert json.loads(domain.configuration) == {
        "clusteringColumns": [["id"], ["place", "at", "x"], ["a.b"]],
        "domainName": "delta.clustering",
    }
    assert table.snapshot().clustering_columns == ("id", "place.at.x", "`a.b`")
    (created,) = table.history()
    assert json.loads(created["operationParameters"]["clusterBy"]) == ["id", "place.at.x", "`a.b`"]
    assert table.verify().is_sound


def test_the_columns_are_stored_by_their_physical_names(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    table = txlog.Table.create(tmp_path, COLUMNS, properties=mapped, cluster_by="day, place.city")
    (day,), (place, city) = stored(table)
    assert all(name.startswith("col-") for name in (day, place, city))
    assert table.snapshot().clustering_columns == ("day", "place.city")
    assert table.snapshot().protocol.min_reader_version == 2


def test_optimize_clusters_the_rows_of_a_table_that_was_created_so(tmp_path: Path) -> None:
    txlog.write(tmp_path, ROWS, cluster_by="x")
    table = txlog.Table.open(tmp_path)
    assert (table.version, table.count()) == (0, 100)
    table.append(ROWS)
    table.optimize()
    (found,) = adds(table)
    assert (found.clustering_provider, (found.tags or {})["ZCUBE_ZORDER_BY"]) == ("liquid", '["x"]')
    assert pa.table(table)["x"].to_pylist() == sorted([*ROWS["x"].to_pylist()] * 2)


@pytest.mark.parametrize(
    ("cluster_by", "why"),
    [
        (["none"], "there is no column none to cluster by"),
        (["place"], "names place, a struct"),
        (["tags"], "names tags, a array"),
        (["flag"], "names flag, a boolean"),
        (["id.x"], "there is no column id.x to cluster by"),
        (["id", "ID"], "a column twice"),
        (["id", "day", "a.b", "place.city", "place.at.x"], "at most 4 columns, not 5"),
        ("id,,day", "Invalid cluster_by 'id,,day': expected column names"),
        (7, "Invalid cluster_by 7: expected a list of names"),
    ],
)
def test_columns_that_no_table_can_be_clustered_by_are_refused(tmp_path: Path, cluster_by: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        txlog.Table.create(tmp_path, COLUMNS, cluster_by=cluster_by)
    assert not txlog.Table.exists(tmp_path)


def test_a_column_without_statistics_is_refused(tmp_path: Path) -> None:
    wide = ", ".join(f"c{n} int" for n in range(40))
    with pytest.raises(InvalidInputError, match=r"names c32, .* only the first 32 columns do"):
        txlog.Table.create(tmp_path / "t", wide, cluster_by="c32")
    assert txlog.Table.create(tmp_path / "t", wide, cluster_by="c31").snapshot().clustering_columns == ("c31",)
    named = {"delta.dataSkippingStatsColumns": "c39"}
    assert txlog.Table.create(tmp_path / "u", wide, properties=named, cluster_by="c39").version == 0
    with pytest.raises(InvalidInputError, match=r"delta\.dataSkippingStatsColumns leaves out"):
        txlog.Table.create(tmp_path / "v", wide, properties=named, cluster_by="c0")


def test_a_table_cannot_be_both_partitioned_and_clustered(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="either partitioned or clustered"):
        txlog.Table.create(tmp_path, COLUMNS, "day", cluster_by="id")
    table = txlog.Table.create(tmp_path, COLUMNS, "day")
    with pytest.raises(InvalidInputError, match="partitioned by day, so it cannot be clustered"):
        table.cluster_by("id")


def test_exist_ok_refuses_a_table_with_other_clustering_columns(tmp_path: Path) -> None:
    txlog.Table.create(tmp_path, COLUMNS, cluster_by=["id", "day"])
    assert txlog.Table.create(tmp_path, COLUMNS, exist_ok=True).version == 0
    assert txlog.Table.create(tmp_path, COLUMNS, cluster_by="ID,day", exist_ok=True).version == 0
    with pytest.raises(
        SchemaMismatchError, match=r"clustered by id, day, and you asked for one that is clustered by day"
    ):
        txlog.Table.create(tmp_path, COLUMNS, cluster_by="day", exist_ok=True)


def test_writes_to_a_table_may_name_its_clustering_and_no_other(tmp_path: Path) -> None:
    for _ in range(2):
        txlog.write(tmp_path / "t", ROWS, cluster_by=["x", "id"])
    with pytest.raises(
        InvalidInputError, match=r"is clustered by x, id, and cluster_by asks for one .* clustered by id"
    ):
        txlog.write(tmp_path / "t", ROWS, cluster_by=["id"])
    txlog.write(tmp_path / "u", ROWS)
    with pytest.raises(InvalidInputError, match="is not clustered"):
        txlog.write(tmp_path / "u", ROWS, cluster_by=["id"])


@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_an_overwrite_of_the_schema_keeps_the_clustering_by_the_names_of_the_columns(
    tmp_path: Path, mapping: str
) -> None:
    table = txlog.Table.create(
        tmp_path,
        "id bigint, place struct<city: string>",
        None,
        {"delta.columnMapping.mode": mapping},
        cluster_by=["place.city", "id"],
    )
    new = pa.table({"more": [1.5], "place": [{"zip": 7, "city": "a"}], "id": ["x"]})
    table.overwrite(new, schema_mode="overwrite")
    table = txlog.Table.open(tmp_path)
    assert table.snapshot().clustering_columns == ("place.city", "id")
    assert table.optimize().files_added == 1
    assert {each.clustering_provider for each in adds(table)} == {"liquid"}
    assert table.to_arrow().equals(new)
    with pytest.raises(InvalidInputError, match=r"clustered .* by id, a column that would be dropped"):
        table.overwrite(new.drop_columns("id"), schema_mode="overwrite")
    with pytest.raises(InvalidInputError, match=r"clustered .* by place\.city, a column that would be .* without"):
        table.set_properties({"delta.dataSkippingNumIndexedCols": "1"})
    assert table.verify().findings == ()


def test_a_table_can_be_clustered_by_other_columns_and_by_none(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(ROWS)
    table.append(ROWS)
    assert table.cluster_by("x").version == 2
    assert "clustering" in (table.snapshot().protocol.writer_features or ())
    assert table.cluster_by(["x"]).version == 2, "nothing to commit"
    table.optimize()
    assert adds(table)[0].clustering_provider == "liquid"
    table.cluster_by(["id", "x"], user_metadata="why")
    newest = table.history(1)[0]
    assert (newest["operation"], newest["userMetadata"]) == ("CLUSTER BY", "why")
    assert newest["operationParameters"] == {"oldClusteringColumns": "x", "newClusteringColumns": "id,x"}
    assert table.optimize().files_removed == 1
    table.cluster_by(None)
    assert (table.snapshot().clustering_columns, stored(table)) == ((), [])
    assert table.cluster_by(()).version == table.version
    table.append(ROWS)
    assert table.optimize().files_added == 1
    assert table.verify().is_sound


def test_two_concurrent_changes_of_the_clustering_conflict(
    make_table: Callable[..., txlog.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(ROWS)
    table.cluster_by("id")
    before = state_of(table)
    txlog.Table.open(table.uri).cluster_by("x")
    with monkeypatch.context() as patch:
        patch.setattr(table._open_table.log, "newest_state", lambda: before)  # the moment before the other's commit
        with pytest.raises(ConflictError, match=r"delta\.clustering"):
            table.cluster_by(["x", "id"])
    assert table.snapshot().clustering_columns == ("x",)


def test_cluster_by_replaces_an_invalid_clustering_domain(tmp_path: Path) -> None:
    txlog.Table.create(tmp_path, COLUMNS, cluster_by="id")
    path = tmp_path / "_delta_log" / f"{0:020}.json"
    path.write_text(path.read_text().replace('[[\\"id\\"]]', '[[\\"gone\\"]]'))
    for checksum in path.parent.glob("*.crc"):
        checksum.unlink()
    broken = txlog.Table.open(tmp_path)
    with pytest.raises(txlog.TxlogError, match=r"table\.cluster_by"):
        broken.append(pa.table({"id": [1]}))
    broken.cluster_by("day")
    broken.append(pa.table({"id": [1]}))
    assert broken.snapshot().clustering_columns == ("day",)
