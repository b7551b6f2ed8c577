"""A committable survives its journey or is refused; the driver believes nothing it has not checked."""

from __future__ import annotations

import pickle
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from txlog.core.format import sealed_json
from txlog.core.format.actions import AddFile, action_to_json
from txlog.core.format.paths import resolve_data_path
from txlog.core.format.schema import STRING, Field
from txlog.core.writing.committable import Committable, KeyFile, PendingFile, validate_committables
from txlog.core.writing.write_intent import APPEND, OVERWRITE, WriteIntent
from txlog.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from txlog.testing.memory_store import MemoryFileStore

FILE = PendingFile("day=a/part-0.parquet", 5, 3, 1_700_000_000_000, {"day": "a"}, '{"numRecords":3}')
SEALED = Committable("orders", 17, "job-1", 3, 0, "table-id", 11, (FILE,))

texts = st.text(st.characters(codec="utf-8"), max_size=20)
counts = st.integers(0, 2**63 - 1)
partition_values = st.dictionaries(texts, st.none() | texts, max_size=3)
pending_files = st.builds(PendingFile, texts, counts, counts, counts, partition_values, st.none() | texts)
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


@pytest.mark.parametrize("changes", [{"keys": None}, {"replaced": []}, {"files": [{"path": "a"}]}], ids=str)
def test_a_committable_without_its_fields_or_with_others_is_refused(changes: dict[str, Any]) -> None:
    value = {**orjson.loads(SEALED.to_bytes().partition(b"\n")[2]), **changes}
    body = orjson.dumps({name: each for name, each in value.items() if each is not None})
    with pytest.raises(InvalidInputError, match="not a txlog committable"):
        Committable.from_bytes(b"txlog-committable 1 %s\n%s" % (sealed_json.checksum(body).encode(), body))


def test_the_error_for_a_newer_format_says_so() -> None:
    newer = SEALED.to_bytes().replace(b"txlog-committable 1 ", b"txlog-committable 2 ", 1)
    with pytest.raises(UnsupportedFeatureError, match="format 2"):
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


KEYS = KeyFile("keys-0.parquet", 5, 3, 1_700_000_000_000)


def test_only_a_write_that_changes_rows_may_name_keys() -> None:
    staged = replace(SEALED, keys=(KEYS,))
    check(staged, intent=WriteIntent("upsert", keys=("id",)))
    for intent in (APPEND, OVERWRITE):
        with pytest.raises(InvalidInputError, match="changes rows by their keys"):
            check(staged, intent=intent)


@pytest.mark.parametrize(
    ("committable", "reason"),
    [
        (replace(SEALED, files=(replace(FILE, path="_change_data/x"),)), "is in _change_data"),
        (replace(SEALED, keys=(replace(KEYS, path="../a"),)), "no writer may use"),
        (replace(SEALED, keys=(replace(KEYS, num_keys=0),)), "empty"),
        (replace(SEALED, keys=(KEYS, KEYS)), "named twice"),
    ],
)
def test_an_invalid_file_of_changes_is_refused(committable: Committable, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        check(committable, intent=WriteIntent("upsert", keys=("id",)))


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
