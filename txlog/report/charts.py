"""The drawings of a report, as SVG: shapes only, stretched to the page's width; labels are HTML and keep their size.

In: facts. Out: `Markup`. A shape's `title` is what a pointer over it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txlog.core.util import Markup, element
from txlog.report.clustering import ClusterColumn
from txlog.report.commits import KINDS, TimeBin, Timeline
from txlog.result import counted, utc_text

_WIDTH = 1000
_HEIGHT = 100


def axis(labels: Iterable[str]) -> Markup:
    """Labels below a plot, from its left edge to its right one."""
    return element("div", {"class": "axis"}, (element("span", None, label) for label in labels))


def legend(timeline: Timeline) -> Markup:
    """The colors of the kinds of commits that there are, and how many commits each has."""
    items = []
    for number, kind in enumerate(KINDS):
        count = sum(each.kinds[number] for each in timeline.bins)
        if count:
            square = element("rect", {"class": f"k{number}", "width": 10, "height": 10, "rx": 2})
            sample = element("svg", {"viewBox": "0 0 10 10", "aria-hidden": "true"}, square)
            items.append(element("li", None, sample, f"{kind} {count:,}"))
    return element("ul", {"class": "legend"}, items)


def bar(share: float, title: str, kind: str = "k0") -> Markup:
    """A bar in a table: ``share`` of its cell."""
    return split_bar([(share, kind)], title)


def split_bar(parts: Sequence[tuple[float, str]], title: str) -> Markup:
    """A bar of several parts: the share of each of the cell's width, and its color."""
    shapes = [element("title", None, title), element("rect", {"class": "track", "width": 100, "height": 10})]
    at = 0.0
    for share, kind in parts:
        width = max(0.8, 100 * min(1.0, share)) if share > 0 else 0.0
        shapes.append(_rect(kind, at, 0, min(width, 100 - at), 10))
        at = min(100.0, at + width)
    return element("svg", {"viewBox": "0 0 100 10", "preserveAspectRatio": "none", "role": "img"}, shapes)


def commits_plot(timeline: Timeline) -> Markup:
    """Commits by time: one column for each bin, split by kind."""
    most = max(sum(each.kinds) for each in timeline.bins)
    columns = []
    for each in timeline.bins:
        left, width = _place(timeline, each)
        shapes, top = [element("title", None, bin_title(each))], float(_HEIGHT)
        for number, count in enumerate(each.kinds):
            if count:
                height = max(1.2, count / most * _HEIGHT)
                top = max(0.0, top - height)
                shapes.append(_rect(f"k{number}", left, top, width, height))
        shapes.append(_rect("hit", left, 0, width, _HEIGHT))
        columns.append(element("g", None, shapes))
    return _plot("tall", columns, f"Commits by time, at most {counted(most, 'commit')} in a column")


def lost_plot(timeline: Timeline) -> Markup:
    """Lost races by time, on the same axis."""
    most = max(each.lost for each in timeline.bins)
    columns = []
    for each in timeline.bins:
        if each.lost:
            left, width = _place(timeline, each)
            height = max(4.0, each.lost / most * _HEIGHT)
            title = element("title", None, f"{_span(each)}\n{counted(each.lost, 'lost race')}")
            columns.append(element("g", None, title, _rect("lost", left, _HEIGHT - height, width, height)))
    return _plot("low", columns, f"Lost races by time, at most {most:,} in a column")


def ranges_plot(key: ClusterColumn) -> Markup:
    """One bar for each file: from its least to its greatest value."""
    step = _HEIGHT / len(key.ranges)
    shapes = []
    for number, each in enumerate(key.ranges):
        width = max(2.0, (each.high - each.low) * _WIDTH)
        left = min(each.low * _WIDTH, _WIDTH - width)
        title = element("title", None, each.text)
        shapes.append(element("g", None, title, _rect("k0", left, number * step, width, max(0.25, step * 0.8))))
    return _plot("bars", shapes, "The range of values in each file")


def depth_plot(key: ClusterColumn) -> Markup:
    """How many files hold a value, along the values."""
    most = max(1, *key.depth)
    points = key.depth if len(key.depth) > 1 else key.depth * 2
    step = _WIDTH / (len(points) - 1)
    line = " L".join(f"{number * step:.1f} {_HEIGHT - depth / most * 96:.1f}" for number, depth in enumerate(points))
    area = element("path", {"class": "area", "d": f"M0 {_HEIGHT} L{line} L{_WIDTH} {_HEIGHT} Z"})
    return _plot("depth", [area, element("path", {"class": "edge", "d": f"M{line}"})], "How many files hold a value")


def bin_title(each: TimeBin) -> str:
    """What the commits of a bin are, in a few lines."""
    lines = [_span(each), *(f"{counted(count, 'commit')}: {name}" for name, count in each.operations)]
    if len(each.writers) > 1 or each.writers[0][0] != "unknown":
        lines += [f"by {name}: {count:,}" for name, count in each.writers]
    if each.lost:
        lines.append(counted(each.lost, "lost race"))
    return "\n".join([*lines, *(f"“{note}”" for note in each.notes)])


def _span(each: TimeBin) -> str:
    return f"{utc_text(each.from_ms)} to {utc_text(each.to_ms).partition(' ')[2]} UTC"


def _place(timeline: Timeline, each: TimeBin) -> tuple[float, float]:
    span = max(1, timeline.to_ms - timeline.from_ms)
    width = timeline.step_ms / span * _WIDTH
    return (each.from_ms - timeline.from_ms) / span * _WIDTH + 0.08 * width, 0.84 * width


def _rect(kind: str, left: float, top: float, width: float, height: float) -> Markup:
    place = {"x": f"{left:.1f}", "y": f"{top:.2f}", "width": f"{width:.2f}", "height": f"{height:.2f}"}
    return element("rect", {"class": kind, **place})


def _plot(kind: str, shapes: Iterable[Markup], label: str) -> Markup:
    box = {"viewBox": f"0 0 {_WIDTH} {_HEIGHT}", "preserveAspectRatio": "none"}
    return element("svg", {"class": f"plot {kind}", **box, "role": "img", "aria-label": label}, shapes)
