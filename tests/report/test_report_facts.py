"""The facts of a report, as pure functions: timelines, overlaps, dead rows, removed files, advice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core.format.schema_input import from_any
from txlog.core.format.upgrade_note import READERS, reader_verdicts
from txlog.core.maintenance import LAST_VACUUM
from txlog.core.operations import operation
from txlog.report.advice import advice_for
from txlog.report.clustering import key_columns, ordered_paths
from txlog.report.commits import BINS_MAX, KINDS, commit_facts, commit_line, timeline_of
from txlog.report.facts import Identity, LogFacts, StagedWork, Upkeep
from txlog.report.files import DeadRows, Files, RemovedFiles
from txlog.report.text import age, span
from txlog.result.audits import FilesSummary
from txlog.result.maintenance import RewriteResult

DAY_MS = 86_400_000


# --- commits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "mode", "kind"),
    [
        ("WRITE", "Append", "rows added"),
        ("WRITE", '"Overwrite"', "rows changed"),
        ("STREAMING UPDATE", None, "rows added"),
        ("MERGE", None, "rows changed"),
        ("OPTIMIZE", None, "files rewritten"),
        ("VACUUM START", None, "other"),
        (None, None, "other"),
    ],
)
def test_a_commit_is_of_the_kind_that_its_operation_says(operation: Any, mode: Any, kind: str) -> None:
    info = {"operation": operation, "operationParameters": {} if mode is None else {"mode": mode}}
    assert commit_facts(1, 0, info).kind == kind


def test_a_commit_keeps_its_lost_races_its_wait_and_a_short_note() -> None:
    own = {"lostTo": {"WRITE": 2, "OPTIMIZE": 1}, "waitedMs": 40, "joined": [{}, {}, {}]}
    facts = commit_facts(7, 5, {"operation": "WRITE", "txlog": own, "userMetadata": "a\nb " + "c" * 10_000})
    assert (facts.version, facts.timestamp_ms, facts.lost, facts.waited_ms, facts.appends) == (7, 5, 3, 40, 3)
    assert facts.note.startswith("a b cc")
    assert len(facts.note) <= 160


@pytest.mark.parametrize("hostile", [None, 1, "x", [], {}, {"lostTo": 3}, {"lostTo": {"a": "b"}, "waitedMs": -1}])
def test_a_commit_of_another_writer_may_hold_anything(hostile: Any) -> None:
    names = ("txlog", "operation", "operationParameters", "operationMetrics", "engineInfo", "userMetadata")
    info = dict.fromkeys(names, hostile)
    assert commit_facts(1, 2, info).lost == 0
    assert commit_line(1, 2, info).cells[0] == "1"


def test_a_timeline_counts_every_commit_once_and_stays_small() -> None:
    many = [
        commit_facts(each, each * 977, {"operation": "WRITE", "engineInfo": f"w{each % 20}"}) for each in range(5000)
    ]
    found = timeline_of(many)
    assert found is not None
    assert 24 <= len(found.bins) <= BINS_MAX
    assert sum(sum(each.kinds) for each in found.bins) == found.commits == 5000
    assert sum(each.commits for each in found.writers) == sum(each.commits for each in found.operations) == 5000
    assert found.writers[-1].name == "12 others"
    assert all(found.from_ms <= each.from_ms < each.to_ms <= found.to_ms for each in found.bins)
    assert found.waits_ms is None


def test_a_timeline_has_the_median_and_the_99th_percentile_of_the_waits() -> None:
    lost = [{"operation": "WRITE", "txlog": {"lostTo": {"WRITE": 1}, "waitedMs": each}} for each in range(1, 101)]
    found = timeline_of([commit_facts(each, 0, info) for each, info in enumerate([*lost, {"operation": "WRITE"}])])
    assert found is not None
    assert (found.races, found.lost, found.waits_ms) == (100, 100, (51, 100))
    assert len(found.bins) == 1
    assert found.bins[0].kinds == (101, *[0] * (len(KINDS) - 1))
    assert timeline_of([]) is None


# --- clustering -------------------------------------------------------------------------------------------------------

SCHEMA = from_any("id bigint, day date, name string, price decimal(9,2), ok boolean, at timestamp")


def _files(*bounds: tuple[Any, Any] | None, name: str = "id") -> pa.Table:
    texts = [
        None
        if each is None
        else json.dumps({"numRecords": 2, "minValues": {name: each[0]}, "maxValues": {name: each[1]}})
        for each in bounds
    ]
    return pa.table({"stats": pa.array(texts, pa.string())})


def _key(*bounds: tuple[Any, Any] | None, name: str = "id") -> Any:
    return key_columns(_files(*bounds, name=name), SCHEMA, [(name, (name,))])[0]


def test_a_look_up_in_files_that_do_not_overlap_opens_one() -> None:
    found = _key((1, 9), (20, 29), (10, 19))
    assert (found.files, found.known, found.opened, found.opened_most) == (3, 3, 1.0, 1)
    assert [each.text for each in found.ranges] == ["1 to 9", "10 to 19", "20 to 29"]
    assert [(each.low, each.high) for each in found.ranges] == [(0.0, 0.2), (0.4, 0.6), (0.8, 1.0)]
    assert set(found.depth) == {1}
    assert (found.ticks[0], found.ticks[-1]) == ("1", "29")


def test_a_look_up_opens_each_file_whose_range_holds_the_value() -> None:
    found = _key((0, 10), (5, 6), (10, 20))
    by_hand = [1, 2, 2, 2, 2, 1]  # at 0, 10, 5, 6, 10, 20
    assert found.opened == pytest.approx(sum(by_hand) / 6)
    assert found.opened_most == 2


def test_a_file_without_bounds_is_opened_for_every_value() -> None:
    found = _key((0, 1), None, (2, 3))
    assert (found.files, found.known, found.opened, found.opened_most) == (3, 2, 2.0, 2)
    assert key_columns(_files(None, None), SCHEMA, [("id", ("id",))]) == []


@pytest.mark.parametrize(
    ("name", "low", "high", "shown"),
    [
        ("day", "2026-01-02", "2026-02-03", "2026-01-02 to 2026-02-03"),
        ("name", "ada", "z" * 100, f"ada to {'z' * 27}…"),
        ("price", 1.5, 20.25, "1.50 to 20.25"),
        ("at", "2026-01-02T00:00:00.000Z", "2026-01-02T10:00:00.000Z", "2026-01-02 to 2026-01-02 10:00:00"),
        ("at", "2026-01-02T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "2026-01-02 to +10000-01-01"),
    ],
)
def test_bounds_of_every_ordered_type_are_shown_as_people_write_them(
    name: str, low: Any, high: Any, shown: str
) -> None:
    assert _key((low, high), (low, high), name=name).ranges[0].text == shown


def test_one_text_that_is_no_json_does_not_hide_the_others() -> None:
    files = pa.concat_tables([_files(*[(each, each) for each in range(1000)]), pa.table({"stats": ["{no json"]})])
    (found,) = key_columns(files, SCHEMA, [("id", ("id",))])
    assert found.files == 1001
    assert 900 < found.known < 1001
    assert len(found.ranges) <= 160


def test_booleans_and_partition_columns_are_no_keys() -> None:
    assert ordered_paths(SCHEMA, ["day"]) == [("id",), ("name",), ("price",), ("at",)]


# --- advice -----------------------------------------------------------------------------------------------------------

TABLE = Identity("/t/a table; rm -rf ~", "", 5, 0, 0, (), (), (), {}, 1, 2, (), ())
SUMMARY = FilesSummary(5, 200, 10**9, 1, 1, 1, (), (), 1, 200, 10**9, 200, 0, 0, 0, 0, 0)
NO_DEAD = DeadRows(1000, 0, 0.0, 0, 0, 0)
NO_REMOVED = RemovedFiles(0, 0, 0, 0, 7 * DAY_MS, None, ())
LOG = LogFacts(0, 6, 100, 0, None, None, 6, False, False, 30 * DAY_MS, 0, 0)
IDLE = Upkeep(LOG, None, (), (), (), None)
NOTHING = RewriteResult((), 0, 0, 0, dry_run=True)


def test_a_table_in_order_needs_nothing() -> None:
    assert advice_for(TABLE, Files(SUMMARY, NO_DEAD, NO_REMOVED), IDLE, NOTHING, now_ms=0) == ()


def test_advice_names_the_command_what_it_does_and_what_it_costs() -> None:
    planned = RewriteResult((), 1900, 36 * 10**9, 4, dry_run=True)
    (found,) = advice_for(TABLE, Files(SUMMARY, NO_DEAD, NO_REMOVED), IDLE, planned, now_ms=0)
    assert found.title == "Combine 1,900 files into 4"
    assert found.command == "txlog optimize '/t/a table; rm -rf ~'"
    assert "36.0 GB, about 10 minutes on one machine" in found.cost
    assert found.is_urgent


def test_each_trouble_has_its_command_and_the_urgent_ones_come_first() -> None:
    dead = DeadRows(900, 100, 0.1, 3, 10**8, 3)
    removed = RemovedFiles(9, 10**10, 9, 10**10, 7 * DAY_MS, None, ())
    log = LogFacts(0, 600, 100, 0, None, None, 600, True, True, 30 * DAY_MS, 12, 34)
    upkeep = Upkeep(log, None, (), (StagedWork("app", 3, 10, 0),), (), None)
    found = advice_for(TABLE, Files(SUMMARY, dead, removed), upkeep, NOTHING, now_ms=DAY_MS)
    assert [each.command.split()[1] for each in found] == ["staging", "checkpoint", "vacuum", "clean-up-log", "purge"]
    assert [each.is_urgent for each in found] == [True, True, True, False, False]
    assert [each.is_optional for each in found] == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("duration_ms", "long", "exact"),
    [
        (5, "a moment", "5 ms"),
        (1500, "a moment", "1.5 s"),
        (3_600_000, "1 hour", "1 hour"),
        (3 * DAY_MS, "3 days", "3 days"),
    ],
)
def test_durations_have_the_unit_that_people_would_use(duration_ms: int, long: str, exact: str) -> None:
    assert (age(duration_ms), span(duration_ms)) == (long, exact)


def test_the_verdicts_on_readers_match_the_page_on_reading() -> None:
    """`integration/test_interop_readers.py` tests each of them."""
    page = Path(__file__).parents[2].joinpath("docs", "read.md").read_text()
    table = page[page.index("| turned on in the table |") :].partition("\n\n")[0].splitlines()[2:]
    features = ("deletionVectors", "columnMapping", "v2Checkpoint", "typeWidening")
    for feature, row in zip(features, table, strict=True):
        _, query_builder, dataset, polars = (cell.strip() for cell in row.strip("|").split("|"))
        assert dataset == {"refuses": "refuses", "reads nulls": "**nulls, and no error**"}[reader_verdicts(feature)[3]]
        assert (query_builder, polars.partition(";")[0]) == (reader_verdicts(feature)[2], reader_verdicts(feature)[4])
        assert reader_verdicts(feature)[:2] == ("reads", "reads")
    assert len(READERS) == len(reader_verdicts("unknown feature")) == len(reader_verdicts("timestampNtz"))


# --- removed files ----------------------------------------------------------------------------------------------------


def test_removed_files_are_those_that_no_vacuum_has_deleted(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint")

    def left() -> tuple[int, int, int]:
        live = set(table.files()["path"].to_pylist())
        on_disk = [file for file in (tmp_path / "t").glob("*.parquet") if file.name not in live]
        facts = table.report().facts
        summary = operation("files_summary")(table._open_table, version=table.version)
        for known in (facts.files.summary, summary):
            assert (known.removed_files, known.removed_bytes) == (
                len(on_disk),
                sum(file.stat().st_size for file in on_disk),
            )
        removed = facts.files.removed
        assert removed.files == removed.expired + sum(each.files for each in removed.waiting) == len(on_disk)
        return len(on_disk), removed.size_bytes, removed.expired

    def replaced() -> None:
        table.append(pa.table({"id": [1, 2]}))
        table.delete(all=True)

    replaced()
    assert left()[0] == 1
    table.vacuum(dry_run=True)
    assert left()[0] == 1
    table.vacuum(0, force=True)
    assert left() == (0, 0, 0)
    replaced()
    assert left()[0] == 1, "the files that the vacuum deleted are still named in the log"
    table.vacuum(1, force=True)
    assert left()[0] == 1, "this one is younger than the retention of that vacuum"
    (tmp_path / "t" / "_delta_log" / LAST_VACUUM).write_text("{}")  # as after a full vacuum by Spark
    assert table.report().facts.files.removed.files == 2
