"""A table of the environments in which tests ran: what `make pythons` writes into docs/compatibility.md.

In: the page, and folders with a virtual environment and ``tests.xml``, the report of pytest. Out: the page, with a row
for each folder that has a report, between the lines ``<!-- pythons -->`` and ``<!-- /pythons -->``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

PACKAGES = ("pyarrow", "numpy", "msgspec", "obstore", "deltalake", "duckdb", "polars", "pandas")
_VERSIONS = """
import importlib.metadata, sys
print(".".join(map(str, sys.version_info[:3])), *map(importlib.metadata.version, sys.argv[1:]))
"""
_BEGIN, _END = "<!-- pythons -->\n", "<!-- /pythons -->"


def row(environment: Path) -> str:
    """The versions of an environment, and the counts of its report.

    Raises:
        OSError: The folder has no report.
        subprocess.CalledProcessError: The environment lacks one of `PACKAGES`.
    """
    suite = ElementTree.parse(environment / "tests.xml").getroot()[0].attrib
    command = [environment / "bin" / "python", "-c", _VERSIONS, *PACKAGES]
    versions = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    failed = int(suite["failures"]) + int(suite["errors"])
    passed = int(suite["tests"]) - failed - int(suite["skipped"])
    return f"| {' | '.join(versions)} | {passed:,} | {failed:,} | {suite['timestamp'][:10]} |"


def table(environments: list[Path]) -> str:
    """The whole table; environments without a report are left out."""
    columns = ["Python", *PACKAGES, "passed", "failed", "day"]
    rows = [row(environment) for environment in environments if (environment / "tests.xml").exists()]
    return "\n".join([f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}", *rows]) + "\n"


def main(page: Path, environments: list[Path]) -> None:
    """Write the table into the page."""
    before, _, rest = page.read_text().partition(_BEGIN)
    page.write_text(f"{before}{_BEGIN}{table(environments)}{_END}{rest.partition(_END)[2]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])
