"""Tables that are clustered by definition (`CLUSTER BY` in Spark): written to, and clustered by `Table.optimize()`."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import txlog
from txlog.audit.verify import verify_table
from txlog.core.format.actions import AddFile
from txlog.errors import CorruptLogError, InvalidInputError

ROWS = 5_000


def points(seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    x, y = chance.integers(0, 1000, ROWS), chance.integers(0, 1000, ROWS)
    return pa.table({"id": np.arange(ROWS) + seed * ROWS, "x": x, "in": [{"y": value} for value in y]})


def commit(path: Path, *actions: dict[str, Any]) -> None:
    version = txlog.Table.open(path).version + 1
    reported = {"commitInfo": {"timestamp": 1, "operation": "CLUSTER BY", "txnId": str(uuid.uuid4())}}
    lines = "".join(f"{json.dumps(action)}\n" for action in (reported, *actions))
    (path / "_delta_log" / f"{version:020}.json").write_text(lines)


def cluster_by(path: Path, *columns: list[str]) -> None:
    stored = json.dumps({"clusteringColumns": columns, "domainName": "delta.clustering"})
    commit(path, {"domainMetadata": {"domain": "delta.clustering", "configuration": stored, "removed": False}})


def clustered(path: Path, *columns: list[str], files: int = 3, **properties: str) -> txlog.Table:
    properties = {"delta.feature.clustering": "supported", "delta.enableDeletionVectors": "true", **properties}
    table = txlog.Table.create(path, points(0).schema, properties=properties)
    cluster_by(path, *columns)
    for seed in range(files):
        table.append(points(seed))
    return table


def adds(table: txlog.Table) -> list[AddFile]:
    log = table._open_table.log
    from txlog.core.format.file_columns import add_files_of

    return add_files_of(log.files(log.newest_state()))


def test_optimize_clusters_by_the_columns_of_the_table_and_records_it_as_spark_does(tmp_path: Path) -> None:
    table = clustered(tmp_path, ["x"], ["in", "y"])
    before = table.to_arrow().sort_by("id")
    size = sum(add.size for add in adds(table))
    table.optimize(target_file_size=size // 8)
    assert table.to_arrow().sort_by("id").equals(before)
    found = adds(table)
    assert {add.clustering_provider for add in found} == {"liquid"}
    assert len({add.tags["ZCUBE_ID"] for add in found if add.tags}) == 1
    assert {add.tags["ZCUBE_ZORDER_BY"] for add in found if add.tags} == {'["x","in.y"]'}
    reported = table.history(1)[0]["operationParameters"]
    assert (json.loads(reported["clusterBy"]), json.loads(reported["zOrderBy"])) == (["x", "in.y"], [])
    files = table.snapshot().files
    assert max(files(where=box).num_rows for box in ("x < 100", "in.y > 900")) <= len(found) / 2
    assert verify_table(table._open_table.store).is_sound


def test_only_files_that_are_not_clustered_yet_are_clustered(tmp_path: Path) -> None:
    table = clustered(tmp_path, ["x"])
    target = sum(add.size for add in adds(table)) // 4
    table.optimize(target_file_size=target)
    done = {add.path for add in adds(table)}
    assert table.optimize(target_file_size=target).versions == ()
    table.append(points(9))
    assert table.optimize(target_file_size=target).files_removed == 1
    assert done < {add.path for add in adds(table)}


def test_small_clustered_files_are_joined_so_that_they_do_not_become_many(tmp_path: Path) -> None:
    table = clustered(tmp_path, ["x"])
    for seed in range(3, 6):
        table.optimize()
        table.append(points(seed))
    table.optimize()
    assert len(adds(table)) == 1


def test_other_columns_cluster_everything_again_and_files_of_another_provider_stay(tmp_path: Path) -> None:
    table = clustered(tmp_path, ["x"])
    table.optimize()
    (mine,) = adds(table)
    table.append(points(7))
    (theirs,) = (add for add in adds(table) if add.path != mine.path)
    commit(tmp_path, {"add": {**theirs.to_json(), "clusteringProvider": "somebody", "dataChange": False}})
    cluster_by(tmp_path, ["in", "y"])
    assert table.optimize().paths_removed == (mine.path,)
    assert theirs.path in {add.path for add in adds(table)}


def test_a_file_with_deleted_rows_keeps_its_clustering_tags(tmp_path: Path) -> None:
    table = clustered(tmp_path, ["x"])
    table.optimize()
    table.delete("id = 5")
    (found,) = adds(table)
    assert found.deletion_vector is not None
    assert (found.clustering_provider, (found.tags or {})["ZCUBE_ZORDER_BY"]) == ("liquid", '["x"]')
    assert table.optimize().versions == ()


def test_the_columns_are_found_by_their_physical_names(tmp_path: Path) -> None:
    table = txlog.Table.create(
        tmp_path,
        points(0).schema,
        properties={"delta.feature.clustering": "supported", "delta.columnMapping.mode": "name"},
    )
    field = json.loads(table._open_table.log.newest_state().metadata.schema_string)["fields"][1]
    cluster_by(tmp_path, [field["metadata"]["delta.columnMapping.physicalName"]])
    table.append(points(0))
    table.optimize()
    assert [(add.tags or {})["ZCUBE_ZORDER_BY"] for add in adds(table)] == ['["x"]']


def test_a_table_that_is_clustered_by_nothing_is_compacted(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    assert table.optimize().files_added == 1
    assert adds(table)[0].clustering_provider is None


def test_a_definition_without_statistics_of_the_columns_is_refused(tmp_path: Path) -> None:
    table = clustered(tmp_path, ["in", "y"])
    for change in (
        lambda: table.set_properties({"delta.dataSkippingNumIndexedCols": "2"}),
        lambda: table.overwrite(pa.table({"id": [1]}), schema_mode="overwrite"),
        lambda: table.overwrite(points(0), schema_mode="overwrite", partition_by=["x"]),
        lambda: table.optimize(zorder_by=["x"]),
    ):
        with pytest.raises(InvalidInputError, match="the table is clustered"):
            change()
    metadata = table._open_table.log.newest_state().metadata.to_json()
    metadata["configuration"] = {**metadata["configuration"], "delta.dataSkippingNumIndexedCols": "1"}
    commit(tmp_path, {"metaData": metadata})
    for write in (lambda: table.append(points(1)), table.optimize):
        with pytest.raises(InvalidInputError, match=r"clustered .* by in\.y"):
            write()


@pytest.mark.parametrize(
    "configuration", ["{", "{}", '{"clusteringColumns": ["x"]}', '{"clusteringColumns": [["gone"]]}']
)
def test_the_error_for_an_invalid_clustering_domain_says_what_to_do(tmp_path: Path, configuration: str) -> None:
    table = clustered(tmp_path, ["x"])
    domain = {"domain": "delta.clustering", "configuration": configuration, "removed": False}
    commit(tmp_path, {"domainMetadata": domain})
    with pytest.raises((CorruptLogError, InvalidInputError), match="CLUSTER BY"):
        table.optimize()
