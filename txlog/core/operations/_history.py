"""`History`: the commits of a table as a list of dicts, with a readable ``repr``.

In: history entries as txlog, Spark or deltalake wrote them. Out: the same, as text for ``repr`` and HTML for notebooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txlog.core.operations._operation_text import bytes_written, described, files_changed, rows_changed
from txlog.core.util import html_table, shortened, text_table
from txlog.result import counted

HISTORY_COLUMNS = ("version", "time (UTC)", "operation", "rows", "files", "size", "by", "note")
_NUMBERS = ("version", "rows", "files", "size")
_SHOWN_MAX = 50
_TEXT_MAX = 60  # characters of an operation, a writer or a note


class History(list[dict[str, Any]]):
    """The retained commits, newest first: a list of dicts. `Table.history` describes their keys."""

    def __repr__(self) -> str:
        if not self:
            return "no commits"
        rows = self._rows()
        shown = [at for at in range(len(HISTORY_COLUMNS)) if any(row[at] for row in rows)]
        names = [HISTORY_COLUMNS[at] for at in shown]
        numbers = {at for at, name in enumerate(names) if name in _NUMBERS}
        text = text_table(names, [[row[at] for at in shown] for row in rows], numbers)
        more = len(self) - _SHOWN_MAX
        return f"{text}\n... and {counted(more, 'older commit')}" if more > 0 else text

    def _repr_html_(self) -> str:
        return html_table(HISTORY_COLUMNS, self._rows())

    def _rows(self) -> list[list[str]]:
        return [[shortened(text, _TEXT_MAX) for text in history_row(entry)] for entry in self[:_SHOWN_MAX]]


def history_row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """One commit in `HISTORY_COLUMNS`; an empty string if the commit does not record the value."""
    return (
        str(entry["version"]),
        f"{entry['timestamp']:%Y-%m-%d %H:%M:%S}",
        described(entry),
        rows_changed(entry),
        files_changed(entry),
        bytes_written(entry),
        str(entry.get("engineInfo") or ""),
        str(entry.get("userMetadata") or ""),
    )
