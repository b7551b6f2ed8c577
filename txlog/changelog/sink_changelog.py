"""The modes "upsert" and "retract" of a sink: `SinkChangelog` is the `Changelog` that its tasks get.

In: the caller's arguments. Out: a value that makes the writers of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from txlog.changelog.changelog_writer import ChangelogWriter
from txlog.changelog.key_hash import task_of_rows
from txlog.changelog.spec import ChangelogSpec
from txlog.core.format.schema import Struct
from txlog.core.row_rules import key_columns
from txlog.core.store import FileStore
from txlog.core.writing import KeepKeys, TaskIdentity, WritePlan

if TYPE_CHECKING:
    import pyarrow as pa


class SinkChangelog(msgspec.Struct, frozen=True):
    """A `Changelog` whose tasks keep one change of each key, or stage all rows for the table's merge engine."""

    spec: ChangelogSpec

    @property
    def keys(self) -> tuple[str, ...]:
        return self.spec.keys

    def arguments(self) -> dict[str, Any]:
        return self.spec.arguments()

    def writer(
        self, files: FileStore, plan: WritePlan, task: TaskIdentity, keep_keys: KeepKeys | None = None
    ) -> ChangelogWriter:
        return ChangelogWriter(files, plan, task, self.spec, keep_keys)

    def task_of_rows(self, data: Any, schema: Struct, num_tasks: int) -> pa.Array:
        return task_of_rows(data, key_columns(self.keys, schema), schema, num_tasks)


def sink_changelog(
    keys: str | Sequence[str] | None,
    mode: str,
    row_kind: str | None = None,
    row_kinds: Mapping[Any, str] | None = None,
    sequence_by: str | None = None,
) -> SinkChangelog:
    """Raises what `ChangelogSpec.of` raises."""
    return SinkChangelog(ChangelogSpec.of(keys, mode, row_kind, row_kinds, sequence_by))
