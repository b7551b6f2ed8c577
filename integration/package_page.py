"""What a package index shows as the project's page: README.md without pictures of the checkout and links to its files.

Hatchling calls it for every wheel and sdist (`[tool.hatch.metadata.hooks.custom]` in pyproject.toml).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class PackagePage(MetadataHookInterface):
    """The hook that Hatchling finds in this file."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the page's text.

        Raises:
            OSError: README.md cannot be read.
        """
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_links_to_files(text)}


def without_links_to_files(text: str) -> str:
    """``[Read](docs/read.md)`` becomes ``Read``; links to the web and to headings of the page stay. A picture of the
    checkout is left out.
    """
    text = re.sub(r"!\[[^]]*\]\((?!https://)[^)]+\)\n*", "", text)
    return re.sub(r"\[([^]]+)\]\((?!https://|#)[^)]+\)", r"\1", text)
