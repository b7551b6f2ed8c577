"""The table properties of Iceberg exports: their values, and what they forbid.

In: a table's properties. Out: the format and the catalog entry that it asks for. pyproject.toml declares the rules.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from txlog.core.format.properties import ColumnPath, PropertyRule, choice, path_text
from txlog.core.format.schema import DataType, type_name
from txlog.core.util import pattern
from txlog.errors import InvalidInputError
from txlog.iceberg.metadata.schema import can_follow_widening

ICEBERG = "txlog.iceberg"
"""The format of the Iceberg metadata that txlog keeps next to the log: v2 or v3."""
ICEBERG_CATALOG = "txlog.iceberg.catalog"
"""The entry of an Iceberg catalog that follows the table: ``catalog.namespace.table``, as PyIceberg configures it."""

_CATALOG_ENTRY = pattern(r"[^.\s]+(?:\.[^.\s]+){2,}")
_FORMATS = choice("v2", "v3")


def format_name(configuration: Mapping[str, str]) -> str | None:
    """ "v2" or "v3", if the table asks for exports; None also for a value of another writer that says nothing here."""
    return _read(FORMAT_RULE, configuration.get(ICEBERG))


def catalog_entry(configuration: Mapping[str, str]) -> str | None:
    """The catalog entry that follows the table; None if it has none, or a value that names none."""
    return _read(CATALOG_RULE, configuration.get(ICEBERG_CATALOG))


def _read(rule: PropertyRule, text: str | None) -> str | None:
    try:
        return None if text is None else str(rule.parse(text))
    except ValueError:
        return None


def _retyped(value: str, path: ColumnPath, old: DataType, wider: DataType) -> None:
    if not can_follow_widening(old, wider):
        raise InvalidInputError(
            f"{path_text(path)} cannot become {type_name(wider)}: Iceberg readers of the table ({ICEBERG} ="
            f" {value}) could not read files that have it as {type_name(old)}. Unset the property"
            " first, or write the rows to another column"
        )


def _entry(text: str) -> str:
    if _CATALOG_ENTRY.fullmatch(text) is None:
        raise ValueError("not an entry of a catalog")
    return text


FORMAT_RULE = PropertyRule(_FORMATS.parse, _FORMATS.expected, _FORMATS.spell, retyped=_retyped, is_rule_of_rows=False)
CATALOG_RULE = PropertyRule(_entry, "catalog.namespace.table", is_of_one_table=True, is_rule_of_rows=False)
