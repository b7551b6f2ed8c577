"""Who owns a version: one module says which file is version N; every other one asks it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "txlog"
NAMES = "protocol/log_names.py"
"""The names of the Delta protocol: how each is written and recognized."""
FOLDER = "store/versions.py"
"""The folder as owner of the versions."""
MODULES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in ROOT.glob("**/*.py")}


def builds_a_commit_name(tree: ast.AST) -> Iterator[int]:
    """The lines that use ``commit_name``, or that spell it: 20 digits of a number, then ``.json``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute | ast.alias):
            named = {ast.Name: "id", ast.Attribute: "attr", ast.alias: "name"}[type(node)]
            if getattr(node, named) == "commit_name":
                yield node.lineno
        if isinstance(node, ast.JoinedStr):
            for number, after in zip(node.values, node.values[1:], strict=False):
                is_padded = isinstance(number, ast.FormattedValue) and "20" in ast.unparse(number.format_spec or node)
                if is_padded and isinstance(after, ast.Constant) and after.value == ".json":
                    yield node.lineno


def test_no_other_module_builds_the_name_of_a_commit_file() -> None:
    found = {module: list(builds_a_commit_name(tree)) for module, tree in MODULES.items()}
    assert {module for module, lines in found.items() if lines} == {NAMES, FOLDER}, "ask `TableStore.versions`"


def puts_a_version(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "put"
        and ast.unparse(node.func.value).endswith("versions")
        and "named_versions" not in ast.unparse(node.func.value)
        for node in ast.walk(tree)
    )


def test_only_commits_and_the_probe_of_the_newest_one_put_a_version() -> None:
    found = {module for module, tree in MODULES.items() if puts_a_version(tree) and not module.startswith("testing/")}
    assert found == {"commit/alone.py", "commit/resolve.py", "store/probe.py"}
