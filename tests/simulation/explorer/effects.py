"""What commits do to rows if it is more than a function of the rows before: changes held back, and deletes kept.

In: a version's rows, and what was held back or deleted before. Out: the rows after it, or `InvariantBroken`. Only
plain Python, so that `RowHistory` of ``rows`` can compare txlog with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from explorer.versions import InvariantBroken

__all__ = ["Buried", "Change", "HoldsBack", "InSequence", "Row"]

Row: TypeAlias = tuple[int, str, int | None]
"""Key, partition and value."""

Change: TypeAlias = tuple[str, int, str | None, int | None]
"""Row kind, key, partition and value."""

Buried: TypeAlias = Mapping[int, int]
"""The keys of deleted rows, with the greatest sequence of a delete."""


class HoldsBack(msgspec.Struct, frozen=True):
    """A checkpoint of one change for each key. Changes that do not fit the table's rows go into quarantine.

    What was held back in an earlier execution stays so, even if it would fit by then.
    """

    changes: Sequence[Change]

    def misfits(self, rows: Iterable[Row]) -> dict[int, str]:
        """The keys whose change does not fit these rows, and why."""
        count = Counter(row[0] for row in rows)
        found = {}
        for kind, key, _, _ in self.changes:
            if count[key] > 1:
                found[key] = "several"
            elif kind == "-D" and not count[key]:
                found[key] = "missing"
        return found

    def applied(self, rows: Iterable[Row], held: Mapping[int, str]) -> list[Row]:
        """The rows after the changes that are not held back."""
        meant = {change[1]: change for change in self.changes if change[1] not in held}
        new = [(key, part or "", value) for kind, key, part, value in meant.values() if kind != "-D"]
        return [row for row in rows if row[0] not in meant] + new

    def check(self, quarantined: Sequence[tuple[Change, str]], before: list[Row], earlier: Iterable[list[Row]]) -> None:
        """Check what a commit put into quarantine.

        Args:
            quarantined: The changes, each with its case.
            before: The rows of the version before the commit.
            earlier: The rows of all versions before the commit.

        Raises:
            InvariantBroken: A change that does not fit was not held back, or a change that always fitted was held back.
        """
        held = {change[1]: case for change, case in quarantined}
        needed = self.misfits(before)
        cases = {(key, case) for rows in earlier for key, case in self.misfits(rows).items()}
        expected = sorted((_shown(change) for change in self.changes if change[1] in held), key=repr)
        if not needed.keys() <= held.keys() or not held.items() <= cases:
            raise InvariantBroken(
                "what does not fit is held back", f"{held} is in quarantine, and {needed} does not fit"
            )
        if sorted((change for change, _ in quarantined), key=repr) != expected:
            raise InvariantBroken("what is held back is kept", f"{quarantined} is in quarantine, not {expected}")


def _shown(change: Change) -> Change:
    """As a file in quarantine has it: an insert is an update, and of a delete only the key is known."""
    return ("-D", change[1], None, None) if change[0] == "-D" else ("+U", *change[1:])


class InSequence(msgspec.Struct, frozen=True):
    """Changes of a table that keeps deleted keys: the value is the sequence too, and an older change has no effect."""

    changes: Sequence[Change]

    def applied(self, rows: Iterable[Row], buried: Buried) -> tuple[list[Row], Buried]:
        """The rows and the deleted keys after the changes, each of which has a value."""
        left, dead = {row[0]: row for row in rows}, dict(buried)
        for kind, key, part, value in sorted(self.changes, key=lambda change: change[3] or 0):
            assert value is not None
            newest = max(_sequence(left.get(key)), dead.get(key, -1))
            if value < newest:
                continue
            if kind == "-D":
                left.pop(key, None)
                dead[key] = value
            else:
                left[key] = (key, part or "", value)
        return list(left.values()), dead


def _sequence(row: Row | None) -> int:
    return -1 if row is None or row[2] is None else row[2]
