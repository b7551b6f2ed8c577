"""The top of the benchmark page: ten lines of the readme's comparison, and a picture of them and of the field's lines.

In: README.md, and the page's sections of the field's benchmarks. Out: the lines between ``<!-- summary -->`` and its
end in docs/benchmarks.md, and docs/images/benchmarks.svg. `PYTHONPATH=integration python -m benchmarks.summary` writes
both; a test compares them.
"""

from __future__ import annotations

import re

from benchmarks import bars
from benchmarks.measure import ROOT, markdown_table

PAGE, PICTURE = ROOT / "docs" / "benchmarks.md", bars.IMAGES / "benchmarks.svg"
LINES = (
    "16 processes append at once: commits per second",
    "on an S3 server 50 ms away: round trips",
    "one-row append at version 3,000",
    "write 5 million rows, synced",
    "upsert 50,000 rows",
    "the same upsert with deletion vectors",
    "the same update by default",
    "one-row append from a warm Spark session",
    "write 10 million rows from Spark",
    "a micro-batch of 1,000 upserts",
)
_LABELS = (
    "commits per second, 16 processes",
    "round trips of an append on S3",
    "one-row append, version 3,000",
    "write 5 million rows",
    "upsert (copies files)",
    "upsert (deletion vectors)",
    "update (copies files)",
    "one-row append from Spark",
    "write 10 million rows from Spark",
    "micro-batch of upserts from Spark",
)
_FIELD = {
    "merge_micro": "LHBench, merge of ",
    "lineitem_merges": "memory, lineitem: ",
    "small_batches": "batches of 10 rows: ",
    "longevity": "after ten rounds: ",
}
"""The benchmarks of the field, whose ratios the page has as soon as `make bench` has run them."""
_PEERS = ("deltalake", "Spark's Delta", "PyIceberg", "DuckLake")


def lines() -> list[list[str]]:
    """The cells of `LINES` in the readme, in their order.

    Raises:
        LookupError: The readme has no such line, or several.
    """
    rows = [line.strip("|").split("|") for line in (ROOT / "README.md").read_text().splitlines() if line[:2] == "| "]
    cells = [[cell.strip() for cell in row] for row in rows]
    found = [[row for row in cells if row[0].startswith(words)] for words in LINES]
    if any(len(rows) != 1 for rows in found):
        raise LookupError("a line of the summary is not in README.md once")
    return [row for (row,) in found]


def ratios(row: list[str]) -> list[float | None]:
    """How many times as long as txlog each peer takes."""
    mine, *others = (_number(cell) for cell in row[1:])
    assert mine is not None
    is_rate = "per second" in row[0]
    return [None if other is None else mine / other if is_rate else other / mine for other in others]


def _number(cell: str) -> float | None:
    found = re.match(r"\**([\d,.]+) ?(ms)?", cell)
    return None if found is None else float(found[1].replace(",", "")) / (1000 if found[2] else 1)


def table() -> str:
    header = ["", "txlog", "deltalake 1.6", "Spark's own Delta 4.4"]
    return markdown_table(header, lines())


def field_lines(page: str) -> list[bars.Line]:
    """The lines of the field's benchmarks that the page has: of each peer the one that comes nearest to txlog."""
    found = []
    for name, prefix in _FIELD.items():
        section = page.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
        for what, told in bars.told_ratios(section).items():
            of_peer = [[times for title, times in told.items() if title.startswith(peer)] for peer in _PEERS]
            found.append(bars.Line(prefix + what, [min(times, default=None) for times in of_peer]))
    return found


def picture() -> str:
    """Bars on a logarithmic scale, from 1: a peer that takes as long as txlog."""
    of_field = field_lines(PAGE.read_text())
    all_lines = [bars.Line(label, ratios(row)) for label, row in zip(_LABELS, lines(), strict=True)] + of_field
    said = "How many times as long as txlog other writers take; the table below has the figures."
    return bars.picture("How many times as long as txlog", said, _PEERS if of_field else _PEERS[:2], all_lines)


def page_with_summary(page: str) -> str:
    before, _, rest = page.partition("<!-- summary -->\n")
    return f"{before}<!-- summary -->\n{table()}\n<!-- /summary -->{rest.partition('<!-- /summary -->')[2]}"


if __name__ == "__main__":
    PAGE.write_text(page_with_summary(PAGE.read_text()))
    PICTURE.write_text(picture())
