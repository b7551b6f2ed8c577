"""The figures of the readme and of the site's first page are those of the benchmark page, each of its contestant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FIRST_PAGE = (ROOT / "docs" / "index.md").read_text()
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()
COMPARISON = README[README.index("## How it compares") :].partition("\n## ")[0]

# Each line of the readme with figures, by its first words, and the sections of the benchmark page that have them.
SECTIONS = {
    "16 processes append at once": ("writers",),
    "on an S3 server 50 ms away: round trips": ("round_trips",),
    "on an S3 server 50 ms away: commits": ("fairness",),
    "one-row append at version": ("append",),
    "open a table of a million files": ("log_scale",),
    "list the files of that table": ("log_scale",),
    "write 5 million rows": ("bulk",),
    "upsert 50,000 rows": ("upsert",),
    "the same upsert with deletion vectors": ("upsert",),
    "delete one row in a hundred": ("upsert",),
    "update one row in a hundred": ("upsert",),
    "the same update by default": ("upsert",),
    "8 processes upsert": ("upsert",),
    "one-row append from a warm Spark": ("spark_append",),
    "write 10 million rows from Spark": ("spark_write",),
    "a micro-batch of one small file": ("stream",),
    "a micro-batch of 1,000 upserts": ("changes",),
}
# The rows of a section that a line is about, where others have figures that look the same.
ROWS = {"round_trips": r"^append in an open handle$"}
CONTESTANTS = (r"\btxlog\b", r"\bdeltalake\b", r"Spark's Delta|\bdelta\b|MERGE")
NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?")


def section(name: str) -> str:
    return BENCHMARKS.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]


def lines_with_figures() -> list[str]:
    rows = [line for line in COMPARISON.splitlines() if line.startswith("| ") and "| deltalake 1.6 |" not in line]
    return [row for row in rows if any(NUMBER.search(cell) for cell in row.split("|")[2:])]


def measured(names: tuple[str, ...], contestant: str) -> set[float]:
    """The numbers of a contestant: in the columns and rows that name it, and in the text beside the tables."""
    return {
        float(one.replace(",", "")) for name in names for one in _numbers(section(name), contestant, ROWS.get(name, ""))
    }


def _numbers(text: str, contestant: str, rows: str) -> Iterator[str]:
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            header = []
            yield from NUMBER.findall(line)
        elif not header:
            header = cells
        elif re.search(rows, cells[0]):
            is_whole = re.search(contestant, cells[0])
            for name, cell in zip(header, cells, strict=True):
                if is_whole or re.search(contestant, name):
                    yield from NUMBER.findall(cell)


def shown(figure: str, found: set[float]) -> bool:
    """Whether a figure, in the digits that it is given in, is one that was measured: in seconds or milliseconds."""
    digits = len(figure.partition(".")[2])
    value = float(figure.replace(",", ""))
    return any(abs(round(scale * one, digits) - value) < 10**-9 for one in found for scale in (1, 0.001, 1000))


@pytest.mark.parametrize("line", lines_with_figures())
def test_each_figure_of_the_readmes_comparison_was_measured(line: str) -> None:
    where = [names for words, names in SECTIONS.items() if line.removeprefix("| ").startswith(words)]
    assert len(where) == 1, "SECTIONS says which benchmark a line is from"
    for contestant, cell in zip(CONTESTANTS, line.split("|")[2:5], strict=True):
        assert [figure for figure in NUMBER.findall(cell) if not shown(figure, measured(where[0], contestant))] == []


@pytest.mark.parametrize("line", lines_with_figures())
def test_each_cell_of_the_comparison_has_one_figure(line: str) -> None:
    for cell in line.split("|")[2:5]:
        assert len(NUMBER.findall(re.sub(r" of [\d,]+", "", cell))) <= 1


def test_every_line_of_the_map_of_figures_is_in_the_readme() -> None:
    lines = [line.removeprefix("| ") for line in lines_with_figures()]
    assert [words for words in SECTIONS if not any(line.startswith(words) for line in lines)] == []


def test_the_first_pages_figures_match_the_sections_that_they_link_to() -> None:
    cards = FIRST_PAGE.partition('<div class="figures"')[2].partition("</div>")[0].split("\n- ")[1:]
    assert len(cards) == 3
    for card in cards:
        anchor = re.search(r"benchmarks\.md#([\w-]+)", card)
        assert anchor is not None
        heading = next(
            h for h in re.findall(r"^## (.*)$", BENCHMARKS, re.M) if re.sub(r"[^\w]+", "-", h.lower()) == anchor[1]
        )
        text = BENCHMARKS.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        found = {float(one.replace(",", "")) for one in NUMBER.findall(text)}
        assert [figure for figure in NUMBER.findall(card.partition("[How")[0]) if not shown(figure, found)] == []


def test_the_readme_says_under_what_setting_its_figures_were_measured() -> None:
    assert (
        "All figures were measured on two cores and a local disk, except the two rows about an S3 server" in COMPARISON
    )
    assert "Deletion vectors are off by default" in COMPARISON
