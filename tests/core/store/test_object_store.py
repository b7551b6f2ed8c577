"""The object store against an S3 server that loses answers, in this process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog.core.store._base import FileStore, LogStore, PutOutcome
from txlog.core.store._open import open_store
from txlog.core.store._table_store import TableStore
from txlog.core.store._versions import VersionLog
from txlog.errors import AccessError, StorageError
from txlog.testing.contract import FILE_STORE_CONTRACT, LOG_STORE_CONTRACT, VERSION_LOG_CONTRACT
from txlog.testing.faulty_s3 import FaultyS3, ListFault, PutFault

COMMIT = f"{0:020}.json"


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    with FaultyS3(page_size=3) as running:
        yield running


@pytest.fixture
def store(server: FaultyS3, tmp_path: Path) -> TableStore:
    return open_store(f"s3://bucket/{tmp_path.name}/a b%25/table", {**server.storage_options, "timeout": "2s"})


@pytest.mark.parametrize("check", LOG_STORE_CONTRACT, ids=lambda check: check.__name__)
def test_a_store_keeps_the_contract_of_log_stores(store: TableStore, check: Callable[[LogStore], None]) -> None:
    check(store.log)


@pytest.mark.parametrize("check", FILE_STORE_CONTRACT, ids=lambda check: check.__name__)
def test_a_store_keeps_the_contract_of_file_stores(store: TableStore, check: Callable[[FileStore], None]) -> None:
    check(store.files)


@pytest.mark.parametrize("check", VERSION_LOG_CONTRACT, ids=lambda check: check.__name__)
def test_version_log_contract(store: TableStore, check: Callable[[VersionLog], None]) -> None:
    check(store.versions)


@pytest.mark.parametrize("letter", ["\u00a0", "\u3000", "\u00ad", "\u200b", "\ue000", "\u2028", "\U000323b0"])
def test_a_path_may_have_letters_that_are_not_shown(server: FaultyS3, tmp_path: Path, letter: str) -> None:
    files = open_store(f"s3://bucket/{tmp_path.name}/a{letter}b/table", server.storage_options).files
    name = f"p=10{letter}km/part.parquet"
    files.write(name, b"rows")
    assert files.read_from(name, 0) == b"rows"
    assert [each.name for page in files.list() for each in page] == [name]


@pytest.mark.parametrize("path", ["a/../b", "./a", "a//b", "a\nb", "a\x7fb", "a\ud800b"])
def test_a_path_that_leads_elsewhere_or_is_no_text_is_refused(store: TableStore, path: str) -> None:
    with pytest.raises(StorageError, match="not a plain relative path; nothing was changed"):
        store.files.create(path)


def test_an_answer_that_never_comes_is_unknown(tmp_path: Path) -> None:
    with FaultyS3() as server:
        store = open_store("s3://bucket/table", {**server.storage_options, "timeout": "300ms"})
        server.script(PutFault.LAND_HANG)
        assert store.log.put_if_absent(COMMIT, b"body") is PutOutcome.UNKNOWN
        assert store.log.read(COMMIT) == b"body"


def test_a_refusal_is_definite_and_names_what_to_check(server: FaultyS3, store: TableStore) -> None:
    server.script(PutFault.FORBIDDEN_403)
    with pytest.raises(StorageError, match="Check the credentials") as caught:
        store.log.put_if_absent(COMMIT, b"body")
    assert "secret" not in str(caught.value)
    assert store.log.list_from("") == []


def test_a_server_that_is_not_there_is_a_storage_error_without_secrets() -> None:
    options = {"endpoint_url": "http://127.0.0.1:9", "allow_http": True, "region": "us-east-1", "max_retries": 0}
    store = open_store("s3://bucket/t", {**options, "access_key_id": "AKIA1234", "secret_access_key": "hush-hush"})
    with pytest.raises(StorageError, match="Check the endpoint") as caught:
        store.log.read(COMMIT)
    assert "hush" not in str(caught.value)
    assert "AKIA" not in str(caught.value)
    assert store.log.put_if_absent(COMMIT, b"body") is PutOutcome.UNKNOWN


def test_an_endpoint_without_tls_says_which_option_allows_it() -> None:
    store = open_store("s3://bucket/t", {"endpoint": "http://127.0.0.1:9", "skip_signature": True, "max_retries": 0})
    with pytest.raises(StorageError, match="option allow_http is true"):
        store.log.read(COMMIT)


@pytest.mark.parametrize("fault", [ListFault.BROKEN, ListFault.DROP, ListFault.ERROR_500, ListFault.SLOW_DOWN_503])
def test_a_file_list_that_breaks_off_resumes_where_it_was(fault: ListFault) -> None:
    with FaultyS3(page_size=3) as server:
        store = open_store("s3://bucket/table", {**server.storage_options, "timeout": "2s"})
        wanted = [f"day={number}/part" for number in range(9)]
        for path in wanted:
            store.files.write(path, b"x")
        server.script_lists(ListFault.NONE, fault, fault)
        assert [meta.name for page in store.files.list() for meta in page] == wanted


def test_a_list_of_files_that_the_server_refuses_is_a_storage_error() -> None:
    with FaultyS3(page_size=3) as server:
        store = open_store("s3://bucket/table", {**server.storage_options, "max_retries": 0})
        store.files.write("part", b"x")
        server.script_lists(*[ListFault.ERROR_500] * 10)
        with pytest.raises(StorageError, match="could not list"):
            list(store.files.list())


def test_an_upload_that_is_aborted_is_never_seen(server: FaultyS3, store: TableStore) -> None:
    before = server.keys()
    output = store.files.create("part.parquet")
    output.sink.write(b"x" * (20 * 1024 * 1024))
    output.abort()
    assert server.keys() == before
    assert not server.bucket.uploads


def upload_in_parts(store: TableStore, door: str) -> None:
    body = b"x" * (20 << 20)
    if door == "write":
        store.files.write("part.parquet", body)
        return
    output = store.files.create("part.parquet")
    output.sink.write(body)
    output.publish()


@pytest.mark.parametrize("door", ["write", "create"])
def test_a_refused_upload_whose_abort_is_refused_too_does_not_pass_the_aborts_answer_off_as_its_own(door: str) -> None:
    with FaultyS3() as server:
        answers = {"PUT": (507, "XMinioStorageFull"), "DELETE": (403, "AccessDenied")}
        server.refuse = lambda request: answers.get(request.method)
        store = open_store("s3://bucket/t", {**server.storage_options, "max_retries": 0})
        with pytest.raises(StorageError, match=r"the upload failed, and .* why its abort failed.*AbortMulti") as raised:
            upload_in_parts(store, door)
        assert not isinstance(raised.value, AccessError), "the upload may be refused for another reason"
        answers["DELETE"] = answers["PUT"] = (400, "ExpiredToken")
        with pytest.raises(AccessError, match="have expired: renew them"):
            upload_in_parts(store, door)
        del answers["DELETE"]
        with pytest.raises(AccessError, match=r"Error performing PUT .*have expired: renew them"):
            upload_in_parts(store, door)


def test_a_small_file_is_one_request_and_a_large_one_is_sent_in_parts(server: FaultyS3, store: TableStore) -> None:
    body = bytes(range(256)) * (36 << 12)
    for path, size in (("small", 1 << 20), ("large", len(body))):
        del server.requests[:]
        store.files.write(path, body[:size])
        assert store.files.stat(path).size == size
        assert store.files.read_from(path, size - 9) == body[size - 9 : size]
        methods = [request.method for request in server.requests[:-2]]
        assert methods == ["PUT"] if path == "small" else methods.count("PUT") > 1


def test_an_upload_that_arrives_short_is_not_published() -> None:
    with FaultyS3() as server:
        server.lost_bytes = 2
        output = open_store("s3://bucket/t", server.storage_options).files.create("part.parquet")
        output.sink.write(b"bytes")
        with pytest.raises(StorageError, match=r"5 bytes were uploaded but part\.parquet has 3"):
            output.publish()


def test_a_pickled_store_holds_no_secret_and_the_error_says_so(server: FaultyS3) -> None:
    options = {**server.storage_options, "access_key_id": "AKIA1234", "secret_access_key": "hush-hush"}
    pickled = pickle.dumps(open_store("s3://bucket/t", {**options, "session_token": "also-secret"}))
    for secret in (b"AKIA1234", b"hush-hush", b"also-secret"):
        assert secret not in pickled
    assert server.url.encode() in pickled


PICKLED = """
import os, pickle, sys
os.environ.update(AWS_ACCESS_KEY_ID="from-the-environment", AWS_SECRET_ACCESS_KEY="of-the-worker")
store = pickle.loads(bytes.fromhex(sys.argv[1]))
print(store.log.read(sys.argv[2]).decode())
"""


def test_a_pickled_store_works_with_the_credentials_of_the_process_it_arrives_in(store: TableStore) -> None:
    store.log.put_if_absent(COMMIT, b"body")
    worker = [sys.executable, "-c", PICKLED, pickle.dumps(store).hex(), COMMIT]
    assert subprocess.run(worker, capture_output=True, text=True, check=True, timeout=60).stdout == "body\n"


FORKED = """
import multiprocessing, sys
from txlog.errors import StorageError
from txlog.core.store._open import open_store
from txlog.testing.faulty_s3 import FaultyS3

def child(store, answers):
    try:
        answers.put(store.log.put_if_absent("00000000000000000007.json", b"body").name)
    except StorageError as error:
        answers.put(error.message)

with FaultyS3() as server:
    store = open_store("s3://bucket/table", server.storage_options)
    if sys.argv[1] == "used":
        store.log.list_from("")
    processes = multiprocessing.get_context("fork")
    answers = processes.Queue()
    forked = processes.Process(target=child, args=(store, answers))
    forked.start()
    print(answers.get(timeout=30))
    forked.join(30)
    print(forked.exitcode, store.log.put_if_absent("00000000000000000008.json", b"body").name)
"""


@pytest.mark.parametrize(
    ("parent", "answer"), [("unused", "WRITTEN"), ("used", "this process was forked from one that had already used")]
)
def test_a_forked_child_works_or_is_refused_but_never_hangs(parent: str, answer: str) -> None:
    ran = subprocess.run([sys.executable, "-c", FORKED, parent], capture_output=True, text=True, check=True, timeout=60)
    from_child, from_parent = ran.stdout.splitlines()
    assert from_child.startswith(answer)
    assert from_parent == "0 WRITTEN"


def test_without_credentials_the_error_says_so_and_where_to_set_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    options = {"metadata_endpoint": "http://127.0.0.1:9", "region": "eu-west-1", "max_retries": 0, "timeout": 2}
    with pytest.raises(StorageError, match=r"There are no credentials.*storage_options.*docs/storage\.md"):
        open_store("s3://bucket/t", options).log.read("x.json")


def test_the_size_and_the_footer_of_a_file_cost_one_request_and_each_range_another(
    server: FaultyS3, store: TableStore
) -> None:
    body = bytes(range(256)) * 1_000
    store.files.write("large.bin", body)
    server.requests.clear()
    opened = store.files.open("large.bin")
    assert opened.size() == len(body)
    opened.seek(len(body) - 60_000)
    assert opened.read(50_000) == body[-60_000:-10_000]
    assert opened.read() == body[-10_000:]
    assert len(server.requests) == 1
    opened.seek(len(body) - 70_000)
    assert opened.read(20_000) == body[-70_000:-50_000], "what reaches into the end"
    opened.seek(5)
    assert opened.read(10) == body[5:15]
    assert len(server.requests) == 3


def test_a_table_needs_no_folder_for_temporary_files(
    server: FaultyS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options = f"s3://bucket/{tmp_path.name}/table", server.storage_options
    rows = pa.table({"id": [1, 2]})
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
        patched.setattr(tempfile, "tempdir", None)
        txlog.write(uri, rows, storage_options=options)
        table = txlog.Table.open(uri, storage_options=options)
        table.append(pa.table({"id": [3]}))
        table.upsert(rows, keys=["id"])
        table.optimize()
        assert table.count() == 3
    found = deltalake.DeltaTable(uri, storage_options={f"AWS_{key.upper()}": value for key, value in options.items()})
    assert sorted(found.to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]
