"""Which table features a table uses, according to its metadata: by properties, types and the metadata of columns.

In: the schema and the properties of a table. Out: `Usage`, from which ``features`` decides which are in use.
PROTOCOL.md, "Valid Feature Names in Table Features".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from txlog.protocol.actions import Metadata
from txlog.protocol.schema import Array, DataType, Map, Struct, parse_schema
from txlog.protocol.type_widening import TYPE_CHANGES_KEY

__all__ = ["Usage"]

_SCHEMA_MARKERS = (
    "delta.invariants",
    "delta.generationExpression",
    "delta.identity.",
    "CURRENT_DEFAULT",
    "timestamp_ntz",
    "variant",
    TYPE_CHANGES_KEY,
)


class Usage(msgspec.Struct, frozen=True):
    """The metadata that shows which features are in use."""

    schema: Struct
    configuration: Mapping[str, str]

    @classmethod
    def of(cls, metadata: Metadata) -> Usage:
        """Parses the schema only if its text may contain something relevant: this runs at every commit."""
        matters = any(marker in metadata.schema_string for marker in _SCHEMA_MARKERS)
        schema = parse_schema(metadata.schema_string) if matters else Struct(())
        return cls(schema, metadata.configuration)

    def has_type(self, wanted: DataType) -> bool:
        return any(data_type == wanted for data_type, _ in _walk(self.schema))

    def marked(self, marker: str) -> bool:
        """Whether some column, at any depth, has field metadata whose key starts with ``marker``."""
        return any(key.startswith(marker) for _, metadata in _walk(self.schema) for key in metadata)

    def enabled(self, key: str) -> bool:
        """Whether a boolean property is on.

        A value that is not a boolean counts as on, since its writer may treat it like that.
        """
        return self.configuration.get(key, "false").strip().lower() != "false"


def _walk(data_type: DataType) -> Iterator[tuple[DataType, Mapping[str, object]]]:
    match data_type:
        case Struct(fields):
            for member in fields:
                yield member.type, member.metadata
                yield from _walk(member.type)
        case Array(element):
            yield element, {}
            yield from _walk(element)
        case Map(key, value):
            yield key, {}
            yield value, {}
            yield from _walk(key)
            yield from _walk(value)
