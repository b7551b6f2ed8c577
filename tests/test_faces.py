"""The faces of the core's rooms: what others may use of a room stands in its `__init__`, and all else is its own."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.library import modules, tree

ROOT = Path(__file__).parents[1]
NAMES_MAX = 30
LONGER_FACES = {
    "txlog.core.reading": (
        36,
        "scans, datasets, pandas, changes and known keys of tables, and what spreads their tasks",
    ),
    "txlog.core.predicates": (48, "queries are bound by the parts that conditions are bound by"),
    "txlog.core.store": (45, "the values of files and versions that every store, catalog and test kit shares"),
    "txlog.core.writing": (43, "each step from rows to a sealed file is a part that changes and rewrites use alone"),
    "txlog.core.changes.tasks": (48, "a command's work is a struct that it gives to its workers, with what comes back"),
    "txlog.core.changes.tasks.operations": (36, "five changes of rows, each of which has options, a plan and a source"),
    "txlog.core.definition": (39, "each change of a definition is two calls: one commits it, one is for transactions"),
}
"""Rooms that may show more names, how many, and why."""
VOCABULARIES = (
    "txlog.core.versions.decisions.",
    "txlog.core.predicates.terms.",
    *(f"txlog.core.writing.{module}." for module in ("commit_options", "committable", "write_intent")),
)
"""Inside of rooms with faces."""

TAKEN = {
    "audit": (
        95,
        "catalogs changes core maintenance operations predicates reading row_rules sink store util versions workers",
    ),
    "branch": (0, ""),
    "changelog": (80, "changes core maintenance reading row_rules store util versions writing"),
    "cli": (30, "catalogs core declarations operations row_rules sink store util versions"),
    "glue": (0, ""),
    "iceberg": (30, "core definition predicates reading store util versions"),
    "integrations": (20, "changes core operations sink writing"),
    "loading": (61, "changes core definition operations reading row_rules store util versions workers writing"),
    "mirror": (0, ""),
    "report": (28, "core maintenance operations predicates sink util versions"),
    "serve": (0, ""),
    "spark": (
        150,
        "catalogs changes core definition operations predicates reading row_rules store util versions workers writing",
    ),
    "statements": (86, "catalogs changes core operations predicates reading row_rules util versions workers writing"),
    "unity": (0, ""),
    "variant": (20, "predicates util writing"),
}
"""What each extension still takes of the core beside the public modules, `txlog.extend` and the values of
``core.format``: at most so many names, of these rooms; ``core`` stands for the files beside the rooms. It only shrinks:
`txlog.extend` is to offer what they need.

Tasks and row changes (`changes`, `reading`, `writing`, `workers`) of changelog, loading and Spark are how a write is
made there; `predicates` is what SQL and scans are bound by; audit reads what the log and its files are, to judge them;
`util` and `core` are tools that every room has.
"""
OF_OTHERS = {"_exit", "_jsparkSession", "_jvm", "_replace"}
"""Attributes of Python's and Spark's objects that begin with an underscore and are to be used."""
BESIDE = {"audit": "iceberg", "loading": "iceberg", "report": "audit iceberg", "spark": "changelog mirror statements"}
"""The other extensions that an extension imports, which it is installed with."""


@cache
def rooms() -> dict[str, frozenset[str]]:
    """The packages that have a face, and the names that each shows."""
    faces = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "txlog" / "core").rglob("__init__.py")
        if "__getattr__, __dir__ = face(" in path.read_text()
    }
    return {room: frozenset(importlib.import_module(room).__all__) for room in sorted(faces)}


@cache
def room_of(module: str) -> str | None:
    """The innermost room with a face that a module lies in. Vocabularies, as ``format``, are values that have none."""
    if f"{module}.".startswith(VOCABULARIES):
        return None
    return max((room for room in rooms() if f"{module}.".startswith(f"{room}.")), key=len, default=None)


@cache
def imports() -> list[tuple[str, str, str]]:
    """Each (importing module, module it names, name) of txlog."""
    return [
        (f"txlog.{name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}", node.module, alias.name)
        for name, path in modules().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    ]


@pytest.mark.parametrize("room", rooms())
def test_a_face_shows_what_it_imports_for_type_checkers_and_each_name_is_found(room: str) -> None:
    face = importlib.import_module(room)
    path = ROOT / room.replace(".", "/") / "__init__.py"
    for_types = {
        (node.module, alias.name)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{room}.")
        for alias in node.names
    }
    assert {name for _, name in for_types} == set(face.__all__) == set(dir(face))
    for module, name in for_types:
        assert getattr(face, name) is getattr(importlib.import_module(str(module)), name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = face.nothing


@pytest.mark.parametrize("room", rooms())
def test_a_face_is_small_and_says_what_each_name_is(room: str) -> None:
    face = importlib.import_module(room)
    assert len(face.__all__) <= LONGER_FACES.get(room, (NAMES_MAX, ""))[0]
    values = {name: getattr(face, name) for name in face.__all__}
    made = {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isfunction(value)}
    assert not [name for name, value in made.items() if not inspect.getdoc(value)]


LISTS_ITS_NAMES = re.compile(r"[a-z_]+\.py|(.*/)?__init__\.py|(extend|testing|integrations|result)/.*")
"""The modules that users and packages import list what they offer; so do faces."""


def test_a_module_of_a_room_does_not_list_its_names_again() -> None:
    """Its room's face has what others use, and an underscore says what stays in the file. Only a name that a module
    takes from another one to pass it on stands in a list."""
    listing = {
        name: tree(path)
        for name, path in modules().items()
        if "\n__all__ = " in path.read_text() and not LISTS_ITS_NAMES.fullmatch(name)
    }
    imported = {
        name: {
            alias.asname or alias.name
            for node in ast.walk(found)
            if isinstance(node, ast.ImportFrom | ast.Import)
            for alias in node.names
        }
        for name, found in listing.items()
    }
    listed = {
        name: set(importlib.import_module(f"txlog.{name[:-3].replace('/', '.')}").__all__)
        for name in listing
        if "discovery" not in name
    }
    assert [name for name in listed if not listed[name] & imported[name]] == []


def test_no_module_imports_what_a_room_keeps_to_itself() -> None:
    found = [
        f"{importer}: {module}.{name}"
        for importer, module, name in imports()
        if (room := room_of(module)) is not None
        and room != room_of(importer)
        and (module != room or name not in rooms()[room])
    ]
    assert found == []


def test_the_modules_of_a_room_with_a_face_have_an_underscore() -> None:
    names = (f"txlog.{name.removesuffix('.py').replace('/', '.')}" for name in modules() if "__init__" not in name)
    inside = [name for name in names if room_of(name)]
    assert len(inside) > 100
    assert not [name for name in inside if not name.rpartition(".")[2].startswith("_")]


@pytest.mark.parametrize("extension", TAKEN)
def test_an_extension_takes_what_is_public_and_of_the_core_no_more_than_is_named_here(extension: str) -> None:
    public = {
        extension,
        "extend",
        "errors",
        "result",
        "hooks",
        "table",
        "snapshot",
        "table_transaction",
        "together",
        "catalog",
    }
    taken, others = defaultdict(set), set()
    for importer, module, name in imports():
        if not importer.startswith(f"txlog.{extension}.") or not module.startswith("txlog."):
            continue
        _, top, *inner = module.split(".")
        if top == "core" and inner[:1] != ["format"]:
            is_room = (ROOT / "txlog" / "core" / "".join(inner[:1])).is_dir()
            taken[inner[0] if inner and is_room else "core"].add((module, name))
        elif top != "core" and top not in public:
            others.add(top)
    most, allowed = TAKEN[extension]
    assert " ".join(sorted(taken)) == allowed
    assert sum(map(len, taken.values())) <= most
    assert " ".join(sorted(others)) == BESIDE.get(extension, "")


def test_what_a_table_works_with_is_had_by_its_name() -> None:
    """`open_table_of`, and not the attribute of somebody else's object. A sink is part of its group's room."""
    found = [
        f"{name}:{node.lineno}"
        for name, path in modules().items()
        if not name.startswith("core/sink/")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr == "_open_table"
        if not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    assert len(found) == 1  # in `open_table_of`
    assert found[0].startswith("core/versions/_internals.py")


def test_an_extension_reads_no_private_attribute_of_what_is_not_its_own() -> None:
    """`txlog.extend` names what it needs of the core's objects: `state_of`, `builder_of`."""
    others = re.compile(r"(?<!\bself)(?<!\bcls)\._[a-z]")
    found = []
    for extension in TAKEN:
        files = {name: path for name, path in modules().items() if name.startswith(f"{extension}/")}
        text = "\n".join(path.read_text() for path in files.values())
        found += [
            f"{name}:{node.lineno} {node.attr}"
            for name, path in files.items()
            if others.search(path.read_text())
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr) and node.attr not in OF_OTHERS
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
            if not re.search(rf"def {node.attr}\b|\bself\.{node.attr}(: [^=]+)? =|^    {node.attr}:", text, re.M)
        ]
    assert found == []


def test_a_task_that_takes_the_log_from_a_face_breaks_the_law(tmp_path: Path) -> None:
    """Contracts see through faces: the names stand in them for type checkers, as imports."""
    shutil.copytree(ROOT / "txlog", tmp_path / "txlog", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    task = tmp_path / "txlog" / "core" / "writing" / "committable.py"
    task.write_text(f"{task.read_text()}\n\ndef _planted() -> None:\n    from txlog.core.versions import OpenTable\n")
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", lint, "--no-cache"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1
    assert re.search(r"what runs in a task cannot touch the log BROKEN", " ".join(run.stdout.split()))


@pytest.mark.parametrize("module", ["cli", "catalogs", "commits", "merge_engines"])
def test_what_a_module_of_extend_offers_is_what_it_imports_for_type_checkers(module: str) -> None:
    offered = importlib.import_module(f"txlog.extend.{module}")
    for_types = [
        (node.module, alias.name)
        for node in ast.walk(tree(ROOT / f"txlog/extend/{module}.py"))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.name in offered.__all__ and alias.name != "face"
    ]
    assert {name for _, name in for_types} == set(offered.__all__)
    for owner, name in for_types:
        assert getattr(offered, name) is getattr(importlib.import_module(str(owner)), name)
