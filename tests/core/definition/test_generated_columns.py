"""Generated columns and defaults: every way of writing rows computes what the data lacks, and checks what it has."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import orjson
import pyarrow as pa
import pytest

import txlog
from txlog.table import Table

PLAIN = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("amount", pa.int64())])
GENERATED = "delta.generationExpression"
DAY = "CAST(at AS DATE)"
DOUBLE = "amount * 2"


def field(name: str, kind: str, nullable: bool = True, **metadata: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def schema_of(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


FIELDS = [
    field("id", "long"),
    field("at", "timestamp"),
    field("day", "date", **{GENERATED: DAY}),
    field("amount", "long"),
    field("twice", "long", **{GENERATED: DOUBLE}),
]


def noon(day: int) -> dt.datetime:
    return dt.datetime(2026, 3, day, 12, tzinfo=dt.timezone.utc)


def rows_of(*rows: tuple[int, int | None, int | None]) -> pa.Table:
    """Rows without generated columns: id, the day in March, amount."""
    found = [{"id": id, "at": None if day is None else noon(day), "amount": amount} for id, day, amount in rows]
    return pa.Table.from_pylist(found, schema=PLAIN)


def with_values(rows: pa.Table, day: int = 0, twice: int = 0) -> pa.Table:
    """The rows with their generated columns, wrong by this many days or this amount."""
    at, amount = rows["at"].to_pylist(), rows["amount"].to_pylist()
    days = [None if each is None else each.date() + dt.timedelta(days=day) for each in at]
    doubled = [None if each is None else 2 * each + twice for each in amount]
    return rows.append_column("day", pa.array(days, pa.date32())).append_column("twice", pa.array(doubled, pa.int64()))


def found_in(table: Table) -> list[tuple[Any, ...]]:
    rows = Table.open(table.uri).to_arrow().sort_by("id").to_pylist()
    return [(row["id"], row["day"] and row["day"].day, row["amount"], row["twice"]) for row in rows]


def data_files(table: Table) -> list[str]:
    return sorted(str(path) for path in Path(table.uri).rglob("*.parquet"))


TABLES = (pytest.param("flat", marks=pytest.mark.hunt(part="definitions")), "by day", "copies", "tracked and mapped")


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return generating(tmp_path / "t", request.param)


def generating(path: Path, kind: str) -> Table:
    """A table with the columns ``day`` and ``twice``, which are generated, and three rows."""
    properties = {
        "copies": {"delta.enableDeletionVectors": "false"},
        "tracked and mapped": {
            "delta.enableRowTracking": "true",
            "delta.columnMapping.mode": "name",
            "delta.enableChangeDataFeed": "true",
        },
    }.get(kind, {"delta.enableDeletionVectors": "true"})
    partition_by = ["day"] if kind in ("by day", "tracked and mapped") else []
    table = Table.create(path, schema_of(*FIELDS), partition_by=partition_by, properties=properties)
    table.append(rows_of((1, 1, 10), (2, 2, 20), (3, None, None)))
    return table


def in_transaction(table: Table, rows: pa.Table) -> None:
    with table.transaction() as txn:
        txn.append(rows)


def by_sink(table: Table, rows: pa.Table, **options: Any) -> None:
    sink = txlog.Sink(table, "app", **options)
    with sink.task(1) as task:
        task.write(rows)
    sink.commit(1, [task.committable])


def by_merge(table: Table, rows: pa.Table) -> None:
    merge = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def upsert_in_transaction(table: Table, rows: pa.Table) -> None:
    with table.transaction() as txn:
        txn.upsert(rows, keys=["id"])


Write = Callable[[Table, pa.Table], object]
APPENDS: dict[str, Write] = {
    "append": lambda table, rows: table.append(rows),
    "merged schema": lambda table, rows: table.append(
        rows.append_column("new", pa.array([1] * rows.num_rows)), schema_mode="merge"
    ),
    "transaction": in_transaction,
    "sink": by_sink,
}
CHANGES: dict[str, Write] = {
    "overwrite of a predicate": lambda table, rows: table.overwrite(rows, where="id IN (1, 8)"),
    "upsert": lambda table, rows: table.upsert(rows, keys=["id"]),
    "upsert of some columns": lambda table, rows: table.upsert(rows, keys=["id"], update_columns=["amount", "at"]),
    "upsert in a transaction": upsert_in_transaction,
    "merge": by_merge,
}


@pytest.mark.parametrize("write", APPENDS)
def test_data_that_lacks_generated_columns_gets_them_computed(table: Table, write: str) -> None:
    APPENDS[write](table, rows_of((7, 3, 5), (8, None, 8)))
    assert found_in(table)[3:] == [(7, 3, 5, 10), (8, None, 8, 16)]


@pytest.mark.parametrize("write", CHANGES)
def test_rows_that_replace_others_get_them_computed(table: Table, write: str) -> None:
    require_computed(table, CHANGES[write])


def require_computed(table: Table, write: Write) -> None:
    write(table, rows_of((1, 3, 5), (8, 2, 8)))
    assert found_in(table) == [(1, 3, 5, 10), (2, 2, 20, 40), (3, None, None, None), (8, 2, 8, 16)]
    by_day = table.to_arrow(where="day = DATE '2026-03-03'")
    assert by_day["id"].to_pylist() == [1]
    assert table.verify().is_sound


@pytest.mark.parametrize("write", [*APPENDS, *CHANGES])
def test_given_values_are_taken_if_they_are_right_and_refused_if_not(table: Table, write: str) -> None:
    files = data_files(table)
    require_right_values(table, {**APPENDS, **CHANGES}[write], files if write != "sink" else None)


def require_right_values(table: Table, write: Write, files: list[str] | None) -> None:
    """Wrong values are refused, and leave the ``files`` of before; None: they stay for the next attempt."""
    before = found_in(table)
    version = Table.open(table.uri).version
    rows = rows_of((1, 3, 5), (8, 2, 8))
    for wrong, said in (
        ({"day": 1}, r"column day is generated as CAST\(at AS DATE\), but row 0 .* day = .*2026, 3, 4"),
        ({"twice": 1}, r"column twice is generated as amount \* 2, but row 0 .* twice = 11"),
    ):
        with pytest.raises(txlog.InvalidInputError, match=said):
            write(table, with_values(rows, **wrong))
    assert Table.open(table.uri).version == version
    assert found_in(table) == before
    assert files is None or data_files(table) == files
    write(Table.open(table.uri), with_values(rows))
    assert (8, 2, 8, 16) in found_in(table)
    assert (1, 3, 5, 10) in found_in(table)


def test_a_refused_value_is_shown_by_its_row_in_all_of_the_data(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", schema_of(*FIELDS))
    right, wrong = with_values(rows_of((1, 1, 1), (2, 2, 2))), with_values(rows_of((3, 3, 3)), twice=1)
    batches = [*right.to_batches(), *wrong.to_batches()]
    with pytest.raises(txlog.InvalidInputError, match="row 2 of the data, counting from 0, has another value"):
        table.append(pa.Table.from_batches(batches))


def test_an_overwrite_replaces_the_partitions_of_the_computed_values(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", schema_of(*FIELDS), partition_by=["day"])
    table.append(rows_of((1, 1, 10), (2, 2, 20)))
    table.overwrite_partitions(rows_of((7, 2, 7)))
    assert found_in(table) == [(1, 1, 10, 20), (7, 2, 7, 14)]
    with pytest.raises(txlog.InvalidInputError, match="outside the part that it replaces"):
        table.overwrite(rows_of((8, 3, 8)), where="day = DATE '2026-03-01'")
    table.overwrite(rows_of((8, 1, 8)), where="day = DATE '2026-03-01'")
    assert found_in(table) == [(7, 2, 7, 14), (8, 1, 8, 16)]
    table.overwrite(rows_of((9, 1, 9)))
    assert found_in(table) == [(9, 1, 9, 18)]


def test_a_dry_run_of_an_overwrite_refuses_what_the_overwrite_refuses(table: Table) -> None:
    wrong = with_values(rows_of((1, 1, 1)), twice=1)
    with pytest.raises(txlog.InvalidInputError, match="column twice is generated"):
        table.overwrite(wrong, dry_run=True)
    assert table.overwrite(rows_of((1, 1, 1)), dry_run=True).metrics.rows == 1


# --- updates ----------------------------------------------------------------------------------------------------------


def test_an_update_computes_what_follows_from_the_columns_that_it_sets(table: Table) -> None:
    table.update({"amount": txlog.expr("amount + 1")}, "id <= 2")
    assert found_in(table) == [(1, 1, 11, 22), (2, 2, 21, 42), (3, None, None, None)]
    table.update({"at": noon(9)}, "id = 3")
    assert found_in(table)[2] == (3, 9, None, None)
    assert table.to_arrow(where="day = DATE '2026-03-09'")["id"].to_pylist() == [3]
    with table.transaction() as txn:
        txn.update({"amount": lambda rows: pa.array([5] * rows.num_rows)}, "id = 3")
    assert found_in(table)[2] == (3, 9, 5, 10)


def test_an_update_of_a_generated_column_is_checked(table: Table) -> None:
    before = found_in(table)
    with pytest.raises(txlog.InvalidInputError, match=r"column twice is generated as amount \* 2"):
        table.update({"twice": 1}, "id = 1")
    with pytest.raises(txlog.InvalidInputError, match="column twice is generated"):
        table.update({"amount": 1, "twice": 1}, "id = 1")
    assert found_in(table) == before
    table.update({"amount": 1, "twice": 2}, "id = 1")
    table.update({"twice": txlog.expr("amount * 2")})
    assert found_in(table)[0] == (1, 1, 1, 2)


def test_rows_keep_a_value_that_another_time_zone_gave_them(table: Table) -> None:
    """Rows in the table are neither computed nor checked again where what they follow from stays."""
    mark_wrong(table)
    table = Table.open(table.uri)
    expected = [(1, 1, 10, -1), (2, 2, 20, -1), (3, None, None, -1)]
    assert found_in(table) == expected
    table.update({"at": noon(5)}, "id = 2")  # not what twice follows from
    assert found_in(table)[1] == (2, 5, 20, -1)
    table.update({"id": 4}, "id = 3")
    table.upsert(pa.table({"id": [1], "at": [noon(6)]}), ["id"], update_columns=["at"], when_not_matched="ignore")
    table.merge(pa.table({"k": [1], "at": [noon(7)]}), "target.id = source.k").when_matched_update(
        {"at": txlog.expr("source.at")}
    ).execute()
    table.delete("id = 4")
    assert found_in(table) == [(1, 7, 10, -1), (2, 5, 20, -1)]
    table.append(rows_of((9, 9, 9)))
    table.optimize()
    assert found_in(table) == [(1, 7, 10, -1), (2, 5, 20, -1), (9, 9, 9, 18)]
    table.update({"amount": txlog.expr("amount")}, "id = 1")
    assert found_in(table)[0] == (1, 7, 10, 20)


def mark_wrong(table: Table) -> None:
    """Give the rows another value of ``twice``, as a writer with another meaning of the expression."""
    commit_metadata(table, lambda metadata: set_expression(metadata, "twice", "-1"))
    opened = Table.open(table.uri)
    opened.update({"twice": -1})
    commit_metadata(table, lambda metadata: set_expression(metadata, "twice", DOUBLE))


def set_expression(metadata: dict[str, Any], column: str, sql: str | None) -> None:
    schema = json.loads(metadata["schemaString"])
    (found,) = (each for each in schema["fields"] if each["name"] == column)
    found["metadata"].pop(GENERATED, None)
    if sql is not None:
        found["metadata"][GENERATED] = sql
    metadata["schemaString"] = json.dumps(schema)


def commit_metadata(table: Table, change: Callable[[dict[str, Any]], None]) -> Table:
    """Change the table's metadata as another engine."""
    log = Path(table.uri) / "_delta_log"
    version = Table.open(table.uri).version
    metadata = next(
        line["metaData"]
        for path in sorted(log.glob("*.json"), reverse=True)
        for line in map(json.loads, path.read_text().splitlines())
        if "metaData" in line
    )
    change(metadata)
    lines = [{"commitInfo": {"timestamp": 1, "operation": "other"}}, {"metaData": metadata}]
    (log / f"{version + 1:020}.json").write_text("".join(orjson.dumps(line).decode() + "\n" for line in lines))
    return Table.open(table.uri)


# --- merges and upserts -----------------------------------------------------------------------------------------------


def test_a_merge_computes_what_its_clauses_do_not_set(table: Table) -> None:
    source = pa.table({"k": [1, 2, 8], "v": [100, 200, 800]})
    merge = table.merge(source, "t.id = s.k", source_alias="s", target_alias="t")
    merge.when_matched_update({"amount": txlog.expr("s.v")}, predicate="s.k = 1").when_matched_delete()
    merge.when_not_matched_insert(
        {"id": txlog.expr("s.k"), "amount": txlog.expr("s.v")}
    ).when_not_matched_by_source_update({"at": txlog.expr(f"TIMESTAMP '{noon(4):%Y-%m-%d %H:%M:%S}'")}).execute()
    assert found_in(table) == [(1, 1, 100, 200), (3, 4, None, None), (8, None, 800, 1600)]
    wrong = table.merge(source, "t.id = s.k", source_alias="s", target_alias="t")
    with pytest.raises(txlog.InvalidInputError, match="column twice is generated"):
        wrong.when_not_matched_insert(
            {"id": txlog.expr("s.k"), "amount": txlog.expr("s.v"), "twice": txlog.expr("s.v")}
        ).execute()


def test_an_upsert_of_some_columns_checks_a_generated_one_among_them(table: Table) -> None:
    rows = pa.table({"id": [1], "twice": [20]})
    options: dict[str, Any] = {"update_columns": ["twice"], "when_not_matched": "ignore"}
    table.upsert(rows, ["id"], **options)
    with pytest.raises(txlog.InvalidInputError, match="column twice is generated"):
        table.upsert(pa.table({"id": [1], "twice": [21]}), ["id"], **options)
    assert found_in(table)[0] == (1, 1, 10, 20)


def test_an_upsert_of_some_columns_must_have_a_generated_one_that_needs_others_too(tmp_path: Path) -> None:
    fields = [field("id", "long"), field("a", "long"), field("b", "long"), field("sum", "long", **{GENERATED: "a + b"})]
    table = Table.create(tmp_path / "t", schema_of(*fields))
    table.append(pa.table({"id": [1], "a": [2], "b": [3]}))
    with pytest.raises(txlog.SchemaMismatchError, match="lacks sum: an upsert"):
        table.upsert(pa.table({"id": [1], "a": [5]}), ["id"], update_columns=["a", "sum"], when_not_matched="ignore")
    table.upsert(pa.table({"id": [1], "a": [5]}), ["id"], update_columns=["a"], when_not_matched="ignore")
    assert table.to_arrow().to_pylist() == [{"id": 1, "a": 5, "b": 3, "sum": 8}]


def test_an_upsert_must_have_the_columns_that_are_not_generated(table: Table) -> None:
    with pytest.raises(txlog.SchemaMismatchError, match="lacks amount: an upsert"):
        table.upsert(rows_of((1, 1, 1)).drop(["amount"]), ["id"])


def test_a_generated_column_can_be_a_part_of_the_key(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", schema_of(*FIELDS), partition_by=["day"])
    table.append(rows_of((1, 1, 10), (1, 2, 20)))
    table.upsert(rows_of((1, 2, 21), (1, 3, 30)), ["id", "day"])
    assert sorted(row["amount"] for row in table.to_arrow().to_pylist()) == [10, 21, 30]


# --- other rules ------------------------------------------------------------------------------------------------------


def test_constraints_and_not_null_hold_for_computed_values(tmp_path: Path) -> None:
    fields = [field("id", "long"), field("twice", "long", nullable=False, **{GENERATED: "id * 2"})]
    table = Table.create(tmp_path / "t", schema_of(*fields), properties={"delta.constraints.small": "twice < 100"})
    table.append(pa.table({"id": [1]}))
    with pytest.raises(txlog.InvalidInputError, match=r"column twice is null.*row 1"):
        table.append(pa.table({"id": [1, None]}))
    with pytest.raises(txlog.InvalidInputError, match="constraint small, which is twice < 100, with twice = 120"):
        table.append(pa.table({"id": [60]}))
    with pytest.raises(txlog.InvalidInputError, match="constraint small"):
        table.update({"id": 60})
    with pytest.raises(txlog.InvalidInputError, match="column twice is null"):
        table.update({"id": None})
    with pytest.raises(txlog.InvalidInputError, match=r"generated column twice \(id \* 2\) cannot be computed"):
        table.append(pa.table({"id": [2**62]}))
    assert table.to_arrow().to_pylist() == [{"id": 1, "twice": 2}]


def test_computed_values_have_statistics_and_are_in_the_change_feed(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", schema_of(*FIELDS), properties={"delta.enableChangeDataFeed": "true"})
    table.append(rows_of((1, 1, 10)))
    table.update({"amount": 11})
    statistics = deltalake.DeltaTable(table.uri).get_add_actions(flatten=True)
    assert pa.table(statistics)["max.twice"].to_pylist() == [22]
    changes = [(row["_change_type"], row["twice"]) for row in table.changes(1).read_all().to_pylist()]
    assert sorted(changes) == [("insert", 20), ("update_postimage", 22), ("update_preimage", 20)]


@pytest.mark.parametrize("given", [True, False])
def test_a_value_equals_itself_whatever_it_is(tmp_path: Path, given: bool) -> None:
    """NULL, NaN and both zeros, as Spark's ``<=>`` compares them."""
    table = Table.create(tmp_path / "t", schema_of(field("x", "double"), field("y", "double", **{GENERATED: "x * 1"})))
    rows = pa.table({"x": [None, float("nan"), -0.0, float("inf")]})
    table.append(rows.append_column("y", pa.array([None, float("nan"), 0.0, float("inf")])) if given else rows)
    assert table.count("y <=> x") == 4


def test_members_of_structs_are_what_a_column_may_follow_from(tmp_path: Path) -> None:
    place = {"type": "struct", "fields": [field("city", "string")]}
    table = Table.create(
        tmp_path / "t",
        schema_of({**field("place", ""), "type": place}, field("city", "string", **{GENERATED: "upper(place.city)"})),
    )
    table.append(pa.table({"place": [{"city": "rome"}, None]}))
    assert table.to_arrow()["city"].to_pylist() == ["ROME", None]


def test_an_append_that_began_before_a_change_of_the_expression_conflicts_with_it(table: Table) -> None:
    def append_beside_a_change() -> None:
        with table.transaction() as txn:
            txn.append(rows_of((9, 9, 9)))
            commit_metadata(table, lambda metadata: set_expression(metadata, "twice", "amount + amount + 1"))

    with pytest.raises(txlog.ConflictError):
        append_beside_a_change()
    assert len(found_in(table)) == 3


def test_staged_rows_of_an_older_version_are_refused_if_an_expression_was_changed(table: Table) -> None:
    sink = txlog.Sink(table, "app")
    with sink.task(1) as task:
        task.write(rows_of((9, 9, 9)))
    sink.stage(task.committable)
    sink.prepare(1, [0])
    commit_metadata(table, lambda metadata: set_expression(metadata, "twice", "amount * 3"))
    with pytest.raises(txlog.MetadataChangedError, match="generated column twice"):
        txlog.Sink(Table.open(table.uri), "app").recover()
    commit_metadata(table, lambda metadata: set_expression(metadata, "twice", DOUBLE))
    assert txlog.Sink(Table.open(table.uri), "app").recover().results[1].outcome == "committed"


ODD_EXPRESSIONS = ("date_format(at, 'E')", "rand()", "amount +", "nope", "amount = 1", "day")


@pytest.mark.parametrize("expression", ODD_EXPRESSIONS)
def test_an_expression_that_txlog_cannot_evaluate_is_refused_and_named(table: Table, expression: str) -> None:
    odd = commit_metadata(table, lambda metadata: set_expression(metadata, "twice", expression))
    before, files = found_in(odd), data_files(odd)
    for write in (
        lambda: odd.append(rows_of((9, 9, 9))),
        lambda: odd.append(with_values(rows_of((9, 9, 9)))),
        lambda: odd.update({"amount": 1, "twice": 2}),
        lambda: odd.upsert(rows_of((1, 1, 1)), ["id"]),
        lambda: by_merge(odd, rows_of((1, 1, 1))),
    ):
        with pytest.raises(txlog.UnsupportedFeatureError, match="cannot compute the generated column twice") as caught:
            write()
        assert caught.value.features == ("generatedColumns",)
    assert (found_in(odd), data_files(odd)) == (before, files)
    odd.delete("id = 3")
    assert odd.optimize(target_file_size=1 << 20) is not None
    assert found_in(odd) == before[:2]


# --- defaults ---------------------------------------------------------------------------------------------------------

DEFAULT = "CURRENT_DEFAULT"


@pytest.fixture
def with_defaults(tmp_path: Path) -> Table:
    return defaulting(tmp_path / "d")


def defaulting(path: Path) -> Table:
    return Table.create(
        path,
        schema_of(
            field("id", "long"),
            field("n", "integer", nullable=False, **{DEFAULT: "7", "EXISTS_DEFAULT": "7"}),
            field("s", "string", **{DEFAULT: "\"a\" || 'b'"}),
            field("twice", "integer", **{GENERATED: "n * 2"}),
        ),
        partition_by=["s"],
    )


DEFAULTED = {"n": 7, "s": "ab", "twice": 14}


@pytest.mark.parametrize("write", ["append", "overwrite", "transaction", "sink"])
def test_data_that_lacks_a_column_gets_its_default(with_defaults: Table, write: str) -> None:
    writes = {**APPENDS, "overwrite": lambda table, rows: table.overwrite(rows)}
    writes[write](with_defaults, pa.table({"id": [1, 2]}))
    assert with_defaults.to_arrow().to_pylist() == [{"id": id, **DEFAULTED} for id in (1, 2)]


def test_a_given_null_stays_null(with_defaults: Table) -> None:
    with_defaults.append(pa.table({"id": [1], "s": pa.array([None], pa.string())}))
    assert with_defaults.to_arrow().to_pylist() == [{"id": 1, **DEFAULTED, "s": None}]
    with pytest.raises(txlog.InvalidInputError, match="column n is null"):
        with_defaults.append(pa.table({"id": [1], "n": pa.array([None], pa.int32())}))


def test_rows_that_a_merge_inserts_get_defaults_and_updated_ones_do_not(with_defaults: Table) -> None:
    with_defaults.append(pa.table({"id": [1], "n": pa.array([1], pa.int32()), "s": ["x"]}))
    merge = with_defaults.merge(pa.table({"k": [1, 2]}), "target.id = source.k")
    merge.when_matched_update({"n": txlog.expr("n + 1")}).when_not_matched_insert(
        {"id": txlog.expr("source.k")}
    ).execute()
    assert with_defaults.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "n": 2, "s": "x", "twice": 4},
        {"id": 2, **DEFAULTED},
    ]
    with pytest.raises(txlog.SchemaMismatchError, match="lacks n, s: an upsert"):
        with_defaults.upsert(pa.table({"id": [1]}), ["id"])


def test_a_default_of_the_current_time_is_the_time_of_each_write(tmp_path: Path) -> None:
    schema = schema_of(
        field("id", "long"),
        field("at", "timestamp", **{DEFAULT: "current_timestamp()"}),
        field("day", "date", **{DEFAULT: "current_date()"}),
    )
    table = Table.create(tmp_path / "t", schema)
    before = dt.datetime.now(dt.timezone.utc) - dt.timedelta(seconds=1)
    for id in range(3):
        table.append(pa.table({"id": [id] * 2}))
    table.merge(pa.table({"k": [9]}), "target.id = source.k").when_not_matched_insert(
        {"id": txlog.expr("source.k")}
    ).execute()
    by_sink(table, pa.table({"id": [10]}))
    times: dict[int, set[dt.datetime]] = {}
    for row in table.to_arrow().to_pylist():
        times.setdefault(row["id"], set()).add(row["at"])
        assert row["day"] == row["at"].date()
    assert all(len(found) == 1 for found in times.values())
    moments = [found.pop() for _, found in sorted(times.items())]
    assert moments == sorted(moments)
    assert before < moments[0] < moments[-1] <= dt.datetime.now(dt.timezone.utc)


def test_a_default_that_txlog_cannot_evaluate_is_refused_only_where_it_is_needed(with_defaults: Table) -> None:
    def odd(metadata: dict[str, Any]) -> None:
        schema = json.loads(metadata["schemaString"])
        schema["fields"][2]["metadata"][DEFAULT] = "uuid()"
        metadata["schemaString"] = json.dumps(schema)

    table = commit_metadata(with_defaults, odd)
    with pytest.raises(txlog.UnsupportedFeatureError, match=r"the default of column s \(uuid\(\)\)") as caught:
        table.append(pa.table({"id": [1]}))
    assert caught.value.features == ("allowColumnDefaults",)
    table.append(pa.table({"id": [1], "s": ["x"]}))
    table.update({"id": 2})
    assert table.to_arrow().to_pylist() == [{"id": 2, **DEFAULTED, "s": "x"}]


# --- definitions ------------------------------------------------------------------------------------------------------


def test_a_new_table_has_the_protocol_of_its_columns(with_defaults: Table, tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", schema_of(*FIELDS))
    assert (table.snapshot().protocol.min_reader_version, table.snapshot().protocol.min_writer_version) == (1, 4)
    assert table.snapshot().protocol.writer_features is None
    protocol = with_defaults.snapshot().protocol
    assert {"allowColumnDefaults", "generatedColumns"} <= {*(protocol.writer_features or ())}
    assert b"EXISTS_DEFAULT" not in next(Path(with_defaults.uri, "_delta_log").glob("*0.json")).read_bytes()


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (field("g", "long", **{GENERATED: "nope + 1"}), "there is no column nope"),
        (field("g", "long", **{GENERATED: "twice + 1"}), "there is no column twice"),
        (field("g", "integer", **{GENERATED: "id + 1"}), r"g is int, and id \+ 1 is bigint: write CAST"),
        (field("g", "long", **{GENERATED: "id", DEFAULT: "1"}), "cannot have a default"),
        (field("g", "double", **{GENERATED: "rand()"}), "another value each time"),
        (field("g", "double", **{DEFAULT: "rand()"}), r"the default of column g \(rand\(\)\)"),
        (field("g", "long", **{DEFAULT: "id"}), "there is no column id"),
        (field("g", "date", **{DEFAULT: "1"}), "cannot be stored as date"),
        (
            field("g", "string", **{DEFAULT: "'abcd'", "__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}),
            r"the default of column g \('abcd'\) does not fit in varchar\(3\)",
        ),
        (
            {**field("g", ""), "type": {"type": "struct", "fields": [field("m", "long", **{DEFAULT: "1"})]}},
            "g.m is a part of a column",
        ),
    ],
)
def test_what_cannot_be_a_generated_column_or_a_default_is_refused(
    table: Table, tmp_path: Path, column: dict[str, Any], said: str
) -> None:
    with pytest.raises(txlog.InvalidInputError, match=said):
        Table.create(tmp_path / "u", schema_of(*FIELDS, column))


def test_a_default_is_no_longer_than_its_column_allows(tmp_path: Path) -> None:
    made = Table.create(tmp_path / "t", "id bigint, a varchar(3) default 'abc', b char(2)")
    made.alter_column("b", default="concat('x', 'y')")
    with pytest.raises(txlog.InvalidInputError, match=r"the default of column b .* does not fit in char\(2\)"):
        made.alter_column("b", default="'xyz'")
    made.append(pa.table({"id": [1]}))
    assert made.to_arrow().to_pylist() == [{"id": 1, "a": "abc", "b": "xy"}]


def test_ddl_defines_generated_columns_and_defaults(tmp_path: Path) -> None:
    ddl = "at timestamp, day date NOT NULL GENERATED ALWAYS AS (CAST(at AS DATE)), state string DEFAULT 'new'"
    table = Table.create(tmp_path / "t", ddl, partition_by="day")
    table.append(pa.table({"at": [noon(4)]}))
    assert table.to_arrow().to_pylist() == [{"at": noon(4), "day": dt.date(2026, 3, 4), "state": "new"}]


def test_columns_are_not_added_as_generated_ones(table: Table) -> None:
    version = table.version
    for metadata in ({GENERATED: "id + 1"}, {DEFAULT: "1"}):
        with pytest.raises(
            txlog.InvalidInputError, match="cannot add g as a generated or identity column or with a default"
        ):
            table.add_columns(schema_of(field("g", "long", **metadata)))
    assert table.version == version
    table.add_columns(pa.schema([("plain", pa.int64())]))
    table.append(rows_of((8, 1, 8)))
    assert found_in(table)[-1] == (8, 1, 8, 16)


def test_a_new_schema_is_the_datas(tmp_path: Path) -> None:
    """It never keeps an expression that names a column that is gone."""
    table = Table.create(tmp_path / "t", schema_of(*FIELDS))
    table.append(rows_of((1, 1, 10)))
    table.overwrite(pa.table({"id": [1], "twice": [5]}), schema_mode="overwrite")
    assert Table.open(table.uri).to_arrow().to_pylist() == [{"id": 1, "twice": 5}]
    table.append(pa.table({"id": [2], "twice": [6]}))
    other = Table.create(tmp_path / "u", schema_of(*FIELDS))
    other.append(rows_of((1, 1, 10)))
    with pytest.raises(txlog.InvalidInputError, match=r"generated column twice \(amount \* 2\) does not fit"):
        other.overwrite(other.to_arrow().drop(["amount"]), schema_mode="overwrite")


def test_deltalake_reads_what_txlog_computed_and_computes_and_checks_the_same(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", schema_of(*FIELDS), partition_by=["day"])
    table.append(rows_of((1, 1, 10), (2, 2, 20)))
    found = pa.table(deltalake.DeltaTable(table.uri).to_pyarrow_table()).sort_by("id")
    assert found["twice"].to_pylist() == [20, 40]
    assert [str(each) for each in found["day"].to_pylist()] == ["2026-03-01", "2026-03-02"]
    deltalake.write_deltalake(table.uri, rows_of((3, 3, 30)), mode="append")
    with pytest.raises(Exception, match="failed validation check"):
        deltalake.write_deltalake(table.uri, with_values(rows_of((4, 4, 40)), twice=1), mode="append")
    Table.open(table.uri).update({"amount": txlog.expr("amount + 1")})
    assert found_in(table) == [(1, 1, 11, 22), (2, 2, 21, 42), (3, 3, 31, 62)]


BY_STATE = "id bigint, note string GENERATED ALWAYS AS (concat(state, '!')), state string"


def in_a_transaction(table: Table, rows: pa.Table) -> None:
    with table.transaction() as transaction:
        transaction.append(rows)


def through_a_sink(table: Table, rows: pa.Table) -> None:
    sink = txlog.Sink(table, "job")
    with sink.task(1) as task:
        task.write(rows)
    sink.stage(task.committable)
    sink.prepare(1, [0])
    sink.recover()


@pytest.mark.parametrize(
    "write",
    [
        lambda table, rows: table.append(rows),
        lambda table, rows: table.overwrite(rows),
        lambda table, rows: table.upsert(rows, ["id"]),
        lambda table, rows: table.merge(rows, ["id"]).when_not_matched_insert_all().execute(),
        in_a_transaction,
        through_a_sink,
    ],
    ids=["append", "overwrite", "upsert", "merge", "transaction", "sink"],
)
def test_a_column_generated_from_an_empty_partition_value_is_computed_from_null(
    tmp_path: Path, write: Callable[[Table, pa.Table], object]
) -> None:
    table = Table.create(tmp_path / "t", BY_STATE, "state")
    write(table, pa.table({"id": [1], "state": [""]}))
    assert table.to_arrow().select(["id", "note", "state"]).to_pylist() == [{"id": 1, "note": None, "state": None}]
    table.append(table.to_arrow())  # what the table holds meets its own expressions


def test_an_update_to_an_empty_partition_value_computes_from_null(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", BY_STATE, "state")
    table.append(pa.table({"id": [1], "state": ["x"]}))
    table.update({"state": txlog.expr("''")})
    assert table.to_arrow().select(["note", "state"]).to_pylist() == [{"note": None, "state": None}]


@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["copies", "vectors"])
def test_a_generated_column_of_a_constant_expression_is_computed_and_checked_in_a_merge(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    fields = [field("id", "long"), field("v", "long"), field("era", "string", **{GENERATED: "'modern'"})]
    table = Table.create(tmp_path / "t", schema_of(*fields), properties=properties)
    table.append(pa.table({"id": [1, 2], "v": [1, 2]}))
    source = pa.table({"id": [2, 3], "v": [20, 30]})
    by_merge = table.merge(source, "target.id = source.id").when_matched_update({"v": txlog.expr("source.v")})
    by_merge.when_not_matched_insert({"id": txlog.expr("source.id"), "v": txlog.expr("source.v")}).execute()
    expected = [(1, 1, "modern"), (2, 20, "modern"), (3, 30, "modern")]
    dataset = deltalake.DeltaTable(table.uri).to_pyarrow_dataset if not properties else table.to_arrow
    rows = dataset().to_table() if not properties else dataset()
    assert sorted(zip(*(rows[name].to_pylist() for name in ("id", "v", "era")), strict=True)) == expected
    wrong = pa.table({"id": [3, 4], "v": [0, 0], "era": ["old", "old"]})
    for clause in ("when_matched_update_all", "when_not_matched_insert_all"):
        with pytest.raises(txlog.InvalidInputError, match="era"):
            getattr(table.merge(wrong, "target.id = source.id"), clause)().execute()
    assert sorted(table.to_arrow()["era"].to_pylist()) == ["modern"] * 3
