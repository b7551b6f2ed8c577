"""The golden tables, written by Spark: which ones exist here, and any of them unpacked.

``TXLOG_GOLDEN`` names a folder of .tar.zst archives in place of the one next to this checkout. Without archives, the
tests that need them are skipped with a message: tests marked ``needed`` before their fixtures are made, any other when
it opens an archive. No other test looks outside the checkout.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard

__all__ = ["NAMES", "needed", "opened", "unpack"]

FOLDER = Path(os.environ.get("TXLOG_GOLDEN", Path(__file__).resolve().parents[2] / "shared" / "golden"))
NAMES = tuple(sorted(archive.name.removesuffix(".tar.zst") for archive in FOLDER.glob("*.tar.zst")))

needed = pytest.mark.skipif(
    not NAMES,
    reason=f"NOT TESTED: on golden tables: none are at {FOLDER}; set TXLOG_GOLDEN to the folder of .tar.zst files",
)


@contextmanager
def opened(name: str) -> Iterator[tarfile.TarFile]:
    """The archive of a table, to be read once from its begin to its end. Skips the test where there are none at all."""
    if not NAMES:
        pytest.skip(needed.kwargs["reason"])
    with (
        (FOLDER / f"{name}.tar.zst").open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as body,
        tarfile.open(fileobj=body, mode="r|") as archive,
    ):
        yield archive


def unpack(name: str, folder: Path) -> Path:
    """``folder/name``, unpacked unless it is there already."""
    root = folder / name
    if not root.exists():
        with opened(name) as archive:
            # Python 3.10 and 3.11 know filters from a patch release on; these archives may be trusted.
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            archive.extractall(folder)
    return root
