"""What a condition or a value may name: the columns of one table or of two sides, parameters, the zone and the time.

In: schemas, and the arguments of a call. Out: `Scope`, which finds the column that a name means.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
from msgspec.structs import replace

from txlog.core.format.properties import column_paths, path_text
from txlog.core.format.schema import Struct, fold_name
from txlog.core.predicates.terms.predicate import resolve
from txlog.core.predicates.terms.tree import Path, Reference
from txlog.core.util import UTC
from txlog.core.wording import advice, argument
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Required

_OTHER_NAMES = f"{argument('target_alias')} and {argument('source_alias')} give the sides other names"


class Context(TypedDict, total=False):
    """What an SQL text may name besides the columns of the target.

    Attributes:
        source: Columns of the source, if there is one.
        target_alias: The name before the dot of a target column; by default none, ``target`` if there is a source.
        source_alias: The same for the source, by default ``source``.
        zone: The time zone of times without one, of days and of hours (`time_zones.zone_name`).
        now: The value of ``current_timestamp()`` and ``current_date()``; without it they are refused.
        parameters: The values of ``:name``, as Python's own, or lists of them.
    """

    zone: Required[str]
    source: Struct | None
    target_alias: str | None
    source_alias: str | None
    now: datetime.datetime | None
    parameters: Mapping[str, Any] | None


class Scope(msgspec.Struct, frozen=True):
    """The columns that a text may name, its time zone, and the time of ``current_timestamp()``. See ``sql.Context``."""

    target: Struct
    source: Struct | None = None
    target_alias: str | None = None
    source_alias: str | None = None
    now: datetime.datetime | None = None
    zone: str = UTC
    parameters: Mapping[str, Any] | None = None

    def with_parameters(self, parameters: Mapping[str, Any] | None) -> Scope:
        """The same with more parameters."""
        return replace(self, parameters={**(self.parameters or {}), **parameters}) if parameters else self

    def parameter(self, name: str) -> Any:
        """The value of ``:name``. Raises ``ValueError`` if the call has none."""
        if name not in (self.parameters or {}):
            raise ValueError(f"there is no value for the parameter :{name}: pass {argument('parameters')}")
        return (self.parameters or {})[name]

    def spelled(self, path: Path) -> Path:
        """The path that `col` was given: one name with dots is split as in SQL, unless a column has this name.

        Raises ``InvalidInputError`` if it means two columns.
        """
        if len(path) != 1 or "." not in path[0]:
            return path
        try:
            (parts,) = column_paths(path[0])
        except ValueError:
            return path
        is_whole = any(side is not None and side.find(path[0]) is not None for side in (self.target, self.source))
        if not is_whole:
            return parts
        if self._names_a_side(parts):
            raise InvalidInputError(
                f"col({path[0]!r}) is a column of this name, and also column {path_text(parts[1:])} of {parts[0]}: pass"
                f" col({', '.join(map(repr, parts))}) for the second, and txlog.expr('{path_text(path)}') for the first"
            )
        return path

    def _names_a_side(self, parts: Path) -> bool:
        if self.source is None or len(parts) < 2:
            return False
        sides = {self.target_alias or "target": self.target, self.source_alias or "source": self.source}
        return any(
            fold_name(parts[0]) == fold_name(name) and side.find(parts[1]) is not None for name, side in sides.items()
        )

    def find(self, path: Path) -> Reference:
        """The column that a name in the text means. Raises ``InvalidInputError`` if no column or two have it."""
        target_alias = self.target_alias or ("target" if self.source is not None else None)
        source_alias = self.source_alias or "source"
        if len(path) > 1 and target_alias and fold_name(path[0]) == fold_name(target_alias):
            return Reference(*resolve(path[1:], self.target))
        if self.source is None:
            return Reference(*resolve(path, self.target))
        if len(path) > 1 and fold_name(path[0]) == fold_name(source_alias):
            return Reference(*resolve(path[1:], self.source, "the source"), "source")
        in_target, in_source = self.target.find(path[0]), self.source.find(path[0])
        table, source = path_text((target_alias or "target",)), path_text((source_alias,))
        if len(path) > 1 and in_target is None and in_source is None:
            column = path_text(path[1:])
            raise InvalidInputError(
                f"{path_text(path)} does not say which side it belongs to: write {table}.{column} for the table"
                f" or {source}.{column} for the source; {advice('name the sides', _OTHER_NAMES)}"
            )
        if in_target is not None and in_source is not None:
            name = path_text(path)
            raise InvalidInputError(f"both sides have a column {name}: write {table}.{name} or {source}.{name}")
        if in_source is not None:
            return Reference(*resolve(path, self.source, "the source"), "source")
        if in_target is None:
            columns = f"the table has {', '.join(self.target.names)}, the source {', '.join(self.source.names)}"
            raise InvalidInputError(f"there is no column {path_text(path)}: {columns}")
        return Reference(*resolve(path, self.target))
