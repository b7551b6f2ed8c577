"""Keys that several live rows have, and null ones, are found in tables of any size, with the files that hold them."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import txlog
from txlog.audit import keys as keys_module
from txlog.cli.app import app
from txlog.result.audits import KeyCheck

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("n", pa.int32())])


@pytest.fixture(params=["in memory", "in temporary files", "in several passes"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A few rows are as many as millions are."""
    if request.param != "in memory":
        monkeypatch.setattr(keys_module, "PART_ROWS", 4)
        monkeypatch.setattr(keys_module, "CHUNK_ROWS", 5)
        monkeypatch.setattr(keys_module, "TASK_ROWS", 2)
    if request.param == "in several passes":
        monkeypatch.setattr(keys_module, "PARTS_AT_ONCE", 2)
    return request.param


def rows(ids: list[int | None], day: str = "mon") -> pa.Table:
    return pa.table({"id": ids, "day": [day] * len(ids), "n": range(len(ids))}).cast(SCHEMA)


def checked(table: txlog.Table, *names: str) -> KeyCheck:
    found = table.verify(names, data_files=False).keys
    assert found is not None
    return found


def test_a_repeated_date_beyond_pythons_years_is_named_by_its_text(make_table: Callable[..., txlog.Table]) -> None:
    late = pa.array([3_000_000, 3_000_000, 1], pa.int32()).cast(pa.date32())
    found = checked(make_table(pa.table({"d": late})), "d")
    assert [dict(each.values) for each in found.examples] == [{"d": "+10183-09-21"}]


def test_a_key_of_several_rows_is_named_with_its_files_and_counts(
    make_table: Callable[..., txlog.Table], sizes: str
) -> None:
    table = make_table(rows([1, 2, 3, 3, 4, 5, 6, 7]), schema=SCHEMA)
    table.append(rows([3, 9, 10, 11, 4]))
    second, first = table.snapshot().files()["path"].to_pylist()
    found = checked(table, "id")
    assert (found.columns, found.version, found.rows) == (("id",), 2, 13)
    assert (found.repeated_keys, found.repeated_rows) == (2, 5)
    assert [dict(each.values) for each in found.examples] == [{"id": 3}, {"id": 4}]
    files = [dict(each.found.files) for each in found.examples]
    assert sorted(files[0].values()) == [1, 2]
    assert files[0].keys() == files[1].keys() == {first, second}
    assert [each.found.rows for each in found.examples] == [3, 2]


def test_a_table_whose_keys_differ_is_sound_and_repeated_keys_are_not(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(rows([1, 2]), schema=SCHEMA)
    assert table.verify(["id"]).is_sound
    assert table.verify().keys is None
    table.append(rows([2]))
    verification = table.verify("id,day")
    (finding,) = verification.findings
    newest, oldest = table.snapshot().files()["path"].to_pylist()
    assert not verification.is_sound
    assert (finding.rule, finding.version, finding.severity) == ("repeated-key", 2, "error")
    other = oldest if finding.path == newest else newest
    assert finding.message == f"id=2, day=mon is the key of 2 rows: 1 in this file, 1 in {other}"


def test_the_command_prints_each_file_of_a_key_once(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(rows([1, 1, None]), schema=SCHEMA)
    (path,) = table.snapshot().files()["path"].to_pylist()
    repeated, null = table.verify(["id"]).findings
    assert (repeated.path, repeated.message) == (path, "id=1 is the key of 2 rows, all in this file")
    assert (null.path, null.message.rsplit(", ", 1)[1]) == (path, "in this file")
    table.append(rows([1, None]))
    shown = CliRunner().invoke(app, ["verify", table.uri, "--keys", "id"], env={"COLUMNS": "1000"}).stdout
    lines = [line for line in shown.splitlines() if "-key " in line]
    assert len(lines) == 2
    for line in lines:
        assert [line.count(each) for each in table.snapshot().files()["path"].to_pylist()] == [1, 1]


def test_deleted_and_updated_rows_do_not_count(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(rows([1, 2, 2, 3]), schema=SCHEMA, properties={"delta.enableDeletionVectors": "true"})
    table.append(rows([3, 1]))
    table.delete("(id = 1 and n = 0) or (id = 2 and n = 1)")
    table.update({"id": txlog.expr("7")}, "id = 3 and n = 0")
    found = checked(table, "id")
    assert (found.rows, found.repeated_keys) == (4, 0)


def test_null_keys_are_counted_by_file_and_are_a_warning(make_table: Callable[..., txlog.Table], sizes: str) -> None:
    table = make_table(rows([None, 1, None]), schema=SCHEMA)
    table.append(rows([None, 2, 3, 4, 5, 6]))
    table.append(pa.table({"id": [7], "day": [None], "n": [99]}).cast(SCHEMA))
    nulls = checked(table, "id").nulls
    assert (nulls.rows, nulls.num_files, sorted(nulls.files.values())) == (3, 2, [1, 2])
    verification = table.verify(["id", "day"])
    (finding,) = verification.findings
    assert (finding.rule, finding.severity) == ("null-key", "warning")
    assert "4 rows with a null in the key (id, day)" in finding.message
    assert verification.is_sound


def test_rows_of_one_key_in_two_partitions_are_found_by_the_key_alone(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(rows([1, 2]), schema=SCHEMA, partition_by=["day"])
    table.append(rows([2, 3], "tue"))
    found = checked(table, "id")
    assert [dict(each.values) for each in found.examples] == [{"id": 2}]
    assert {path.split("/")[0] for path in found.examples[0].found.files} == {"day=mon", "day=tue"}
    assert checked(table, "id", "day").repeated_keys == 0
    assert checked(table, "day").repeated_rows == 4


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a", "b", "a", "ä" * 600]),
        (pa.binary(), [b"\x00", b"\x01", b"\x00", b""]),
        (pa.bool_(), [True, False, True]),
        (pa.date32(), [datetime.date(2026, 1, 1), datetime.date(1, 1, 1), datetime.date(2026, 1, 1)]),
        (pa.decimal128(38, 2), [Decimal("1.50"), Decimal("-1.50"), Decimal("1.50")]),
        (pa.timestamp("us", "UTC"), [datetime.datetime(2026, 1, n, tzinfo=datetime.timezone.utc) for n in (1, 2, 1)]),
        (pa.int8(), [1, -1, 1]),
    ],
)
def test_keys_of_every_type_are_compared_and_shown(
    make_table: Callable[..., txlog.Table], kind: pa.DataType, values: list[Any]
) -> None:
    table = make_table(
        pa.table({"s": [{"key": value} for value in values]}, pa.schema([("s", pa.struct([("key", kind)]))]))
    )
    found = checked(table, "s.key")
    assert [(dict(each.values), each.found.rows) for each in found.examples] == [({"s.key": values[0]}, 2)]
    shown = CliRunner().invoke(app, ["verify", table.uri, "--keys", "s.key", "--json"])
    assert json.loads(shown.stdout)["keys"]["examples"][0]["rows"] == 2


def test_columns_that_cannot_be_keys_are_refused_before_anything_is_read(
    make_table: Callable[..., txlog.Table],
) -> None:
    table = make_table(pa.table({"id": [1], "x": [1.5]}))
    for names, why in ((["none"], "no column 'none'"), (["x"], "cannot be a key"), ([], "at least one")):
        with pytest.raises(txlog.InvalidInputError, match=why):
            table.verify(names)


def test_the_repeated_keys_with_most_rows_are_reported_and_all_are_counted(
    make_table: Callable[..., txlog.Table], sizes: str
) -> None:
    table = make_table(rows([n for n in range(22) for _ in range(2 + n)]), schema=SCHEMA)
    found = checked(table, "id")
    assert (found.repeated_keys, found.repeated_rows) == (22, sum(range(2, 24)))
    assert [each.values["id"] for each in found.examples] == list(range(21, 1, -1))
    findings = table.verify(["id"]).findings
    assert len(findings) == 21
    assert findings[-1].message.startswith("and 2 more keys")


def test_a_key_in_many_files_is_reported_with_some_of_them(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(rows([1]), schema=SCHEMA)
    for _ in range(keys_module.FILES_MAX):
        table.append(rows([1]))
    (example,) = checked(table, "id").examples
    assert (example.found.rows, example.found.num_files) == (21, 21)
    assert len(example.found.files) == keys_module.FILES_MAX
    assert table.verify("id").findings[0].message.endswith("and 18 more files")


def test_keys_that_cannot_be_read_are_a_finding(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(rows([1]), schema=SCHEMA)
    (path,) = table.snapshot().files()["path"].to_pylist()
    Path(table.uri, path).unlink()
    verification = table.verify(["id"])
    assert verification.keys is None
    assert {finding.rule for finding in verification.findings} == {"missing-file", "keys-not-checked"}


def test_key_columns_may_have_the_names_that_verify_uses_itself(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(pa.table({"file": [1, 1], "_file": ["a", "b"]}))
    assert checked(table, "file").repeated_keys == 1
    assert checked(table, "file", "_file").repeated_keys == 0


def test_files_without_counted_rows_are_read_all_the_same(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(rows([1, 1, 2]), schema=SCHEMA)
    newest = Path(table.uri, "_delta_log", f"{1:020}.json")
    lines = [json.loads(line) for line in newest.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    newest.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert checked(txlog.Table.open(table.uri), "id").repeated_rows == 2


def test_progress_is_told_in_rows(make_table: Callable[..., txlog.Table]) -> None:
    reported: list[tuple[str, int, int]] = []
    make_table(rows([1, 2, 3]), schema=SCHEMA).verify(
        ["id"], on_progress=lambda what, done, total: reported.append((what, done, total))
    )
    assert reported[-1] == ("keys", 3, 3)


def test_the_command_fails_for_repeated_keys_and_prints_them(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(rows([1, 2]), schema=SCHEMA)
    sound = CliRunner().invoke(app, ["verify", table.uri, "--keys", "id"])
    assert sound.exit_code == 0
    assert "read the key (id) of 2 rows: 0 keys with several rows, 0 null keys" in sound.stdout
    table.append(rows([2, None]))
    broken = CliRunner().invoke(app, ["verify", table.uri, "-k", "id"])
    assert broken.exit_code == 1
    assert "id=2 is the key of 2 rows" in broken.stdout
    assert "an upsert of one row with this key replaces all of them" in " ".join(broken.stdout.split())
    facts = json.loads(CliRunner().invoke(app, ["verify", table.uri, "-k", "id,day", "--json"]).stdout)
    assert facts["keys"]["columns"] == ["id", "day"]
    assert facts["keys"]["examples"][0]["key"] == {"id": 2, "day": "mon"}
    assert [each["rows"] for each in facts["keys"]["examples"][0]["files"]] == [1, 1]
    assert facts["keys"]["nulls"]["rows"] == 1
    table.upsert(rows([2]), keys=["id"])
    assert table.verify(["id"]).is_sound


@given(
    files=st.lists(
        st.lists(st.tuples(st.sampled_from([None, *range(6)]), st.sampled_from(["a", "b", "b\0"])), max_size=12),
        max_size=5,
    ),
    by=st.sampled_from([("id",), ("day", "id"), ("day",)]),
    part_rows=st.sampled_from([1, 3, 1 << 21]),
)
def test_what_is_found_equals_a_count_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[tuple[int | None, str]]],
    by: tuple[str, ...],
    part_rows: int,
) -> None:
    table = txlog.Table.create(tmp_path_factory.mktemp("t"), SCHEMA)
    for each in files:
        ids, days = [id for id, _ in each], [day for _, day in each]
        table.append(pa.table({"id": ids, "day": days, "n": [0] * len(each)}).cast(SCHEMA))
    place = {"id": 0, "day": 1}
    keys = [tuple(row[place[name]] for name in by) for each in files for row in each]
    counts = Counter(key for key in keys if None not in key)
    expected = {key: count for key, count in counts.items() if count > 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_module, "PART_ROWS", part_rows)
        found = checked(table, *by)
    assert {tuple(each.values[name] for name in by): each.found.rows for each in found.examples} == expected
    assert (found.repeated_keys, found.repeated_rows) == (len(expected), sum(expected.values()))
    assert (found.rows, found.nulls.rows) == (len(keys), sum(None in key for key in keys))
