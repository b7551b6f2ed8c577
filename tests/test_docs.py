"""The documentation is true as far as a machine can check it: rooms, public names, and every promise's tests."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import txlog

ROOT = Path(__file__).parent.parent
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
REFERENCE = "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "reference").glob("*.md")))
PAGES = sorted(path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))


def rooms_of(text: str) -> list[str]:
    """The names in the first column of the table of rooms, from top to bottom."""
    table = text[text.index("| room |") :].partition("\n\n")[0]
    return [name.rstrip("/") for row in table.splitlines()[2:] for name in re.findall(r"`([\w/]+)`", row.split("|")[1])]


def rooms_that_exist() -> set[str]:
    folders = {path.parent.relative_to(ROOT / "txlog").as_posix() for path in (ROOT / "txlog").rglob("__init__.py")}
    modules = {path.stem for path in (ROOT / "txlog").glob("*.py")} - {"__init__", "__main__"}
    return (folders - {"."}) | modules


def layers_low_to_high() -> list[set[str]]:
    layers = re.search(r"^layers = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL)
    assert layers is not None
    return [set(re.split(r"\s*[|:]\s*", layer)) for layer in reversed(re.findall(r'"(.*)"', layers[1]))]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_table_of_rooms_names_every_package_and_no_other(page: str) -> None:
    named = rooms_of((ROOT / page).read_text())
    assert len(named) == len(set(named))
    assert set(named) == rooms_that_exist()


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_table_of_rooms_has_the_order_of_the_import_linter(page: str) -> None:
    floors = {room: floor for floor, rooms in enumerate(layers_low_to_high()) for room in rooms}
    found = [floors[room] for room in rooms_of((ROOT / page).read_text()) if room in floors and room != "testing"]
    assert found == sorted(found)


@pytest.mark.parametrize("name", txlog.__all__)
def test_every_public_name_has_a_place_in_the_reference(name: str) -> None:
    assert re.search(rf"^::: txlog\.{name}$", REFERENCE, re.MULTILINE)


@pytest.mark.parametrize("name", txlog.__all__)
def test_every_public_name_and_each_of_its_methods_has_a_docstring(name: str) -> None:
    public = getattr(txlog, name)
    assert inspect.getdoc(public)
    members = inspect.getmembers(public, lambda member: inspect.isroutine(member) or isinstance(member, property))
    silent = [member for member, value in members if not member.startswith("_") and not inspect.getdoc(value)]
    assert not [member for member in silent if not hasattr(Exception, member)]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_page_is_in_the_navigation(page: Path) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert re.search(rf": {re.escape(page.as_posix())}$", navigation, re.MULTILINE)
