"""What names mean in a part of a query: columns of its tables, of the queries around it, and what was computed before.

In: the relations of a FROM. Out: for `sql_reader.SqlReader`, references whose first name is a key of
`QueryScope.texts`, which has duckdb's text for the column.
"""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from txlog.core.format.properties import path_text
from txlog.core.format.schema import LONG, DataType, Field, Struct, fold_name, places_by_name, repeated_in_other_case
from txlog.core.predicates import IntervalType
from txlog.core.predicates.terms.predicate import resolve
from txlog.core.predicates.terms.tree import Path, Reference
from txlog.errors import InvalidInputError


class QueryColumn(msgspec.Struct, frozen=True):
    """A column as the query names it, its type, and duckdb's text for it. ``metadata`` is that of a table's column.

    ``is_by_letter``: a column of a table, in which older writers may have put others that differ from it in case alone.
    """

    name: str
    type: DataType
    text: str
    metadata: Mapping[str, Any] = {}
    is_by_letter: bool = False


class Relation(msgspec.Struct, frozen=True):
    """What FROM names: a table or a query, with its alias."""

    alias: str
    columns: tuple[QueryColumn, ...]


class QueryRows(msgspec.Struct, frozen=True):
    """A query of duckdb, whose columns are ``c0``, ``c1``, ..., with their names and types."""

    text: str
    columns: tuple[tuple[str, DataType], ...]

    def relation(self, alias: str, name: str, names: Sequence[str] = ()) -> Relation:
        """The rows as a relation of FROM, with other names for its first columns."""
        columns = [
            QueryColumn(names[at] if at < len(names) else known, data_type, f"{alias}.c{at}")
            for at, (known, data_type) in enumerate(self.columns)
        ]
        return Relation(name, tuple(columns))


class QueryScope:
    """The columns that the expressions of one part of a query may name.

    Attributes:
        relations: The tables and queries of FROM.
        merged: The columns of JOIN USING, which need no table's name.
        outer: The scope of the query around this one.
        base: In a query that groups rows, the scope of the rows; otherwise this scope.
        groups: In a query that groups rows, the values that a group has, by what `column_key` or the binder calls
            them; None in any other.
        aliases: The query's own columns, by their folded names. With ``aliases_first``, they hide those of FROM.
        has_sets: Whether rows are in several groups, of ROLLUP, CUBE or GROUPING SETS.
        common, windows: What WITH and WINDOW name.
        held: Computed parts of an expression, by the names that stand for them in it.
        texts, types: duckdb's text and the type of each column that was found, by the name that references have.
        lacks_a_name: Whether a name was not found: the query is wrong then, and not beyond what is known.
        names_outer: Whether a name was one of the queries around.
        is_named_inside: Whether a query inside named a column of this scope.
    """

    def __init__(
        self,
        relations: Sequence[Relation] = (),
        merged: Sequence[QueryColumn] = (),
        *,
        zone: str,
        now: datetime.datetime,
        outer: QueryScope | None = None,
    ) -> None:
        self.relations = list(relations)
        self.merged = list(merged)
        self.zone, self.now, self.outer = zone, now, outer
        self.base = self
        self.groups: Mapping[str, QueryColumn] | None = None
        self.aliases: dict[str, QueryColumn] = {}
        self.aliases_first = False
        self.has_sets = False
        self.common: Mapping[str, Any] = {}
        self.windows: Mapping[str, Any] = {}
        self.held: dict[str, QueryColumn] = {}
        self.texts: dict[str, str] = {}
        self.types: dict[str, DataType] = {}
        self.lacks_a_name = False
        self.names_outer = False
        self.is_named_inside = False

    def copy(self) -> QueryScope:
        found = QueryScope(self.relations, self.merged, zone=self.zone, now=self.now, outer=self.outer)
        found.base = self.base if self.base is not self else found
        found.groups, found.common, found.windows = self.groups, self.common, self.windows
        return found

    def grouped(self, groups: Mapping[str, QueryColumn]) -> QueryScope:
        """The scope of what a group has."""
        found = self.copy()
        found.base, found.groups = self, groups
        return found

    def behind_distinct(self, columns: Sequence[QueryColumn]) -> QueryScope:
        """The same, in which only what the query shows by its own name has one."""
        shown = {(fold_name(each.name), each.text) for each in columns}

        def kept(given: Sequence[QueryColumn]) -> tuple[QueryColumn, ...]:
            return tuple(each for each in given if (fold_name(each.name), each.text) in shown)

        found = self.copy()
        found.relations = [Relation(each.alias, kept(each.columns)) for each in self.relations]
        found.merged = list(kept(self.merged))
        return found

    def naming(self, columns: Sequence[QueryColumn], *, first: bool) -> QueryScope:
        """The same with the query's own columns, as far as each is the only one of its name."""
        found = self.copy()
        names = Counter(fold_name(column.name) for column in columns)
        found.aliases = {fold_name(each.name): each for each in columns if names[fold_name(each.name)] == 1}
        found.aliases_first = first
        return found

    def find(self, path: Path) -> Reference:
        """The column or field that a name means. Raises InvalidInputError if there is none, or more than one."""
        column, rest = self.column(path)
        whole = Struct((Field(column.name, column.type, metadata=column.metadata),))
        if rest and (twice := repeated_in_other_case(column.type)):
            raise InvalidInputError(
                f"duckdb, which runs queries, cannot tell the fields {', '.join(twice)} of {column.name} apart: read"
                " them with table.to_arrow(where=...), or rename one of them"
            )
        (_, *fields), data_type = resolve((column.name, *rest), whole)
        return Reference((self._key(column), *fields), data_type)

    def column(self, path: Path) -> tuple[QueryColumn, Path]:
        """The column that a name begins with, and the fields that follow."""
        if path[0] in self.held:
            return self.held[path[0]], path[1:]
        scope: QueryScope | None = self
        while scope is not None:
            try:
                found = scope._own(path)
            except InvalidInputError:
                self.lacks_a_name = True
                raise
            if found is not None:
                self.names_outer = self.names_outer or scope is not self
                scope.is_named_inside = scope.is_named_inside or scope is not self
                return found
            scope = scope.outer
        self.lacks_a_name = True
        known = ", ".join(column.name for column in self.visible())
        raise InvalidInputError(f"there is no column {path_text(path)}: there are {known or 'none'}")

    def _own(self, path: Path) -> tuple[QueryColumn, Path] | None:
        alias = self.aliases.get(fold_name(path[0]))
        if alias is not None and self.aliases_first and len(path) == 1:
            return alias, ()
        column, rest = None, path[1:]
        if len(path) > 1:
            named = [each.columns for each in self.relations if fold_name(each.alias) == fold_name(path[0])]
            column = _one_of(named, path[1], path)
            rest = rest if column is None else path[2:]
        if column is None:
            column = _one_of(self._visible(), path[0], path)
        if column is not None and self.groups is not None:
            group = self.groups.get(column_key(column.text))
            if group is None and alias is None:
                raise InvalidInputError(
                    f"{path_text(path)} has several values in a group: add it to GROUP BY, or write"
                    f" first({path_text(path)})"
                )
            column = group
        if column is None:
            return None if alias is None else (alias, path[1:])
        return column, rest

    def visible(self) -> Iterator[QueryColumn]:
        """All columns that need no table's name, in the order of ``*``."""
        return itertools.chain.from_iterable(self._visible())

    def _visible(self) -> Iterator[Sequence[QueryColumn]]:
        """The same, by where they come from."""
        yield self.merged
        names = {fold_name(column.name) for column in self.merged}
        for relation in self.relations:
            yield [column for column in relation.columns if fold_name(column.name) not in names]

    def _key(self, column: QueryColumn) -> str:
        key = column.name
        while self.texts.get(key, column.text) != column.text:
            key = f"{key}'"
        self.texts[key] = column.text
        self.types[key] = LONG if isinstance(column.type, IntervalType) else column.type
        return key

    def hold(self, name: str, data_type: DataType, text: str) -> str:
        """A name for what is computed already."""
        taken = {fold_name(column.name) for column in self.visible()}
        while name in self.held or fold_name(name) in taken:
            name += "'"
        self.held[name] = QueryColumn(name, data_type, text)
        return name


def column_key(text: str) -> str:
    """What stands for a column in the text that an expression and a value of GROUP BY have in common."""
    return f"`{text}`"


def _one_of(relations: Iterable[Sequence[QueryColumn]], name: str, path: Path) -> QueryColumn | None:
    """The column of this name, which a table has by the letter if it has several that differ in case. Raises
    InvalidInputError if it may be one of several."""
    found = [each for each in (columns_named(columns, name) for columns in relations) if each]
    if len(found) > 1:
        raise InvalidInputError(f"{path_text(path)} may be one of several columns: write the table's name in front")
    if found and len(found[0]) > 1:
        names = ", ".join(each.name for each in found[0])
        is_by_letter = found[0][0].is_by_letter and len({each.name for each in found[0]}) > 1
        how = "letter by letter" if is_by_letter else "after giving them different names"
        raise InvalidInputError(f"{path_text(path)} may be any of {names}: write it as one of them, {how}")
    return found[0][0] if found else None


def columns_named(columns: Sequence[QueryColumn], name: str) -> list[QueryColumn]:
    """Those with this name: of a query's columns, also in another case."""
    found = [columns[at] for at in places_by_name(each.name for each in columns)(name)]
    if len(found) == 1 and not found[0].is_by_letter:
        found = [each for each in columns if fold_name(each.name) == fold_name(name)]
    return found
