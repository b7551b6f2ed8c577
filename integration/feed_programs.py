"""Random programs on a table with a change data feed, and what each version must hold, in plain Python.

`Program` writes a table and keeps the rows of every version in a dict. `WAYS` are the ways to write its feed into a
copy: by the feed's own words and versions, by Flink's or Debezium's words in order of arrival, in each mode.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import txlog

Values = tuple[str | None, int | None, int]
Rows = dict[int, Values]

COLUMNS = "id bigint, v string, n bigint, ts bigint"
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("n", pa.int64()), ("ts", pa.int64())])
KEYS = range(7)
FLINK = {"insert": "+I", "update_preimage": "-U", "update_postimage": "+U", "delete": "-D"}
DEBEZIUM = {**FLINK, "insert": "c", "delete": "d"}


def table_of(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, (key, *row), strict=True)) for key, row in rows.items()], SCHEMA
    )


def rows_of(found: pa.Table) -> Rows:
    rows = {row["id"]: (row["v"], row["n"], row["ts"]) for row in found.to_pylist()}
    assert len(rows) == found.num_rows, f"a key is there twice: {found.to_pylist()}"
    return rows


class Program:
    """A table that is changed at random. Each change updates ``rows``; ``versions`` has the rows of each version."""

    def __init__(self, uri: str, seed: int) -> None:
        self.random = random.Random(seed)
        properties = {"delta.enableChangeDataFeed": "true"}
        if self.random.random() < 0.5:
            properties["delta.enableDeletionVectors"] = "true"
        partitions = ["v"] if self.random.random() < 0.3 else []
        self.table = txlog.Table.create(uri, COLUMNS, partitions, properties)
        self.rows: Rows = {}
        self.versions: list[Rows] = [{}]
        self.ts = 0

    def run(self, num_changes: int) -> None:
        changes = (self.append, self.update, self.delete, self.shift, self.mirror, self.overwrite, self.merge)
        changes += (self.restore, self.swap, self.upsert)
        for _ in range(num_changes):
            self.ts += 1
            self.random.choice(changes)()
            while len(self.versions) <= self.table.version:
                self.versions.append(self.rows)

    def drawn(self, keys: list[int]) -> Rows:
        """New rows, or the present ones."""
        new = [(self.random.choice([None, "a", "b"]), self.random.choice([None, 0, 1]), self.ts) for _ in keys]
        kept = [self.rows.get(key) if self.random.random() < 0.4 else None for key in keys]
        return {key: old or row for key, old, row in zip(keys, kept, new, strict=True)}

    def append(self) -> None:
        free = [key for key in KEYS if key not in self.rows]
        new = self.drawn(self.random.sample(free, min(len(free), 2)))
        if new:
            self.table.append(table_of(new))
            self.rows = {**self.rows, **new}

    def update(self) -> None:
        first = self.random.choice(KEYS)
        self.table.update({"v": txlog.expr("'b'")}, f"id >= {first}")
        self.rows = {key: ("b", *row[1:]) if key >= first else row for key, row in self.rows.items()}

    def delete(self) -> None:
        key = self.random.choice(KEYS)
        self.table.delete(f"id = {key}")
        self.rows = {each: row for each, row in self.rows.items() if each != key}

    def shift(self) -> None:
        """The keys move up, with or without a new time."""
        first, by, is_dated = self.random.choice(KEYS), self.random.choice([1, 1, 2]), self.random.random() < 0.5
        self.table.update({"id": txlog.expr(f"id + {by}"), **({"ts": self.ts} if is_dated else {})}, f"id >= {first}")
        moved = {
            key + by: (*row[:2], self.ts if is_dated else row[2]) for key, row in self.rows.items() if key >= first
        }
        self.rows = {**{key: row for key, row in self.rows.items() if key < first}, **moved}

    def mirror(self) -> None:
        top = max(self.rows, default=0)
        self.table.update({"id": txlog.expr(f"{top} - id")}, "true")
        self.rows = {top - key: row for key, row in self.rows.items()}

    def overwrite(self) -> None:
        self.rows = self.drawn(self.random.sample(KEYS, self.random.randint(0, 4)))
        self.table.overwrite(table_of(self.rows))

    def merge(self) -> None:
        new = self.drawn(self.random.sample(KEYS, 3))
        what = {key: self.random.choice("dui") for key in new}
        values = {name: txlog.col("source", name) for name in SCHEMA.names}
        (
            self.table.merge(table_of(new).append_column("what", pa.array(what.values())), "target.id = source.id")
            .when_matched_delete("source.what = 'd'")
            .when_matched_update({name: values[name] for name in ("v", "n", "ts")}, "source.what = 'u'")
            .when_not_matched_insert(values, "source.what <> 'd'")
            .execute()
        )
        rows = dict(self.rows)
        for key, row in new.items():
            if key in rows and what[key] == "d":
                del rows[key]
            elif (key in rows and what[key] == "u") or (key not in rows and what[key] != "d"):
                rows[key] = row
        self.rows = rows

    def restore(self) -> None:
        version = self.random.randrange(len(self.versions))
        self.table.restore(version=version)
        self.rows = self.versions[version]

    def swap(self) -> None:
        """Two keys change places, in a transaction."""
        if len(self.rows) < 2:
            return
        one, other = self.random.sample([*self.rows], 2)
        with self.table.transaction() as transaction:
            transaction.update({"id": txlog.expr("100")}, f"id = {one}")
            transaction.update({"id": one}, f"id = {other}")
            transaction.update({"id": other}, "id = 100")
        self.rows = {{one: other, other: one}.get(key, key): row for key, row in self.rows.items()}

    def upsert(self) -> None:
        new = self.drawn(self.random.sample(KEYS, 2))
        self.table.upsert(table_of(new), keys=["id"])
        self.rows = {**self.rows, **new}


@dataclass(frozen=True)
class Way:
    """How a feed is written into a copy: by ``Table.upsert`` (``mode`` None) or a sink, by ``words`` (None: its own),
    with its versions or by arrival, into a table with or without a merge engine."""

    mode: str | None
    words: str | None = None
    has_versions: bool = True
    engine: str | None = None

    def write(self, copy: txlog.Table, feed: pa.Table, checkpoint_id: int) -> None:
        options: dict[str, Any] = {"keys": ["id"], "row_kind": "_change_type"}
        if self.words is not None:
            of = FLINK if self.words == "flink" else DEBEZIUM
            kinds = pa.array([of[word] for word in feed["_change_type"].to_pylist()], pa.string())
            feed = feed.append_column("op", kinds).drop_columns(["_change_type", "_commit_timestamp"])
            options["row_kind"] = "op"
            if self.has_versions:
                options["sequence_by"] = "_commit_version"
        if not self.has_versions:
            feed = feed.drop_columns([name for name in feed.column_names if name.startswith("_commit")])
        if self.mode is None:
            copy.upsert(feed, **options)
            return
        sink = txlog.Sink(copy, "copy", mode=self.mode, **options)
        with sink.task(checkpoint_id) as task:
            for batch in feed.to_batches(max_chunksize=3):
                task.write(batch)
        sink.stage(task.committable)
        sink.prepare(checkpoint_id, [0])
        sink.commit(checkpoint_id)


WAYS = [
    Way(mode, words, has_versions, engine)
    for mode in (None, "upsert", "retract")
    for words in (None, "flink", "debezium")
    for has_versions in (True, False)
    for engine in (None, "deduplicate")
    if engine is None or (mode is not None and (words is None or not has_versions))
]
