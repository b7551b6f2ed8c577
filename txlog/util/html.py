"""HTML for notebooks: a titled list of facts and small tables, all of it escaped.

In: strings that may hold anything, such as column names in other people's tables. Out: HTML without scripts or links.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["html_facts", "html_table"]


def html_facts(title: str, facts: Mapping[str, str], tables: Iterable[str] = ()) -> str:
    """A title, a table of names and values, then the given tables, which are HTML from `html_table`."""
    rows = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th><td style="text-align:left">{html.escape(value)}</td>'
        "</tr>"
        for name, value in facts.items()
    )
    return f"<div><strong>{html.escape(title)}</strong><table>{rows}</table>{''.join(tables)}</div>"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a header."""
    head = "".join(f'<th style="text-align:left">{html.escape(name)}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
