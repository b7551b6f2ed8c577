"""Who owns a version: one module says which file is version N; every other one asks it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.library import modules, tree

NAMES = "core/format/log_names.py"
"""The names of the Delta protocol: how each is written and recognized."""
FOLDER = "core/store/_versions.py"
"""The folder as owner of the versions."""


def builds_a_commit_name(module: ast.Module) -> Iterator[int]:
    """The lines that use ``commit_name``, or that spell it: 20 digits of a number, then ``.json``."""
    for node in ast.walk(module):
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
    suspects = {name: path for name, path in modules().items() if re.search(r"commit_name|\.json\b", path.read_text())}
    found = {name: list(builds_a_commit_name(tree(path))) for name, path in suspects.items()}
    assert {name for name, lines in found.items() if lines} == {NAMES, FOLDER}, "ask `TableStore.versions`"


def puts_a_version(module: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "put"
        and ast.unparse(node.func.value).endswith("versions")
        and "named_versions" not in ast.unparse(node.func.value)
        for node in ast.walk(module)
    )


def test_only_commits_and_the_probe_of_the_newest_one_put_a_version() -> None:
    library = {name: path for name, path in modules().items() if not name.startswith("testing/")}
    found = {name for name, path in library.items() if ".put(" in path.read_text() and puts_a_version(tree(path))}
    assert found == {"core/versions/_commit_loop.py", "core/versions/_resolve_unknown.py", "core/store/_probe.py"}
