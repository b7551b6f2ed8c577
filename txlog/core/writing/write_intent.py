"""`WriteIntent`: what a write does to the table's rows. `MismatchPolicy`: what if its changes do not fit them.

In: the caller's mode and predicate. Out: plain data that travels in a job, a sealed manifest and JSON. The rows that a
write depends on (its read set) follow from the intent: see ``core/versions/decisions/proposal_builder``. Which rows a
change by key is about is known only on the version that a commit lands on, so a sink seals its policy too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from txlog.core.util import invalid, one_of
from txlog.core.wording import argument
from txlog.errors import InvalidInputError

RowMode: TypeAlias = Literal["merge-on-read", "copy-on-write"]
"""Deletion vectors mark rows dead, or files are rewritten without them."""

SchemaMode: TypeAlias = Literal["strict", "merge", "overwrite"]
"""Whether data must fit the table's columns ("strict"), may add columns ("merge"), or replaces them all ("overwrite",
to overwrite the whole table)."""

ColumnRules: TypeAlias = Literal["keep", "drop"]
"""Whether columns that are replaced keep NOT NULL, comments, expressions and defaults."""

IntentKind: TypeAlias = Literal["append", "overwrite", "overwrite_where", "overwrite_partitions", "upsert"]
"""Add rows; replace every row; replace a predicate's rows; replace the partitions that the new rows touch; replace the
rows with keys that tasks name, and add rows."""


class WriteIntent(msgspec.Struct, frozen=True):
    """The kind of a write; ``where`` is an "overwrite_where"'s predicate, as SQL, and ``keys`` are an "upsert"'s key
    columns, by their table names.

    Only a write of kind "append" leaves existing rows alone and does not depend on them.
    """

    kind: IntentKind
    where: str | None = None
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(IntentKind):
            raise ValueError(f"unknown write intent {self.kind!r}")
        if (self.where is not None) != (self.kind == "overwrite_where"):
            raise ValueError(f"write intent {self.kind} does not go with the predicate {self.where!r}")
        if bool(self.keys) != (self.kind == "upsert"):
            raise ValueError(f"write intent {self.kind} does not go with the key columns {self.keys!r}")

    @property
    def is_overwrite(self) -> bool:
        """Whether it replaces rows even if it brings none."""
        return self.kind.startswith("overwrite")

    @property
    def is_append(self) -> bool:
        return self.kind == "append"

    @property
    def mode(self) -> str:
        """Spark's name for it, as in history."""
        return "Append" if self.is_append else "Overwrite"

    def __str__(self) -> str:
        words = self.kind.replace("_", " ")
        if self.keys:
            words += f" by {', '.join(self.keys)}"
        return words if self.where is None else f"{words} {self.where}"


APPEND = WriteIntent("append")
OVERWRITE = WriteIntent("overwrite")
OVERWRITE_PARTITIONS = WriteIntent("overwrite_partitions")


def read_intent(value: Any) -> WriteIntent:
    """An intent from its JSON object.

    Raises ``ValueError``, ``KeyError`` or ``TypeError`` for anything else.
    """
    where, keys = value["where"], value["keys"]
    if where is not None and type(where) is not str:
        raise ValueError(f"the predicate of a write intent must be a string, not {where!r}")
    if type(keys) is not list or any(type(key) is not str for key in keys):
        raise ValueError(f"the key columns of a write intent must be a list of strings, not {keys!r}")
    return WriteIntent(value["kind"], where, tuple(keys))


def check_adds_columns(schema_mode: str) -> None:
    """Raises ``InvalidInputError`` for a schema mode that row changes lack."""
    if schema_mode not in ("strict", "merge"):
        raise invalid("schema_mode", schema_mode, "'strict', or 'merge' to add columns that the table lacks")


# --- changes that do not fit the rows of the table -----------------------------------------------------------------


MismatchAction: TypeAlias = Literal["ignore", "quarantine", "fail"]
"""Continue, hold back the changes of these keys in a file next to the table, or commit nothing."""


class MismatchPolicy(msgspec.Struct, frozen=True):
    """What to do in each case.

    Attributes:
        missing: A change deletes or retracts a row (``-D``, ``-U``), but no row of the table has its key. If ignored,
            nothing happens.
        several: Several rows of the table have a change's key. If ignored, the change deletes all of them.
        unfit: The table cannot store what a merge engine makes of the changes and its row: a sum is out of its column's
            range, a NOT NULL column is null, or a value cannot be retracted. If ignored, the key's changes are left
            out.
    """

    missing: MismatchAction = "ignore"
    several: MismatchAction = "ignore"
    unfit: MismatchAction = "fail"

    @classmethod
    def of(cls, given: str | Mapping[str, Any] | None, *, has_changes: bool) -> MismatchPolicy:
        """The policy of an argument: one action for every case, a mapping from case to action, or None for `USUAL`.

        Raises ``InvalidInputError`` for another argument, and for a sink whose rows are no changes.
        """
        names = cls.__struct_fields__
        if given is None:
            return cls()
        if not has_changes:
            raise InvalidInputError(
                f'{argument("on_mismatch")} is only for row changes: pass mode="upsert" or "retract"'
            )
        actions = dict.fromkeys(names, given) if isinstance(given, str) else given
        if not isinstance(actions, Mapping) or not {*actions} <= {*names}:
            expected = f"{one_of(get_args(MismatchAction))}, or a mapping from {', '.join(names)} to these"
            raise invalid("on_mismatch", given, expected)
        for action in actions.values():
            if action not in get_args(MismatchAction):
                raise invalid("on_mismatch", action, one_of(get_args(MismatchAction)))
        return cls(**actions)


USUAL = MismatchPolicy()
"""The default policy of a sink."""
