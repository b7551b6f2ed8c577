"""The properties of a table about merges of rows and their change feed, checked against its columns and each other.

In: properties and columns. Out: nothing, or the reason why no writer could keep to them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from txlog.changelog.merge_engines.engines import stored_engine
from txlog.changelog.tombstone_tasks import check_tombstones
from txlog.core.format.properties import CHANGELOG_PRODUCER, ROW_DEDUPLICATE, TableProperties, options_of_engines
from txlog.core.format.schema import Struct
from txlog.errors import InvalidInputError


def check_merging(configuration: Mapping[str, str], schema: Struct) -> None:
    """Raises ``InvalidInputError`` if the properties do not fit, and what `stored_engine` raises."""
    engine = stored_engine(configuration, schema)
    for key, owner in options_of_engines(configuration).items():
        if engine is None or engine.name != owner:
            used = "the table has none" if engine is None else f"not {engine.name}"
            raise InvalidInputError(f"{key} is for merge-engine {owner}, {used}")
    check_tombstones(configuration, schema, engine)
    producer = configuration.get(CHANGELOG_PRODUCER)
    has_feed = TableProperties.of(configuration).enable_change_data_feed
    if producer in ("input", "lookup") and not has_feed:
        raise InvalidInputError(
            f"{CHANGELOG_PRODUCER} = {producer} configures the change data feed, which is off: set"
            " delta.enableChangeDataFeed = true too"
        )
    if producer == "none" and has_feed:
        raise InvalidInputError(
            f"{CHANGELOG_PRODUCER} = none contradicts delta.enableChangeDataFeed = true, by which readers expect every"
            " change: leave one of them out"
        )
    if producer == "input" and engine is None:
        raise InvalidInputError(
            f"{CHANGELOG_PRODUCER} = input records the rows of a changelog as they came: set txlog.merge-engine too, so"
            " that every upsert takes a changelog"
        )
    if producer == "input" and engine is not None and not engine.replaces_rows:
        raise InvalidInputError(
            f"{CHANGELOG_PRODUCER} = input records every row that arrives, and merge-engine {engine.name} leaves out"
            " rows of known keys, so readers of the feed would get rows that the table does not have: use lookup"
        )
    if configuration.get(ROW_DEDUPLICATE) == "true" and engine is None:
        raise InvalidInputError(f"{ROW_DEDUPLICATE} is for tables with a merge engine: set txlog.merge-engine too")
