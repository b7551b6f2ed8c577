"""The merge engine of a table: the built-in ``deduplicate``, or what an installed package offers under its name.

In: options, from a table's properties or a caller, and the table's columns. Out: a `MergeEngine`. Each entry of the
group ``txlog.merge_engines`` is a class that derives from `MergeEngine`; txlog's own engines are declared there too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from txlog.changelog.merge_engines.deduplicate import Deduplicate
from txlog.changelog.merge_engines.engine import MergeEngine
from txlog.changelog.merge_engines.options import EngineOptions
from txlog.core.format.identity import is_identity
from txlog.core.format.properties import DEFAULT_MERGE_ENGINE, MERGE_ENGINE, MERGE_ENGINES, PREFIX, merge_options
from txlog.core.format.schema import Struct
from txlog.core.points import Point
from txlog.core.row_rules import is_computed
from txlog.errors import UnsupportedFeatureError

_ENGINES: Final[Point[type[MergeEngine]]] = Point(MERGE_ENGINES, "the merge engine")


def engine_for(options: Mapping[str, str], schema: Struct, keys: Sequence[str] = ()) -> MergeEngine:
    """The engine that ``options`` describe, for the columns of ``schema``.

    Args:
        options: By Paimon's names; values in the form of `properties.validate`.
        schema: The table's schema.
        keys: The key columns, for which no function or sequence group is allowed.

    Raises:
        InvalidInputError: An option does not fit the engine, the columns, or another option.
        UnsupportedFeatureError: No installed package offers the engine, or it merges rows column by column, but the
            table has generated columns or defaults.
    """
    name = options.get(MERGE_ENGINE.removeprefix(PREFIX), DEFAULT_MERGE_ENGINE)
    made: type[MergeEngine] = Deduplicate
    if name != DEFAULT_MERGE_ENGINE:
        made = _ENGINES.load(name, "merging the rows of this table")
    read = EngineOptions(name, options, schema, keys)
    found = made.of(read)
    read.refuse_rest(takes_whole_rows=found.takes_whole_rows)
    counted = [field.name for field in schema.fields if is_identity(field)]
    if counted:
        raise UnsupportedFeatureError(
            f"{counted[0]} is an identity column, and merge-engine {name} replaces whole rows, so that they would"
            " get new values there: leave one of them out; Table.upsert keeps the values of identity columns",
            features=("identityColumns",),
        )
    computed = [field.name for field in schema.fields if is_computed(field)]
    if computed and not found.takes_whole_rows:
        raise UnsupportedFeatureError(
            f"merge-engine {name} merges the columns of rows one by one, and {', '.join(computed)} of the table"
            " is generated or has a default, which would have to follow from the merged row: use deduplicate or"
            " first-row",
            features=("generatedColumns", "allowColumnDefaults"),
        )
    return found


def stored_engine(configuration: Mapping[str, str], schema: Struct, keys: Sequence[str] = ()) -> MergeEngine | None:
    """The engine that a table's properties define; None if they define none. Raises what `engine_for` raises."""
    options = merge_options(configuration)
    return engine_for(options, schema, keys) if options else None
