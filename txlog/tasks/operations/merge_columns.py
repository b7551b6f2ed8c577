"""What a clause of a merge sets without naming it: all columns of the source, and the columns that an insert lacks.

In: the table's and the source's columns. Out: values by column name, as in a clause. `Assignments` computes generated
columns without a value.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from txlog.errors import SchemaMismatchError
from txlog.protocol.schema import Struct
from txlog.writer.generated_columns import ComputedColumns, without_computed

__all__ = ["all_columns", "values_of_absent"]


def all_columns(
    schema: Struct, source: Struct, alias: str, left_out: Collection[str], *, may_lack: bool
) -> dict[str, str]:
    """The columns of a source for the table's columns of their names, but for those ``left_out``.

    Raises ``SchemaMismatchError`` if the source lacks some that are not generated and not counted by the table, unless
    it ``may_lack`` columns.
    """
    wanted = [name for name in schema.names if name not in left_out]
    absent = [name for name in without_computed(schema).names if name in wanted and source.find(name) is None]
    if absent and not may_lack:
        raise SchemaMismatchError(
            f"the source lacks {', '.join(absent)}, which a clause for all columns needs: name the columns and"
            " their values instead"
        )
    names = [name for name in wanted if source.find(name) is not None]
    return {name: f"{alias}.`{name.replace('`', '``')}`" for name in names}


def values_of_absent(schema: Struct, given: Collection[Any], computed: ComputedColumns | None) -> dict[str, Any]:
    """What an inserted row gets in columns that its clause does not name, but for identity columns: the default, or
    NULL.

    Raises ``UnsupportedFeatureError`` for a default that txlog cannot evaluate.
    """
    absent = [name for name in without_computed(schema).names if name not in given]
    return {name: None if computed is None else computed.default_of(name) for name in absent}
