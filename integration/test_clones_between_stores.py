"""Clones and loads between stores: a disk, folders of a server, and another process that reads a clone."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers import S3Location

import txlog
from txlog.audit.verify import verify_table
from txlog.core.store import open_store


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["a b%" if n % 2 else "ü" for n in ids]})


def ids(table: txlog.Table) -> list[int]:
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


def opened(location: S3Location) -> txlog.Table:
    return txlog.Table.open(location.uri, storage_options=location.storage_options)


@pytest.fixture
def source(s3_location: S3Location) -> txlog.Table:
    """Rows 0 to 9 without 3, in a bucket, with a deletion vector."""
    properties = {"delta.enableDeletionVectors": "true"}
    table = txlog.Table.create(
        f"{s3_location.uri}/the source",
        "id bigint, p string",
        ["p"],
        properties,
        storage_options=s3_location.storage_options,
    )
    table.append(rows_of(*range(10)))
    table.delete("id = 3")
    return table


LEFT = [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_clone_and_a_load_use_the_credentials_of_the_table(s3_location: S3Location) -> None:
    secret = ("access_key_id", "secret_access_key")
    options = {key: value for key, value in s3_location.storage_options.items() if key not in secret}
    given = {key: s3_location.storage_options[key] for key in secret}
    table = txlog.Table.create(
        f"{s3_location.uri}/source",
        rows_of(0).schema,
        storage_options=options,
        credential_provider=lambda: {**given, "expires_at": None},
    )
    table.append(rows_of(1, 2))
    assert table.clone(f"{s3_location.uri}/copy").files == 1
    body = pa.BufferOutputStream()
    pq.write_table(rows_of(3), body)
    open_store(f"{s3_location.uri}/in", s3_location.storage_options).files.write("3.parquet", body.getvalue())
    assert table.copy_into(f"{s3_location.uri}/in").rows == 1


def test_a_shallow_clone_on_a_disk_reads_a_bucket(source: txlog.Table, s3_location: S3Location, tmp_path: Path) -> None:
    source.clone(tmp_path / "c", shallow=True)
    clone = txlog.Table.open(tmp_path / "c", storage_options=s3_location.storage_options)
    assert ids(clone) == LEFT
    assert clone.snapshot().to_dataset().count_rows() == len(LEFT)
    clone.delete("id = 4")
    clone.upsert(rows_of(5, 50), ["id"])
    clone.optimize()
    clone.vacuum(0, force=True)
    assert ids(clone) == sorted({*LEFT, 50} - {4})
    assert ids(source) == LEFT
    assert not verify_table(clone._open_table.store).findings


def test_a_shallow_clone_in_the_same_server_reads_the_other_folder(
    source: txlog.Table, s3_location: S3Location
) -> None:
    place = replace(s3_location, uri=f"{s3_location.uri}/clone")
    done = source.clone(place.uri, shallow=True)
    assert done.bytes_copied == 0
    clone = opened(place)
    assert ids(clone) == LEFT
    clone.update({"id": txlog.expr("id + 100")}, "id = 4")
    clone.vacuum(0, force=True)
    assert (ids(clone), ids(source)) == ([0, 1, 2, 5, 6, 7, 8, 9, 104], LEFT)
    source.overwrite(rows_of(1))
    source.vacuum(0, force=True)
    with pytest.raises(txlog.TxlogError, match="shallow clone"):
        clone.to_arrow()


def test_a_deep_clone_goes_from_a_bucket_to_a_disk_and_back(
    source: txlog.Table, s3_location: S3Location, tmp_path: Path
) -> None:
    source.clone(tmp_path / "c")
    clone = txlog.Table.open(tmp_path / "c")
    assert ids(clone) == LEFT
    back = replace(s3_location, uri=f"{s3_location.uri}/back")
    clone.append(rows_of(11))
    clone.clone(back.uri, storage_options=s3_location.storage_options)
    assert ids(opened(back)) == [*LEFT, 11]
    source.append(rows_of(12))
    assert source.clone(tmp_path / "c", mode="replace").files_copied == 1
    assert ids(clone) == [*LEFT, 12]


def test_a_pickled_clone_reads_the_bucket_with_the_environment(
    source: txlog.Table, s3_location: S3Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.clone(tmp_path / "c", shallow=True)
    clone = txlog.Table.open(tmp_path / "c", storage_options=s3_location.storage_options)
    body = pickle.dumps(clone)
    assert not any(
        value.encode() in body for key, value in s3_location.storage_options.items() if "secret" in key.lower()
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_location.storage_options["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_location.storage_options["secret_access_key"])
    assert ids(pickle.loads(body)) == LEFT


def test_a_file_of_an_unknown_scheme_is_refused_by_name(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint")
    table.append(pa.table({"id": [1]}))
    log = tmp_path / "t/_delta_log/00000000000000000001.json"
    name = table.snapshot().files()["path"][0].as_py()
    log.write_text(log.read_text().replace(name, f"hdfs://host/t/{name}"))
    with pytest.raises(txlog.UnsupportedFeatureError, match="hdfs://host/t"):
        txlog.Table.open(tmp_path / "t").to_arrow()


def test_files_of_a_bucket_are_loaded_once_into_a_table_on_a_disk(s3_location: S3Location, tmp_path: Path) -> None:
    store = open_store(f"{s3_location.uri}/incoming", s3_location.storage_options)
    store.files.write("a b/1.csv", b"id,p\n1,x\n2,y\n")
    body = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [3], "p": ["z"]}), body)
    store.files.write("2.parquet", body.getvalue().to_pybytes())
    table = txlog.Table.create(tmp_path / "t", "id bigint, p string")
    done = table.copy_into(f"{s3_location.uri}/incoming", storage_options=s3_location.storage_options)
    assert (done.files, done.rows) == (("2.parquet", "a b/1.csv"), 3)
    assert ids(table) == [1, 2, 3]
    bucket = s3_location.uri.replace("s3://", "s3a://")
    assert table.copy_into(f"{bucket}/incoming", storage_options=s3_location.storage_options).files == ()


def test_a_folder_of_a_bucket_is_converted(s3_location: S3Location) -> None:
    place = replace(s3_location, uri=f"{s3_location.uri}/lake")
    store = open_store(place.uri, place.storage_options)
    for day in (1, 2):
        body = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [day]}), body)
        store.files.write(f"day={day}/f.parquet", body.getvalue().to_pybytes())
    assert txlog.Table.convert(place.uri, storage_options=place.storage_options).files == 2
    assert opened(place).to_arrow().sort_by("id").to_pylist() == [{"id": 1, "day": 1}, {"id": 2, "day": 2}]


def test_branches_in_a_bucket_are_listed_published_and_vacuumed(s3_location: S3Location, source: txlog.Table) -> None:
    options = {"storage_options": s3_location.storage_options}
    for name in ("a", "b-1", "b"):
        source.branch(name).append(rows_of(10))
    opened_by_name = txlog.Table.open(f"{source.uri}@b", **options)
    opened_by_name.delete("id = 4")
    txlog.Table.open(f"{source.uri}@a", **options).discard()
    source.append(rows_of(20))
    assert [(each.name, each.status) for each in source.branches()] == [
        ("a", "discarded"),
        ("b", "open"),
        ("b-1", "open"),
    ]
    opened_by_name.publish()
    assert ids(source) == [0, 1, 2, 5, 6, 7, 8, 9, 10, 20]
    source.vacuum(0, force=True)
    assert [each.name for each in source.branches()] == ["b-1"]
    assert ids(txlog.Table.open(f"{source.uri}@b-1", **options)) == [*LEFT, 10]
    assert ids(source) == [0, 1, 2, 5, 6, 7, 8, 9, 10, 20]
    assert not verify_table(open_store(source.uri, s3_location.storage_options)).findings


@pytest.mark.hunt(part="clones")
def test_a_branch_in_a_bucket_follows_its_table_and_takes_part_in_transactions(
    s3_location: S3Location, source: txlog.Table
) -> None:
    options = s3_location.storage_options
    other = txlog.Table.create(f"{s3_location.uri}/other", "id bigint", storage_options=options)
    branch = source.branch("b")
    branch.append(rows_of(10))
    branch.delete("id = 4")
    source.set_properties({"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"})
    source.rename_column("p", "q")
    source.append(rows_of(20).rename_columns(["id", "q"]))
    branch.rebase()
    with txlog.transaction([branch, other]) as txn:
        txn[branch].append(rows_of(11).rename_columns(["id", "q"]))
        txn[branch].delete("id = 5")
        txn[other].append(pa.table({"id": [5]}))
    wanted = [0, 1, 2, 6, 7, 8, 9, 10, 11, 20]
    seen = txlog.read_together([branch, other, source])
    assert [sorted(each.to_arrow(["id"])["id"].to_pylist()) for each in seen] == [wanted, [5], [*LEFT, 20]]
    source.append(rows_of(21).rename_columns(["id", "q"]))
    source.vacuum(0, force=True)
    assert ids(txlog.Table.open(f"{source.uri}@b", storage_options=options)) == wanted
    branch.rebase()
    branch.publish()
    again = txlog.Table.open(source.uri, storage_options=options)
    assert ids(again) == [*wanted, 21]
    assert again.verify().is_sound
    assert branch.verify().is_sound
