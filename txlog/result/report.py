"""The result of a report: one HTML page to save or to show in a notebook, and what it says as data.

What makes it is an extension; `Table.report` promises the type.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from txlog.core.util import element
from txlog.errors import InvalidInputError
from txlog.result import counted

if TYPE_CHECKING:
    from txlog.report.facts import Facts

__all__ = ["Report"]


class Report(msgspec.Struct, frozen=True):
    """A report on one version of a table.

    Attributes:
        table: The table's location.
        version: The version it is about.
        html: The page: one document that fetches nothing and runs no script.
        facts: What the page shows, as plain values.
    """

    table: str
    version: int
    html: str
    facts: Facts

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which it replaces.

        Args:
            path: The file.

        Raises:
            InvalidInputError: The file cannot be written.
        """
        try:
            Path(path).write_text(self.html, encoding="utf-8")
        except OSError as error:
            why = error.strerror or type(error).__name__
            message = f"the report cannot be written: {why}; name a file in a folder that exists and may be written to"
            raise InvalidInputError(message, table=self.table, path=str(path)) from error

    def to_dict(self) -> Mapping[str, Any]:
        """Plain data for logs and JSON.

        Returns:
            The facts by section and name.
        """
        found: Mapping[str, Any] = msgspec.to_builtins(self.facts)
        return found

    def __repr__(self) -> str:
        todo = sum(not each.is_optional for each in self.facts.advice)
        return f"Report({self.table}, version {self.version}, {counted(todo, 'thing')} to do)"

    def _repr_html_(self) -> str:
        frame = {"srcdoc": self.html, "sandbox": "", "width": "100%", "height": "720", "frameborder": "0"}
        return element("iframe", frame)
