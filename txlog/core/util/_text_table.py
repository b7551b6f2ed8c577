"""Tables of text for terminals.

In: names of columns, and rows of text. Out: lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """A header and a line for each row. The columns at ``right`` hold numbers, which end below each other."""
    widths = [max(len(name), *(len(row[at]) for row in rows), 0) for at, name in enumerate(columns)]

    def line(texts: Iterable[str]) -> str:
        padded = (
            text.rjust(width) if at in right else text.ljust(width)
            for at, (text, width) in enumerate(zip(texts, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    return "\n".join(map(line, [columns, *rows]))


def text_records(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A line for each value, with its name, and an empty line between rows."""
    width = max(map(len, columns), default=0)
    records = ("\n".join(f"{name:{width}}  {text}" for name, text in zip(columns, row, strict=True)) for row in rows)
    return "\n\n".join(records)


def shortened(text: str, length: int) -> str:
    """The text in one line of at most ``length`` characters."""
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= length else f"{one_line[: length - 3]}..."
