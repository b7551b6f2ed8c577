"""How to read a changelog: `ChangelogSpec`, plain data that tasks get with their write plan.

In: the caller's arguments. Out: values checked against each other; `bind` resolves them for a table's columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from txlog.changelog.row_kinds import RowKinds
from txlog.core.util import invalid, names_in, one_of
from txlog.core.wording import argument
from txlog.errors import InvalidInputError

ChangelogMode: TypeAlias = Literal["upsert", "retract"]
"""For a changed row, an upsert stream needs only the new version (``-U`` is ignored); a retract stream deletes the old
one first, so ``-U`` without ``+U`` deletes."""


class ChangelogSpec(msgspec.Struct, frozen=True):
    """The columns that define what a row of a changelog does.

    Attributes:
        keys: The columns that identify a row; paths with dots name struct fields.
        mode: What ``-U`` means.
        row_kind: The column of row kinds; None: every row is an upsert.
        row_kinds: The meaning of its values; see `RowKinds`.
        sequence_by: The column that orders changes of a key; None: order of arrival.
    """

    keys: tuple[str, ...]
    mode: ChangelogMode = "upsert"
    row_kind: str | None = None
    row_kinds: Mapping[Any, str] | None = None
    sequence_by: str | None = None

    @classmethod
    def of(
        cls,
        keys: str | Iterable[str] | None,
        mode: str,
        row_kind: str | None = None,
        row_kinds: Mapping[Any, str] | None = None,
        sequence_by: str | None = None,
    ) -> ChangelogSpec:
        """The same from a caller's arguments. Raises ``InvalidInputError`` for invalid ones."""
        if mode not in get_args(ChangelogMode):
            raise invalid("mode", mode, one_of(get_args(ChangelogMode)))
        if keys is None:
            raise InvalidInputError(f'mode="{mode}" needs keys, the columns that identify a row: keys=["id"]')
        names = names_in("keys", keys)
        for name, value in (("row_kind", row_kind), ("sequence_by", sequence_by)):
            if value is not None and (type(value) is not str or not value):
                raise invalid(name, value, "the name of a column")
        if mode == "retract" and row_kind is None:
            raise InvalidInputError(
                f'mode="retract" needs {argument("row_kind")}, the column with the kind of each row'
            )
        if row_kinds is not None:
            if row_kind is None:
                raise InvalidInputError(
                    f"{argument('row_kinds')} defines the values of the {argument('row_kind')} column: pass"
                    f" {argument('row_kind')}, its name, too"
                )
            RowKinds(row_kinds)
            row_kinds = dict(row_kinds)
        chosen: ChangelogMode = "retract" if mode == "retract" else "upsert"
        return cls(names, chosen, row_kind, row_kinds, sequence_by)

    def arguments(self) -> dict[str, Any]:
        """The caller's arguments for this spec."""
        return {
            "keys": self.keys,
            "row_kind": self.row_kind,
            "row_kinds": self.row_kinds,
            "sequence_by": self.sequence_by,
        }
