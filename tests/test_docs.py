"""The documentation is true as far as a machine can check it: rooms, public names, and every promise's tests."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import pkgutil
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import txlog

ROOT = Path(__file__).parent.parent
ARCHITECTURE = (ROOT / "docs" / "contributors" / "architecture.md").read_text()
REFERENCE = "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "reference").glob("*.md")))
RAISE_NOTHING = (
    "adds|at|error_from|is_not_null|is_null|isin|named_paths|on_commit|on_conflict|on_retry|on_step|operation_metrics"
    "|pacing|register|starts_with|steps|storage_options|to_bytes|to_dict|transaction_version|when_.*|window_s"
)
"""Functions of the reference that have no errors of their own."""
PROJECT = (ROOT / "pyproject.toml").read_text()
COMPATIBLE = {
    cells[1].strip(): (cells[2].strip(), cells[3].strip())
    for cells in (line.split("|") for line in (ROOT / "docs" / "compatibility.md").read_text().splitlines())
    if len(cells) == 6 and re.fullmatch(r" [\d.]+ ", cells[2])
}
"""The rows of the compatibility page: the oldest and the newest version of each package."""
PAGES = sorted(path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))


def rooms_of(kind: str) -> list[str]:
    """The names in the first column of a table of rooms, from top to bottom."""
    table = ARCHITECTURE[ARCHITECTURE.index(f"| {kind} |") :].partition("\n\n")[0]
    return [name.rstrip("/") for row in table.splitlines()[2:] for name in re.findall(r"`([\w/]+)`", row.split("|")[1])]


def rooms_that_exist() -> set[str]:
    folders = {path.parent.relative_to(ROOT / "txlog").as_posix() for path in (ROOT / "txlog").rglob("__init__.py")}
    modules = {path.stem for path in (ROOT / "txlog").glob("*.py")} - {"__init__", "__main__"}
    return (folders - {"."}) | modules


def layers_low_to_high(contract: str) -> list[set[str]]:
    (text,) = (text for text in PROJECT.split("[[tool.importlinter.contracts]]") if f'name = "{contract}"' in text)
    layers = re.search(r"^layers = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert layers is not None
    names = [re.split(r"\s*[|:]\s*", layer) for layer in reversed(re.findall(r'^ *"(.*)"', layers[1], re.MULTILINE))]
    return [{name.removeprefix("txlog.").replace(".", "/") for name in layer} for layer in names]


def test_the_tables_of_rooms_name_every_package_and_no_other() -> None:
    named = [*rooms_of("room of the core"), *rooms_of("extension")]
    assert len(named) == len(set(named))
    assert set(named) == rooms_that_exist()


@pytest.mark.parametrize(
    ("kind", "contract"),
    [
        ("room of the core", "rooms of the core, each importing only those below it"),
        ("extension", "extensions, each importing only those below it"),
    ],
)
def test_the_tables_of_rooms_have_the_order_of_the_import_linter(kind: str, contract: str) -> None:
    floors = {room: floor for floor, rooms in enumerate(layers_low_to_high(contract)) for room in rooms}
    found = [floors[room] for room in rooms_of(kind) if room in floors]
    assert len(found) > 5
    assert found == sorted(found)


def test_the_core_imports_none_of_the_extensions() -> None:
    """The contract names every extension that the table has."""
    (text,) = (
        text for text in PROJECT.split("[[tool.importlinter.contracts]]") if "the core imports no extension" in text
    )
    forbidden = set(re.findall(r'"txlog\.(\w+)"', text.partition("forbidden_modules")[2].partition("]")[0]))
    assert forbidden == {room.partition("/")[0] for room in rooms_of("extension")}


def test_every_module_that_the_page_names_as_the_place_of_a_change_exists() -> None:
    table = ARCHITECTURE[ARCHITECTURE.index("## Where a change goes") :].partition("\n## The laws")[0]
    places = re.findall(r"`([a-z_]+(?:/[a-z_]+)+)`", table)
    assert len(places) >= 20
    assert not [place for place in places if not (ROOT / "txlog" / f"{place}.py").is_file()]


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


@pytest.mark.parametrize("name", re.findall(r"^::: (?!txlog\.Table\.)([\w.]+)$", REFERENCE, re.MULTILINE))
def test_every_function_of_the_reference_lists_its_arguments_what_it_returns_and_its_errors(name: str) -> None:
    missing = [f"{label}: {part}" for label, function in functions_of(name) for part in missing_sections(function)]
    assert not missing


def test_the_reference_has_every_member_of_a_table_in_one_of_its_groups() -> None:
    grouped = re.findall(r"^::: txlog\.Table\.(\w+)$", REFERENCE, re.MULTILINE)
    assert sorted(grouped) == sorted([*public_members(txlog.Table), "__arrow_c_stream__"])


def public_members(public: type) -> list[str]:
    return [name for name in dir(public) if not name.startswith("_")]


def functions_of(name: str) -> list[tuple[str, Callable[..., object]]]:
    """The function of a name of the reference, or the public methods of a class, those it inherits left out."""
    public = pkgutil.resolve_name(name)
    if not inspect.isclass(public):
        return [(name, public)]
    methods = [(label, getattr(public, label)) for label in vars(public) if not label.startswith("_")]
    return [(f"{name}.{label}", method) for label, method in methods if inspect.isroutine(method)]


def missing_sections(function: Callable[..., object]) -> list[str]:
    """What the docstring of a function lacks. It may refer to another function for "the other arguments"."""
    text, signature = inspect.getdoc(function) or "", inspect.signature(function)
    arguments = [name for name in signature.parameters if name not in ("self", "cls")]
    documented = set(re.findall(r"^ {4}\*{0,2}(\w+): ", section(text, "Args"), re.MULTILINE))
    refers = "The other arguments" in text or "options: See `ChangeOptions`" in text
    missing = [f"argument {name}" for name in arguments if name not in documented and not (refers and documented)]
    if signature.return_annotation not in (None, "None", "NoReturn") and not section(text, "Returns"):
        missing.append("Returns")
    raises = not re.fullmatch(RAISE_NOTHING, function.__name__)
    return [*missing, "Raises"] if raises and not section(text, "Raises") else missing


def section(text: str, name: str) -> str:
    """The indented lines of one section of a docstring."""
    found = re.search(rf"^{name}:\n((?: {{4}}.*\n?|\n)+)", text, re.MULTILINE)
    return found[1] if found else ""


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_navigation_has_every_page_for_users_and_none_for_contributors(page: Path) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    in_navigation = bool(re.search(rf": {re.escape(page.as_posix())}$", navigation, re.MULTILINE))
    assert in_navigation == (page.parts[0] != "contributors")


SEARCH_FROM_A_DISK = """
const location = { protocol: "file:" }, window = {}, tasks = []
const scope = { onmessage(event) { event.data.terms.length = 0; scope.postMessage({ results: event.data }) } }
const element = () => ({ append(script) { tasks.push(() => script.onload?.()) } })
const frame = { contentWindow: scope, contentDocument: { createElement: element, head: element() } }
const document = { createElement: () => frame, documentElement: element() }
SHIM
const worker = new window.Worker("search.js"), query = { terms: ["deletion", "vectors"] }
worker.onmessage = event => console.log(JSON.stringify([query.terms, event.data.results.terms]))
worker.postMessage(query)
setTimeout(() => tasks.forEach(task => task()))
"""
"""A page that was opened from a disk, and a search that changes the query that it gets, as the site's does."""


@pytest.mark.skipif(not shutil.which("node"), reason="runs the site's script in Node")
def test_the_search_from_a_disk_leaves_the_typed_query_as_it_is() -> None:
    program = SEARCH_FROM_A_DISK.replace("SHIM", (ROOT / "docs" / "js" / "iframe-worker.js").read_text())
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ('[["deletion","vectors"],[]]\n', "")


def test_programs_of_pages_for_users_import_public_names_alone() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
    private = re.compile(r"^\s*(?:from|import) txlog[\w.]*(?:\.core|\._)\b.*", re.MULTILINE)
    assert {page.name: found for page in pages if (found := private.findall(page.read_text()))} == {}


def test_the_readme_links_to_each_file_that_it_names_and_each_link_leads_to_one() -> None:
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"`(?:docs|examples|integration)/[^`]*`|`[A-Z]+\.md`", readme) == []
    targets = re.findall(r"\]\((?!https://)([^)#]+)[^)]*\)", readme)
    assert len(targets) > 20
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_site_names_the_version_and_the_license() -> None:
    license_ = re.search(r'^license = "(.*)"$', PROJECT, re.MULTILINE)
    assert license_ is not None
    assert f"\ncopyright: txlog {txlog.__version__}, {license_[1]}\n" in (ROOT / "mkdocs.yml").read_text()


@pytest.mark.parametrize(("name", "package"), [row for row in COMPATIBLE.items() if row[0] != "Spark's own Delta"])
def test_the_oldest_versions_of_the_compatibility_page_are_those_that_the_project_allows(
    name: str, package: tuple[str, str]
) -> None:
    allowed = PROJECT if name != "Python" else PROJECT.replace('requires-python = ">=', '"Python>=')
    oldest = re.search(rf'"{name.split()[0]}(?:\[[^]]*\])?>=([\d.]+)[",]', allowed, re.IGNORECASE)
    assert oldest is not None
    assert package[0] == oldest[1]


@pytest.mark.parametrize("name", ["pyarrow", "numpy", "msgspec", "obstore", "deltalake", "polars", "duckdb", "pandas"])
def test_no_version_of_the_compatibility_page_is_newer_than_what_these_tests_run_with(name: str) -> None:
    if name == "duckdb" and importlib.util.find_spec("duckdb_extensions"):
        pytest.skip("its extensions decide the version of duckdb here; make check has the newest")
    newest = {row.split()[0].lower(): newest for row, (_, newest) in COMPATIBLE.items()}[name]
    installed = importlib.metadata.version(name).split(".")
    assert [int(part) for part in newest.split(".")] <= [int(part) for part in installed[:2]]
