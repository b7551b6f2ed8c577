"""What happens to changes that do not fit the table's rows: `MismatchPolicy`.

In: the argument of a sink. Out: an action for each case. Which changes these are is known only on the version that the
commit lands on, after the checkpoint was sealed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import fields

from txlog.errors import InvalidInputError
from txlog.util.arguments import invalid, one_of
from txlog.util.wording import argument

if TYPE_CHECKING:
    from txlog.writer.changelog.spec import ChangelogSpec

__all__ = ["USUAL", "MismatchAction", "MismatchPolicy"]

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
    def of(cls, given: str | Mapping[str, Any] | None, changelog: ChangelogSpec | None) -> MismatchPolicy:
        """The policy of an argument: one action for every case, a mapping from case to action, or None for `USUAL`.

        Raises ``InvalidInputError`` for another argument, and for a sink without a ``changelog``.
        """
        names = [field.name for field in fields(cls)]
        if given is None:
            return cls()
        if changelog is None:
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
