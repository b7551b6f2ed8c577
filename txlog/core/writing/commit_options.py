"""The commit options of a write or a row change: `CommitOptions`.

In: the arguments with the same names that every method of ``Table`` takes, the options of a Spark write, or a command's
options. Out: one checked value, which travels with a job to its tasks and back to the commit.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from txlog.core.util import check_text, invalid, one_of, whole_number
from txlog.core.wording import argument
from txlog.errors import InvalidInputError

OnConflict: TypeAlias = Literal["rerun", "fail"]
"""After a lost race: rerun the change on the newest version, or apply Delta's rules to what was read."""

IsolationName: TypeAlias = Literal["Serializable", "WriteSerializable"]
"""The values of ``delta.isolationLevel``."""


class CommitOptions(msgspec.Struct, frozen=True):
    """A caller's options for a commit. Raises ``InvalidInputError`` for invalid or contradictory values.

    ``app_id``, a job's name, and ``checkpoint_id``, the number of its batch, make the commit exactly once;
    ``fingerprint`` identifies what the batch was made from, so other work under the same number is an error.
    ``user_metadata`` is a note for the table's history. ``read_version`` is the version that the caller's rows or
    decision come from: later commits that touch it are conflicts. With ``reads_table`` the rows were made from the
    table's rows of that version, whichever, so later commits that change any row are conflicts. ``on_conflict`` decides
    what follows a lost race; None leaves it to the operation: row changes rerun, and overwrites fail. ``isolation`` is
    the Delta isolation level for concurrent commits; None leaves it to the table. ``void_from`` names an application
    and a number: once the table's record of that application has reached it, this commit may not land any more.
    """

    app_id: str | None = None
    checkpoint_id: int | None = None
    fingerprint: str | None = None
    user_metadata: str | None = None
    read_version: int | None = None
    on_conflict: OnConflict | None = None
    isolation: IsolationName | None = None
    reads_table: bool = False
    void_from: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        """Any library's integers become Python's, which the log can store and compare."""
        for name in ("checkpoint_id", "read_version"):
            if (value := getattr(self, name)) is not None:
                force_setattr(self, name, whole_number(name, value))
        check_identity(self.app_id, self.checkpoint_id)
        check_text("fingerprint", self.fingerprint)
        check_text("user_metadata", self.user_metadata)
        if self.fingerprint is not None and self.app_id is None:
            raise InvalidInputError(
                f"a {argument('fingerprint')} needs an {argument('app_id')} and a {argument('checkpoint_id')}:"
                f" give both"
            )
        if self.on_conflict is not None:
            check_choice("on_conflict", self.on_conflict, OnConflict)
        if self.isolation is not None:
            check_choice("isolation", self.isolation, IsolationName)
        if self.reads_table and self.read_version is None:
            raise InvalidInputError(
                f"{argument('reads_table')} needs {argument('read_version')}, the version from which the rows were made"
            )

    @property
    def transaction(self) -> tuple[str, int] | None:
        """The application and its batch, Delta's ``txn``; None if the commit is not exactly once."""
        if self.app_id is None or self.checkpoint_id is None:
            return None
        return self.app_id, self.checkpoint_id

    def is_reexecuted(self, default: OnConflict) -> bool:
        """Whether the change reruns after a commit that changed files: not if it is tied to a version.

        ``default`` is what the operation does if the caller gave no ``on_conflict``.
        """
        return (self.on_conflict or default) == "rerun" and self.read_version is None


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Raises ``InvalidInputError`` for a value that is not one of the ``choices``, a ``Literal``."""
    if not isinstance(value, str) or value not in get_args(choices):
        raise invalid(name, value, one_of(get_args(choices)))


def check_identity(app_id: str | None, checkpoint_id: int | None) -> None:
    """Application and checkpoint must come together or not at all. Raises ``InvalidInputError``."""
    if (app_id is None) != (checkpoint_id is None):
        raise InvalidInputError(
            f"an exactly-once write needs both {argument('app_id')} and {argument('checkpoint_id')}: pass both, or"
            " neither"
        )
    if app_id is not None:
        check_app_id(app_id)
    if checkpoint_id is not None:
        whole_number("checkpoint_id", checkpoint_id)


def check_isolation(commit: CommitOptions, default: OnConflict) -> None:
    """Raises ``InvalidInputError`` for an isolation level of a change that reruns instead of conflicting.

    ``default`` is the operation's ``on_conflict``.
    """
    if commit.isolation is not None and commit.is_reexecuted(default):
        raise InvalidInputError(
            f"{argument('isolation')} decides which concurrent commits are conflicts, but a change that"
            f" runs again after a lost race"
            " conflicts with none, so that it is always Serializable: leave it out"
        )


def check_app_id(app_id: str) -> None:
    """Raises ``InvalidInputError`` for an invalid application id."""
    if type(app_id) is not str or not app_id:
        raise invalid("app_id", app_id, "a non-empty string")
    check_text("app_id", app_id)


PLAIN_COMMIT = CommitOptions()
"""The options of a caller who sets none."""
