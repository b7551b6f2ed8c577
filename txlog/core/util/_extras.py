"""The optional parts of the library, each with its own packages (``[project.optional-dependencies]``)."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """What to do if an extra's packages are missing, as in the README: no package index has txlog yet."""
    return f"with a wheel, pip install 'THE_WHEEL.whl[{extra}]'; in a checkout of txlog, run pip install '.[{extra}]'"
