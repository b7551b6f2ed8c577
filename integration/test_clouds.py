"""Azure and Google: the store contracts, a race of processes, row changes and maintenance, as deltalake reads them.

Against Microsoft's emulator, and against a stand-in for Google's store: see `clouds`. Where a store is in trouble, it
refuses some requests, and does not answer others that it has done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pyarrow as pa
import pytest
from clouds import CLOUDS, Cloud
from deltalake import DeltaTable
from servers import S3Location

import txlog
from tests.bucket import rows
from txlog.core.store import Attempt, FileStore, LogStore, VersionLog, open_store, probe_newest_commit, probe_store
from txlog.testing.contract import FILE_STORE_CONTRACT, LOG_STORE_CONTRACT, VERSION_LOG_CONTRACT

PROCESSES, APPENDS = 4, 10

untroubled = pytest.mark.parametrize(
    "cloud", [pytest.param(name, marks=pytest.mark.hunt(part="clouds")) for name in CLOUDS[:2]], indirect=True
)


def opened(location: S3Location) -> txlog.Table:
    return txlog.Table.open(location.uri, storage_options=location.storage_options)


def created(location: S3Location, **properties: str) -> txlog.Table:
    schema = pa.schema([("id", pa.int64())])
    return txlog.Table.create(
        location.uri, schema, properties=properties, storage_options=location.storage_options, exist_ok=True
    )


def ids_as_deltalake_reads(cloud: Cloud, location: S3Location) -> list[int]:
    table = DeltaTable(location.uri, storage_options=cloud.options_of_deltalake)
    found: list[int] = table.to_pyarrow_table()["id"].to_pylist()
    return sorted(found)


# --- the store ------------------------------------------------------------------------------------------------------
# A store in trouble may say "unknown", which the contracts do not allow for.


@untroubled
@pytest.mark.parametrize("check", LOG_STORE_CONTRACT, ids=lambda check: check.__name__)
def test_a_cloud_keeps_the_contract_of_log_stores(
    cloud_location: S3Location, check: Callable[[LogStore], None]
) -> None:
    check(open_store(cloud_location.uri, cloud_location.storage_options).log)


@untroubled
@pytest.mark.parametrize("check", FILE_STORE_CONTRACT, ids=lambda check: check.__name__)
def test_a_cloud_keeps_the_contract_of_file_stores(
    cloud_location: S3Location, check: Callable[[FileStore], None]
) -> None:
    check(open_store(cloud_location.uri, cloud_location.storage_options).files)


@untroubled
@pytest.mark.parametrize("check", VERSION_LOG_CONTRACT, ids=lambda check: check.__name__)
def test_a_cloud_keeps_the_contract_of_version_logs(
    cloud_location: S3Location, check: Callable[[VersionLog], None]
) -> None:
    check(open_store(cloud_location.uri, cloud_location.storage_options).versions)


@untroubled
def test_a_probe_finds_a_cloud_safe_and_leaves_nothing(cloud_location: S3Location) -> None:
    store = open_store(cloud_location.uri, cloud_location.storage_options)
    report = probe_store(store)
    assert (report.problems, report.winners) == ((), 1)
    assert store.log.list_from("") == []
    head = Attempt(0, b"head")
    store.versions.put(head)
    assert probe_newest_commit(store.versions, head) is True


# --- tables ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def spawned() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        yield pool


def append_all(uri: str, options: Mapping[str, str], racer: int) -> list[int]:
    """The versions of this process, each with a row of its own."""
    table = txlog.Table.open(uri, storage_options=options)
    numbers = range(racer * APPENDS, (racer + 1) * APPENDS)
    results = [
        table.append(rows(number, number + 1), app_id=f"racer {racer}", checkpoint_id=number) for number in numbers
    ]
    return [result.version for result in results if result.version is not None]


@pytest.mark.hunt(part="clouds")
def test_processes_that_race_lose_no_append(
    cloud: Cloud, cloud_location: S3Location, spawned: ProcessPoolExecutor
) -> None:
    created(cloud_location)
    options = cloud_location.storage_options
    running = [spawned.submit(append_all, cloud_location.uri, options, racer) for racer in range(PROCESSES)]
    versions = [version for each in running for version in each.result()]
    assert len(versions) == PROCESSES * APPENDS
    assert {*versions} == {*range(1, opened(cloud_location).version + 1)}, "appends may share a version"
    assert ids_as_deltalake_reads(cloud, cloud_location) == list(range(PROCESSES * APPENDS))
    assert opened(cloud_location).verify().is_sound


@pytest.mark.parametrize("with_vectors", [False, True], ids=["copies", "vectors"])
def test_rows_are_changed(cloud: Cloud, cloud_location: S3Location, with_vectors: bool) -> None:
    table = created(cloud_location, **{"delta.enableDeletionVectors": str(with_vectors).lower()})
    table.append(rows(0, 100))
    table.upsert(rows(90, 110), keys=["id"])
    table.delete("id < 10")
    table.update({"id": txlog.expr("id + 1000")}, "id >= 105")
    table.merge(rows(50, 60), on="source.id = target.id").when_matched_delete().execute()
    expected = [*range(10, 50), *range(60, 105), *range(1105, 1110)]
    assert sorted(opened(cloud_location).to_arrow()["id"].to_pylist()) == expected
    if not with_vectors:
        assert ids_as_deltalake_reads(cloud, cloud_location) == expected
    assert opened(cloud_location).verify().is_sound


def test_a_table_is_maintained(cloud: Cloud, cloud_location: S3Location) -> None:
    table = created(cloud_location)
    for number in range(12):
        table.append(rows(10 * number, 10 * number + 10))
    table.optimize()
    table.create_checkpoint()
    table.overwrite(rows(0, 5), where="id < 60")
    assert len(table.vacuum(0, force=True).paths) > 0
    expected = [*range(5), *range(60, 120)]
    assert ids_as_deltalake_reads(cloud, cloud_location) == expected
    assert sorted(opened(cloud_location).to_arrow()["id"].to_pylist()) == expected
    assert opened(cloud_location).verify().is_sound


def test_a_large_file_is_uploaded_in_parts(cloud: Cloud, cloud_location: S3Location) -> None:
    table = created(cloud_location, **{"delta.parquet.compression.codec": "uncompressed"})
    table.append(rows(0, 3_000_000))
    assert table.snapshot().files()["size"].to_pylist()[0] > 16 << 20 or table.snapshot().num_files > 1
    assert opened(cloud_location).count("id % 3 = 0") == 1_000_000
    assert len(ids_as_deltalake_reads(cloud, cloud_location)) == 3_000_000


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.hunt(part="clouds")
@pytest.mark.parametrize("cloud", ["azurite"], indirect=True)
@pytest.mark.parametrize(
    ("wrong", "container", "code", "told"),
    [
        ({"account_key": "d3Jvbmc="}, None, "AuthorizationFailure", "Check the credentials"),
        ({}, "absent", "ContainerNotFound", "no such bucket"),
    ],
    ids=["a wrong key", "an absent container"],
)
def test_a_refusal_of_a_cloud_is_told_at_once_with_its_code(
    cloud: Cloud, cloud_location: S3Location, wrong: dict[str, str], container: str | None, code: str, told: str
) -> None:
    uri = cloud_location.uri if container is None else f"az://{container}/t"
    store = open_store(uri, {**cloud_location.storage_options, **wrong})
    for call in (
        lambda: store.log.list_from(""),
        lambda: store.log.put_if_absent(f"{0:020}.json", b"body"),
        lambda: store.files.write("part.parquet", b"body"),
        lambda: list(store.files.list()),
    ):
        with pytest.raises(txlog.StorageError, match=f"{code}.*{told}") as caught:
            call()
        assert "network" not in str(caught.value)
        assert isinstance(caught.value, txlog.AccessError) is bool(wrong)
