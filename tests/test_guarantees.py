"""Each promise has an entry on the page of proofs, with tests that exist; `make test` runs at least one of them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text()
PROOFS = (ROOT / "docs" / "contributors" / "proofs.md").read_text()
NAMED = re.compile(r"`((?:tests|integration)/[\w/]+\.py)::(\w+)`")


@cache
def names_in(file: str) -> frozenset[str]:
    return frozenset(re.findall(r"^(?:def )?(test_\w+|Test\w+(?= = ))", (ROOT / file).read_text(), re.MULTILINE))


def headings(page: str) -> list[str]:
    return re.findall(r"^##+ .+$", page, re.MULTILINE)


def test_the_pages_of_promises_and_of_proofs_have_the_same_headings() -> None:
    assert headings(GUARANTEES)
    assert headings(PROOFS) == headings(GUARANTEES)


def test_the_page_of_promises_names_no_tests() -> None:
    assert NAMED.findall(GUARANTEES) == []


def test_every_test_that_the_page_of_proofs_names_exists() -> None:
    entries = re.findall(r"^ *- `(.*)`$", PROOFS, re.MULTILINE)
    named = NAMED.findall(PROOFS)
    assert named
    assert entries == [f"{file}::{test}" for file, test in named]
    assert [f"{file}::{test}" for file, test in named if test not in names_in(file)] == []


@cache
def left_to_the_hunt(file: str) -> frozenset[str]:
    """The tests of this file that `make test` does not run; of some others it runs some cases."""
    tree = ast.parse((ROOT / file).read_text())
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    whole_file = any(ast.unparse(node).startswith("pytestmark = pytest.mark.hunt") for node in tree.body)
    marked = [node.name for node in tests if any("mark.hunt" in ast.unparse(each.func) for each in calls_of(node))]
    return frozenset(node.name for node in tests) if whole_file else frozenset(marked)


def calls_of(function: ast.FunctionDef) -> list[ast.Call]:
    return [decorator for decorator in function.decorator_list if isinstance(decorator, ast.Call)]


def test_every_promise_names_tests_of_which_make_test_runs_one() -> None:
    promises, _, _ = PROOFS.partition("## Not promised")
    sections = promises.split("\n### ")[1:]
    assert sections
    shown = {
        section.splitlines()[0]: [test for file, test in NAMED.findall(section) if test not in left_to_the_hunt(file)]
        for section in sections
    }
    assert [promise for promise, tests in shown.items() if not tests] == []
