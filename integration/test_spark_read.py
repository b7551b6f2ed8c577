"""`txlog.spark.read`: Spark's own Parquet reader on exactly the files and rows of the log, never others."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import golden as golden_tables
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows import in_schema
from spark_helpers import as_rows
from test_spark_types import every_type

import txlog
import txlog.spark
from txlog.result import in_milliseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]
WITH_VECTORS = {"delta.enableDeletionVectors": "true"}
UTC = dt.timezone.utc


def numbers(*found: int) -> pa.Table:
    return pa.table({"id": pa.array(found, pa.int64())})


def with_files_at(root: Path, names: list[str]) -> txlog.Table:
    """A table whose files have these names: file number n holds the ids 10 n to 10 n + 8, without 10 n + 3."""
    table = txlog.Table.create(root, numbers().schema, properties=WITH_VECTORS)
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(numbers(*range(10 * number, 10 * number + 9)), root / name)
    table.add_files(names)
    table.delete("id % 10 = 3")
    return table


HOSTILE = {
    "commas": ["a,b.parquet", "a", "b.parquet", "c,a,b.parquet"],
    "percent signs": ["a%20b.parquet", "a b.parquet", "a%2520b.parquet"],
    "patterns": ["[ab].parquet", "a.parquet", "b.parquet", "{a,b}.parquet", "a*.parquet", "?.parquet"],
    "hidden names": ["_hidden.parquet", ".dot.parquet", "_d/x.parquet", "x._COPYING_"],
    "other letters": ["é.parquet", "e\u0301.parquet", "日本 語.parquet"],
    "quotes and colons": ["a'b.parquet", 'a"b.parquet', "a+b.parquet", "a&b=c.parquet", "a#b.parquet"],
    "equal names in several folders": ["x/a.parquet", "y/a.parquet", "x/y/a.parquet", "y/x/a.parquet", "a.parquet"],
    "folders that look like partitions": ["id=7/a.parquet", "id=8/a.parquet", "q=1/a.parquet"],
}


PLACES_IN_EVERY_RUN = (("t", "percent signs"), ("t", "patterns"), ("t", "hidden names"), ("t [a]", "commas"))
PLACES = [*(("t", kind) for kind in HOSTILE), *((root, "commas") for root in ("t, u", "t%20u", "t [a]", "{t,u}"))]


@pytest.mark.parametrize(
    ("root_name", "kind"),
    [
        pytest.param(*place, marks=() if place in PLACES_IN_EVERY_RUN else pytest.mark.hunt(part="spark"))
        for place in PLACES
    ],
)
def test_spark_reads_each_live_row_once_whatever_characters_the_paths_have(
    root_name: str, kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    """A comma in a path once gave 27 rows for 9, and a path in another spelling gave deleted rows back."""
    table = with_files_at(tmp_path / root_name, HOSTILE[kind])
    found = txlog.spark.read(spark, table.uri)
    expected = sorted(table.snapshot().to_arrow()["id"].to_pylist())
    assert len(expected) == 8 * len(HOSTILE[kind])
    assert sorted(row.id for row in found.collect()) == expected
    assert found.count() == len(expected)


@pytest.mark.parametrize("kind", ["equal names in several folders", "folders that look like partitions", "commas"])
def test_dead_rows_of_many_files_are_found_by_name_or_where_names_repeat_by_path(
    kind: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlog.spark.native_frames.FEW_FILES", 0)
    table = with_files_at(tmp_path / "t", HOSTILE[kind])
    found = [row.id for row in txlog.spark.read(spark, table.uri).collect()]
    assert sorted(found) == sorted(table.snapshot().to_arrow()["id"].to_pylist())


def test_the_spark_plan_of_a_read_contains_no_deletion_vectors(spark: SparkSession, tmp_path: Path) -> None:
    """Spark makes texts of its plans more than once for each query."""
    table = txlog.Table.create(tmp_path / "t", numbers().schema, properties=WITH_VECTORS)
    table.append(numbers(*range(100_000)))
    table.delete("id % 3 = 0")
    frame = txlog.spark.read(spark, table.uri)
    assert len(plan_of(frame)) < 20_000  # as literals, 1,563 numbers of up to 20 digits
    assert frame.agg({"id": "sum"}).collect() == [(sum(n for n in range(100_000) if n % 3),)]


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("few", [16, 0], ids=["names compared", "names joined"])
def test_dead_rows_at_the_ends_of_files_and_of_words_stay_dead(
    few: int,
    spark: SparkSession,
    delta: SparkSession,
    read_delta: Read,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The words of a bitmap have 64 bits, and the bitmaps of a group's files lie behind each other."""
    monkeypatch.setattr("txlog.spark.native_frames.FEW_FILES", few)
    table = of_lengths(tmp_path / "t", [1, 63, 64, 65, 128, 192, 3])
    delta.sql(f"alter table delta.`{table.uri}` rename column s.b to bee")
    delta.sql(f"alter table delta.`{table.uri}` rename column id to number")
    table.delete("at in (0, 63, 64, 127) or is_last and length < 192")
    table.append(pa.Table.from_pylist([{"number": -1, "at": 0, "length": 3, "is_last": True, "p": 1}]))
    frame = txlog.spark.read(spark, table.uri)
    assert as_rows(frame) == as_rows(read_delta(table.uri))
    assert {row.number for row in frame.collect()} == {*table.to_arrow()["number"].to_pylist()}
    assert frame.count() == 61 + 62 + 62 + 124 + 188 + 1 + 1  # of 63, 64, 65, 128, 192 and 3 rows, and the new one
    assert as_rows(frame.where("s.bee = 'x5' and p = 0")) == as_rows(
        read_delta(table.uri).where("s.bee = 'x5' and p = 0")
    )


def of_lengths(root: Path, lengths: list[int]) -> txlog.Table:
    """A table with a file of each of these lengths, in two partitions; ``at`` is a row's position in its file."""
    rows = [
        {
            "id": 1000 * number + at,
            "at": at,
            "length": length,
            "is_last": at == length - 1,
            "s": {"a": at, "b": f"x{at}"},
            "p": number % 2,
        }
        for number, length in enumerate(lengths)
        for at in range(length)
    ]
    schema = pa.Table.from_pylist(rows[:1]).schema
    properties = {**WITH_VECTORS, "delta.columnMapping.mode": "name"}
    table = txlog.Table.create(root, schema, ["p"], properties)
    for number in range(len(lengths)):
        table.append(pa.Table.from_pylist([row for row in rows if row["id"] // 1000 == number], schema))
    return table


@pytest.mark.parametrize("dead", ["id % 3 = 0", "id < 20"], ids=["in all files", "in some files"])
def test_a_few_files_with_dead_rows_are_one_read(dead: str, spark: SparkSession, tmp_path: Path) -> None:
    """Spark would copy the rows of a union of reads."""
    table = txlog.Table.create(tmp_path / "t", numbers().schema, properties=WITH_VECTORS)
    for begin in range(0, 400, 100):
        table.append(numbers(*range(begin, begin + 100)))
    table.delete(dead)
    frame = txlog.spark.read(spark, table.uri)
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("] parquet") == 1
    assert "Union" not in plan
    assert sorted(row.id for row in frame.collect()) == sorted(table.to_arrow()["id"].to_pylist())


def test_dead_rows_of_a_partition_with_more_files_than_a_few_are_joined(spark: SparkSession, tmp_path: Path) -> None:
    table = with_files_at(tmp_path / "t", [f"{number}.parquet" for number in range(20)])
    with_files_at(tmp_path / "u", [f"{number}.parquet" for number in range(3)])
    table.append(numbers(*range(1000, 1010)))
    frame = txlog.spark.read(spark, table.uri)
    assert "Join" in plan_of(frame)
    assert "Join" not in plan_of(txlog.spark.read(spark, tmp_path / "u"))
    assert sorted(row.id for row in frame.collect()) == sorted(table.to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("names", [["x/a.parquet", "y/a.parquet"], ["x/a.parquet", "y/b.parquet"]])
def test_a_file_that_no_row_of_the_log_matches_stops_the_query(
    names: list[str], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files whose names differ are compared by name, others joined by path."""
    from pyspark.sql import functions as F

    table = with_files_at(tmp_path / "t", names)
    real_col, real_end = F.col, F.substring_index
    monkeypatch.setattr(F, "substring_index", lambda *given: F.concat(F.lit("x"), real_end(*given)))
    monkeypatch.setattr(
        F, "col", lambda name: F.concat(F.lit("x"), real_col(name)) if name.endswith("file_name") else real_col(name)
    )
    frame = txlog.spark.read(spark, table.uri)
    with pytest.raises(Exception, match="txlog does not know the file of these rows"):
        frame.collect()


# --- equal to Spark's Delta -------------------------------------------------------------------------------------------


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toString())


def is_native(frame: DataFrame) -> bool:
    return "MapInArrow" not in plan_of(frame)


GOLDEN = [
    "data-reader-timestamp_ntz-name-mode",
    "data-skipping-basic-stats-all-types-columnmapping-id",
    "dv-partitioned-with-checkpoint",
    "kernel-timestamp-int96",
    "log-replay-special-characters",
    "parquet-all-types",
    "table-with-columnmapping-mode-name",
    "unshredded-variant",
]
"""Golden tables, each for a kind of column, path or file."""


@pytest.mark.hunt(part="spark")
@golden_tables.needed
@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_table_reads_as_sparks_delta_reads_it(
    name: str, spark: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    root = golden_tables.unpack(name, tmp_path)
    root = root / "delta" if (root / "delta").exists() else root
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # in which txlog reads old partition values without a zone
    ours = txlog.spark.read(spark, str(root))
    rows = as_rows(ours)
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")  # Delta needs it for ids, txlog does not
    theirs = read_delta(root)
    assert ours.columns == theirs.columns
    assert [field.dataType.simpleString() for field in ours.schema] == [
        field.dataType.simpleString() for field in theirs.schema
    ]
    assert rows == as_rows(theirs)
    assert as_rows(spark.read.format("txlog").load(str(root))) == rows


@golden_tables.needed
def test_types_that_were_widened_read_as_the_snapshot_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's Delta refuses this table for one of its changes."""
    root = golden_tables.unpack("type-widening", tmp_path)
    snapshot = txlog.Table.open(root).snapshot()
    others = [name for name in snapshot.schema.names if "decimal" not in name]
    for columns in (snapshot.schema.names, others):
        ours = txlog.spark.read(spark, root, columns=columns)
        assert is_native(ours) == (columns == others)
        assert sorted(map(repr, ours.toArrow().to_pylist())) == sorted(
            map(repr, snapshot.to_arrow(columns).to_pylist())
        )


def test_every_type_reads_as_sparks_delta_reads_it_natively_and_through_python(
    spark: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    for place in ("t", "t, u"):
        path = tmp_path / place
        every_type(spark).write.format("txlog").mode("append").save(str(path))
        ours = txlog.spark.read(spark, path)
        assert is_native(ours) == (place == "t")
        assert as_rows(ours) == as_rows(read_delta(path))


def test_dates_and_times_that_spark_wrote_in_its_old_calendar_are_read_and_rewritten_as_spark_reads_them(
    delta: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    delta.conf.set("spark.sql.session.timeZone", "UTC")
    for kind in ("datetime", "int96"):
        delta.conf.set(f"spark.sql.parquet.{kind}RebaseModeInWrite", "LEGACY")
    path = tmp_path / "t"
    days = "date_add(date'0001-01-01', int(id * 9973)) as d"
    times = "timestampadd(hour, int(id * 239311), timestamp'0001-01-01 01:02:03.5') as ts"
    rows = delta.range(70).selectExpr("id", days, times, "array(struct(date'1582-10-04' as x)) as a")
    rows.coalesce(1).write.format("delta").save(str(path))
    theirs = read_delta(path).toArrow().sort_by("id")
    table = txlog.Table.open(path)
    assert table.to_arrow().sort_by("id").equals(in_schema(theirs, table.to_arrow().schema))
    assert table.count("d = date'0001-01-01'") == 1
    table.update({"id": txlog.expr("id + 100")}, "id = 5")
    again = read_delta(path).toArrow()
    assert sorted(map(str, again["d"].to_pylist())) == sorted(map(str, theirs["d"].to_pylist()))
    assert sorted(map(str, again["ts"].to_pylist())) == sorted(map(str, theirs["ts"].to_pylist()))


PARTITIONED = pa.schema(
    {
        "id": pa.int64(),
        "day": pa.date32(),
        "ts": pa.timestamp("us", "UTC"),
        "ntz": pa.timestamp("us"),
        "m": pa.decimal128(20, 3),
        "x": pa.float64(),
        "b": pa.bool_(),
        "raw": pa.binary(),
        "s": pa.string(),
    }
)
VALUES: list[dict[str, Any]] = [
    {
        "day": dt.date(2026, 3, 8),
        "ts": dt.datetime(2026, 3, 8, 7, 30, 0, 123456, UTC),
        "ntz": dt.datetime(2026, 3, 8, 2, 30, 0, 1),
        "m": Decimal("-1.250"),
        "x": float("nan"),
        "b": True,
        "raw": b"\xc3\xa4",
        "s": "a b",
    },
    {
        "day": dt.date(1, 1, 1),
        "ts": dt.datetime(1677, 9, 21, 0, 12, 43, 145224, UTC),
        "ntz": dt.datetime(1, 1, 1, 0, 0, 0, 999999),
        "m": Decimal("99999999999999999.999"),
        "x": -0.5,
        "b": False,
        "raw": b"q",
        "s": "ä/=%,",
    },
    dict.fromkeys(PARTITIONED.names[1:]),
]


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("branches", [64, 1], ids=["a read of each partition", "values joined by file"])
def test_spark_reads_partition_values_of_every_type_from_the_log(
    branches: int, spark: SparkSession, read_delta: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlog.spark.native_files.groups_of.__defaults__", (branches,))
    names = PARTITIONED.names
    table = txlog.Table.create(tmp_path / "t", PARTITIONED, names[1:], WITH_VECTORS)
    # Folder names may hold anything; these files stand at plain paths, so that Spark's own reader gets them.
    for number, values in enumerate(VALUES * 2):
        table.append(pa.Table.from_pylist([{"id": 10 * number + at, **values} for at in range(5)], PARTITIONED))
    table.delete("id % 10 = 3 and id > 20")
    ours, theirs = txlog.spark.read(spark, table.uri), read_delta(table.uri)
    assert as_rows(ours) == as_rows(theirs)
    for where in ("b", "x is null", "day = '0001-01-01'", "s = 'ä/=%,' and id > 10"):
        assert as_rows(txlog.spark.read(spark, table.uri, where=where)) == as_rows(theirs.where(where))
        assert as_rows(ours.where(where)) == as_rows(theirs.where(where))


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("mode", ["name", "id"])
def test_renamed_dropped_and_added_columns_follow_the_newest_schema(
    mode: str, spark: SparkSession, delta: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    delta.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")  # Delta needs it for ids
    delta.conf.set("spark.sql.parquet.fieldId.write.enabled", "true")
    delta.sql(
        f"create table {table} (id bigint, s struct<a:int,b:struct<c:string,d:int>>, l array<struct<k:int,v:string>>)"
        f" using delta tblproperties ('delta.columnMapping.mode'='{mode}', 'delta.enableDeletionVectors'='true')"
    )
    row = "named_struct('a', {0}, 'b', named_struct('c', 'x{0}', 'd', {0})), array(named_struct('k', {0}, 'v', 'y'))"
    delta.sql(f"insert into {table} values " + ", ".join(f"({at}, {row.format(at)})" for at in range(6)))
    delta.sql(f"alter table {table} rename column s.b to bee")
    delta.sql(f"alter table {table} rename column id to s_id")
    delta.sql(f"alter table {table} add columns (id string, s.new int)")
    delta.sql(f"insert into {table} select 9, s, l, 'later' from {table} where s_id = 1")
    delta.sql(f"delete from {table} where s_id in (2, 3)")
    theirs = read_delta(tmp_path / "t")
    expected = as_rows(theirs)
    ours = txlog.spark.read(spark, tmp_path / "t")
    assert is_native(ours) == (mode == "name")
    assert as_rows(ours) == expected
    assert as_rows(ours.where("s_id = 1 and s.bee.c = 'x1'")) == as_rows(theirs.where("s_id = 1"))
    assert as_rows(txlog.spark.read(spark, tmp_path / "t", where="s.bee.d > 3", columns=["id", "s_id"])) == as_rows(
        theirs.where("s.bee.d > 3").select("id", "s_id")
    )


COLUMNS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "n": (pa.int32(), lambda rng: rng.randint(-3, 12)),
    "x": (pa.float64(), lambda rng: rng.choice([0.0, -1.5, 7.25, float("nan")])),
    "s": (pa.string(), lambda rng: rng.choice(["", "a", "ä,b", "a%20b", "A"])),
    "day": (pa.date32(), lambda rng: dt.date(2026, 1, rng.randint(1, 3))),
    "ts": (pa.timestamp("us", "UTC"), lambda rng: dt.datetime(2026, 3, rng.randint(7, 9), 7, 30, tzinfo=UTC)),
    "m": (pa.decimal128(12, 2), lambda rng: Decimal(rng.randint(-200, 200)) / 4),
    "l": (pa.list_(pa.int64()), lambda rng: [rng.randint(0, 3) for _ in range(rng.randint(0, 2))]),
    "r": (pa.struct({"a": pa.int64(), "b": pa.string()}), lambda rng: {"a": rng.randint(0, 9), "b": rng.choice("uv")}),
}
"""Types of columns, and a value of each."""
RANDOM_CONDITIONS = (
    "n > 3",
    "n is null or x >= 7",
    "s like 'a%'",
    "day = '2026-01-02' and n < 8",
    "m between -5 and 5.25",
    "not (n in (1, 2, 3))",
    "r.a >= 5",
)


def random_rows(rng: random.Random, schema: pa.Schema) -> pa.Table:
    def value(name: str) -> Any:
        return None if rng.random() < 0.15 else COLUMNS[name][1](rng)

    count = rng.randint(1, 30)
    return pa.Table.from_pylist([{each: value(each) for each in schema.names} for _ in range(count)], schema)


def random_history(rng: random.Random, root: Path) -> txlog.Table:
    """A table of some columns and partitions, appended to, changed, compacted and given more columns at random."""
    names = ["n", *rng.sample([*COLUMNS][1:], 4)]
    schema = pa.schema({name: COLUMNS[name][0] for name in names[:4]})
    partitions = [name for name in names[1:4] if name not in ("x", "l", "r")][: rng.randint(0, 2)]
    properties = {"delta.enableDeletionVectors": rng.choice(["true", "false"])}
    if rng.random() < 0.7:
        properties["delta.columnMapping.mode"] = rng.choice(["name", "id"])
    table = txlog.Table.create(root, schema, partitions, properties)
    table.append(random_rows(rng, schema))
    for step in range(rng.randint(4, 8)):
        match rng.randrange(6):
            case 0 | 1:
                table.append(random_rows(rng, schema))
            case 2:
                table.delete(f"n % 5 = {rng.randrange(5)}")
            case 3:
                table.update({"n": txlog.expr("n + 1")}, f"n % 4 = {rng.randrange(4)}")
            case 4:
                table.optimize()
            case _ if step > 2 and len(schema) == 4:
                schema = pa.schema({name: COLUMNS[name][0] for name in names})
                table.add_columns(pa.schema([schema.field(names[4])]))
                table.append(random_rows(rng, schema))
            case _:
                table.create_checkpoint()
    return table


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.hunt(part="spark")) for seed in range(1, 8))]
)
def test_a_table_of_a_random_history_reads_as_sparks_delta_reads_it(
    seed: int, spark: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    """Its newest and an older version, some columns, some conditions: the same rows through both of our readers."""
    rng = random.Random(seed)
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # in which txlog's conditions are
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")  # Delta needs it for ids
    table = random_history(rng, tmp_path / "t")
    newest = table.version
    for version in (newest, rng.randint(1, newest)):
        theirs = read_delta(table.uri, versionAsOf=version)
        columns = rng.sample(theirs.columns, rng.randint(1, len(theirs.columns)))
        known = {*theirs.columns}
        where = rng.choice(
            [each for each in RANDOM_CONDITIONS if {*re.findall(r"\b(?:n|x|s|day|m|r)\b", each)} <= known]
        )
        expected = as_rows(theirs.where(where).select(*columns))
        asked: dict[str, Any] = {"where": where, "columns": columns}
        assert as_rows(txlog.spark.read(spark, table.uri, version=version, **asked)) == expected, (version, asked)
        source = spark.read.format("txlog").option("versionAsOf", version).load(table.uri)
        assert as_rows(source.where(where).select(*columns)) == expected, (version, asked)


@pytest.mark.parametrize("where", ["x > 13", "x >= 4.5", "x = double('NaN')", "s.x > 13", "x < 1 or x > 99", "f >= 2"])
def test_filters_on_floats_find_nan_which_statistics_leave_out(
    where: str, spark: SparkSession, read_delta: Read, floats: txlog.Table
) -> None:
    """Through Spark's Delta too, which skips row groups by bounds in the footer, and takes NaN for the greatest."""
    rows = floats.to_arrow()
    kept = spark.createDataFrame(rows).where(where)
    assert as_rows(txlog.spark.read(spark, floats.uri).where(where)) == as_rows(kept)
    assert as_rows(read_delta(floats.uri).where(where)) == as_rows(kept)
    assert kept.count() > 0


def test_a_condition_on_a_float_compares_it_with_the_number_that_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    """0.1 is no float of 32 bits, and lies below the nearest one: none equals it, and that one is greater."""
    found = [None, 0.1, float("inf"), float("nan"), 16777216, 1e38, 0.2, -0.1]
    columns = {"id": range(8), "f": pa.array(found, pa.float32()), "s": [{"f": each} for each in found]}
    kind = pa.struct([("f", pa.float32())])
    txlog.write(tmp_path / "t", pa.table({**columns, "s": pa.array(columns["s"], kind)}))
    table = txlog.Table.open(tmp_path / "t")
    rows = spark.createDataFrame(table.to_arrow())
    for where in (
        *("f > 0.1", "f = 0.1", "f <= 0.1", "f in (0.1, 0.2, 16777216)", "f > 16777217", "f = 16777217", "f <> 0.2"),
        *(
            "f = cast(0.1 as float)",
            "f < 1e300",
            "f = 1e300",
            "f >= cast('NaN' as double)",
            "not (s.f > 0.1)",
            "f <=> 0.2",
        ),
    ):
        chosen = ids(txlog.spark.read(spark, table.uri, where=where))
        assert chosen == table.to_arrow(where=where)["id"].to_pylist(), where
        assert chosen == ids(rows.where(where.replace("0.1", "0.1D").replace("0.2", "0.2D"))), where


@pytest.mark.parametrize(
    "setting",
    [
        "spark.sql.parquet.datetimeRebaseModeInRead=LEGACY",
        "spark.sql.parquet.datetimeRebaseModeInRead=EXCEPTION",
        "spark.sql.sources.useV1SourceList=avro, text",
    ],
)
def test_no_setting_of_the_session_changes_what_is_read(setting: str, spark: SparkSession, tmp_path: Path) -> None:
    days = [dt.date(1500, 1, 1), dt.date(1, 1, 1), dt.date(2026, 1, 1)]
    moments = [dt.datetime(each.year, 1, 1, tzinfo=UTC) for each in days]
    rows = pa.table({"id": [0, 1, 2], "p": [7, 7, 8], "d": days, "t": pa.array(moments, pa.timestamp("us", "UTC"))})
    table = txlog.Table.create(tmp_path / "t", rows.schema, ["p"], WITH_VECTORS)
    table.append(rows)
    table.delete("id = 1")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set(*setting.split("=", 1))
    found = txlog.spark.read(spark, table.uri).selectExpr("id", "p", "string(d)", "string(t)").collect()
    expected = [(0, 7, "1500-01-01", "1500-01-01 00:00:00"), (2, 8, "2026-01-01", "2026-01-01 00:00:00")]
    assert sorted(map(tuple, found)) == expected


@pytest.fixture(scope="module")
def floats(tmp_path_factory: pytest.TempPathFactory) -> txlog.Table:
    """Ten numbers from 0 to 4.5, of which two are NaN."""
    found = [float("nan") if at % 4 == 3 else at / 2 for at in range(10)]
    columns = {"x": pa.array(found), "f": pa.array(found, pa.float32()), "s": pa.array([{"x": each} for each in found])}
    path = tmp_path_factory.mktemp("floats") / "t"
    txlog.write(path, pa.table(columns))
    return txlog.Table.open(path)


# --- what is asked for ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> txlog.Table:
    """Versions 1 to 3 add ids 0 to 9, 10 to 19 and 20 to 29, each with its own partition; version 4 deletes id 5."""
    schema = pa.schema({"id": pa.int64(), "p": pa.string(), "ts": pa.timestamp("us", "UTC")})
    table = txlog.Table.create(tmp_path_factory.mktemp("small") / "t", schema, ["p"], WITH_VECTORS)
    moment = dt.datetime(2026, 1, 1, tzinfo=UTC)
    for begin in (0, 10, 20):
        rows = [{"id": at, "p": f"p{begin}", "ts": moment + dt.timedelta(hours=at)} for at in range(begin, begin + 10)]
        table.append(pa.Table.from_pylist(rows, schema))
    table.delete("id = 5")
    return table


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


@pytest.mark.parametrize(
    "where",
    [
        "id >= 8 and id < 12",
        "p = 'p20' or id in (1, 5, 6)",
        "id not in (1, null)",
        "not (p = 'p0') and p like 'p1%'",
        "ts > '2026-01-01 20:00:00'",
        "upper(p) = 'P10' and id % 2 = 0",
        "false",
    ],
)
def test_a_condition_selects_the_same_rows_in_spark_as_in_a_snapshot(
    where: str, spark: SparkSession, small: txlog.Table
) -> None:
    """The snapshot of a handle in the session's time zone, in which Spark reads conditions too."""
    found = txlog.spark.read(spark, small.uri, where=where, columns=["id"])
    assert found.columns == ["id"]
    here = txlog.Table.open(small.uri, time_zone=spark.conf.get("spark.sql.session.timeZone"))
    assert ids(found) == sorted(here.to_arrow(where=where)["id"].to_pylist())


def test_versions_and_times_are_the_tables_and_stay_when_it_changes(
    spark: SparkSession, small: txlog.Table, tmp_path: Path
) -> None:
    assert ids(txlog.spark.read(spark, small.uri, version=1)) == [*range(10)]
    time_of_2 = in_milliseconds(small.snapshot(2).timestamp)
    assert ids(txlog.spark.read(spark, small.uri, timestamp=time_of_2)) == [*range(20)]
    table = with_files_at(tmp_path / "t", ["a.parquet"])
    frame = txlog.spark.read(spark, table.uri)
    table.append(numbers(1000))
    assert ids(frame.alias("a").join(frame.alias("b"), "id").select("id")) == ids(frame)
    with pytest.raises(txlog.InvalidInputError, match="not both"):
        txlog.spark.read(spark, small.uri, version=1, timestamp=time_of_2)
    with pytest.raises(txlog.NotFoundError):
        txlog.spark.read(spark, small.uri, version=99)
    with pytest.raises(txlog.InvalidInputError, match="no column 'nope'"):
        txlog.spark.read(spark, small.uri, columns=["nope"])


def test_a_read_without_rows_is_an_empty_frame_with_the_tables_columns(spark: SparkSession, small: txlog.Table) -> None:
    assert ids(txlog.spark.read(spark, small.uri, where="id > 100")) == []
    empty = txlog.spark.read(spark, small.uri, version=0, columns=["p", "ID"])
    assert empty.columns == ["p", "id"]
    assert empty.collect() == []


def test_the_log_and_a_later_filter_on_partitions_keep_files_from_being_read(
    spark: SparkSession, small: txlog.Table
) -> None:
    pruned = txlog.spark.read(spark, small.uri, where="id >= 25")
    assert plan_of(pruned).count("FileScan parquet") == 1
    folded = txlog.spark.read(spark, small.uri).where("p = 'p20'")
    assert str(folded._jdf.queryExecution().executedPlan().toString()).count("FileScan parquet") == 1


@pytest.fixture(scope="module")
def scattered(tmp_path_factory: pytest.TempPathFactory) -> txlog.Table:
    """At version 4, 2,000 files in 500 partitions: partition p has the ids p, 500 + p, 1000 + p and 1500 + p."""
    schema = pa.schema({"id": pa.int64(), "p": pa.int32()})
    table = txlog.Table.create(tmp_path_factory.mktemp("scattered") / "t", schema, ["p"], WITH_VECTORS)
    for begin in range(0, 2_000, 500):
        table.append(pa.table({"id": range(begin, begin + 500), "p": pa.array(range(500), pa.int32())}))
    return table


def tasks_of(spark: SparkSession, group: str, action: Callable[[], Any]) -> tuple[list[int], Any]:
    """The number of tasks of each stage of the jobs that ``action`` ran, and its result."""
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup(group, group)
    try:
        result = action()
    finally:
        spark.sparkContext.setJobGroup("", "")
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return [stage.numTasks for stage in stages if stage], result


@pytest.mark.hunt(part="spark")
def test_many_files_in_many_partitions_take_no_spark_task_for_each(spark: SparkSession, scattered: txlog.Table) -> None:
    setting = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = spark.conf.get(setting)
    tasks, frame = tasks_of(spark, "planning", lambda: txlog.spark.read(spark, scattered.uri, version=4))
    assert tasks == []
    assert spark.conf.get(setting) == before
    assert plan_of(frame).count("FileScan parquet") <= 4
    tasks, rows = tasks_of(spark, "reading", frame.collect)
    assert {(row.id, row.p) for row in rows} == {(at, at % 500) for at in range(2_000)}
    assert sum(tasks) < 100  # Spark counts 4 MB for each file, and a task has 128 MB
    source = spark.read.format("txlog").option("versionAsOf", 4).load(scattered.uri)
    tasks, rows = tasks_of(spark, "source", source.collect)
    assert {(row.id, row.p) for row in rows} == {(at, at % 500) for at in range(2_000)}
    assert sum(tasks) < 100
    tasks, few = tasks_of(spark, "some", txlog.spark.read(spark, scattered.uri, 4, where="p in (7, 9)").collect)
    assert sorted(row.id for row in few) == [begin + p for begin in range(0, 2_000, 500) for p in (7, 9)]
    assert sum(tasks) <= 8


@pytest.mark.hunt(part="spark")
def test_dead_rows_in_many_files_are_sent_together(spark: SparkSession, scattered: txlog.Table) -> None:
    table = scattered
    table.delete("p < 100 and id < 1000 and id % 3 = 0")
    table.append(pa.table({"id": range(2_000, 4_000), "p": pa.array([7] * 2_000, pa.int32())}))
    table.delete("id > 3500")
    tasks, frame = tasks_of(spark, "planning of vectors", lambda: txlog.spark.read(spark, table.uri))
    assert tasks == []
    tasks, rows = tasks_of(spark, "reading of vectors", frame.collect)
    assert sorted(row.id for row in rows) == sorted(table.to_arrow()["id"].to_pylist())
    assert sum(tasks) < 100


def test_a_missing_file_is_an_error_whatever_the_session_ignores(spark: SparkSession, tmp_path: Path) -> None:
    table = with_files_at(tmp_path / "t", ["a.parquet", "b.parquet"])
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    frame = txlog.spark.read(spark, table.uri)
    (tmp_path / "t" / "b.parquet").unlink()
    with pytest.raises(Exception, match=r"b\.parquet"):
        frame.collect()


def test_vectors_too_large_to_send_are_applied_in_python_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_files_at(tmp_path / "t", ["a.parquet", "b.parquet"])
    monkeypatch.setattr("txlog.spark.native_frames.WORDS_BYTES_MAX", 8)
    frame = txlog.spark.read(spark, table.uri)
    assert not is_native(frame)
    assert ids(frame) == sorted(table.to_arrow()["id"].to_pylist())
