"""Which objects of a folder are data files when it is converted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from tests.core.store.test_refusals import require_told
from txlog.errors import InvalidInputError
from txlog.testing.faulty_s3 import FaultyS3


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    with FaultyS3(page_size=3) as running:
        yield running


def test_empty_objects_that_mark_folders_are_no_data_files(server: FaultyS3, tmp_path: Path) -> None:
    place, options = f"bucket/{tmp_path.name}", server.storage_options
    body = pa.BufferOutputStream()
    pq.write_table(pa.table({"i": [1]}), body)
    with server.bucket.lock:
        for folder in ("p=x", "p=1.5", "p=a.parquet"):
            server.bucket.keep(f"{place}/t/{folder}/", b"")
            server.bucket.keep(f"{place}/t/{folder}_$folder$", b"")
            server.bucket.keep(f"{place}/t/{folder}/a.parquet", body.getvalue().to_pybytes())
        server.bucket.keep(f"{place}/t/", b"")
    assert txlog.Table.convert(f"s3://{place}/t", storage_options=options).files == 3
    table = txlog.Table.open(f"s3://{place}/t", storage_options=options)
    assert sorted(table.to_arrow()["p"].to_pylist()) == ["1.5", "a.parquet", "x"]
    with server.bucket.lock:
        server.bucket.keep(f"{place}/t/p=y/", b"")
        server.bucket.keep(f"{place}/t/p=x/orphan.parquet", b"")
        keys = [key for key in server.bucket.objects if key.startswith(f"{place}/t/")]
    assert table.vacuum(retention_hours=0, force=True, dry_run=True).paths == ("p=x/orphan.parquet",)
    inventory = pa.table(
        {
            "path": [key.removeprefix(f"{place}/t/") for key in keys],
            "length": [len(server.bucket.objects[key]) for key in keys],
            "isDir": [False] * len(keys),
            "modificationTime": [1] * len(keys),
        }
    )
    found = table.vacuum(retention_hours=0, force=True, dry_run=True, inventory=inventory).paths
    assert found == ("p=x/orphan.parquet",)


def test_a_data_file_of_zero_bytes_is_still_refused(server: FaultyS3, tmp_path: Path) -> None:
    place = f"bucket/{tmp_path.name}"
    with server.bucket.lock:
        server.bucket.keep(f"{place}/t/a.parquet", b"")
    with pytest.raises(InvalidInputError, match=r"a\.parquet: not a readable Parquet file"):
        txlog.Table.convert(f"s3://{place}/t", storage_options=server.storage_options)


def test_a_role_that_may_not_list_is_told_access_denied_by_a_conversion() -> None:
    with FaultyS3() as server:
        require_told(server, lambda uri, options: txlog.Table.convert(uri, storage_options=options))
