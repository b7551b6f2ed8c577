"""The page of promises names tests that exist, and no promise stands there without one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "txlog" / "testing" / "GUARANTEES.md").read_text()
NAMED = re.compile(r"`((?:tests|integration)/[\w/]+\.py)::(\w+)`")


def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE)
    assert named
    assert [f"{file}::{test}" for file, test in named if test not in functions_of(ROOT / file)] == []


def test_every_promise_names_its_tests() -> None:
    promises, _, _ = PAGE.partition("## Not promised")
    sections = promises.split("\n### ")[1:]
    assert sections
    assert [section.splitlines()[0] for section in sections if not NAMED.search(section)] == []
