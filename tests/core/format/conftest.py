"""Lines of the golden tables' logs, read once for all tests of the protocol layer."""

from __future__ import annotations

from typing import Any

import golden
import orjson
import pytest


@pytest.fixture(scope="session")
def golden_lines() -> list[tuple[str, dict[str, Any]]]:
    """(table name, decoded line) of every well-formed commit line of every golden table; skips where there is none."""
    if not golden.NAMES:
        pytest.skip(golden.needed.kwargs["reason"])
    lines: list[tuple[str, dict[str, Any]]] = []
    for name in golden.NAMES:
        with golden.opened(name) as archive:
            for member in archive:
                in_log = "/_delta_log/" in member.name and member.name.endswith(".json")
                if in_log and (file := archive.extractfile(member)) is not None:
                    lines.extend((name, line) for line in map(_decoded, file.read().splitlines()) if line)
    return lines


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:  # some golden logs are corrupt on purpose
        return None
    return value if type(value) is dict else None
