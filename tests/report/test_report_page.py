"""The page of a report: nothing in a log becomes HTML or script, nothing is fetched, and it stays small."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from tests.bucket import Bucket
from txlog.core.util import Markup, element
from txlog.report.page import _short

HOSTILE = "\"'></td></title></style><script src=//x>alert(1)</script><img onerror=x>&lt;\u202e\x07"
HARMLESS = "a" * len(HOSTILE)
NAMES = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "footer", "div", "h1", "h2", "h3"),
    *("p", "code", "dl", "dt", "dd", "ol", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "figure", "span"),
    *("svg", "g", "rect", "path", "details", "summary"),
}
ATTRIBUTES = {
    *("charset", "http-equiv", "content", "name", "lang", "class", "viewbox", "preserveaspectratio", "role", "open"),
    *("aria-label", "aria-hidden", "x", "y", "width", "height", "rx", "d"),
}


class Parsed(HTMLParser):
    """The elements of a page with the names of their attributes, in order; and all its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.values += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def _log(folder: Path, text: str) -> str:
    """A table whose log has ``text`` wherever a log can hold text."""
    name = text[:100]
    mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c1"}
    day = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "c2"}
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": mapping | {"comment": text}},
        {"name": f"{name}2", "type": "string", "nullable": True, "metadata": day},
    ]
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2", f"x.{text}": text}
    stats = {"numRecords": 1, "minValues": {"c1": text}, "maxValues": {"c1": text}, "nullCount": {"c1": 0}}
    add = {"size": 9, "modificationTime": 1, "dataChange": True, "stats": json.dumps(stats), "tags": {text: text}}
    info = {
        **dict.fromkeys(("operation", "userMetadata", "engineInfo", "txnId", "isolationLevel", text), text),
        "operationParameters": {"predicate": text, "mode": text, text: text},
        "operationMetrics": {"numFiles": text, text: text},
        "txlog": {"lostTo": {text: 2}, "waitedMs": 7, "fingerprint": text},
    }
    metadata = {
        **{"id": text, "name": text, "description": text, "partitionColumns": [f"{name}2"]},
        **{"format": {"provider": "parquet", "options": {}}, "configuration": configuration},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
    }
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["columnMapping"]}
    lines = [
        {"commitInfo": info},
        {"protocol": {**protocol, "writerFeatures": ["columnMapping", text]}},
        {"metaData": metadata},
        {"txn": {"appId": text, "version": 1, "lastUpdated": 1}},
        {"domainMetadata": {"domain": text, "configuration": text, "removed": False}},
        *(
            {"add": {**add, "path": f"a{number}%3Cb%3E.parquet", "partitionValues": {"c2": text}}}
            for number in range(2)
        ),
        {"remove": {"path": "gone%3Cb%3E", "deletionTimestamp": 1, "dataChange": True, "size": 3}},
    ]
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(folder)


def _page(folder: Path, text: str) -> Parsed:
    return Parsed(txlog.Table.open(_log(folder, text)).report(orphans=True).html)


def test_hostile_text_in_every_field_of_a_log_makes_no_element_and_no_attribute(tmp_path: Path) -> None:
    hostile = _page(tmp_path / "<b onclick=x>", HOSTILE)
    harmless = _page(tmp_path / "aaaaaaaaaaaaa", HARMLESS)
    assert hostile.elements == harmless.elements
    assert {name for name, _ in hostile.elements} <= NAMES
    assert {name for _, names in hostile.elements for name in names} <= ATTRIBUTES
    for place in ("alert(1)", "<b onclick=x>", "<img onerror=x>"):
        assert place in hostile.text
    assert hostile.text.count("<script src=//x>") >= 10
    assert "\x07" not in hostile.text
    assert "\u202e" not in hostile.text


def test_the_page_may_use_its_own_style_and_nothing_else(tmp_path: Path) -> None:
    page = _page(tmp_path / "t", HARMLESS)
    style = re.search(r"<style>(.*?)</style>", txlog.Table.open(str(tmp_path / "t")).report().html, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert policy in page.values
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_text_is_escaped_unless_an_element_made_it() -> None:
    inner = element("b", None, "<")
    assert element("p", {"title": '"<', "hidden": None}, inner, "<i>", ["&"]) == (
        '<p title="&quot;&lt;"><b>&lt;</b>&lt;i&gt;&amp;</p>'
    )
    assert element("meta", {"charset": "utf-8"}) == '<meta charset="utf-8">'
    assert element("p", None, Markup("<hr>")) == "<p><hr></p>"
    assert element("p", None, "\ud800\u2066").encode() == "<p>\ufffd\ufffd</p>".encode()


def test_a_report_shows_itself_in_a_notebook_without_reaching_the_notebook(tmp_path: Path) -> None:
    report = txlog.Table.open(_log(tmp_path / "t", HOSTILE)).report()
    frame = Parsed(report._repr_html_())
    assert frame.elements == [("iframe", ("srcdoc", "sandbox", "width", "height", "frameborder"))]
    assert frame.values[:2] == [report.html, ""]


def test_saving_a_report_replaces_the_file_and_a_missing_folder_is_named(tmp_path: Path) -> None:
    report = txlog.Table.open(_log(tmp_path / "t", HARMLESS)).report()
    (tmp_path / "r.html").write_text("old")
    report.save(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == report.html
    with pytest.raises(txlog.InvalidInputError, match="cannot be written") as caught:
        report.save(tmp_path / "nowhere" / "r.html")
    assert caught.value.path == str(tmp_path / "nowhere" / "r.html")


def test_a_page_of_thousands_of_commits_partitions_and_columns_stays_small(tmp_path: Path) -> None:
    columns = {f"column_{number}": pa.string() for number in range(300)}
    schema = pa.schema({"id": pa.int64(), "day": pa.string(), **columns})
    table = txlog.Table.create(tmp_path / "t", schema, ["day"], {"delta.checkpointInterval": "100000"})
    add = {"size": 10, "modificationTime": 1, "dataChange": True}
    for version in range(1, 3001):
        info: dict[str, Any] = {"operation": f"OP {version}", "engineInfo": f"w{version}", "userMetadata": "n" * 9000}
        stats = json.dumps({"numRecords": 1, "minValues": {"id": version}, "maxValues": {"id": version + 5}})
        file = {**add, "path": f"{version}.parquet", "partitionValues": {"day": f"d{version}"}, "stats": stats}
        body = f"{json.dumps({'commitInfo': info})}\n{json.dumps({'add': file})}\n"
        (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").write_text(body)
    report = txlog.Table.open(table.uri).report()
    assert report.facts.timeline is not None
    assert report.facts.timeline.commits == 3001
    assert report.facts.files.summary.files == 3000
    assert len(report.html.encode()) < 300_000


# --- what it says -----------------------------------------------------------------------------------------------------


def test_a_report_says_what_other_calls_say(tmp_path: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    table = txlog.Table.create(tmp_path / "t", "id bigint, day string", ["day"], properties)
    for number in range(4):
        rows = pa.table({"id": pa.array(range(number * 10, number * 10 + 10), pa.int64()), "day": ["a"] * 10})
        table.append(rows, app_id="loader", checkpoint_id=number, user_metadata=f"load {number}")
    table.delete("id = 3")
    table.tag("first", 1)
    table.create_checkpoint()
    facts = table.report(orphans=True).facts
    planned = table.optimize(dry_run=True)
    assert (facts.table.version, facts.files.dead.rows, facts.files.dead.dead) == (5, table.count(), 1)
    assert facts.files.summary.size_bytes == table.size_bytes
    assert facts.advice[0].title == f"Combine {planned.files_removed} files into {planned.files_added}"
    assert [(each.name, each.opened) for each in facts.keys] == [("id", 1.0)]
    assert [(each.app_id, each.checkpoint_id, each.version) for each in facts.upkeep.sinks] == [("loader", 3, 4)]
    assert [(each.name, each.version) for each in facts.upkeep.tags] == [("first", 1)]
    assert (facts.upkeep.log.checkpoint_version, facts.upkeep.log.commits, facts.upkeep.log.commits_since) == (5, 6, 0)
    assert [each.feature for each in facts.readers] == ["deletionVectors"]
    assert facts.timeline is not None
    assert [each.cells[0] for each in facts.timeline.newest] == ["5", "4", "3", "2", "1", "0"]
    assert facts.deletion is not None
    kept = {each.kept_by for each in facts.deletion.remains}
    assert {each.partition(":")[0] for each in kept} == {each.kept_by for each in table.check_deleted().remains}
    assert "a named version: first" in kept
    assert "load 3" in table.report().html


def test_a_file_that_got_another_deletion_vector_is_not_removed(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint", properties={"delta.enableDeletionVectors": "true"})
    table.append(pa.table({"id": range(100)}))
    for number in range(3):
        table.delete(f"id = {number}")
    assert table.report().facts.files.removed.files == 0
    table.overwrite(pa.table({"id": [1]}))
    assert table.report().facts.files.removed.files == 1


def test_a_report_opens_and_lists_no_data_file_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket(commits=3)
    touched: list[str] = []
    for name in ("list", "open", "stat"):
        call = getattr(bucket.files, name)
        monkeypatch.setattr(bucket.files, name, _noted(touched, name, call))
    facts = bucket.opened().report().facts
    assert (facts.files.summary.files, facts.files.dead.rows, touched) == (3, 3, [])
    bucket.opened().report(orphans=True)
    assert set(touched) == {"list"}


def _noted(touched: list[str], name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*given: Any, **named: Any) -> Any:
        touched.append(name)
        return call(*given, **named)

    return noted


def test_a_limit_reads_only_the_newest_commits_and_says_so(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint")
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    report = table.report(limit=2)
    assert report.facts.timeline is not None
    assert (report.facts.timeline.commits, report.facts.timeline.first_version) == (2, 2)
    assert "older ones were not read" in report.html
    assert "older ones were not read" not in table.report(limit=4).html
    for wrong in (0, "2", True):
        with pytest.raises(txlog.InvalidInputError, match="limit"):
            table.report(limit=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (99_999_999, "99,999,999"),
        (999_990_000, "999 million"),
        (1_230_000_000, "1.23 billion"),
        (10**15, "1,000 trillion"),
    ],
)
def test_many_rows_are_shown_in_few_digits(number: int, shown: str) -> None:
    assert _short(number) == shown


def test_an_empty_table_has_a_report(tmp_path: Path) -> None:
    report = txlog.Table.create(tmp_path / "t", "id bigint").report(orphans=True)
    assert report.facts.advice == ()
    assert repr(report) == f"Report({tmp_path / 't'}, version 0, 0 things to do)"
    assert json.loads(json.dumps(report.to_dict()))["table"]["version"] == 0


def test_a_write_result_shows_its_counts_in_a_notebook(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint")
    shown = Parsed(table.append(pa.table({"id": [1, 2]}))._repr_html_()).text
    assert "WriteResult: committed" in shown
    assert "2 written" in shown
    assert "1 added" in shown
