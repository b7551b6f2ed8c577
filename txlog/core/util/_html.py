"""HTML for notebooks and pages: elements, a titled list of facts, small tables. Every text and attribute is escaped.

In: strings that may hold anything, such as column names in other people's tables. Out: `Markup` without scripts or
links.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML forbids, that UTF-8 cannot encode, or that reorder the text around them."""
_VOID = ("meta", "br", "wbr")
_LEFT = {"style": "text-align:left"}


class Markup(str):
    """HTML that `element` made, or a constant of this program: it is not escaped again."""

    __slots__ = ()


def element(name: str, attributes: Mapping[str, object] | None = None, *children: str | Iterable[str]) -> Markup:
    """One element. The only way from text to HTML: children and values of attributes that are not `Markup` are escaped.

    Args:
        name: The element's name.
        attributes: Its attributes. None leaves one out.
        children: Text, `Markup`, or iterables of them.
    """
    parts = [f"<{name}"]
    parts += [f' {key}="{_escaped(str(value))}"' for key, value in (attributes or {}).items() if value is not None]
    parts.append(">")
    for child in children:
        parts += [_safe(child)] if isinstance(child, str) else map(_safe, child)
    return Markup("".join(parts if name in _VOID else [*parts, f"</{name}>"]))


def _safe(text: str) -> str:
    return text if isinstance(text, Markup) else _escaped(text)


def _escaped(text: str) -> str:
    return html.escape(_UNSEEN.sub("\ufffd", text))


def html_facts(title: str, facts: Mapping[str, str], tables: Iterable[Markup] = ()) -> Markup:
    """A title, a table of names and values, then the given tables."""
    rows = (element("tr", None, element("th", _LEFT, name), element("td", _LEFT, facts[name])) for name in facts)
    return element("div", None, element("strong", None, title), element("table", None, rows), tables)


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """A table with a header."""
    head = element("thead", None, element("tr", None, (element("th", _LEFT, name) for name in columns)))
    body = (element("tr", None, (element("td", _LEFT, cell) for cell in row)) for row in rows)
    return element("table", None, head, element("tbody", None, body))
