"""The modules of txlog as syntax trees, for the tests that read code. A process parses each once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

LIBRARY = Path(__file__).parent.parent / "txlog"


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules() -> dict[str, Path]:
    """Every module by its place in the library: ``core/store/_versions.py``."""
    return {path.relative_to(LIBRARY).as_posix(): path for path in sorted(LIBRARY.rglob("*.py"))}
