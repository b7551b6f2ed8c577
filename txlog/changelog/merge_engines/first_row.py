"""The engine ``first-row``: the row of each key that arrived first; rows of known keys change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from txlog.changelog.merge_engines.engine import Merged, MergeEngine
from txlog.changelog.merge_engines.merged_keys import KeyRuns
from txlog.changelog.merge_engines.options import EngineOptions
from txlog.core.format.arrow.take_rows import taken_rows
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Self


class FirstRow(MergeEngine, frozen=True):
    """Arrival orders the rows of a key, and the first one stays."""

    name: ClassVar[str] = "first-row"
    takes_whole_rows: ClassVar[bool] = True
    replaces_rows: ClassVar[bool] = False
    why_no_tombstones: ClassVar[str | None] = "first-row refuses deletes, so there are none to remember"

    @classmethod
    def of(cls, options: EngineOptions) -> Self:
        if options.sequence():
            raise InvalidInputError("merge-engine first-row keeps the row that arrived first: it has no sequence.field")
        return super().of(options)

    def merged(self, rows: KeyRuns) -> Merged:
        places = rows.runs.first()
        has_row = places >= 0
        has_row[has_row] = rows.runs.rows[places[has_row]] >= rows.runs.num_old
        found = taken_rows(rows.new, rows.runs.rows[places[has_row]] - rows.runs.num_old)
        return Merged(found, has_row, np.zeros(len(places), dtype=bool))

    def needed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        return ()
