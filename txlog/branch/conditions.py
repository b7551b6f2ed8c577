"""The conditions that a branch's commits give in their history, on columns that may have other names and types by now.

In: a condition as text, with the columns that the branch had then. Out: the same condition on the columns of a later
definition, which are found by their physical names. None if a column that it reads is gone.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from txlog.core.format.column_mapping import PHYSICAL_NAME_KEY, physical_name
from txlog.core.format.properties import ColumnPath
from txlog.core.format.schema import Array, DataType, Field, Map, Struct
from txlog.errors import InvalidInputError
from txlog.extend.commits import BecomeOfRows, Predicate, parse_predicate, paths_of, type_of, with_paths


class BranchCondition(msgspec.Struct, frozen=True):
    """A condition on rows that a commit of the branch read.

    Attributes:
        text: Its SQL, as the commit has it.
        schema: The columns of the branch at that commit.
        time_zone: The zone of times without one.
        rows: What the commit did to them.
    """

    text: str
    schema: Struct
    time_zone: str
    rows: BecomeOfRows

    @property
    def is_delete(self) -> bool:
        """Whether the commit deleted these rows."""
        return self.rows == "deleted"

    def on(self, schema: Struct) -> Predicate | None:
        """The condition on the columns of a later ``schema``; None if that lacks one."""
        then = self.schema
        try:
            if then is schema or then == schema:
                return parse_predicate(self.text, schema, zone=self.time_zone)
            seen = _as_before(then, schema)
            found = parse_predicate(self.text, seen, zone=self.time_zone)
        except InvalidInputError:
            return None
        now = {path: _path_now(path, seen, schema) for path in paths_of(found)}
        if any(_names_inside(type_of(path, seen)) != _names_inside(type_of(to, schema)) for path, to in now.items()):
            return None
        renamed: Predicate = with_paths(found, lambda path: now.get(path, path))
        return renamed if paths_of(renamed) == {*now.values()} else None


def _as_before(then: Struct, now: Struct) -> Struct:
    """The columns of ``now`` that were there before, under their earlier names."""
    by_name = {physical_name(field): field for field in now.fields}
    pairs = ((field, by_name.get(physical_name(field))) for field in then.fields)
    return Struct(tuple(_named_before(field, found) for field, found in pairs if found is not None))


def _named_before(field: Field, found: Field) -> Field:
    is_struct = isinstance(field.type, Struct) and isinstance(found.type, Struct)
    kind = _as_before(field.type, found.type) if is_struct else found.type  # type: ignore[arg-type]  # both are
    names = {**found.metadata, PHYSICAL_NAME_KEY: physical_name(found)}  # a table without mapping does not say it
    return replace(found, name=field.name, type=kind, metadata=names)


def _path_now(path: ColumnPath, seen: DataType, now: DataType) -> ColumnPath:
    if not path:
        return ()
    assert isinstance(seen, Struct)
    assert isinstance(now, Struct)
    field = seen.find(path[0])
    assert field is not None
    (found,) = (each for each in now.fields if physical_name(each) == physical_name(field))
    return (found.name, *_path_now(path[1:], field.type, found.type))


def _names_inside(kind: DataType) -> list[object]:
    """The names of the fields inside a column, which a condition may read by their names."""
    match kind:
        case Struct(fields):
            return [(field.name, _names_inside(field.type)) for field in fields]
        case Array(element):
            return [_names_inside(element)]
        case Map(key, value):
            return [_names_inside(key), _names_inside(value)]
    return []
