"""The scripted S3 server: each script does to a real S3 client what it says, and txlog keeps its promises under it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.core.store import PutOutcome, TableStore, open_store
from txlog.errors import AccessError, NotFoundError, StorageError, UnsupportedFeatureError
from txlog.testing.faulty_s3 import FaultyS3, ListFault, PutFault

ROWS = pa.table({"id": [1, 2]})
COMMIT = f"{0:020}.json"


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    with FaultyS3() as running:
        yield running


@pytest.fixture
def options(server: FaultyS3) -> dict[str, str]:
    return {**server.storage_options, "timeout": "400ms"}


@pytest.fixture
def store(options: dict[str, str], tmp_path: Path) -> TableStore:
    return open_store(f"s3://bucket/{tmp_path.name}", options)


# --- conditional PUTs -----------------------------------------------------------------------------------------

# What the store makes of it, and whether the bytes are there afterwards.
PUTS: dict[PutFault, tuple[PutOutcome | type[StorageError], bool]] = {
    PutFault.NONE: (PutOutcome.WRITTEN, True),
    PutFault.LAND_500: (PutOutcome.UNKNOWN, True),
    PutFault.LAND_503: (PutOutcome.UNKNOWN, True),
    PutFault.LAND_DROP: (PutOutcome.UNKNOWN, True),
    PutFault.LAND_HANG: (PutOutcome.UNKNOWN, True),
    PutFault.CONFLICT_409: (PutOutcome.ALREADY_EXISTS, False),
    PutFault.ERROR_500: (PutOutcome.UNKNOWN, False),
    PutFault.SLOW_DOWN_503: (PutOutcome.UNKNOWN, False),
    PutFault.FORBIDDEN_403: (AccessError, False),
    PutFault.DROP: (PutOutcome.UNKNOWN, False),
    PutFault.IGNORE_CONDITION: (PutOutcome.WRITTEN, True),
}


def test_every_fault_does_what_its_docstring_says() -> None:
    assert set(PUTS) == set(PutFault)
    assert set(LISTS) == set(ListFault)


@pytest.mark.parametrize("fault", PutFault)
def test_a_put_under_each_fault_lands_or_not_as_described_and_is_sent_once(
    server: FaultyS3, store: TableStore, fault: PutFault
) -> None:
    expected, has_landed = PUTS[fault]
    server.script(fault)
    before = len(server.requests)
    try:
        answer: object = store.log.put_if_absent(COMMIT, b"body")
    except StorageError as error:
        answer = type(error)
    assert answer is expected
    assert [(request.method, request.fault) for request in server.requests[before:]] == [("PUT", fault)]
    if has_landed:
        assert store.log.read(COMMIT) == b"body"
    else:
        with pytest.raises(NotFoundError):
            store.log.read(COMMIT)


@pytest.mark.parametrize("fault", [fault for fault in PutFault if fault is not PutFault.IGNORE_CONDITION])
def test_a_put_under_a_fault_never_replaces_an_existing_object(
    server: FaultyS3, store: TableStore, fault: PutFault
) -> None:
    store.log.put_if_absent(COMMIT, b"first")
    server.script(fault)
    try:
        assert store.log.put_if_absent(COMMIT, b"second") is not PutOutcome.WRITTEN
    except StorageError:
        assert fault is PutFault.FORBIDDEN_403
    assert store.log.read(COMMIT) == b"first"


@pytest.mark.parametrize("fault", [fault for fault in PutFault if fault is not PutFault.IGNORE_CONDITION])
def test_an_append_under_each_fault_is_there_once_or_refused(
    server: FaultyS3, options: dict[str, str], tmp_path: Path, fault: PutFault
) -> None:
    uri = f"s3://bucket/{tmp_path.name}"
    txlog.write(uri, ROWS, storage_options=options)
    table = txlog.Table.open(uri, storage_options=options)
    server.script(PutFault.NONE, fault, fault)  # the first asks whether the store refuses what exists
    refused = fault is PutFault.FORBIDDEN_403
    if refused:
        with pytest.raises(StorageError, match="Check the credentials"):
            table.append(ROWS)
    else:
        result = table.append(ROWS)
        assert (result.version, result.outcome) == (1, "committed")
    server.clear_scripts()
    seen = txlog.Table.open(uri, storage_options=options).snapshot()
    assert (seen.version, seen.to_arrow().num_rows) == ((0, 2) if refused else (1, 4))


@pytest.mark.parametrize("fault", [fault for fault in PutFault if fault is not PutFault.IGNORE_CONDITION])
def test_a_sinks_checkpoint_is_in_the_table_once_whichever_of_its_steps_meets_a_fault(
    server: FaultyS3, options: dict[str, str], tmp_path: Path, fault: PutFault
) -> None:
    uri = f"s3://bucket/{tmp_path.name}"
    txlog.write(uri, ROWS, storage_options=options)
    sink = txlog.Sink(txlog.Table.open(uri, storage_options=options), "app")
    with sink.task(1) as task:
        task.write(ROWS)
    steps: dict[str, Callable[[], object]] = {
        "stage": lambda: sink.stage(task.committable),
        "seal": lambda: sink.prepare(1, [0]),
        "commit": lambda: sink.commit(1),
    }
    for name, step in steps.items():
        server.script(*([PutFault.NONE] if name == "commit" else []), fault)
        if fault is PutFault.FORBIDDEN_403:
            with pytest.raises(StorageError, match="Check the credentials"):
                step()
            server.clear_scripts()
        step()
    server.clear_scripts()
    later = txlog.Sink(txlog.Table.open(uri, storage_options=options), "app")
    assert not later.recover().results
    seen = later._table.snapshot()
    assert (seen.version, seen.to_arrow().num_rows, later.last_checkpoint_id()) == (1, 4, 1)


def test_an_append_is_refused_on_a_server_that_ignores_conditional_puts(
    server: FaultyS3, options: dict[str, str], tmp_path: Path
) -> None:
    uri = f"s3://bucket/{tmp_path.name}"
    txlog.write(uri, ROWS, storage_options=options)
    server.script(PutFault.IGNORE_CONDITION)
    with pytest.raises(UnsupportedFeatureError, match=r"accepted .* a second time"):
        txlog.Table.open(uri, storage_options=options).append(ROWS)
    assert txlog.Table.open(uri, storage_options=options).snapshot().to_arrow().num_rows == 2


# --- lists ------------------------------------------------------------------------------------------------------

# Which of the names 0 to 4 the store lists where this happens to the first page.
LISTS: dict[ListFault, list[int]] = {
    ListFault.NONE: [0, 1, 2, 3, 4],
    ListFault.STALE: [0, 1, 2, 3],
    ListFault.HOLE: [0, 1, 2, 4],
    ListFault.TRUNCATED: [0, 1],
    ListFault.BROKEN: [0, 1, 2, 3, 4],
    ListFault.ERROR_500: [0, 1, 2, 3, 4],
    ListFault.SLOW_DOWN_503: [0, 1, 2, 3, 4],
    ListFault.DROP: [0, 1, 2, 3, 4],
}


@pytest.mark.parametrize("fault", ListFault)
def test_a_list_is_wrong_as_its_fault_describes_or_requested_again(
    server: FaultyS3, store: TableStore, fault: ListFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number:020}.json" for number in range(5)]
    for name in names:
        store.log.put(name, b"x")
    monkeypatch.setattr(server, "page_size", 5 if fault in (ListFault.STALE, ListFault.HOLE) else 2)
    before = len(server.requests)
    server.script_lists(fault)
    assert [names.index(meta.name) for meta in store.log.list_from("")] == LISTS[fault]
    assert server.requests[before].fault is fault


@pytest.mark.parametrize("fault", ListFault)
def test_a_table_read_under_each_wrong_list_is_a_version_of_it_and_appends_are_kept(
    server: FaultyS3, options: dict[str, str], tmp_path: Path, fault: ListFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"s3://bucket/{tmp_path.name}"
    txlog.write(uri, ROWS, storage_options=options)
    table = txlog.Table.open(uri, storage_options=options)
    for _ in range(3):
        table.append(ROWS)
    monkeypatch.setattr(server, "page_size", 2 if fault is ListFault.TRUNCATED else 1000)
    server.script_lists(*[fault] * 2)
    snapshot = txlog.Table.open(uri, storage_options=options).snapshot()
    assert snapshot.to_arrow().num_rows == 2 * (snapshot.version + 1)
    assert snapshot.version == 3 or fault in (ListFault.STALE, ListFault.TRUNCATED)
    server.script_lists(*[fault] * 2)
    assert txlog.Table.open(uri, storage_options=options).append(ROWS).version == 4
    server.clear_scripts()
    assert txlog.Table.open(uri, storage_options=options).snapshot().to_arrow().num_rows == 10


# --- slow answers -------------------------------------------------------------------------------------------------


def test_a_put_waits_for_a_slow_answer_and_is_unknown_after_the_timeout(
    server: FaultyS3, store: TableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "delay_s", 0.05)
    started_s = time.monotonic()
    assert store.log.put_if_absent(COMMIT, b"body") is PutOutcome.WRITTEN
    assert time.monotonic() - started_s >= 0.05
    monkeypatch.setattr(server, "delay_s", 30.0)
    assert store.log.put_if_absent(f"{1:020}.json", b"body") is PutOutcome.UNKNOWN
    monkeypatch.setattr(server, "delay_s", 0.0)
    assert store.log.read(f"{1:020}.json") == b"body"


def test_closing_the_server_ends_every_wait(tmp_path: Path) -> None:
    started_s = time.monotonic()
    with FaultyS3() as server:
        server.delay_s = 600.0
        store = open_store("s3://bucket/t", {**server.storage_options, "timeout": "200ms"})
        assert store.log.put_if_absent(COMMIT, b"body") is PutOutcome.UNKNOWN
    assert time.monotonic() - started_s < 60


# --- as users read of it --------------------------------------------------------------------------------------------


def test_the_example_on_the_testing_page_holds() -> None:
    text = (Path(__file__).parent.parent / "docs" / "testing.md").read_text()
    section = text.partition("\n## A scripted S3 server\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(compile(example, "testing.md", "exec"), {})
    for fault in (*PutFault, *ListFault):
        assert fault.name == "NONE" or f"`{fault.name}`" in section
