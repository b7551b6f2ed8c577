"""The top of the benchmark page: ten lines of the readme's comparison, and a picture of them.

In: README.md. Out: the lines between ``<!-- summary -->`` and its end in docs/benchmarks.md, and
docs/images/benchmarks.svg. `PYTHONPATH=integration python -m benchmarks.summary` writes both; a test compares them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from benchmarks.measure import ROOT, markdown_table

PAGE, PICTURE = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "images" / "benchmarks.svg"
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
_PEERS = ("deltalake", "Spark's Delta")
_LEFT, _UNIT, _ROW, _BAR = 265, 180, 34, 11
_STYLE = """
.bm { font: 13px Inter, system-ui, sans-serif; --ink: var(--md-default-fg-color, #1f2328); --line: #8886 }
@media (prefers-color-scheme: dark) { .bm { --ink: var(--md-default-fg-color, #e6edf3) } }
.bm text { fill: var(--ink); dominant-baseline: central }
.bm .name { text-anchor: end } .bm .tick { text-anchor: middle }
.bm line { stroke: var(--line) } .bm .one { stroke: #5b6ee1; stroke-width: 2 }
.bm .peer0 { fill: #d97706 } .bm .peer1 { fill: #8b5cf6 }
"""


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


def picture() -> str:
    """Bars on a logarithmic scale, from 1: a peer that takes as long as txlog."""
    rows = lines()
    height = 60 + _ROW * len(rows)
    right = _LEFT + int(2 * _UNIT) + 70
    body = [
        f'<svg class="bm" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {height}" role="img"'
        ' aria-label="How many times as long as txlog other writers take; the table below has the figures.">',
        f"<style>{_STYLE.strip()}</style>",
        f'<text x="{_LEFT}" y="12">How many times as long as txlog: </text>',
        *_legend(),
        *_axis(height),
    ]
    for number, (label, row) in enumerate(zip(_LABELS, rows, strict=True)):
        y = 46 + _ROW * number
        body.append(f'<text class="name" x="{_LEFT - 25}" y="{y + _ROW / 2 - 5:g}">{label}</text>')
        body += _bars(y, ratios(row))
    body.append("</svg>")
    return "\n".join(body) + "\n"


def _legend() -> Iterator[str]:
    for number, peer in enumerate(_PEERS):
        x = _LEFT + 225 + 90 * number
        yield f'<rect class="peer{number}" x="{x}" y="7" width="10" height="10"/>'
        yield f'<text x="{x + 15}" y="12">{peer}</text>'


def _axis(height: int) -> Iterator[str]:
    for times in (1, 10, 100):
        x = _LEFT + _UNIT * math.log10(times)
        one = ' class="one"' if times == 1 else ""
        yield f'<line{one} x1="{x:g}" x2="{x:g}" y1="40" y2="{height - 14}"/>'
        yield f'<text class="tick" x="{x:g}" y="32">{times if times > 1 else "txlog"}</text>'


def _bars(y: int, found: list[float | None]) -> Iterator[str]:
    shown = [(number, times) for number, times in enumerate(found) if times is not None]
    for place, (number, times) in enumerate(shown):
        length = _UNIT * math.log10(times)
        top = y + place * (_BAR + 2) + (0 if len(shown) > 1 else _BAR / 2)
        yield (
            f'<rect class="peer{number}" x="{_LEFT + min(length, 0):.1f}" y="{top:g}" width="{abs(length):.1f}"'
            f' height="{_BAR}"/><text x="{_LEFT + max(length, 0) + 5:.1f}" y="{top + _BAR / 2:g}">{times:.2g}</text>'
        )


def page_with_summary(page: str) -> str:
    before, _, rest = page.partition("<!-- summary -->\n")
    return f"{before}<!-- summary -->\n{table()}\n<!-- /summary -->{rest.partition('<!-- /summary -->')[2]}"


if __name__ == "__main__":
    PAGE.write_text(page_with_summary(PAGE.read_text()))
    PICTURE.write_text(picture())
