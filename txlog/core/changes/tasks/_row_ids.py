"""Row ids that survive a rewrite: the columns where data files keep their rows' ids and commit versions.

In: a table that tracks rows, and rows with their positions in a file. Out: the id and the commit version of each, and
the two columns that a new file with these rows needs. A row's id is the value in its file's column if there is one,
otherwise the file's first id plus the row's position. PROTOCOL.md, "Row Tracking", "Writer Requirements for Row
Tracking".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.core.format.actions import AddFile
from txlog.core.format.column_mapping import ROW_ID_COLUMNS, is_mapped, with_field_id
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.paths import resolve_data_path
from txlog.core.format.properties import BRANCH
from txlog.core.format.schema import LONG, Field, Struct, fold_name, to_arrow
from txlog.core.writing import WritePlan
from txlog.errors import CorruptLogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ID_KEY, _VERSION_KEY = ROW_ID_COLUMNS


class RowIds(msgspec.Struct, frozen=True):
    """The two columns of one table: ``fields`` are the row id and the row commit version, null for new rows.
    ``is_branch``: the versions of the table's own files are not those of the table that takes them over."""

    fields: tuple[Field, Field]
    is_branch: bool = False

    @classmethod
    def of(cls, table: DefinedTable) -> RowIds | None:
        """None if the table does not promise stable ids.

        Raises ``CorruptLogError`` if it does, but does not name the columns where files keep them.
        """
        if not table.properties.enable_row_tracking:
            return None
        configuration = table.metadata.configuration
        names = [configuration.get(key, "") for key in (_ID_KEY, _VERSION_KEY)]
        taken = {fold_name(name) for name in table.schema.names}
        if not all(names) or any(fold_name(name) in taken for name in names):
            raise CorruptLogError(
                f"the table tracks rows (delta.enableRowTracking), but {_ID_KEY} and {_VERSION_KEY} name no two columns"
                f" for it: they are {names[0]!r} and {names[1]!r}"
            )
        return cls((Field(names[0], LONG), Field(names[1], LONG)), BRANCH in configuration)

    def plan(self, plan: WritePlan) -> WritePlan:
        """The same plan, with these columns added."""
        fields: tuple[Field, ...] = self.fields
        if is_mapped(
            plan.schema
        ):  # readers find the columns by name, but Iceberg readers need an id if other columns have one
            fields = tuple(map(with_field_id, fields, ROW_ID_COLUMNS.values()))
        return replace(
            plan,
            schema=Struct((*plan.schema.fields, *fields)),
            hidden_columns=tuple(field.name for field in self.fields),
        )

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The Arrow schema of rows with these columns added."""
        return pa.schema([*schema, *to_arrow(Struct(self.fields))])

    def ids(self, add: AddFile, positions: NDArray[np.int64], stored: pa.Array) -> pa.Array:
        """The ids of rows of ``add``: as ``stored`` in the file, otherwise fresh ones; null if the file has no first
        id."""
        if stored.null_count == 0 or add.base_row_id is None:
            return stored
        return pc.coalesce(stored, pa.array(positions + add.base_row_id, pa.int64()))

    def taken_over(self, add: AddFile, positions: NDArray[np.int64], batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of ``add``, whose last two columns are as stored there, in the form for a new file."""
        at = batch.num_columns - 2
        ids = self.ids(add, positions, batch.column(at))
        versions = batch.column(at + 1)
        version = add.default_row_commit_version
        if version is not None and not (self.is_branch and resolve_data_path(add.path).is_relative):
            versions = versions.fill_null(version)
        columns = [*batch.columns[:at], ids, versions]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def changed(self, batch: pa.RecordBatch, ids: pa.Array) -> pa.RecordBatch:
        """New versions of the rows with these ids (null: a new row), which this commit changes."""
        versions = pa.nulls(batch.num_rows, pa.int64())
        names = [*batch.schema.names, *(field.name for field in self.fields)]
        return pa.RecordBatch.from_arrays([*batch.columns, ids, versions], names=names)
