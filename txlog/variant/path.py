"""Paths into a variant: ``$.a.b[0]['c d']``, as Spark's ``variant_get`` takes them.

In: the text of a path. Out: its steps, names of fields and indices of elements; the part of a variant at a path. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from txlog.core.util import pattern
from txlog.variant.encoding import Part

Path = Sequence["str | int"]

_STEP = pattern(r"""\.([^.\[]+)|\[(\d+)\]|\['([^']+)'\]|\["([^"]+)"\]""")


def path_of(text: str) -> Path:
    """The steps of a path. Raises ValueError."""
    at, steps = 1, []
    while text.startswith("$") and at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            break
        name, index, quoted, twice_quoted = found.groups()
        steps.append(int(index) if index is not None else name or quoted or twice_quoted)
        at = found.end()
    if not text.startswith("$") or at < len(text):
        raise ValueError(f"{text!r} is not a path into a variant: write $, followed by .name, ['a name'] or [0]")
    return tuple(steps)


def part_at(part: Part, path: Path) -> Part | None:
    """The part at a path; None if there is none. Raises MalformedVariantError."""
    found: Part | None = part
    for step in path:
        if found is None:
            return None
        found = found.at(step) if isinstance(step, int) else found.get(step)
    return found
