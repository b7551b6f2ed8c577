"""Pictures of ratios: bars on a logarithmic scale from 1, which is txlog, in the colors of a light or dark page.

In: lines of ratios, one for each peer. Out: SVG, which pages include as text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.measure import ROOT, Bench
from benchmarks.peers import Measured

IMAGES = ROOT / "docs" / "images"
_LEFT, _UNIT, _ROW, _BAR = 265, 180, 34, 11
_COLORS = ("#d97706", "#8b5cf6", "#0e9f6e", "#db2777", "#0284c7", "#65a30d", "#a16207", "#64748b")
_STYLE = """
.bm { font: 13px Inter, system-ui, sans-serif; --ink: var(--md-default-fg-color, #1f2328); --line: #8886 }
@media (prefers-color-scheme: dark) { .bm { --ink: var(--md-default-fg-color, #e6edf3) } }
.bm text { fill: var(--ink); dominant-baseline: central }
.bm .name { text-anchor: end } .bm .tick { text-anchor: middle }
.bm line { stroke: var(--line) } .bm .one { stroke: #5b6ee1; stroke-width: 2 }
"""


class Line(NamedTuple):
    """A label, and how many times txlog's figure each peer has; None: it was not measured."""

    label: str
    ratios: Sequence[float | None]


def picture(title: str, said: str, peers: Sequence[str], lines: Sequence[Line]) -> str:
    """SVG with ``title`` in it; ``said`` is for those who cannot see it."""
    heights = [max(_ROW, (_BAR + 2) * sum(each is not None for each in line.ratios) + 12) for line in lines]
    height = 60 + sum(heights)
    legend_rows = math.ceil(len(peers) / 2) if len(peers) > 2 else 0
    top = 20 * legend_rows
    most = max((times for line in lines for times in line.ratios if times), default=100.0)
    decades = max(2.0, math.ceil(math.log10(most) * 2) / 2)
    right = _LEFT + int(decades * _UNIT) + 70
    body = [
        f'<svg class="bm" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {height + top}" role="img"'
        f' aria-label="{said}">',
        f"<style>{_STYLE.strip()} {_peer_colors(len(peers))}</style>",
        f'<text x="{_LEFT}" y="12">{title}: </text>',
        *_legend(peers),
        *_axis(height + top, top, decades),
    ]
    y = 46 + top
    for line, line_height in zip(lines, heights, strict=True):
        body.append(f'<text class="name" x="{_LEFT - 25}" y="{y + line_height / 2 - 5:g}">{line.label}</text>')
        body += _bars(y, line.ratios)
        y += line_height
    body.append("</svg>")
    return "\n".join(body) + "\n"


def publish(
    bench: Bench, found: Mapping[tuple[str, str], Measured], names: Mapping[str, str], title: str, of: str = "wall_s"
) -> str:
    """A picture of a benchmark's lines for the page, in docs/images; in a quick run nothing. Returns its Markdown.

    ``found`` has what each peer took, by the work; its ratios are to the better of txlog's two modes.
    """
    peers = [name for name in names if not name.startswith("txlog")]
    lines = []
    for what in dict.fromkeys(what for what, _ in found):
        mine = min(getattr(each, of) for (other, name), each in found.items() if other == what and "txlog" in name)
        taken = [getattr(found.get((what, name), Measured()), of) / mine for name in peers]
        lines.append(Line(what, [None if math.isinf(each) else each for each in taken]))
    if not bench.quick:
        said = "How many times txlog's figure the others have; the table has the figures."
        (IMAGES / f"{bench.name}.svg").write_text(picture(title, said, [names[name] for name in peers], lines))
    told = {
        line.label: {
            names[peer]: float(f"{times:.3g}") for peer, times in zip(peers, line.ratios, strict=True) if times
        }
        for line in lines
    }
    shown = f'<figure class="picture" markdown="0">\n--8<-- "docs/images/{bench.name}.svg"\n</figure>'
    return f"{shown}\n<!-- ratios {json.dumps(told)} -->"


def told_ratios(section: str) -> dict[str, dict[str, float]]:
    """What `publish` put into a section of the page: by the work, how many times txlog's figure each peer has."""
    found = re.search(r"<!-- ratios (.*) -->", section)
    told: dict[str, dict[str, float]] = json.loads(found[1]) if found else {}
    return told


def _peer_colors(count: int) -> str:
    return " ".join(f".bm .peer{number} {{ fill: {_COLORS[number]} }}" for number in range(count))


def _legend(peers: Sequence[str]) -> Iterator[str]:
    for number, peer in enumerate(peers):
        x, y = (
            (_LEFT + 225 + 90 * number, 12)
            if len(peers) <= 2
            else (_LEFT + 250 * (number % 2), 32 + 20 * (number // 2))
        )
        yield f'<rect class="peer{number}" x="{x}" y="{y - 5}" width="10" height="10"/>'
        yield f'<text x="{x + 15}" y="{y}">{peer}</text>'


def _axis(height: int, top: int, decades: float) -> Iterator[str]:
    for times in (10**power for power in range(int(decades) + 1)):
        x = _LEFT + _UNIT * math.log10(times)
        one = ' class="one"' if times == 1 else ""
        yield f'<line{one} x1="{x:g}" x2="{x:g}" y1="{40 + top}" y2="{height - 14}"/>'
        yield f'<text class="tick" x="{x:g}" y="{32 + top}">{times if times > 1 else "txlog"}</text>'


def _bars(y: int, found: Sequence[float | None]) -> Iterator[str]:
    shown = [(number, times) for number, times in enumerate(found) if times is not None]
    for place, (number, times) in enumerate(shown):
        length = _UNIT * math.log10(times)
        top = y + place * (_BAR + 2) + (0 if len(shown) > 1 else _BAR / 2)
        yield (
            f'<rect class="peer{number}" x="{_LEFT + min(length, 0):.1f}" y="{top:g}" width="{abs(length):.1f}"'
            f' height="{_BAR}"/><text x="{_LEFT + max(length, 0) + 5:.1f}" y="{top + _BAR / 2:g}">{times:.2g}</text>'
        )
