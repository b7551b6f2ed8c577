"""Programs of a story's actors that change rows: upserts, deletes, updates and overwrites, alongside other engines.

In: a `Session` on a table that ``has_rows``. Out: nothing. Each program declares how its operation changes the rows of
the version on which it is committed; `RowHistory` compares the table with that. Files are real Parquet: reading or
writing one takes only a millisecond, and a substitute could have errors of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pyarrow as pa

import txlog
from explorer.other_engines import link_unsynced
from explorer.rows import Makes, Row, file_of, table_of
from explorer.session import Session
from explorer.versions import vector_of
from explorer.world import VACUUMED_MS, seen_by
from txlog.core.format.actions import AddFile
from txlog.result import WriteResult
from txlog.table import Table
from txlog.testing.faults import StoreCall

__all__ = [
    "append_keys",
    "compact_rows",
    "delete_where",
    "foreign_append",
    "foreign_delete",
    "insert_absent",
    "merge_by_range",
    "merge_by_terms_of_one_side",
    "optimize_rows",
    "overwrite_where",
    "purge_rows",
    "restore_rows",
    "tag_version",
    "update_and_vacuum_later",
    "update_where",
    "upsert",
    "upsert_in_turn",
    "upsert_once",
    "upsert_same_key",
    "vacuum_later",
    "vacuum_rows",
]

_HOUR_MS = 3_600_000


def upsert(session: Session, *, keys: tuple[int, ...] = (1, 99)) -> None:
    """Upsert rows, some of which the table has; the first one moves to the other partition."""
    rows: list[Row] = [(key, "ba"[number % 2], _value(session)) for number, key in enumerate(keys)]
    _change(session, _upserted(session, rows), partial(_upsert, rows=rows))


def upsert_same_key(session: Session) -> None:
    """Upsert one row that all such actors have. The last commit decides its value."""
    upsert(session, keys=(1,))


def upsert_in_turn(session: Session) -> None:
    """Upsert three times by one handle. It then knows the keys of a file that it read twice, and the last upsert
    changes rows of every file: of this one, of an earlier one, and of its own."""
    table = session.table()
    for number, keys in enumerate(((4,), (5,), (1, 4, 5, 6))):
        rows: list[Row] = [(key, "ba"[key % 2], _value(session) + number) for key in keys]
        _change(session, _upserted(session, rows), partial(_upsert, rows=rows), table=table)


def _upsert(table: Table, rows: list[Row]) -> WriteResult:
    return table.upsert(table_of(rows), ["id"])


def upsert_once(session: Session) -> None:
    """Upsert as a checkpoint of an application, which repeats it after a crash. With equal keys the last row counts."""
    rows: list[Row] = [(1, "a", 50), (99, "a", 51)]
    given = table_of([(1, "b", 49), *rows])
    _change(
        session,
        _upserted(session, rows),
        lambda table: table.upsert(given, ["id"], on_duplicate="last", app_id="app", checkpoint_id=1),
        app=("app", 1),
    )


def insert_absent(session: Session) -> None:
    """Insert rows whose keys are absent, even if another writer deletes or adds them in between."""
    rows: list[Row] = [(key, "a", _value(session)) for key in (2, 99)]

    def makes(old: list[Row]) -> list[Row]:
        there = {row[0] for row in old}
        return old + [row for row in rows if row[0] not in there]

    _change(session, makes, lambda table: table.upsert(table_of(rows), ["id"], when_matched="ignore"))


def merge_by_range(session: Session) -> None:
    """Merge by ranges of keys: rows in one get its value, and a range without a row becomes one."""
    source = pa.table({"low": [1, 90], "high": [2, 99], "new": [_value(session)] * 2})
    ranges = [tuple(row.values()) for row in source.to_pylist()]

    def makes(old: list[Row]) -> list[Row]:
        def found(key: int) -> list[int | None]:
            return [value for low, high, value in ranges if low <= key <= high]

        new = [(low, "a", value) for low, high, value in ranges if not any(low <= row[0] <= high for row in old)]
        return [(key, part, (found(key) or [v])[0]) for key, part, v in old] + new

    _change(
        session,
        makes,
        lambda table: (
            table.merge(source, "target.id BETWEEN source.low AND source.high")
            .when_matched_update({"v": txlog.expr("source.new")})
            .when_not_matched_insert(
                {"id": txlog.expr("source.low"), "part": txlog.expr("'a'"), "v": txlog.expr("source.new")}
            )
            .execute()
        ),
    )


def merge_by_terms_of_one_side(session: Session) -> None:
    """Merge by keys and by terms of one side: a source row that they leave out is inserted beside the row of its key,
    and rows of the other partition are never matched."""
    rows: list[Row] = [(1, "a", _value(session)), (2, "b", _value(session)), (99, "b", _value(session))]

    def makes(old: list[Row]) -> list[Row]:
        def joins(source: Row, target: Row) -> bool:
            return source[0] == target[0] and source[0] != 2 and target[1] == "a"

        left = [row for row in old if not any(joins(source, row) for source in rows)]
        return left + [source for source in rows if not any(joins(source, row) for row in old)]

    _change(
        session,
        makes,
        lambda table: (
            table.merge(table_of(rows), "target.id = source.id AND source.id != 2 AND target.part = 'a'")
            .when_matched_delete()
            .when_not_matched_insert_all()
            .execute()
        ),
    )


def delete_where(session: Session) -> None:
    """Delete rows of both partitions."""
    _change(session, lambda old: [row for row in old if row[0] > 1], lambda table: table.delete("id <= 1"))


def update_where(session: Session) -> None:
    """Update rows of both partitions, one of which has no value."""

    def makes(old: list[Row]) -> list[Row]:
        return [(key, part, v + 100 if key in (1, 2, 4) and v is not None else v) for key, part, v in old]

    _change(session, makes, lambda table: table.update({"v": txlog.expr("v + 100")}, "id in (1, 2, 4)"))


def overwrite_where(session: Session) -> None:
    """Overwrite a whole partition by Delta's rules: it fails if another writer changed the partition in between.

    Blind appends are allowed, unless the table is Serializable: they count as later, although their version is lower.
    """
    rows: list[Row] = [(77, "a", _value(session))]

    def makes(old: list[Row]) -> list[Row]:
        return [row for row in old if row[1] != "a"] + rows

    is_serial = session.run.ledger.is_serializable
    _change(
        session,
        makes if is_serial else None,
        lambda table: table.overwrite(table_of(rows), where="part = 'a'"),
        reads="a",
    )


def append_keys(session: Session) -> None:
    """Append rows with keys that the table has and that others upsert."""
    rows: list[Row] = [(1, "b", _value(session)), (99, "b", _value(session))]
    _change(session, lambda old: old + rows, lambda table: table.append(table_of(rows)), is_blind=True)


def optimize_rows(session: Session) -> None:
    """Combine files, in one commit for each partition, while others delete rows of them."""
    session.clock.attempt += 1
    session.table().optimize()


def purge_rows(session: Session) -> None:
    """Rewrite files without the rows that deletion vectors mark."""
    session.clock.attempt += 1
    session.table().purge()


def vacuum_rows(session: Session) -> None:
    """Vacuum with a retention of a day, shorter than the table's own, as an operator who insists on it."""
    session.clock.attempt += 1
    session.table(fresh=True).vacuum(VACUUMED_MS / _HOUR_MS, force=True)


def tag_version(session: Session, *, version: int = 3) -> None:
    """Name the version before the newest one removed a file, and read it by its name."""
    session.clock.attempt += 1
    table = session.table(fresh=True)
    table.tag("kept", version)
    session.run.ledger.named.add(version)
    kept = table.snapshot(tag="kept")
    session.run.ledger.check_reader(kept.version, seen_by(kept._version.state, kept.files().column("path").to_pylist()))


def vacuum_later(session: Session, *, hours: int) -> None:
    """The same after some hours: more or less than the retention of a day."""
    session.let_pass(hours * _HOUR_MS)
    vacuum_rows(session)


def update_and_vacuum_later(session: Session, *, hours: int) -> None:
    """Update rows, so live files have deletion vectors of that age when the vacuum runs."""
    update_where(session)
    vacuum_later(session, hours=hours)


def restore_rows(session: Session, *, version: int = 3) -> None:
    """Restore the table to the state before its newest version removed a file."""
    table = session.table(fresh=True)
    rows = session.rows.at[version]
    with session.attempt() as attempt:
        attempt.is_blind, attempt.makes, attempt.is_serializable = False, lambda old: rows, True
        attempt.reads.add(None)
        done = table.restore(version)
        session.run.ledger.observe()
        landed = {at: txn_id for txn_id, at in session.run.ledger.txn_ids.items()}
        attempt.result = WriteResult(done.version, "committed", 1, landed.get(done.version or 0, ""))


def _value(session: Session) -> int:
    return 10 * session.clock.number + session.clock.incarnation


def _upserted(session: Session, rows: list[Row]) -> Makes:
    """What an upsert makes: one row of each key. Where rows have numbers, each row of a key keeps its own."""
    new = {row[0]: row for row in rows}

    def makes(old: list[Row]) -> list[Row]:
        if not session.run.scenario.counted:
            return [row for row in old if row[0] not in new] + rows
        there = {row[0] for row in old}
        return [new.get(row[0], row) for row in old] + [row for row in rows if row[0] not in there]

    return makes


def _change(
    session: Session,
    makes: Makes | None,
    change: Callable[[Table], WriteResult],
    *,
    app: tuple[str, int] | None = None,
    reads: str | None = None,
    is_blind: bool = False,
    table: Table | None = None,
) -> None:
    table = table or session.table()
    with session.attempt(app) as attempt:
        attempt.is_blind, attempt.makes = is_blind, makes
        if reads is not None:
            attempt.reads.add(reads)
        attempt.result = change(table)


# --- other engines ----------------------------------------------------------------------------------------------


def compact_rows(session: Session) -> None:
    """Compact files as another engine, which gives up if another writer changed one of its files."""
    planned = _planned(session)
    rows = [row for add in planned for row in session.rows.rows_of(add)]
    if len(planned) > 1 and rows:
        _commit(session, planned, [(part, [row for row in rows if row[1] == part]) for part in "ab"], lambda old: old)


def foreign_delete(session: Session) -> None:
    """Delete rows as another engine, which copies the other rows, and gives up if a file of its plan changed.

    Rows that others append in between stay, as in a WriteSerializable table.
    """
    found = [(add, session.rows.rows_of(add)) for add in _planned(session)]
    touched = [(add, rows) for add, rows in found if any(row[0] == 2 for row in rows)]
    gone = [row for _, rows in touched for row in rows if row[0] == 2]
    left = [row for _, rows in touched for row in rows if row[0] != 2]

    def makes(old: list[Row]) -> list[Row]:
        rows = list(old)
        for row in gone:
            rows.remove(row)
        return rows

    if touched:
        parts = [(part, [row for row in left if row[1] == part]) for part in "ab"]
        _commit(session, [add for add, _ in touched], parts, makes, data_change=True)


def foreign_append(session: Session) -> None:
    """Append rows as another engine, without statistics, so that every search for a key must read the file."""
    rows: list[Row] = [(1, "a", 70), (2, "a", 71)]
    _commit(session, [], [("a", rows)], lambda old: old + rows, data_change=True)


def _planned(session: Session) -> list[dict[str, Any]]:
    ledger = session.run.ledger
    return list(ledger.states[ledger.latest].live.values())


def _commit(
    session: Session,
    planned: list[dict[str, Any]],
    parts: list[tuple[str, list[Row]]],
    makes: Makes,
    *,
    data_change: bool = False,
) -> None:
    """Link the next version in one step, unless one of the ``planned`` files has changed."""
    adds = [_written(session, part, rows, data_change) for part, rows in parts if rows]
    session.run.suspend(session, StoreCall("link", 1, "the next version"))
    ledger = session.run.ledger
    live, version = ledger.states[ledger.latest].live, ledger.latest + 1
    if any(add["path"] not in live or vector_of(live[add["path"]]) != vector_of(add) for add in planned):
        session.run.record(f"{session.actor.name}: gives up")
        return
    lines: list[dict[str, Any]] = [{"commitInfo": {"operation": "WRITE", "isBlindAppend": not planned}}]
    for add in planned:
        remove = {"path": add["path"], "dataChange": data_change, "deletionTimestamp": session.clock.now_ms()}
        remove |= {"deletionVector": add["deletionVector"]} if add.get("deletionVector") else {}
        lines.append({"remove": remove | {"partitionValues": add["partitionValues"], "size": add["size"]}})
    lines += [{"add": add.to_json()} for add in adds]
    session.rows.foreign[version] = makes
    body = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    link_unsynced(session, version, body)


def _written(session: Session, part: str, rows: list[Row], data_change: bool) -> AddFile:
    body = file_of(tuple((key, value) for key, _, value in rows))
    path = session.new_path(part)
    session.run.world.files.publish(path, body)
    return AddFile(path, {"part": part}, len(body), session.clock.now_ms(), data_change, None)
