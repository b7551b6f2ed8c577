"""Unknown at creation: `txlog.resolve` settles it where there is no table to open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.testing.faulty_s3 import FaultyS3

ROWS = pa.table({"id": pa.array([1], pa.int64())})
QUICK = txlog.RetryPolicy(total_timeout=0.5, min_wait=0.01, max_wait=0.02)


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    with FaultyS3() as running:
        yield running


def on_s3(server: FaultyS3) -> dict[str, Any]:
    return {"storage_options": server.storage_options, "retry": QUICK}


def test_on_a_disk_a_table_that_is_not_there_was_not_created(tmp_path: Any) -> None:
    assert txlog.resolve(tmp_path / "t", "lost", 0) is False
    txlog.write(tmp_path / "t", ROWS)
    assert txlog.resolve(tmp_path / "t", "lost", 0) is False
    result = txlog.Table.open(tmp_path / "t").append(ROWS)
    assert txlog.resolve(tmp_path / "t", result.txn_id, 1) is True


def test_a_creation_that_landed_is_found_by_its_location(server: FaultyS3) -> None:
    uri = "s3://bucket/landed"
    table = txlog.Table.create(uri, ROWS.schema, **on_s3(server))
    landed = table._open_table.log.read_commit(0).txn_id
    assert landed is not None
    assert txlog.resolve(uri, landed, 0, **on_s3(server)) is True
    assert txlog.resolve(uri, "another", 0, **on_s3(server)) is False


def test_on_an_object_store_nothing_at_version_0_stays_unknown_until_the_table_is_created(server: FaultyS3) -> None:
    uri = "s3://bucket/lost"
    with pytest.raises(txlog.CommitStateUnknownError, match="give the table's schema"):
        txlog.resolve(uri, "lost", 0, **on_s3(server))
    assert txlog.resolve(uri, "lost", 0, ROWS.schema, **on_s3(server)) is False
    table = txlog.Table.open(uri, **on_s3(server))
    assert (table.snapshot().version, table.append(ROWS).version) == (0, 1)


def test_the_error_at_creation_names_the_call_that_settles_it(scripted_log: Any, open_handle: Any, clock: Any) -> None:
    from tests.writes import write_batch
    from txlog.core.operations import WriteOptions
    from txlog.core.store import PutOutcome

    def lost(real: Any, name: str, body: bytes) -> PutOutcome:
        return PutOutcome.UNKNOWN

    scripted_log.script["put_if_absent"] = [lost] * 500
    with pytest.raises(txlog.CommitStateUnknownError) as caught:
        write_batch(open_handle(total_timeout=5), ROWS, WriteOptions(create=True))
    assert f"txlog.resolve('memory://table', '{caught.value.txn_id}', 0)" in str(caught.value)


def test_resolve_refuses_a_missing_table(tmp_path: Any) -> None:
    with pytest.raises(txlog.TableNotFoundError):
        txlog.resolve(tmp_path / "t", "x", 3)
