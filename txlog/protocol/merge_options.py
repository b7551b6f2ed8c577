"""The table properties that define how rows with one key become one row: their names and values.

The names are Apache Paimon's options with the prefix ``txlog.``, so every txlog writer merges a table's rows alike.
Other Delta writers keep the properties and ignore them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "AGGREGATE_FUNCTIONS",
    "CHANGELOG_PRODUCER",
    "CHANGELOG_PRODUCERS",
    "DEFAULT_FUNCTION",
    "FIELDS",
    "FIELD_OPTIONS",
    "MERGE_ENGINE",
    "MERGE_ENGINES",
    "MERGE_FLAGS",
    "PREFIX",
    "ROW_DEDUPLICATE",
    "TOMBSTONE_RETENTION",
    "field_option",
    "merge_options",
]

PREFIX: Final = "txlog."

MERGE_ENGINE: Final = "txlog.merge-engine"
MERGE_ENGINES: Final = ("deduplicate", "partial-update", "aggregation", "first-row")

AGGREGATE_FUNCTIONS: Final = (
    "sum",
    "product",
    "count",
    "min",
    "max",
    "first_value",
    "last_value",
    "first_non_null_value",
    "last_non_null_value",
    "listagg",
    "bool_and",
    "bool_or",
    "collect",
)

MERGE_FLAGS: Final = (
    "ignore-delete",
    "partial-update.remove-record-on-delete",
    "aggregation.remove-record-on-delete",
)
"""Options that are true or false."""

FIELDS: Final = "fields."
DEFAULT_FUNCTION: Final = "fields.default-aggregate-function"

FIELD_OPTIONS: Final = (
    "aggregate-function",
    "ignore-retract",
    "list-agg-delimiter",
    "distinct",
    "sequence-group",
)
"""The parts after `fields.<column>.`; the sequence group has several columns, separated by commas."""

CHANGELOG_PRODUCER: Final = "txlog.changelog-producer"
CHANGELOG_PRODUCERS: Final = ("none", "input", "lookup")
ROW_DEDUPLICATE: Final = "txlog.changelog-producer.row-deduplicate"
"""Whether the change data feed leaves out updates that change nothing."""

TOMBSTONE_RETENTION: Final = "txlog.tombstone-retention"
"""How long the key of a deleted row is kept with its sequence; an interval."""

_NAMES: Final = frozenset(("merge-engine", "sequence.field", DEFAULT_FUNCTION, *MERGE_FLAGS))


def field_option(option: str) -> tuple[str, str] | None:
    """``("price", "aggregate-function")`` of ``fields.price.aggregate-function``; None for any other option."""
    if not option.startswith(FIELDS) or option == DEFAULT_FUNCTION:
        return None
    for name in FIELD_OPTIONS:
        column = option[len(FIELDS) : -len(name) - 1]
        if column and option == f"{FIELDS}{column}.{name}":
            return column, name
    return None


def merge_options(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties of a table that define merging, by Paimon's names; empty if there are none."""
    options = {key[len(PREFIX) :]: value for key, value in configuration.items() if key.startswith(PREFIX)}
    return {name: value for name, value in options.items() if name in _NAMES or name.startswith(FIELDS)}
