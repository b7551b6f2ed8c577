"""Tables and sinks of row changes where no package merges them: refused, and left as they are."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import txlog
from tests.packages import hide

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
MERGED = {"txlog.merge-engine": "aggregation", "txlog.fields.n.aggregate-function": "sum"}
PARTS = ("txlog.row_changes:changelog", "txlog.sink_modes:upsert", "txlog.sink_modes:retract")


def rows(*found: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [each[0] for each in found], "n": [each[1] for each in found]}, schema=SCHEMA)


def refused(what: Callable[[], object], match: str = "no installed package offers") -> txlog.UnsupportedFeatureError:
    with pytest.raises(txlog.UnsupportedFeatureError, match=match) as raised:
        what()
    return raised.value


def test_a_table_that_merges_rows_is_refused_where_no_package_merges_them(
    make_table: Callable[..., txlog.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(schema=SCHEMA, properties=MERGED)
    table.upsert(rows((1, 1), (2, 2)), keys=["id"])
    hide(monkeypatch, *PARTS)
    found = refused(lambda: table.upsert(rows((1, 5)), keys=["id"]))
    assert (found.table, found.version, found.features) == (table.uri, 1, ("changelog",))
    refused(lambda: table.set_properties({"delta.appendOnly": "false"}))
    refused(lambda: table.append(pa.table({"id": [3], "more": [1]}), schema_mode="merge"))
    refused(lambda: txlog.Table.create(f"{table.uri}2", SCHEMA, properties=MERGED))
    assert table.version == 1
    table.append(rows((3, 3)))
    table.delete("id = 2")
    assert sorted(table.to_arrow().to_pydict()["n"]) == [1, 3]
    monkeypatch.undo()
    table.upsert(rows((1, 5)), keys=["id"])
    assert sorted(table.to_arrow().to_pydict()["n"]) == [3, 6]


@pytest.mark.parametrize("asks", [{"merge_engine": "deduplicate"}, {"row_kind": "n"}])
def test_an_upsert_that_asks_for_a_merge_is_refused_and_a_plain_one_is_done(
    make_table: Callable[..., txlog.Table], monkeypatch: pytest.MonkeyPatch, asks: dict[str, str]
) -> None:
    table = make_table(schema=SCHEMA)
    hide(monkeypatch, *PARTS)
    refused(lambda: table.upsert(rows((1, 1)), keys=["id"], **asks))
    assert table.version == 0
    table.upsert(rows((1, 1)), keys=["id"])
    table.upsert(rows((1, 2)), keys=["id"])
    assert table.to_arrow().to_pylist() == [{"id": 1, "n": 2}]


def test_a_sink_of_changes_is_refused_and_its_sealed_checkpoint_waits(
    make_table: Callable[..., txlog.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(schema=SCHEMA)
    table.append(rows((1, 1)))
    sink = txlog.Sink(table, "feed", mode="upsert", keys=["id"])
    with sink.task(1) as task:
        task.write(rows((1, 7)))
    sink.stage(task.committable)
    sink.prepare(1, [0])
    hide(monkeypatch, *PARTS)
    refused(lambda: txlog.Sink(table, "feed", mode="upsert", keys=["id"]), "sink mode 'upsert'")
    found = refused(lambda: sink.commit(1))
    assert found.table == table.uri
    refused(lambda: txlog.Sink(table, "feed").recover())
    assert table.version == 1
    plain = txlog.Sink(table, "rows")
    with plain.task(1) as task:
        task.write(rows((2, 2)))
    plain.commit(1, [task.committable])
    monkeypatch.undo()
    txlog.Sink(table, "feed", mode="upsert", keys=["id"]).recover()
    assert sorted(table.to_arrow().to_pydict()["n"]) == [2, 7]
