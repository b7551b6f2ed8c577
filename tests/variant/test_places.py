"""How many modules a type of a package touches: the contributors' page lists those outside of the package."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributors" / "architecture.md"


def test_the_modules_that_know_variants_by_name_are_those_that_the_page_lists() -> None:
    named = re.compile(r"(?i)(?<![a-z-])variant")
    modules = {path.relative_to(ROOT / "txlog").with_suffix("") for path in ROOT.glob("txlog/**/*.py")}
    outside = {each for each in modules if each.parts[0] != "variant"}
    knowing = {f"{each}" for each in outside if named.search((ROOT / "txlog" / f"{each}.py").read_text())}
    section = PAGE.read_text().partition("### What a new type touches")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall("`([^`]+)`", row)) == sorted(knowing)
    assert f"these are {len(knowing)} of" in section
    assert f"besides the {len(modules) - len(outside)} of" in section
