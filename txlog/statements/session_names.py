"""What names mean in a session: the schema that USE names, and temporary views.

In: statements as they are written. Out: the same statements with whole names, and with the queries of views in their
place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from txlog.core.format.schema import backquoted
from txlog.errors import InvalidInputError, TableExistsError, TableNotFoundError
from txlog.statements.changes import AlterTable, ColumnComment, RenameTable
from txlog.statements.names import AsOf, TableName
from txlog.statements.query import Query, Reading
from txlog.statements.show import Describe, DescribeQuery, Explain, ShowColumns, ShowTables
from txlog.statements.tables import Clone, CreateTable, CreateView, DropView, Use


def keeps_names(statement: Any) -> bool:
    """Whether a statement does nothing but change what names mean afterwards."""
    return isinstance(statement, CreateView | DropView | Use)


class SessionNames(msgspec.Struct, frozen=True):
    """``schema`` goes in front of names of one part; ``views`` are by the keys of their names."""

    schema: tuple[str, ...] = ()
    views: Mapping[str, CreateView] = msgspec.field(default_factory=dict)

    def after(self, statement: Any) -> SessionNames:
        """What names mean after a statement. Raises TableExistsError, TableNotFoundError."""
        match statement:
            case Use(schema):
                return msgspec.structs.replace(self, schema=schema)
            case CreateView(name, replaces=replaces):
                if name.key in self.views and not replaces:
                    raise TableExistsError(f"there is already a view {name.text}: write CREATE OR REPLACE")
                return msgspec.structs.replace(self, views={**self.views, name.key: statement})
            case DropView(name, if_exists):
                if name.key not in self.views and not if_exists:
                    raise TableNotFoundError(f"there is no temporary view {name.text}, which is named at {name.at}")
                left = {key: view for key, view in self.views.items() if key != name.key}
                return msgspec.structs.replace(self, views=left)
        return self

    def view(self, name: TableName) -> CreateView | None:
        return self.views.get(name.key) if len(name.parts) == 1 else None

    def placed(self, statement: Any) -> Any:
        """The statement with whole names and without views. Raises InvalidInputError where a view cannot stand."""
        if isinstance(statement, Query):
            return self._query(statement)
        if isinstance(statement, CreateView):
            source = self._in_schema(statement.query)
            if any(reading.table.key == statement.name.key for reading in source.readings):
                name = statement.name.text
                raise InvalidInputError(
                    f"the view {name} reads itself, at {statement.name.at}: if a table is meant, write its schema in"
                    " front of its name; nothing was run"
                )
            return msgspec.structs.replace(statement, query=self._query(source), source=source)
        if isinstance(statement, Explain):
            return Explain(self.placed(statement.statement))
        if isinstance(statement, DropView):
            return statement
        if isinstance(statement, ColumnComment):
            return msgspec.structs.replace(statement, schema=self.schema)
        if isinstance(statement, ShowTables):
            return statement if statement.schema else msgspec.structs.replace(statement, schema=self._shown_schema())
        changes: dict[str, Any] = {}
        for field in getattr(statement, "__struct_fields__", ()):
            value = getattr(statement, field)
            if isinstance(value, TableName) and isinstance(statement, Describe | ShowColumns) and self.view(value):
                query = Query(("SELECT * FROM ", ""), (Reading(value),), value.at)
                return DescribeQuery(self._query(query), names_only=isinstance(statement, ShowColumns))
            if isinstance(value, TableName):
                changes[field] = self._table(value, statement)
            elif isinstance(value, Query):
                changes[field] = self._query(value)
        if isinstance(statement, AlterTable) and isinstance(statement.change, RenameTable):
            changes["change"] = RenameTable(self._whole(statement.change.name))
        return msgspec.structs.replace(statement, **changes) if changes else statement

    def _shown_schema(self) -> str | None:
        return TableName(self.schema).text if self.schema else None

    def _table(self, name: TableName, statement: Any) -> TableName:
        if self.view(name) is None:
            return self._whole(name)
        if isinstance(statement, CreateTable | Clone) and name is statement.table:
            return self._whole(name)
        raise InvalidInputError(
            f"{name.text}, which is named at {name.at}, is a temporary view, and this statement is for tables; nothing"
            " was run"
        )

    def _whole(self, name: TableName) -> TableName:
        return TableName((*self.schema, *name.parts), name.at) if len(name.parts) == 1 else name

    def _in_schema(self, query: Query) -> Query:
        readings = tuple(
            reading if self.view(reading.table) else msgspec.structs.replace(reading, table=self._whole(reading.table))
            for reading in query.readings
        )
        return msgspec.structs.replace(query, readings=readings)

    def _query(self, query: Query, within: tuple[str, ...] = ()) -> Query:
        """The query with those of views in parentheses in the place of their names."""
        query = self._in_schema(query)
        pieces, readings = [query.pieces[0]], []
        for reading, piece in zip(query.readings, query.pieces[1:], strict=True):
            view = self.view(reading.table)
            if view is None:
                pieces.append(piece)
                readings.append(reading)
                continue
            name = reading.table
            if reading.as_of != AsOf() or reading.changes is not None:
                raise InvalidInputError(f"{name.text}, at {name.at}, is a view, which has no versions; nothing was run")
            if name.key in within:
                raise InvalidInputError(f"the view {name.text} reads itself; nothing was run")
            if query.dialect == "duckdb":
                raise InvalidInputError(f"{name.text} is a view in Spark's SQL, which dialect='duckdb' cannot read")
            inner = self._query(view.source, (*within, name.key))
            columns = ", ".join(map(backquoted, view.columns))
            begin, end = ("(SELECT * FROM (", f") AS v({columns}))") if columns else ("(", ")")
            pieces[-1] += begin + inner.pieces[0]
            pieces += inner.pieces[1:]
            readings += inner.readings
            pieces[-1] += end + piece
        return msgspec.structs.replace(query, pieces=tuple(pieces), readings=tuple(readings))
