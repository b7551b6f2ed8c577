"""The optional parts of the library, each with packages of its own (``[project.optional-dependencies]``)."""

from __future__ import annotations

__all__ = ["how_to_install"]


def how_to_install(extra: str) -> str:
    """What to do where the packages of an extra are missing, as the README says it: no index has a package yet."""
    return f"in a checkout of txlog, run pip install '.[{extra}]'"
