"""Which files show a version's changes, and which earlier schemas a later one can read."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from txlog.core.format.actions import AddCDCFile, AddFile, CommitInfo, DeletionVectorDescriptor, RemoveFile
from txlog.core.format.changed_rows import ChangedRows
from txlog.core.format.commit_file import Commit
from txlog.core.format.schema import DATE, INTEGER, LONG, STRING, TIMESTAMP_NTZ, Array, Field, Map, Struct
from txlog.core.versions.decisions.changes import changed_rows, incompatible_change, redefinition
from txlog.errors import CorruptLogError

ADD = AddFile("f", {"day": "mon"}, 10, 0, True)
SMALL, LARGE = (DeletionVectorDescriptor("u", name, 1, 40, rows) for name, rows in (("small", 1), ("large", 2)))


def removed(add: AddFile, **more: Any) -> RemoveFile:
    return replace(add.removed(deletion_timestamp=1, data_change=True), **more)


def changed(*actions: Any, info: dict[str, Any] | None = None) -> list[ChangedRows]:
    commit = Commit(7, actions, None if info is None else CommitInfo(info), 0, False)
    return changed_rows(commit, is_partitioned=True)


def marked(vector: DeletionVectorDescriptor) -> AddFile:
    return replace(ADD, deletion_vector=vector)


def test_changes_of_a_version_with_change_files_are_read_only_from_these() -> None:
    change = AddCDCFile("_change_data/c", {"day": "tue"}, 5, False)
    assert changed(removed(ADD), replace(ADD, path="g"), change) == [
        ChangedRows("_change_data/c", {"day": "tue"}, 5, None)
    ]


def test_without_change_files_removed_rows_come_before_added_rows() -> None:
    assert changed(marked(SMALL), removed(replace(ADD, path="g"))) == [
        ChangedRows("g", {"day": "mon"}, 10, "delete"),
        ChangedRows("f", {"day": "mon"}, 10, "insert", SMALL),
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (ADD, marked(LARGE), [ChangedRows("f", {"day": "mon"}, 10, "delete", None, LARGE)]),
        (marked(SMALL), ADD, [ChangedRows("f", {"day": "mon"}, 10, "insert", None, SMALL)]),
        (
            marked(SMALL),
            marked(LARGE),
            [
                ChangedRows("f", {"day": "mon"}, 10, "delete", SMALL, LARGE),
                ChangedRows("f", {"day": "mon"}, 10, "insert", LARGE, SMALL),
            ],
        ),
        (marked(SMALL), marked(SMALL), []),
    ],
)
def test_a_file_that_is_added_again_changed_by_what_its_vectors_differ_in(
    before: AddFile, after: AddFile, expected: list[ChangedRows]
) -> None:
    assert changed(after, removed(before)) == expected
    assert changed(replace(after, path="%66"), removed(before)) == [
        replace(each, path="%66") if each.path == "f" else each for each in expected
    ]


def test_files_that_only_moved_rows_are_no_changes() -> None:
    assert changed(replace(ADD, path="g", data_change=False), removed(ADD, data_change=False)) == []


def test_a_merge_that_declares_no_change_has_no_changed_rows() -> None:
    metrics = {f"numTargetRows{what}": "0" for what in ("Inserted", "Updated", "Deleted")}
    copied = (removed(ADD), replace(ADD, path="g"))
    assert changed(*copied, info={"operation": "MERGE", "operationMetrics": metrics}) == []
    one = metrics | {"numTargetRowsUpdated": "1"}
    assert len(changed(*copied, info={"operation": "MERGE", "operationMetrics": one})) == 2
    assert len(changed(*copied, info={"operation": "WRITE", "operationMetrics": metrics})) == 2


def test_a_removed_file_without_partition_values_is_refused_where_there_are_partitions() -> None:
    old = removed(ADD, partition_values=None)
    with pytest.raises(CorruptLogError, match="extendedFileMetadata"):
        changed(old)
    assert [each.path for each in changed_rows(Commit(7, (old,), None, 0, False), is_partitioned=False)] == ["f"]


# --- schemas --------------------------------------------------------------------------------------------------------


def struct(**fields: Any) -> Struct:
    return Struct(tuple(Field(name, kind) for name, kind in fields.items()))


def mapped(name: str, physical: str, kind: Any = LONG) -> Field:
    return Field(name, kind, True, {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": 1})


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (struct(a=LONG), struct(a=LONG, b=STRING)),
        (struct(a=INTEGER, d=DATE), struct(a=LONG, d=TIMESTAMP_NTZ)),
        (struct(s=struct(a=INTEGER)), struct(s=struct(b=LONG, a=LONG))),
        (struct(l=Array(INTEGER), m=Map(STRING, INTEGER)), struct(l=Array(LONG), m=Map(STRING, LONG))),
        (struct(A=LONG), struct(a=LONG)),
        (Struct((Field("a", LONG, False),)), struct(a=LONG)),
    ],
)
def test_columns_may_be_added_and_widened(earlier: Struct, later: Struct) -> None:
    assert incompatible_change(earlier, later) is None


@pytest.mark.parametrize(
    ("earlier", "later", "said"),
    [
        (struct(a=LONG, b=LONG), struct(a=LONG), "column b was dropped"),
        (struct(a=LONG), struct(a=STRING), "column a changed from bigint to string"),
        (struct(a=LONG), struct(a=INTEGER), "column a changed from bigint to int"),
        (struct(s=struct(a=LONG)), struct(s=struct(b=LONG)), "s.a was dropped"),
        (struct(l=Array(LONG)), struct(l=Array(STRING)), "l.element changed"),
        (struct(m=Map(STRING, LONG)), struct(m=Map(STRING, DATE)), "m.value changed"),
        (struct(a=LONG), Struct((Field("a", LONG, False),)), "a was made NOT NULL"),
        (Struct((mapped("a", "x"),)), Struct((mapped("b", "x"),)), "a was renamed to b"),
        (Struct((mapped("a", "x"),)), Struct((mapped("a", "y"),)), "a was dropped or renamed"),
    ],
)
def test_the_error_for_an_incompatible_schema_change_names_the_columns(
    earlier: Struct, later: Struct, said: str
) -> None:
    assert said in str(incompatible_change(earlier, later))


@pytest.mark.parametrize(
    ("known", "newer", "said"),
    [
        (struct(a=LONG), struct(a=LONG), "None"),
        (struct(a=LONG), Struct((Field("a", LONG, False, {"comment": "x"}),)), "None"),
        (struct(a=LONG), struct(a=LONG, c=LONG, b=LONG), "column b, c was added"),
        (struct(a=LONG, b=LONG), struct(a=LONG), "column b was dropped or renamed"),
        (Struct((mapped("a", "x"),)), Struct((mapped("b", "x"),)), "column a was dropped or renamed"),
        (struct(a=INTEGER), struct(a=LONG), "type of column a changed"),
        (struct(a=LONG), struct(a=INTEGER), "type of column a changed"),
        (struct(s=struct(a=LONG)), struct(s=struct(a=LONG, b=LONG)), "type of column s changed"),
    ],
)
def test_what_a_reader_of_an_earlier_schema_would_miss_is_reported(known: Struct, newer: Struct, said: str) -> None:
    assert said in str(redefinition(known, newer))
    assert redefinition(struct(a=LONG, b=LONG), struct(a=LONG, b=STRING, c=LONG), frozenset({"a"})) is None


def test_only_the_columns_that_are_read_need_to_fit() -> None:
    earlier, later = struct(a=LONG, b=LONG, c=LONG), struct(a=LONG, c=STRING)
    assert incompatible_change(earlier, later, frozenset({"a"})) is None
    assert "column c" in str(incompatible_change(earlier, later, frozenset({"c"})))
    again = Struct((mapped("a", "y"),))
    assert "is not the same column as before" in str(
        incompatible_change(Struct((mapped("a", "x"),)), again, frozenset({"a"}))
    )
