"""The page of a report: one HTML file that fetches nothing and runs nothing.

In: `Facts`, whose texts may be anything that a log can hold. Out: HTML. All of it is made by `core.util._html.element`,
which escapes; the page's own policy forbids scripts, requests and other styles.
"""

from __future__ import annotations

from collections.abc import Sequence

from txlog.core.util import Markup, element
from txlog.report.facts import Advice, Facts
from txlog.report.sections import section, sections
from txlog.report.style import POLICY, STYLE
from txlog.report.text import age, dated
from txlog.result import counted, human_size


def page_of(facts: Facts) -> str:
    """The whole document."""
    name = _name(facts.table.uri)
    head = element(
        "head",
        None,
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("title", None, f"{name}: version {facts.table.version:,}"),
        element("style", None, Markup(STYLE)),
    )
    main = element(
        "main", None, _header(facts, name), _strip(facts), _advice(facts.advice), sections(facts), _footer(facts)
    )
    return f"<!DOCTYPE html>\n{element('html', {'lang': 'en'}, head, element('body', None, main))}\n"


def _name(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2] or uri


def _header(facts: Facts, name: str) -> Markup:
    table = facts.table
    about = [element("p", {"class": "about"}, table.description)] if table.description else []
    return element(
        "header",
        None,
        element("p", {"class": "over"}, f"Report of {dated(facts.made_ms)}"),
        element("h1", None, name),
        element("p", {"class": "uri"}, element("code", None, table.uri)),
        about,
    )


def _strip(facts: Facts) -> Markup:
    """The verdict: what the table is, and whether something is to be done."""
    table, summary, dead = facts.table, facts.files.summary, facts.files.dead
    committed = "" if table.committed_ms is None else f"{age(facts.made_ms - table.committed_ms)} old"
    per_row = f"{summary.size_bytes / dead.rows:,.0f} B per row" if dead.rows else "in live files"
    partitions = len(summary.partitions) if table.partition_columns else 0
    places = f"in {counted(partitions, 'partition')}" if partitions else "not partitioned"
    todo = [each for each in facts.advice if not each.is_optional]
    urgent = sum(each.is_urgent for each in todo)
    state = "bad" if urgent else ("good" if not todo else None)
    features = sorted({*table.reader_features, *table.writer_features} - {"appendOnly", "invariants"})
    cells = [
        ("Version", f"{table.version:,}", committed, None),
        ("Rows", "unknown" if dead.rows is None else _short(dead.rows), _dead(facts), None),
        ("Size", human_size(summary.size_bytes), per_row, None),
        ("Files", f"{summary.files:,}", places, None),
        ("Protocol", f"{table.reader_version} / {table.writer_version}", _features(features), None),
        ("To do", f"{len(todo)}" if todo else "Nothing", f"{urgent} urgent" if urgent else "nothing urgent", state),
    ]
    return element(
        "dl",
        {"class": "strip"},
        (
            element(
                "div",
                {"class": kind},
                element("dt", None, label),
                element("dd", None, value),
                element("dd", None, more),
            )
            for label, value, more, kind in cells
        ),
    )


def _short(number: int) -> str:
    """All digits, if they fit into a cell."""
    if number < 100_000_000:
        return f"{number:,}"
    units = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"))
    size, unit = next((size, unit) for size, unit in units if number >= size)
    return f"{number // (size // 100) / 100:.3g} {unit}" if number < 100 * size else f"{number // size:,} {unit}"


def _dead(facts: Facts) -> str:
    dead = facts.files.dead
    return f"{dead.dead:,} deleted still in files" if dead.dead else "no deleted row in files"


def _features(names: Sequence[str]) -> str:
    if not names:
        return "reader / writer version"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _advice(advice: Sequence[Advice]) -> Markup:
    todo = sum(not each.is_optional for each in advice)
    title = f"{counted(todo, 'thing')} to do" if todo else "Nothing to do"
    if not advice:
        return section(title, "Checkpoints, file sizes, removed files, sinks and exports: all is well.", [])
    items = [
        element(
            "li",
            {"class": "urgent" if each.is_urgent else None},
            element("h3", None, each.title),
            element("p", None, each.why),
            element("code", {"class": "command"}, each.command),
            element("p", None, each.cost),
        )
        for each in advice
    ]
    lede = "Commands to copy. Each can run while others read and write."
    return section(title, lede, [element("ol", {"class": "advice"}, items)])


def _footer(facts: Facts) -> Markup:
    source = "the log and the table's folder" if facts.deletion else "the log alone"
    return element(
        "footer",
        None,
        f"Made by {facts.made_by} from {source}; no data file was read. Times are in UTC, sizes in powers of ten.",
    )
