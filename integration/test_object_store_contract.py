"""The store contract and the probe against real S3 servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from servers import S3Location

from txlog.core.store import (
    Attempt,
    FileStore,
    LogStore,
    PutOutcome,
    VersionLog,
    open_store,
    probe_newest_commit,
    probe_store,
)
from txlog.testing.contract import FILE_STORE_CONTRACT, LOG_STORE_CONTRACT, VERSION_LOG_CONTRACT

VERSIONS = 25
PROCESSES = 4


@pytest.mark.parametrize("check", LOG_STORE_CONTRACT, ids=lambda check: check.__name__)
def test_a_server_keeps_the_contract_of_log_stores(
    any_s3_location: S3Location, check: Callable[[LogStore], None]
) -> None:
    check(open_store(any_s3_location.uri, any_s3_location.storage_options).log)


@pytest.mark.parametrize("check", FILE_STORE_CONTRACT, ids=lambda check: check.__name__)
def test_a_server_keeps_the_contract_of_file_stores(
    any_s3_location: S3Location, check: Callable[[FileStore], None]
) -> None:
    check(open_store(any_s3_location.uri, any_s3_location.storage_options).files)


@pytest.mark.parametrize("check", VERSION_LOG_CONTRACT, ids=lambda check: check.__name__)
def test_version_log_contract_on_a_server(any_s3_location: S3Location, check: Callable[[VersionLog], None]) -> None:
    check(open_store(any_s3_location.uri, any_s3_location.storage_options).versions)


def test_a_probe_finds_the_server_safe_and_leaves_nothing(any_s3_location: S3Location) -> None:
    store = open_store(any_s3_location.uri, any_s3_location.storage_options)
    report = probe_store(store)
    assert report.problems == ()
    assert report.winners == 1
    assert store.log.list_from("") == []


def test_the_head_put_again_is_refused(any_s3_location: S3Location) -> None:
    versions = open_store(any_s3_location.uri, any_s3_location.storage_options).versions
    head = Attempt(0, b"head")
    versions.put(head)
    assert probe_newest_commit(versions, head) is True


@pytest.fixture
def spawned() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        yield pool


def race(location: S3Location, racer: int) -> list[int]:
    """The versions this process won."""
    log = open_store(location.uri, location.storage_options).log
    body = f"racer {racer}".encode()
    return [
        version for version in range(VERSIONS) if log.put_if_absent(f"{version:020}.json", body) is PutOutcome.WRITTEN
    ]


def test_processes_that_race_have_one_winner_for_each_version_on_a_server(
    any_s3_location: S3Location, spawned: ProcessPoolExecutor
) -> None:
    running = [spawned.submit(race, any_s3_location, racer) for racer in range(PROCESSES)]
    won = {version: racer for racer, each in enumerate(running) for version in each.result()}
    assert sum(len(each.result()) for each in running) == len(won) == VERSIONS
    log = open_store(any_s3_location.uri, any_s3_location.storage_options).log
    for version, racer in won.items():
        assert log.read(f"{version:020}.json") == f"racer {racer}".encode()
