"""What the caller of a row change may ask for, and which tables refuse the change before a row is read.

In: arguments and a table's definition. Out: `RowOptions`, and whether rows go by deletion vectors or by copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec.structs import force_setattr

from txlog.commands.write_options import OnConflict, check_choice, check_identity
from txlog.errors import InvalidInputError
from txlog.log.proposal import check_text
from txlog.log.state import TableState
from txlog.util.arguments import invalid, whole_number
from txlog.writer.write_intent import RowMode

__all__ = ["OnConflict", "OnFiles", "RowMode", "RowOptions", "check_changeable", "uses_vectors"]

OnFiles: TypeAlias = Callable[[int, int], None]
"""Called with the files looked into so far, and all that will be."""


class RowOptions(msgspec.Struct, frozen=True):
    """As `Table.delete` documents them. Raises ``InvalidInputError`` for invalid values."""

    mode: RowMode | None = None
    on_conflict: OnConflict = "rerun"
    read_version: int | None = None
    app_id: str | None = None
    checkpoint_id: int | None = None
    fingerprint: str | None = None
    user_metadata: str | None = None
    on_progress: OnFiles | None = None

    def __post_init__(self) -> None:
        if self.mode is not None:
            check_choice("mode", self.mode, RowMode)
        check_choice("on_conflict", self.on_conflict, OnConflict)
        for name in ("read_version", "checkpoint_id"):
            if (value := getattr(self, name)) is not None:
                force_setattr(self, name, whole_number(name, value))
        check_identity(self.app_id, self.checkpoint_id)
        check_text("user_metadata", self.user_metadata)
        check_text("fingerprint", self.fingerprint)
        if self.fingerprint is not None and self.app_id is None:
            raise InvalidInputError("a fingerprint needs an app_id and a checkpoint_id: give both")
        if self.on_progress is not None and not callable(self.on_progress):
            raise invalid("on_progress", self.on_progress, "a function of the files read and all files")

    @property
    def is_reexecuted(self) -> bool:
        """Whether the change runs again after a commit that changed files: not if it is tied to a version."""
        return self.on_conflict == "rerun" and self.read_version is None


def check_changeable(state: TableState, what: str) -> None:
    """Raises ``InvalidInputError`` for an append-only table."""
    properties = state.properties
    if properties.append_only:
        raise InvalidInputError(
            f"the table is append-only (delta.appendOnly): {what} would change rows. Append to it, or unset the"
            ' property first, by table.unset_properties(["delta.appendOnly"])'
        )


def uses_vectors(state: TableState, mode: RowMode | None) -> bool:
    """Whether rows go by deletion vectors: where the table enables them, unless copies are asked for.

    Raises ``InvalidInputError`` where vectors are asked for and the table does not enable them.
    """
    features = state.protocol.writer_features or ()
    is_enabled = state.properties.enable_deletion_vectors and "deletionVectors" in features
    if mode == "merge-on-read" and not is_enabled:
        raise InvalidInputError(
            'mode="merge-on-read" needs a table with deletion vectors, which not every reader supports: enable them by'
            ' table.set_properties({"delta.enableDeletionVectors": "true"}), or leave mode out'
        )
    return is_enabled and mode != "copy-on-write"
