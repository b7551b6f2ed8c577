"""A committable survives its journey or is refused; the driver believes nothing it has not checked."""

from __future__ import annotations

import pickle
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from txlog.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from txlog.protocol.actions import AddFile, DeletionVectorDescriptor, action_to_json
from txlog.protocol.deletion_vector import vector_path
from txlog.protocol.paths import resolve_data_path
from txlog.protocol.schema import STRING, Field
from txlog.testing.memory_store import MemoryFileStore
from txlog.writer import sealed_json
from txlog.writer.committable import ChangeFile, Committable, KeyFile, PendingFile, ReplacedFile
from txlog.writer.committable_checks import validate_committables
from txlog.writer.write_intent import OVERWRITE, WriteIntent

FILE = PendingFile("day=a/part-0.parquet", 5, 3, 1_700_000_000_000, {"day": "a"}, '{"numRecords":3}')
SEALED = Committable("orders", 17, "job-1", 3, 0, "table-id", 11, (FILE,))

texts = st.text(st.characters(codec="utf-8"), max_size=20)
counts = st.integers(0, 2**63 - 1)
vectors = st.builds(
    DeletionVectorDescriptor,
    texts,
    texts,
    st.none() | st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    counts,
    st.none() | counts,
)
partition_values = st.dictionaries(texts, st.none() | texts, max_size=3)
pending_files = st.builds(
    PendingFile, texts, counts, counts, counts, partition_values, st.none() | texts, st.none() | vectors
)
replaced_files = st.builds(ReplacedFile, texts, st.none() | texts, st.none() | vectors)
change_files = st.builds(ChangeFile, texts, counts, counts, partition_values)
key_files = st.builds(KeyFile, texts, counts, counts, counts)
committables = st.builds(
    Committable,
    st.none() | texts,
    st.none() | st.integers(-(2**63), 2**63 - 1),
    texts,
    counts,
    counts,
    texts,
    st.integers(-1, 2**63 - 1),
    st.lists(pending_files, max_size=3).map(tuple),
    st.lists(replaced_files, max_size=2).map(tuple),
    st.lists(change_files, max_size=2).map(tuple),
    st.lists(key_files, max_size=2).map(tuple),
)


@given(committables)
def test_bytes_and_pickle_bring_back_an_equal_committable(committable: Committable) -> None:
    assert Committable.from_bytes(committable.to_bytes()) == committable
    assert pickle.loads(pickle.dumps(committable)) == committable


@settings(max_examples=2 * settings.default.max_examples)
@given(st.data())
def test_any_changed_or_lost_byte_of_a_committable_is_detected(data: st.DataObject) -> None:
    body = SEALED.to_bytes()
    at = data.draw(st.integers(0, len(body) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "drop", "double"]))
    flipped = body[:at] + bytes([body[at] ^ data.draw(st.integers(1, 255))]) + body[at + 1 :]
    changed = {
        "flip": flipped,
        "cut": body[:at],
        "drop": body[:at] + body[at + 1 :],
        "double": body[: at + 1] + body[at : at + 1] + body[at + 1 :],
    }[kind]
    with pytest.raises((InvalidInputError, UnsupportedFeatureError)):
        Committable.from_bytes(changed)


def of_format(version: int, body: dict[str, Any]) -> bytes:
    text = orjson.dumps(body)
    return b"txlog-committable %d %s\n%s" % (version, sealed_json.checksum(text).encode(), text)


def of_format_1(committable: Committable, **changes: Any) -> bytes:
    """The committable as the first release wrote it: new files alone."""
    body = orjson.loads(committable.to_bytes().partition(b"\n")[2])
    del body["replaced"], body["changes"], body["keys"]
    for file in body["files"]:
        del file["deletion_vector"]
    return of_format(1, {**body, **changes})


def of_format_2(committable: Committable, **changes: Any) -> bytes:
    """The same before keys could be staged."""
    body = orjson.loads(committable.to_bytes().partition(b"\n")[2])
    del body["keys"]
    return of_format(2, {**body, **changes})


def test_a_committable_of_the_first_format_is_read() -> None:
    assert Committable.from_bytes(of_format_1(SEALED)) == SEALED


def test_a_committable_of_the_first_format_with_fields_of_the_second_is_refused() -> None:
    vector = {"deletion_vector": None}
    files = orjson.loads(of_format_1(SEALED).partition(b"\n")[2])["files"]
    for changes in ({"replaced": []}, {"changes": []}, {"files": [file | vector for file in files]}):
        with pytest.raises(InvalidInputError, match="not a committable"):
            Committable.from_bytes(of_format_1(SEALED, **changes))


def test_a_committable_of_the_second_format_is_read_and_with_fields_of_the_third_refused() -> None:
    assert Committable.from_bytes(of_format_2(SEALED)) == SEALED
    with pytest.raises(InvalidInputError, match="not a committable"):
        Committable.from_bytes(of_format_2(SEALED, keys=[]))


@pytest.mark.parametrize("version", [2, 3])
def test_a_committable_of_a_format_without_its_fields_is_refused(version: int) -> None:
    for name in ("replaced", "changes", "keys")[:version]:
        value = orjson.loads(SEALED.to_bytes().partition(b"\n")[2])
        if version == 2:
            del value["keys"]
        value.pop(name, None)
        with pytest.raises(InvalidInputError, match="not a committable"):
            Committable.from_bytes(of_format(version, value))


def test_the_error_for_a_newer_format_says_so() -> None:
    newer = SEALED.to_bytes().replace(b"txlog-committable 3 ", b"txlog-committable 4 ", 1)
    with pytest.raises(UnsupportedFeatureError, match="format 4"):
        Committable.from_bytes(newer)


def test_a_pending_file_becomes_an_add_whose_path_decodes_to_its_own() -> None:
    file = replace(FILE, path="day=100%25 ü😀/part-0.parquet")
    add = file.to_add(data_change=False)
    assert resolve_data_path(add.path).path == file.path
    assert action_to_json(add) == {
        "add": {
            "path": add.path,
            "partitionValues": {"day": "a"},
            "size": 5,
            "modificationTime": 1_700_000_000_000,
            "dataChange": False,
            "stats": '{"numRecords":3}',
        }
    }
    assert isinstance(SEALED.adds()[0], AddFile)
    assert SEALED.adds()[0].data_change is True


def test_a_committable_counts_its_rows_and_bytes() -> None:
    both = replace(SEALED, files=(FILE, replace(FILE, path="b", num_rows=4)))
    assert (both.num_rows, both.size_bytes) == (7, 10)


def sealed(task_id: int, *paths: str, **changes: Any) -> Committable:
    files = tuple(replace(FILE, path=path) for path in paths)
    return replace(SEALED, task_id=task_id, files=files, **changes)


def check(*found: Committable, **more: Any) -> None:
    wanted: dict[str, Any] = {
        "partition_fields": {"day": Field("day", STRING)},
        "table_id": "table-id",
        "app_id": "orders",
        "checkpoint_id": 17,
    }
    validate_committables(found, **{**wanted, **more})


def test_valid_committables_and_empty_ones_pass() -> None:
    check(sealed(1, "a", "day=x/b"), sealed(2, "c"), sealed(3))
    check()


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param([sealed(1, "a", "a")], "named twice", id="path-twice-in-one"),
        pytest.param([sealed(1, "a"), sealed(2, "a")], "named twice", id="path-twice-in-two"),
        pytest.param([sealed(1, "a"), sealed(1, "b", attempt=1)], "two committables", id="two-attempts"),
        pytest.param([sealed(1, "a"), sealed(1, "b", job_id="other")], "two committables", id="task-of-two-jobs"),
        pytest.param([sealed(1, "../a")], "no writer may use", id="leaves-the-table"),
        pytest.param([sealed(1, "a/../../b")], "no writer may use", id="leaves-later"),
        pytest.param([sealed(1, "_delta_log/a")], "no writer may use", id="log"),
        pytest.param([sealed(1, "/etc/a")], "below the table", id="absolute"),
        pytest.param([sealed(1, "")], "no writer may use", id="no-path"),
        pytest.param([sealed(1, "a\x00b")], "no writer may use", id="nul"),
        pytest.param([sealed(1, "a", app_id="other")], "app_id", id="other-application"),
        pytest.param([sealed(1, "a", checkpoint_id=18)], "checkpoint_id", id="other-checkpoint"),
        pytest.param([sealed(1, "a", table_id="other")], "table_id", id="other-table"),
        pytest.param([replace(SEALED, files=(replace(FILE, size_bytes=0),))], "empty", id="no-bytes"),
        pytest.param([replace(SEALED, files=(replace(FILE, num_rows=0),))], "empty", id="no-rows"),
        pytest.param(
            [replace(SEALED, files=(replace(FILE, partition_values={}),))],
            "partition columns",
            id="no-partition-values",
        ),
        pytest.param(
            [replace(SEALED, files=(replace(FILE, partition_values={"day": "a", "x": "b"}),))],
            "partition columns",
            id="more-partition-values",
        ),
    ],
)
def test_an_invalid_committable_is_refused(found: list[Committable], reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        check(*found, table="s3://b/t")


def test_a_scheme_in_a_path_is_only_a_name_below_the_table() -> None:
    check(sealed(1, "s3:/a"))
    assert resolve_data_path(sealed(1, "s3:/a").adds()[0].path).is_relative


VECTOR = DeletionVectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6)
CHANGE_ROWS = WriteIntent("change_rows")


def changed(*replaced: ReplacedFile, changes: tuple[ChangeFile, ...] = (), **more: Any) -> Committable:
    return replace(SEALED, replaced=replaced, changes=changes, **more)


def test_a_write_that_changes_rows_may_replace_files_and_name_change_data() -> None:
    change = ChangeFile("_change_data/cdc-0.parquet", 5, 1, {"day": "a"})
    check(
        changed(ReplacedFile("day=a/x"), ReplacedFile("day=a/y", "uold@1", VECTOR), changes=(change,)),
        sealed(4, "day=a/z"),
        intent=CHANGE_ROWS,
    )
    add = replace(FILE, deletion_vector=VECTOR).to_add()
    assert (add.deletion_vector, change.to_cdc().data_change) == (VECTOR, False)


@pytest.mark.parametrize(
    ("committable", "intent", "reason"),
    [
        (changed(ReplacedFile("a")), WriteIntent("append"), "intent is to append"),
        (changed(ReplacedFile("a")), OVERWRITE, "intent is to overwrite"),
        (changed(changes=(ChangeFile("_change_data/c", 1, 1, {"day": "a"}),)), OVERWRITE, "intent is to overwrite"),
        (changed(ReplacedFile("a b"), ReplacedFile("a%20b")), CHANGE_ROWS, "named twice"),
        (changed(ReplacedFile("../a")), CHANGE_ROWS, "invalid path"),
        (
            changed(ReplacedFile("a", None, replace(VECTOR, cardinality=0))),
            CHANGE_ROWS,
            "empty deletion vector",
        ),
        (changed(ReplacedFile("a", None, replace(VECTOR, storage_type="i"))), CHANGE_ROWS, "not in a file"),
        (
            changed(ReplacedFile("a", None, replace(VECTOR, size_in_bytes=0))),
            CHANGE_ROWS,
            "unreadable deletion vector",
        ),
        (changed(changes=(ChangeFile("c", 1, 1, {"day": "a"}),)), CHANGE_ROWS, "wrong side of _change_data"),
        (changed(files=(replace(FILE, path="_change_data/x"),)), CHANGE_ROWS, "wrong side of _change_data"),
        (
            changed(files=(replace(FILE, deletion_vector=replace(VECTOR, cardinality=0)),)),
            CHANGE_ROWS,
            "empty deletion vector",
        ),
    ],
)
def test_an_invalid_file_replacement_is_refused(committable: Committable, intent: WriteIntent, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        check(committable, intent=intent)


def test_the_files_of_deletion_vectors_and_change_data_are_looked_up_too() -> None:
    found = changed(
        ReplacedFile("x", None, VECTOR),
        changes=(ChangeFile("_change_data/c", 5, 1, {"day": "a"}),),
        files=(),
    )
    path = vector_path(VECTOR)
    assert path is not None
    files = MemoryFileStore()
    files.publish("_change_data/c", b"12345")
    with pytest.raises(NotFoundError):
        check(found, intent=CHANGE_ROWS, files=files)
    files.publish(path.path, b"x" * (4 + 4 + 40 + 3))
    with pytest.raises(InvalidInputError, match="has 51 bytes, but its task wrote 52"):
        check(found, intent=CHANGE_ROWS, files=files)
    files.delete(path.path)
    files.publish(path.path, b"x" * 100)
    check(found, intent=CHANGE_ROWS, files=files)


@pytest.mark.parametrize("count", [1, 9])
def test_sizes_are_looked_up_if_the_store_is_given(count: int) -> None:
    files = MemoryFileStore()
    paths = [f"p{n}" for n in range(count)]
    for path in paths:
        files.publish(path, b"12345")
    check(sealed(1, *paths), files=files)
    files.publish("short", b"1234")
    with pytest.raises(InvalidInputError, match="short has 4 bytes, but its task wrote 5"):
        check(sealed(1, *paths, "short"), files=files)
    with pytest.raises(NotFoundError):
        check(sealed(1, *paths, "gone"), files=files)
