"""Compaction that follows commits: when it begins, what it leaves alone, and that no commit waits for it or fails."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog.core.background import Background
from txlog.core.maintenance import _auto_compaction as auto_compaction
from txlog.core.maintenance import _optimize as optimize
from txlog.core.maintenance._auto_compaction import AutoCompaction
from txlog.errors import InvalidInputError

AUTO = {"delta.autoOptimize.autoCompact": "true"}
MakeTable = Callable[..., txlog.Table]


@pytest.fixture(autouse=True)
def few_files_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_compaction, "SMALL_FILES_MIN", 5)


def append(table: txlog.Table, count: int, day: str = "a") -> None:
    for number in range(count):
        table.append(pa.table({"id": [number], "day": [day]}))


def drain(table: txlog.Table) -> None:
    follow: Any = table._open_table.after_commit
    compaction: AutoCompaction = follow.compaction
    compaction.drain()


def operations(table: txlog.Table) -> list[str]:
    return [commit["operation"] for commit in table.history()]


def test_one_of_ten_versions_compacts_the_partitions_with_many_small_files(make_table: MakeTable) -> None:
    table = make_table(schema="id bigint, day string", partition_by=["day"], properties=AUTO)
    append(table, 3, "few")
    append(table, 5, "many")
    drain(table)
    assert "OPTIMIZE" not in operations(table)
    append(table, 1, "many")
    drain(table)
    compaction = table.history(1)[0]
    assert (compaction["operation"], compaction["operationParameters"]["auto"]) == ("OPTIMIZE", "true")
    assert compaction["operationMetrics"]["numRemovedFiles"] == "6"
    assert table.snapshot().files().num_rows == 3 + 1
    assert table.snapshot().to_arrow().num_rows == 9


@pytest.mark.parametrize(("own", "turns"), [(0, 2), (1, 2), (0, 3), (1, 3), (2, 3), (0, 10), (5, 10), (9, 10)])
def test_writers_that_take_turns_with_an_engine_that_does_not_compact_look_too(own: int, turns: int) -> None:
    due = [version for version in range(10_000) if auto_compaction._is_due(version)]
    assert [version // 10 for version in due] == [*range(1000)]  # once in each ten
    share = sum(version % turns == own for version in due) / len(due)
    assert 0.8 / turns < share < 1.2 / turns


def test_a_table_is_compacted_whose_every_second_version_another_engine_writes(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(Background, "begin", lambda _self, what, _work: begun.append(what))
    compaction, table = AutoCompaction(), make_table(schema="id bigint", properties=AUTO)
    state = table._open_table.log.newest_state()
    for version in range(1, 100, 2):  # the even ones are the other engine's
        compaction.after(table._open_table, replace(state, version=version))
    assert len(begun) >= 3


@pytest.mark.parametrize("properties", [{}, {"delta.autoOptimize.autoCompact": "false"}])
def test_a_table_that_does_not_ask_for_it_is_left_alone(make_table: MakeTable, properties: dict[str, str]) -> None:
    table = make_table(schema="id bigint, day string", properties=properties)
    append(table, 11)
    drain(table)
    assert "OPTIMIZE" not in operations(table)


def test_a_handle_that_was_pickled_compacts_too(make_table: MakeTable) -> None:
    table = make_table(schema="id bigint, day string", properties=AUTO)
    other: txlog.Table = pickle.loads(pickle.dumps(table))
    append(other, 10)
    drain(other)
    assert operations(other)[0] == "OPTIMIZE"


def test_a_write_without_a_handle_compacts_too(make_table: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(Background, "begin", lambda _self, what, _work, **_: begun.append(what))
    monkeypatch.setattr(auto_compaction, "_is_due", lambda _: True)
    table = make_table(schema="id bigint", properties=AUTO)
    txlog.write(table.uri, pa.table({"id": [1]}))
    assert f"the compaction of {table.uri} after v1" in begun


def test_a_publication_compacts_the_table_too(make_table: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(Background, "begin", lambda _self, what, _work, **_: begun.append(what))
    monkeypatch.setattr(auto_compaction, "_is_due", lambda _: True)
    table = make_table(schema="id bigint", properties=AUTO)
    table.branch("staged").append(pa.table({"id": [1]}))
    txlog.Table.open(f"{table.uri}@staged").publish()
    assert f"the compaction of {table.uri} after v1" in begun


def test_a_compaction_that_fails_is_logged_and_the_commit_is_kept(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr(optimize, "optimize", fails)
    table = make_table(schema="id bigint, day string", properties=AUTO)
    with caplog.at_level(logging.WARNING, "txlog"):
        append(table, 10)
        drain(table)
    assert "the compaction in the background failed: no room" in caplog.text
    assert table.snapshot().to_arrow().num_rows == 10


@pytest.mark.parametrize("text", ["yes", "1", ""])
def test_the_property_takes_known_words_only(make_table: MakeTable, text: str) -> None:
    with pytest.raises(InvalidInputError):
        make_table(schema="id bigint", properties={"delta.autoOptimize.autoCompact": text})
