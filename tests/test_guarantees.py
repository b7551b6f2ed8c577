"""The page of promises names tests that exist, and no promise stands there without one."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
NAMED = re.compile(r"`((?:tests|integration)/[\w/]+\.py)::(\w+)`")


@cache
def names_in(file: str) -> frozenset[str]:
    return frozenset(re.findall(r"^(?:def )?(test_\w+|Test\w+(?= = ))", (ROOT / file).read_text(), re.MULTILINE))


def test_every_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE)
    assert named
    assert [f"{file}::{test}" for file, test in named if test not in names_in(file)] == []


def test_every_promise_names_its_tests() -> None:
    promises, _, _ = PAGE.partition("## Not promised")
    sections = promises.split("\n### ")[1:]
    assert sections
    assert [section.splitlines()[0] for section in sections if not NAMED.search(section)] == []
