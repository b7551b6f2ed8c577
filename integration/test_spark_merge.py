"""Merges by any condition, and of sources with several rows of one key, compared with Spark's own Delta.

Delta refuses every source of which two rows match one row of the table, unless its only matched clause deletes without
a condition. txlog refuses only what is ambiguous. Where Delta merges, the rows have to be the same; where it refuses, a
model in plain Python says what is left, or that nothing can be.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fuzz import budget_s, seeds
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rows import assert_sound

import txlog
import txlog.spark
import txlog.spark.rows.source as spark_source
from txlog.core.changes.plan import MergeBuilder

Row = tuple[Any, int, str]
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("op", pa.string())])
VECTORS = {"delta.enableDeletionVectors": "true"}
MATCHED = {
    "delete": "s.op = 'd'",
    "update": "s.op = 'u' and s.v >= t.v",
    "delete all": None,
    "update all": None,
}
"""The clauses for matched rows, with their conditions. Of one without a condition, Delta wants that it is the last."""


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def random_clauses(chance: random.Random) -> list[str]:
    matched = chance.sample(["delete", "update"], chance.randrange(3)) + chance.choice(
        [[], ["delete all"], ["update all"]]
    )
    others = [name for name in ("insert", "alone") if chance.random() < 0.5]
    return (matched or ["delete all"]) + others


def random_source(chance: random.Random) -> list[Row]:
    ops = chance.choice([["d"], ["no", "no", "no", "u"], ["d", "no", "no"], ["u", "d", "no", "no", "no", "no"]])
    return [
        (chance.choice([None, *range(12)]), chance.randrange(4), chance.choice(ops))
        for _ in range(chance.randrange(3, 9))
    ]


def with_clauses(merge: MergeBuilder[Any], clauses: list[str]) -> MergeBuilder[Any]:
    for name in clauses:
        if name.startswith("delete"):
            merge.when_matched_delete(MATCHED[name])
        elif name.startswith("update"):
            merge.when_matched_update({"v": txlog.expr("t.v + s.v"), "op": txlog.expr("s.op")}, MATCHED[name])
        elif name == "insert":
            merge.when_not_matched_insert_all("s.op != 'd'")
        else:
            merge.when_not_matched_by_source_update({"op": txlog.expr("'alone'")}, "t.v > 1")
    return merge


def as_sql(clauses: list[str]) -> str:
    found = []
    for name in clauses:
        if name in MATCHED:
            condition = "" if MATCHED[name] is None else f" and {MATCHED[name]}"
            then = "delete" if name.startswith("delete") else "update set v = t.v + s.v, op = s.op"
            found.append(f"when matched{condition} then {then}")
        elif name == "insert":
            found.append("when not matched and s.op != 'd' then insert *")
        else:
            found.append("when not matched by source and t.v > 1 then update set op = 'alone'")
    return " ".join(found)


def model(old: list[Row], new: list[Row], clauses: list[str]) -> list[Row] | None:
    """What is left; None if several source rows change a row, and not all of them delete it."""
    left: list[Row] = []
    for target in old:
        joined = [source for source in new if source[0] is not None and source[0] == target[0]]
        changes = []
        for source in joined:
            applies = {"delete": source[2] == "d", "update": source[2] == "u" and source[1] >= target[1]}
            first = next((name for name in clauses if name in MATCHED and applies.get(name, True)), None)
            changes += [] if first is None else [(first, source)]
        updates = [source for first, source in changes if first.startswith("update")]
        if updates and len(changes) > 1:
            return None
        if updates:
            left.append((target[0], target[1] + updates[0][1], updates[0][2]))
        elif not changes:
            is_alone = not joined and "alone" in clauses and target[1] > 1
            left.append((target[0], target[1], "alone") if is_alone else target)
    known = {target[0] for target in old}
    if "insert" in clauses:
        left += [source for source in new if (source[0] is None or source[0] not in known) and source[2] != "d"]
    return left


def sorted_rows(rows: list[Row] | None) -> list[Row] | None:
    return None if rows is None else sorted(rows, key=repr)


def rows_after(table: txlog.Table, merge: MergeBuilder[Any]) -> list[Row] | None:
    """None if the merge is refused, and leaves the table as it was."""
    before = table.version
    try:
        merge.execute()
    except txlog.InvalidInputError as error:
        if "two source rows match the same row of the table" not in str(error) or table.version != before:
            raise
        return None
    return sorted_rows([tuple(row.values()) for row in table.to_arrow().to_pylist()])


def rows_after_sparks(spark: SparkSession, uri: str, clauses: list[str], on: str = "t.id = s.id") -> list[Row] | None:
    try:
        spark.sql(f"merge into delta.`{uri}` t using source s on {on} {as_sql(clauses)}")
    except PySparkException as error:
        if "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE" not in str(error):
            raise
        return None
    return sorted_rows([tuple(row) for row in spark.read.format("delta").load(uri).collect()])


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("properties", [pytest.param(VECTORS, id="vectors"), pytest.param({}, id="copies")])
def test_a_merge_of_repeated_keys_leaves_the_rows_of_sparks_own_delta_or_of_a_model(
    tmp_path: Path, delta: SparkSession, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random("repeated 3")
    outcomes: Counter[str] = Counter()
    for number in range(6):
        tables = [
            txlog.Table.create(tmp_path / f"{name}-{number}", SCHEMA, properties=properties)
            for name in ("one", "tasks", "delta")
        ]
        old: list[Row] = [(id, chance.randrange(4), "old") for id in [*range(8), 3, None]]
        for table in tables:
            table.append(table_of(old[:5]))
            table.append(table_of(old[5:]))
        new, clauses = random_source(chance), random_clauses(chance)
        case = f"{number}: {clauses} of {new} into {old}"
        frame = delta.createDataFrame(table_of(new))
        frame.createOrReplaceTempView("source")
        monkeypatch.setattr(spark_source, "SMALL_BYTES", chance.choice([-1, 4 << 20]))
        names = {"source_alias": "s", "target_alias": "t"}
        one = rows_after(tables[0], with_clauses(tables[0].merge(table_of(new), ["id"], **names), clauses))
        by_tasks = txlog.spark.merge(delta, tables[1].uri, frame, ["id"], **names)
        theirs = rows_after_sparks(delta, tables[2].uri, clauses)
        assert one == sorted_rows(model(old, new, clauses)), case
        assert rows_after(tables[1], with_clauses(by_tasks, clauses)) == one, case
        if theirs is not None:
            assert one == theirs, case
        outcomes["both" if theirs is not None else "neither" if one is None else "txlog alone"] += 1
        for table in tables[:2]:
            assert_sound(table.uri)
    assert outcomes.keys() == {"both", "neither", "txlog alone"}


CONDITIONS = [
    "t.id = s.id and t.v < s.v",
    "t.id = s.id + 1",
    "t.id <=> s.id",
    "t.id + t.v = s.id and s.op != 'u'",
    "s.v between t.id and t.v",
    "t.v > s.id and t.v <= s.v",
    "upper(t.op) = upper(s.op) and t.id = 3",
    "t.id = s.id or t.v = s.v",
    "t.id != s.id and t.v = 2",
    "t.id % 3 = s.v % 3 and s.id is not null",
    "false",
]


TERMS = {
    "equal": [
        "t.id = s.id",
        "t.id <=> s.id",
        "t.id + 1 = s.v",
        "upper(t.op) = upper(s.op)",
        "t.id % 3 = s.v % 3",
        "CAST(t.v AS STRING) = CAST(s.id AS STRING)",
        "coalesce(t.id, -1) = coalesce(s.id, -1)",
    ],
    "range": [
        "s.v between t.id and t.v",
        "t.v < s.v",
        "t.v >= s.id",
        "t.id > s.v and t.id <= s.v + 2",
        "t.id != s.id",
        "t.id + s.v < 9",
    ],
    "source": ["s.op != 'u'", "s.id is not null", "s.v > 1", "s.op in ('d', 'u')"],
    "target": ["t.v < 3", "t.op = 'u'", "t.id in (1, 2, 3, 5)", "t.id is null or t.v > 0"],
}


def random_condition(chance: random.Random) -> str:
    """Terms of one to three kinds, sometimes one of two."""
    kinds = chance.choice([["equal"], ["equal", "range"], ["range"], [*TERMS], ["source"], ["target"], ["equal"] * 2])
    chosen = [chance.choice(TERMS[kind]) for kind in chance.sample(kinds, chance.randint(1, min(3, len(kinds))))]
    if chance.random() < 0.25:
        one, other = (chance.choice(TERMS[chance.choice([*TERMS])]) for _ in range(2))
        chosen.append(f"({one} or {other})")
    return " and ".join(chosen)


class Compared:
    """Merges into three equal tables: by txlog here, by txlog in Spark's tasks, and by Spark's own Delta.

    Rows, metrics and refusals are equal; except that txlog also takes a source of which no two rows change one row.
    """

    def __init__(self, folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.spark, self.monkeypatch = folder, spark, monkeypatch
        self.outcomes: Counter[str] = Counter()

    def merge(self, number: int, on: str, chance: random.Random) -> None:
        spark, properties = self.spark, chance.choice([VECTORS, {}])
        tables = [
            txlog.Table.create(self.folder / f"{name}-{number}", SCHEMA, properties=properties)
            for name in ("one", "tasks", "delta")
        ]
        old: list[Row] = [(id, chance.randrange(4), chance.choice("ud")) for id in [*range(8), 3, None]]
        for table in tables:
            table.append(table_of(old[:5]))
            table.append(table_of(old[5:]))
        new, clauses = random_source(chance), random_clauses(chance)
        case = f"{on}: {clauses} of {new} into {old}"
        frame = spark.createDataFrame(table_of(new))
        frame.createOrReplaceTempView("source")
        self.monkeypatch.setattr(spark_source, "SMALL_BYTES", -1 if number % 2 else 4 << 20)
        names = {"source_alias": "s", "target_alias": "t"}
        one = rows_after(tables[0], with_clauses(tables[0].merge(table_of(new), on, **names), clauses))
        by_tasks = txlog.spark.merge(spark, tables[1].uri, frame, on, **names)
        theirs = self._merged_by_spark(tables[2].uri, clauses, on)
        assert rows_after(tables[1], with_clauses(by_tasks, clauses)) == one, case
        if theirs is not None:
            assert one == theirs, case
        known = [found for found in map(metrics_of, tables) if found]
        assert all(found == known[0] for found in known), case
        self.outcomes["both" if theirs is not None else "neither" if one is None else "txlog alone"] += 1
        for table in tables[:2]:
            assert_sound(table.uri)

    def _merged_by_spark(self, uri: str, clauses: list[str], on: str) -> list[Row] | None:
        """As `rows_after_sparks`. With vectors, Spark's Delta takes a row without a partner for a match if the join
        is true of the row and nulls, as of a null key in ``coalesce(t.id, -1) = coalesce(s.id, -1)``, and fails."""
        try:
            return rows_after_sparks(self.spark, uri, clauses, on)
        except Py4JJavaError as error:
            if "did not match any merge clause" not in str(error):
                raise
            self.outcomes["Spark failed"] += 1
            return None


def metrics_of(table: txlog.Table) -> dict[str, str]:
    """What the history says of the rows of the merge; nothing of one that was refused or changed nothing."""
    last = table.history(1)[0]
    return {name: last["operationMetrics"][name] for name in ROW_METRICS} if last["operation"] == "MERGE" else {}


ROW_METRICS = ("numSourceRows", "numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@pytest.mark.hunt(part="spark")
def test_a_merge_by_any_condition_leaves_the_rows_of_sparks_own_delta(
    tmp_path: Path, delta: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random("conditions 1")
    compared = Compared(tmp_path, delta, monkeypatch)
    for number, on in enumerate(CONDITIONS):
        compared.merge(number, on, chance)
    assert compared.outcomes["both"] >= 5, compared.outcomes


@pytest.mark.hunt(part="merges")
def test_merges_by_random_conditions_leave_the_rows_and_metrics_of_sparks_own_delta(
    tmp_path: Path, delta: SparkSession, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    compared = Compared(tmp_path, delta, monkeypatch)
    for seed in seeds(budget_s(60)):
        chance = random.Random(seed)
        compared.merge(seed, random_condition(chance), chance)
    record_property("measured", f"random merges: {dict(compared.outcomes)}")
    count = compared.outcomes.total()
    assert compared.outcomes["both"] >= count // 4 - 10, compared.outcomes  # a few may all be refused
    assert compared.outcomes["Spark failed"] <= count // 10 + 2, compared.outcomes
