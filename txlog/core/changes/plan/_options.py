"""The options of a row change, and which tables refuse the change before a row is read.

In: arguments and a table's definition. Out: `RowOptions`, and whether deletion vectors or copies remove rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from txlog.core.progress import OnDone, OnProgress, progress_of, step_if
from txlog.core.util import invalid
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import argument, call, setting
from txlog.core.writing.commit_options import PLAIN_COMMIT, CommitOptions, check_choice, check_isolation
from txlog.core.writing.write_intent import RowMode
from txlog.errors import InvalidInputError
from txlog.result import WriteMetrics

_COPIED_ROWS_MIN = 100_000
_COPIES_PER_CHANGE_MIN = 10


class RowOptions(msgspec.Struct, frozen=True):
    """The options that `Table.delete` documents, ``parquet`` with the values of table properties.

    With ``dry_run``, the change is looked at and not made.

    Raises ``InvalidInputError`` for invalid values.
    """

    mode: RowMode | None = None
    commit: CommitOptions = PLAIN_COMMIT
    on_progress: OnProgress | None = None
    parquet: Mapping[str, Any] | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.mode is not None:
            check_choice("row_mode", self.mode, RowMode)
        check_isolation(self.commit, "rerun")
        if self.parquet is not None:
            from txlog.core.writing import checked_settings

            force_setattr(self, "parquet", checked_settings(self.parquet))
        if self.on_progress is not None:
            progress_of(self.on_progress)

    @property
    def on_files(self) -> OnDone | None:
        """Called with the number of files looked into so far, and the total."""
        return step_if(self.on_progress, "looking into files")


def check_delete(where: object, all_rows: object) -> None:
    """Raises ``InvalidInputError`` unless a condition or every row is asked for: a condition that is None by mistake
    must not empty a table."""
    if all_rows is not True and all_rows is not False:
        raise invalid("all", all_rows, "True or False")
    if where is None and not all_rows:
        raise InvalidInputError(
            f"a delete needs a condition: pass it as {argument('where')}, or pass {setting('all', True)} to delete"
            " every row"
        )
    if where is not None and all_rows:
        raise InvalidInputError(f"pass {argument('where')} or {setting('all', True)}, not both")


def check_changeable(state: TableState, what: str) -> None:
    """Raises ``InvalidInputError`` for an append-only table."""
    properties = state.properties
    if properties.append_only:
        raise InvalidInputError(
            f"the table is append-only (delta.appendOnly): {what} would change rows. Append to it, or unset the"
            f" property first, with {call('unset_properties', ['delta.appendOnly'])}"
        )


def uses_vectors(state: TableState, mode: RowMode | None) -> bool:
    """Whether deletion vectors remove rows: if the table enables them, unless the caller requests copies.

    Raises ``InvalidInputError`` if the caller requests vectors but the table does not enable them.
    """
    features = state.protocol.writer_features or ()
    is_enabled = state.properties.enable_deletion_vectors and "deletionVectors" in features
    if mode == "merge-on-read" and not is_enabled:
        raise InvalidInputError(
            f"{setting('row_mode', 'merge-on-read')} needs a table with deletion vectors, which not every reader"
            f" supports: enable them with {call('set_properties', {'delta.enableDeletionVectors': 'true'})}, or leave"
            f" {argument('row_mode')} out"
        )
    return is_enabled and mode != "copy-on-write"


def note_of_copies(state: TableState, mode: RowMode | None, done: WriteMetrics) -> str | None:
    """What a change that mostly copied rows could do instead; None if the caller requests copies, or few were made."""
    changed = done.rows_inserted + done.rows_updated + done.rows_deleted
    is_much = done.rows_copied >= max(_COPIED_ROWS_MIN, _COPIES_PER_CHANGE_MIN * changed)
    if mode is not None or not is_much or state.properties.enable_deletion_vectors:
        return None
    return (
        f"{done.rows_copied:,} rows were copied to change {changed:,}. In a table with deletion vectors, such a change"
        " marks rows instead: set delta.enableDeletionVectors to true, if every reader of the table supports them"
    )
