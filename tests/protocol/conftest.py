"""Lines of the golden tables' logs, read once for all tests of the protocol layer."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import orjson
import pytest


@pytest.fixture(scope="session")
def golden_lines() -> list[tuple[str, dict[str, Any]]]:
    """(table name, decoded line) of every well-formed commit line of every golden table; skips where there is none."""
    checkout = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("TXLOG_GOLDEN", checkout.parent / "shared" / "golden"))
    if not folder.is_dir():
        pytest.skip(f"GOLDEN TABLES NOT FOUND at {folder}: set TXLOG_GOLDEN to the folder of .tar.zst archives")
    zstandard = pytest.importorskip("zstandard")
    lines: list[tuple[str, dict[str, Any]]] = []
    for archive in sorted(folder.glob("*.tar.zst")):
        with archive.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as body:
            name = archive.name.removesuffix(".tar.zst")
            with tarfile.open(fileobj=body, mode="r|") as tar:
                for member in tar:
                    in_log = "/_delta_log/" in member.name and member.name.endswith(".json")
                    if in_log and (file := tar.extractfile(member)) is not None:
                        lines.extend((name, line) for line in map(_decoded, file.read().splitlines()) if line)
    return lines


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:  # some golden logs are corrupt on purpose
        return None
    return value if type(value) is dict else None
