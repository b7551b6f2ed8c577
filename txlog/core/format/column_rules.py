"""The rules of columns that a new schema would drop: NOT NULL, comments, expressions, defaults, lengths of text.

In: the schema of a table, and the schema that replaces it. Out: what the new one lacks, as phrases; or the new one with
the table's rules. Columns are the same if their names are equal. PROTOCOL.md, "Change Metadata".
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from txlog.core.format.properties import ColumnPath, path_text
from txlog.core.format.schema import TEXT_LENGTH_KEY, Field, Struct
from txlog.core.format.schema_merge import OF_ONE_TABLE

_PHRASES = {
    "comment": "the comment",
    "delta.generationExpression": "the expression of the generated column",
    "CURRENT_DEFAULT": "the default",
    "delta.invariants": "the invariant",
    TEXT_LENGTH_KEY: "the length of text",
    "delta.identity.step": "the identity",
}
_OF_OTHERS = ("delta.identity.start", "delta.identity.highWaterMark", "delta.identity.allowExplicitInsert")
"""Keys of a rule that another one stands for."""


def dropped_rules(table: Struct, new: Struct, prefix: ColumnPath = ()) -> Iterator[str]:
    """What columns of both have in ``table`` and not in ``new``: ``NOT NULL of id``, ``the comment of s.a``."""
    for before in table.fields:
        after = new.find(before.name)
        if after is None:
            continue
        path = (*prefix, before.name)
        if not before.nullable and after.nullable:
            yield f"NOT NULL of {path_text(path)}"
        for key in _rules(before):
            if key not in after.metadata and key not in _OF_OTHERS:
                yield f"{_PHRASES.get(key, key)} of {path_text(path)}"
        if isinstance(before.type, Struct) and isinstance(after.type, Struct):
            yield from dropped_rules(before.type, after.type, path)


def with_rules_of(table: Struct, new: Struct) -> Struct:
    """``new`` with the rules of ``table`` for columns of equal types; what ``new`` says itself counts."""
    return Struct(tuple(_with_rules(table.find(field.name), field) for field in new.fields))


def _with_rules(before: Field | None, after: Field) -> Field:
    if before is None:
        return after
    if isinstance(before.type, Struct) and isinstance(after.type, Struct):
        after = replace(after, type=with_rules_of(before.type, after.type))
    elif before.type != after.type:
        return after
    return replace(after, nullable=before.nullable and after.nullable, metadata={**_rules(before), **after.metadata})


def _rules(field: Field) -> dict[str, object]:
    return {key: value for key, value in field.metadata.items() if not key.startswith(OF_ONE_TABLE)}
