"""The sections of a report's page: commits, files, clustering, upkeep, readers, deleted data, definition.

In: `Facts`. Out: `Markup`. Each section has a heading, a sentence that says what its figures show, and the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from txlog.core.format.properties import DAY_MS
from txlog.core.format.upgrade_note import READERS
from txlog.core.util import Markup, element
from txlog.report.charts import (
    axis,
    bar,
    commits_plot,
    depth_plot,
    legend,
    lost_plot,
    ranges_plot,
    split_bar,
)
from txlog.report.clustering import ClusterColumn
from txlog.report.commits import Tally, Timeline
from txlog.report.facts import Facts, LogFacts, Upkeep
from txlog.report.files import RemovedFiles
from txlog.report.text import age, dated, span
from txlog.result import counted, human_size, utc_text, whole_size
from txlog.result.audits import FilesSummary

_PARTITIONS_SHOWN = 12
_SINKS_SHOWN = 20
_COLUMNS_SHOWN = 200
_COLUMNS_OPEN = 16
_TEXT_MAX = 200
_VERDICT_CLASS = {"reads": "yes", "refuses": "no", "reads nulls": "no", "unknown": "maybe"}

Cell: TypeAlias = "str | tuple[str, str | None]"
"""The text of a table's cell, and its class."""
Head: TypeAlias = "tuple[str, str | None]"
"""The text of a column's head, and the class of the column."""


def sections(facts: Facts) -> Iterator[Markup]:
    """All sections, from top to bottom."""
    if facts.timeline is not None:
        yield _commits(facts, facts.timeline)
    yield _files(facts)
    if facts.keys:
        yield _clustering(facts)
    yield _upkeep(facts)
    yield _readers(facts)
    yield _deleted(facts)
    yield _definition(facts)


# --- commits ------------------------------------------------------------------------------------------------------


def _commits(facts: Facts, timeline: Timeline) -> Markup:
    most = max(sum(each.kinds) for each in timeline.bins)
    lede = [f"{counted(timeline.commits, 'commit')} in {age(timeline.to_ms - timeline.from_ms)}"]
    lede += [f"with {counted(timeline.appends, 'append')} and changes"] if timeline.appends > timeline.commits else []
    first = f"Versions {timeline.first_version:,} to {timeline.last_version:,}"
    older = "older ones were not read" if facts.is_partial else "all that the log still has"
    body = [
        element(
            "div",
            {"class": "chart"},
            legend(timeline),
            element("p", {"class": "scale"}, f"at most {counted(most, 'commit')} in {span(timeline.step_ms)}"),
            element("div", {"class": "frame top"}, commits_plot(timeline)),
            axis(_times(timeline)),
            _lost_races(timeline),
        ),
        element(
            "div",
            {"class": "pair"},
            _tallies("By writer", timeline.writers),
            _tallies("By operation", timeline.operations),
        ),
        element("div", None, element("h3", None, "Newest commits"), _newest(timeline)),
    ]
    return section("Commits", f"{' '.join(lede)}. {first}, {older}. {_races(timeline)}", body)


def _races(timeline: Timeline) -> str:
    if not timeline.races:
        return "No commit recorded a lost race."
    share = 100 * timeline.races / timeline.commits
    found = f"{counted(timeline.races, 'commit')} ({share:.2g} %) lost {counted(timeline.lost, 'race')} before they won"
    if timeline.waits_ms is None:
        return f"{found}."
    return f"{found}; they waited {span(timeline.waits_ms[0])} (median), {span(timeline.waits_ms[1])} (p99)."


def _lost_races(timeline: Timeline) -> Markup:
    if not timeline.lost:
        return Markup("")
    most = max(each.lost for each in timeline.bins)
    scale = element("p", {"class": "scale"}, f"lost races: at most {most:,} in {span(timeline.step_ms)}")
    return Markup(scale + element("div", {"class": "frame"}, lost_plot(timeline)))


def _times(timeline: Timeline) -> list[str]:
    """Five times along the axis, as exact as the columns are; without the date if it is the same day."""
    width = timeline.to_ms - timeline.from_ms
    times = [timeline.from_ms + width * part // 4 for part in range(5)]
    texts = [utc_text(time_ms) for time_ms in times]
    if timeline.step_ms < 1_000:
        texts = [f"{text}.{time_ms % 1000:03}" for text, time_ms in zip(texts, times, strict=True)]
    if len({text.partition(" ")[0] for text in texts}) == 1:
        return [texts[0], *(text.partition(" ")[2] for text in texts[1:])]
    return [text[:16] if width < 20 * DAY_MS else text[:10] for text in texts]


def _tallies(title: str, tallies: Sequence[Tally]) -> Markup:
    most = max(each.commits for each in tallies)
    has_lost = any(each.lost for each in tallies)
    rows: list[list[Cell]] = []
    for each in tallies:
        told = f"{counted(each.commits, 'commit')}, the last one {dated(each.last_ms)}"
        lost = [f"{each.lost:,}" if each.lost else ""] if has_lost else []
        rows.append([each.name, bar(each.commits / most, told), f"{each.commits:,}", *lost])
    heads: list[Head] = [("", "name"), ("", "share"), ("commits", "n")]
    heads += [("lost races", "n")] if has_lost else []
    return element("div", None, element("h3", None, title), _table(heads, rows))


def _newest(timeline: Timeline) -> Markup:
    """The note of a commit stands below its operation."""
    heads: list[Head] = [("version", "n"), ("time (UTC)", "w"), ("operation", None), ("rows", "n"), ("files", "n wide")]
    heads += [("size", "n wide"), ("by", "wide")]
    columns = range(len(heads) - (len(timeline.writers) == 1))
    shown = [at for at in columns if at < 3 or any(each.cells[at] for each in timeline.newest)]
    rows = []
    for each in timeline.newest:
        *cells, note = each.cells
        below = [element("div", {"class": "soft"}, note)] if note else []
        cells[1] = Markup(" ".join(element("span", {"class": "fixed"}, part) for part in cells[1].split(" ")))
        cells[2] = Markup(element("div", None, cells[2]) + "".join(below))
        rows.append([cells[at] for at in shown])
    return _table([heads[at] for at in shown], rows)


# --- files --------------------------------------------------------------------------------------------------------


def _files(facts: Facts) -> Markup:
    summary, dead = facts.files.summary, facts.files.dead
    below = whole_size(summary.small_below_bytes)
    parts = [f"{counted(summary.files, 'file')}, {human_size(summary.size_bytes)}."]
    if summary.median_bytes is not None:
        parts.append(f"The median file has {human_size(summary.median_bytes)}.")
    if summary.mergeable_files:
        parts.append(f"{summary.mergeable_files:,} are below {below} and share a partition, so they could be combined.")
    if dead.dead and dead.share is not None:
        parts.append(f"{_percent(dead.share)} of the rows in them are deleted.")
    sizes = [_sizes(summary), *_partitions(facts)] if summary.files else []
    rest = [_dead_share(facts)] if dead.dead else []
    rest += [_removed(facts.files.removed)] if facts.files.removed.files else []
    body = [element("div", {"class": "pair"}, part) for part in (sizes, rest) if part]
    return section("Files", " ".join(parts), body)


def _sizes(summary: FilesSummary) -> Markup:
    most = max(each.files for each in summary.sizes)
    rows = []
    for each in summary.sizes:
        is_small = each.to_bytes is not None and each.to_bytes <= summary.small_below_bytes
        kind = "k1" if is_small and summary.mergeable_files else "k0"
        together = human_size(each.size_bytes) if each.files else ""
        title = f"{counted(each.files, 'file')}, {together}"
        rows.append(((each.size_range, "w"), bar(each.files / most, title, kind), f"{each.files:,}", together))
    heads = (("size of a file", None), ("", "share"), ("files", "n"), ("together", "n"))
    return element("div", None, element("h3", None, "Sizes"), _table(heads, rows))


def _partitions(facts: Facts) -> Iterator[Markup]:
    if not facts.table.partition_columns or not facts.files.summary.files:
        return
    found = sorted(facts.files.summary.partitions, key=lambda each: (-each.small_files, -each.files))
    most = max(each.files for each in found)
    rows = []
    for each in found[:_PARTITIONS_SHOWN]:
        large = each.files - each.small_files
        parts = [(each.small_files / most, "k1"), (large / most, "k0")]
        title = f"{each.small_files:,} small and {large:,} large files"
        rows.append(
            (
                _named(each.values),
                split_bar(parts, title),
                f"{each.small_files:,}",
                f"{each.files:,}",
                human_size(each.size_bytes),
            )
        )
    heads = (("", "name"), ("", "share"), ("small", "n"), ("files", "n"), ("size", "n"))
    more = len(found) - len(rows)
    note = [element("p", {"class": "note"}, f"{more:,} more partitions have no more small files.")] if more > 0 else []
    title = f"Partitions by {', '.join(facts.table.partition_columns)}"
    yield element("div", None, element("h3", None, title), _table(heads, rows), note)


def _dead_share(facts: Facts) -> Markup:
    dead = facts.files.dead
    marked = f"{counted(dead.dead, 'row')} in {counted(dead.files, 'file')}, which have {human_size(dead.size_bytes)}"
    many = f"; {counted(dead.many, 'file')} with more than 5 % of their rows deleted" if dead.many else ""
    rows = [
        (
            "of all rows in files",
            bar(dead.share or 0.0, marked, "k1"),
            "" if dead.share is None else _percent(dead.share),
        )
    ]
    rows.append(("of all files", bar(dead.files / max(1, facts.files.summary.files), marked, "k1"), f"{dead.files:,}"))
    note = element("p", {"class": "note"}, f"{marked}{many}. Deletion vectors hide these rows from readers.")
    heads = (("", None), ("", "share"), ("", "n"))
    return element("div", None, element("h3", None, "Deleted rows"), _table(heads, rows), note)


def _removed(removed: RemovedFiles) -> Markup:
    most = max([removed.expired_bytes, *(each.size_bytes for each in removed.waiting), 1])
    rows = []
    if removed.expired:
        title = "Past the retention: a vacuum deletes them now"
        rows.append(
            (
                ("now", "w"),
                bar(removed.expired_bytes / most, title, "k1"),
                f"{removed.expired:,}",
                human_size(removed.expired_bytes),
            )
        )
    for each in removed.waiting:
        day = (utc_text(each.from_ms)[:10], "w")
        title = f"A vacuum deletes them from {dated(each.from_ms)} on"
        rows.append((day, bar(each.size_bytes / most, title, "k3"), f"{each.files:,}", human_size(each.size_bytes)))
    heads = (("may be deleted from", None), ("", "share"), ("files", "n"), ("size", "n"))
    kept = f"Time travel needs removed files for {age(removed.retention_ms)}. Only a vacuum deletes them after that."
    heading = element("h3", None, "Removed files against their retention")
    table = [_table(heads, rows)] if rows else []
    return element("div", None, heading, table, element("p", {"class": "note"}, kept))


# --- clustering ---------------------------------------------------------------------------------------------------


def _clustering(facts: Facts) -> Markup:
    best = min(facts.keys, key=lambda each: each.opened)
    how = (
        "The table is clustered by these columns."
        if facts.table.clustering_columns
        else "The table has no clustering columns."
    )
    lede = (
        f"A look-up of one {_cut(best.name)} opens {_files_opened(best.opened)} of {counted(best.files, 'file')}. {how}"
    )
    figures = element("div", {"class": "pair"}, map(_key, facts.keys))
    note = "Each bar is a file, from its least to its greatest value. A look-up opens those that cross its value."
    sampled = max(len(each.ranges) for each in facts.keys)
    if sampled < max(each.known for each in facts.keys):
        note += f" {sampled} of the files are drawn."
    return section("Clustering", lede, [figures, element("p", {"class": "note"}, note)])


def _key(key: ClusterColumn) -> Markup:
    opened = f"A point look-up opens {_files_opened(key.opened)} of {counted(key.files, 'file')}"
    opened += f", at most {key.opened_most:,}."
    unknown = key.files - key.known
    if unknown:
        opened += f" {counted(unknown, 'file')} without bounds are always opened."
    return element(
        "figure",
        None,
        element("h3", None, _cut(key.name)),
        element("p", None, opened),
        element("div", {"class": "frame"}, depth_plot(key)),
        element("div", {"class": "frame"}, ranges_plot(key)),
        axis(key.ticks),
    )


def _files_opened(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


# --- upkeep, readers ----------------------------------------------------------------------------------------------


def _upkeep(facts: Facts) -> Markup:
    upkeep, now_ms = facts.upkeep, facts.made_ms
    log = upkeep.log
    if log.checkpoint_version is None:
        lede = f"No checkpoint yet: readers replay {counted(log.commits_since, 'commit')}."
    else:
        replayed = counted(log.commits_since, "commit")
        lede = f"Readers start at the checkpoint of version {log.checkpoint_version:,} and replay {replayed}."
    body = [_list(dict(_upkeep_lines(upkeep, log, now_ms)))]
    if upkeep.sinks:
        body.append(element("div", None, element("h3", None, "Sinks"), _sinks(upkeep, now_ms)))
    if upkeep.tags:
        heads = (("named version", None), ("version", "n"), ("named", "w"))
        rows = [(each.name, f"{each.version:,}", dated(each.created_ms)) for each in upkeep.tags[:_SINKS_SHOWN]]
        body.append(element("div", None, _table(heads, rows), _more(len(upkeep.tags))))
    return section("Upkeep", lede, body)


def _upkeep_lines(upkeep: Upkeep, log: LogFacts, now_ms: int) -> Iterator[tuple[str, str]]:
    if log.checkpoint_version is not None:
        old = "" if log.checkpoint_ms is None else f", {age(now_ms - log.checkpoint_ms)} old"
        due = "; a new one is overdue" if log.is_overdue else ("; a new one is due" if log.is_due else "")
        yield "Last checkpoint", f"version {log.checkpoint_version:,}{old}{due}"
    kept = f"kept for {age(log.retention_ms)}"
    yield (
        "Log",
        f"{counted(log.commits, 'commit')} from version {log.first_version:,}, {human_size(log.size_bytes)}; {kept}",
    )
    yield (
        "Last vacuum",
        "never, or by an engine that leaves no note" if upkeep.vacuum_ms is None else dated(upkeep.vacuum_ms),
    )
    if upkeep.iceberg is not None:
        found = upkeep.iceberg
        lag = "up to date" if not found.lag else f"{counted(found.lag, 'version')} behind"
        yield "Iceberg readers", found.problem or f"version {found.version}, {lag}"
    for each in upkeep.staged[:_SINKS_SHOWN]:
        rows = "" if each.rows is None else f", {counted(each.rows, 'row')}"
        yield (
            "Staged, not committed",
            f"{each.app_id}: checkpoint {each.checkpoint_id}{rows}, sealed {dated(each.modified_ms)}",
        )


def _sinks(upkeep: Upkeep, now_ms: int) -> Markup:
    heads = (
        ("application", None),
        ("last checkpoint", "n"),
        ("version", "n wide"),
        ("rows", "n wide"),
        ("last commit", "w"),
    )
    rows = []
    newest = sorted(upkeep.sinks, key=lambda each: -(each.updated_ms or 0))
    for each in newest[:_SINKS_SHOWN]:
        ago = "" if each.updated_ms is None else f"{age(now_ms - each.updated_ms)} ago"
        rows.append((each.app_id, f"{each.checkpoint_id:,}", _number(each.version), _number(each.rows), ago))
    return Markup(_table(heads, rows) + _more(len(newest)))


def _more(number: int) -> Markup:
    rest = number - _SINKS_SHOWN
    return element("p", {"class": "note"}, f"{rest:,} more are not shown.") if rest > 0 else Markup("")


def _readers(facts: Facts) -> Markup:
    table = facts.table
    if not facts.readers:
        lede = f"Every Delta reader: the protocol asks for reader version {table.reader_version} and no feature."
        return section("Who can read it", lede, [])
    shut_out = [
        name
        for at, name in enumerate(READERS)
        if any(each.verdicts[at] in ("refuses", "reads nulls") for each in facts.readers)
    ]
    lede = f"{' and '.join(shut_out)} cannot, or not rightly." if shut_out else "Every reader whose behavior is known."
    heads = (("readers need", "fixed"), *((name, None) for name in READERS))
    rows: list[list[Cell]] = [
        [each.feature, *((verdict, _VERDICT_CLASS[verdict]) for verdict in each.verdicts)] for each in facts.readers
    ]
    matrix = element("div", {"class": "scroll"}, _table(heads, rows))
    note = element("p", {"class": "note"}, "DuckDB reads what deltalake's to_pyarrow_table reads.")
    return section("Who can read it", lede, [element("div", None, matrix, note)])


# --- deleted data, definition -------------------------------------------------------------------------------------


def _deleted(facts: Facts) -> Markup:
    removed, dead = facts.files.removed, facts.files.dead
    waits = []
    if dead.dead:
        waits.append(("A purge", f"{counted(dead.dead, 'row')} marked in {counted(dead.files, 'live file')}"))
    if removed.last_ms is not None:
        waits.append(("Time", f"removed files stay for time travel, the last until {dated(removed.last_ms)}"))
    if removed.expired:
        waits.append(("A vacuum", f"{counted(removed.expired, 'removed file')}, {human_size(removed.expired_bytes)}"))
    if facts.upkeep.tags:
        waits.append(("Names", f"{counted(len(facts.upkeep.tags), 'named version')} may keep files until txlog untag"))
    body = [_list(dict(waits))] if waits else []
    found = facts.deletion
    if found is None:
        what = "What is deleted and still stored" if body else "Nothing"
        lede = f"{what}, by the log alone. With --orphans, the report looks at the folder too."
    else:
        lede = f"What is deleted and still stored, by the log and {counted(found.files, 'file')} in the folder."
        heads = (("kept by", None), ("files", "n"), ("size", "n"), ("until", "w"))
        rows = [
            (each.kept_by, f"{each.files:,}", human_size(each.size_bytes), dated(each.until_ms) or "no time limit")
            for each in found.remains
        ]
        now = f"A vacuum would delete {counted(found.unneeded, 'file')}, {human_size(found.unneeded_bytes)}, now."
        table = _table(heads, rows) if rows else element("p", None, "Nothing deleted is left in any file.")
        body.append(element("div", None, table, element("p", {"class": "note"}, now)))
    return section("Deleted data waits for", lede, body)


def _definition(facts: Facts) -> Markup:
    table = facts.table
    rows: list[list[Cell]] = [
        [each.name, (each.type, "soft"), "" if each.nullable else "not null"] for each in table.columns[:_COLUMNS_SHOWN]
    ]
    more = len(table.columns) - len(rows)
    rows += [[f"and {more:,} more", "", ""]] if more > 0 else []
    columns = element(
        "details",
        {"open": "" if len(rows) <= _COLUMNS_OPEN else None},
        element("summary", None, counted(len(table.columns), "column")),
        _table((("column", None), ("type", None), ("", "n")), rows),
    )
    lines = {"Partitioned by": ", ".join(table.partition_columns) or "nothing"}
    lines |= {"Clustered by": ", ".join(table.clustering_columns)} if table.clustering_columns else {}
    lines |= {"Writers need": ", ".join(table.writer_features) or "no feature"}
    lines |= {"Created": dated(table.created_ms)} if table.created_ms is not None else {}
    properties = (
        [_list({_cut(name): _cut(value) for name, value in table.properties.items()})] if table.properties else []
    )
    heading = f"{counted(len(table.columns), 'column')}, {_properties(len(table.properties))}."
    return section("Definition", heading, [_list(lines), *properties, columns])


def _properties(number: int) -> str:
    return {0: "no properties", 1: "1 property"}.get(number, f"{number:,} properties")


# --- small things -------------------------------------------------------------------------------------------------


def section(title: str, lede: str, body: Sequence[Markup]) -> Markup:
    """One section. Without figures, the sentence stands in their place."""
    heading = element("h2", None, title)
    if not body:
        return element("section", None, heading, element("p", {"class": "alone"}, lede))
    head = element("div", None, heading, element("p", {"class": "lede"}, lede))
    return element("section", None, head, element("div", {"class": "body"}, body))


def _table(heads: Sequence[Head], rows: Iterable[Sequence[Cell]]) -> Markup:
    """A table. The class of a column is that of its head; a cell may have its own."""
    head = element("tr", None, (element("th", {"class": kind}, text) for text, kind in heads))
    body = (
        element("tr", None, (_cell(cell, kind) for cell, (_, kind) in zip(row, heads, strict=True))) for row in rows
    )
    has_heads = any(text for text, _ in heads)
    return element("table", None, *([element("thead", None, head)] if has_heads else []), element("tbody", None, body))


def _cell(cell: Cell, kind: str | None) -> Markup:
    text, own = cell if isinstance(cell, tuple) else (cell, kind)
    return element("td", {"class": own}, text if isinstance(text, Markup) else _cut(text))


def _list(lines: Mapping[str, str]) -> Markup:
    return element(
        "dl",
        {"class": "facts"},
        (part for name, text in lines.items() for part in (element("dt", None, name), element("dd", None, _cut(text)))),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"


def _named(values: Mapping[str, str | None]) -> str:
    return ", ".join("null" if value is None else value for value in values.values())


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
