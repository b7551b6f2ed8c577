"""Messages about a missing package say how to install it as the pages for users do."""

from __future__ import annotations

from pathlib import Path

import pytest

from txlog.core.util._extras import how_to_install

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("extra", "page"), [("cli", "README.md"), ("spark", "README.md"), ("iceberg", "docs/iceberg.md")]
)
def test_a_message_names_the_command_that_the_pages_name(extra: str, page: str) -> None:
    _, _, command = how_to_install(extra).partition("run ")
    assert command in (ROOT / page).read_text()


def test_no_message_and_no_page_names_a_package_that_no_index_has() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("txlog/**/*.py")]
    assert not [path for path in pages if "pip install txlog" in (text := path.read_text()) or "txlog-delta[" in text]
