"""The tables of a PostgreSQL database as a mirror sees them: columns, types and keys, from the database's catalog.

In: a connection, names of tables. Out: a `SourceTable` for each; the publication that names them. A table whose updates
the database could not publish is refused here, before it is published: otherwise the database would refuse the updates
of the programs that make them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from txlog.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from txlog.mirror.connection import Queries, SourceAway, identifier
from txlog.mirror.sources import SourceColumn, SourceTable
from txlog.mirror.types import ColumnType, SourceType, column_type, elements

_SERVER_MIN = 130_000
_COLUMN_LISTS = 150_000
"""The version of the server from which publications have lists of columns, and conditions on rows."""

_TABLES = """
select c.oid, n.nspname, c.relname, c.relkind, c.relreplident
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p'
  and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
order by n.nspname, c.relname
"""
_COLUMNS = """
select attnum, attname, atttypid, atttypmod, atthasmissing, attmissingval::text, atthasdef, attgenerated <> ''
from pg_catalog.pg_attribute where attrelid = %s and attnum > 0 and not attisdropped order by attnum
"""
_KEY = """
select a.attname, i.indimmediate
from pg_catalog.pg_index i
cross join lateral unnest(i.indkey[0:i.indnkeyatts - 1]) with ordinality as k(attnum, place)
join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indrelid = %s and i.indisvalid and case when %s then i.indisreplident else i.indisprimary end
order by k.place
"""
_PARTITIONS = """
select n.nspname || '.' || c.relname from pg_catalog.pg_partition_tree(%s) p
join pg_catalog.pg_class c on c.oid = p.relid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where p.isleaf and c.relkind <> 'p' order by 1
"""
_ENTRIES = """
select c.oid, coalesce(r.oid, {of_schema}p.oid)
from pg_catalog.pg_publication p cross join pg_catalog.pg_class c
left join pg_catalog.pg_publication_rel r on r.prpubid = p.oid and r.prrelid = c.oid{schemas}
where p.pubname = %s and c.oid = any(%s)
"""
_SCHEMAS = """
left join pg_catalog.pg_publication_namespace n on n.pnpubid = p.oid and n.pnnspid = c.relnamespace"""
_TYPES = """
select t.oid, n.nspname, t.typname, t.typbasetype, t.typtypmod,
       case when t.typcategory = 'A' and t.typelem <> 0 and t.typlen = -1 then t.typelem else 0 end
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace where t.oid = any(%s)
"""


def require_server(queries: Queries) -> None:
    """Raise UnsupportedFeatureError unless the server can publish its changes to a mirror, and `SourceAway` for a
    standby, which may be about to take over."""
    ((is_standby,),) = queries.rows("select pg_is_in_recovery()")
    if is_standby:
        raise SourceAway("it is a standby that has not taken over")
    if queries.server_version < _SERVER_MIN:
        raise UnsupportedFeatureError(f"{queries.source} is older than PostgreSQL 13, the oldest that can be mirrored")
    ((level,),) = queries.rows("select current_setting('wal_level')")
    if level != "logical":
        raise UnsupportedFeatureError(
            f"{queries.source} does not log the rows that change (wal_level = {level}): run ALTER SYSTEM"
            " SET wal_level = logical, and restart it"
        )


class SourceTables:
    """Asks a database for its tables and types. ``as_text``: columns, as ``schema.table.column``, that become text."""

    def __init__(self, queries: Queries, as_text: Sequence[str] = ()) -> None:
        self._queries = queries
        self._as_text = {_in_public(name, 3) for name in as_text}
        self._types: dict[int, SourceType] = {}
        self._publication = ""

    def published(self, publication: str, wanted: Sequence[str] | None) -> list[SourceTable]:
        """The tables with these names (None: those that the publication names, or all), which it has from now on.

        Raises NotFoundError for a name that no table has; InvalidInputError for tables that cannot be mirrored, with
        the statements that change this.
        """
        known = {f"{row[1]}.{row[2]}": row for row in self._queries.rows(_TABLES)}
        there = self._in_publication(publication)
        names = [_in_public(name, 2) for name in wanted] if wanted is not None else sorted(there or known)
        if there is not None:
            has_partitions = any(known[name][3] == "p" for name in names if name in known)
            self._require_all_changes(publication, has_partitions=has_partitions or not there.keys() <= known.keys())
        missing = [name for name in names if name not in known]
        if missing:
            raise NotFoundError(f"{self._queries.source} has no table {', '.join(missing)}: it has {_some(known)}")
        if not names:
            raise NotFoundError(f"{self._queries.source} has no tables")
        found = [self._table(known[name], *(there or {}).get(name, (None, None))) for name in dict.fromkeys(names)]
        self._require_published(found)
        lacking = [table for table in found if table.shown not in (there or {})]
        if lacking:
            _publish(self._queries, publication, lacking, exists=there is not None)
        self._publication = publication
        entries = self.entries([table.number for table in found])
        return [table._replace(entry=entries.get(table.number, 0)) for table in found]

    def left_out(self, publication: str, found: Sequence[SourceTable]) -> list[tuple[str, str]]:
        """The tables of the publication, as schema and name, that are not among these."""
        names = {table.shown for table in found}
        listed = "select schemaname, tablename from pg_catalog.pg_publication_tables where pubname = %s"
        return [
            (schema, name)
            for schema, name in self._queries.rows(listed, publication)
            if f"{schema}.{name}" not in names
        ]

    def type_of(self, table: str, name: str, number: int, modifier: int) -> ColumnType:
        """The type of a column, by the numbers that the stream has for it."""
        return column_type(self._type(number), modifier, as_text=f"{table}.{name}" in self._as_text)

    def columns(self, number: int, table: str) -> list[SourceColumn]:
        """The columns that a table has now; none if it is gone. Those that are computed from others are left out: they
        are not published."""
        rows = [row for row in self._queries.rows(_COLUMNS, number) if not row[7]]
        self._load([row[2] for row in rows])
        return [
            SourceColumn(
                name,
                place,
                self.type_of(table, name, type_number, modifier),
                _only_element(missing) if has_missing else None,
                is_filled=has_default and not has_missing,
            )
            for place, name, type_number, modifier, has_missing, missing, has_default, _ in rows
        ]

    def keys(self, number: int) -> tuple[str, ...]:
        """The columns that identify a row of a table now; none if it is gone."""
        found = [row for row in self._queries.rows(_TABLES) if row[0] == number]
        return self._key(number, found[0][4])[0] if found else ()

    def partitions(self, number: int) -> tuple[str, ...]:
        """The partitions of a table that have rows of their own, by name."""
        return tuple(name for (name,) in self._queries.rows(_PARTITIONS, number))

    def entries(self, numbers: Sequence[int]) -> dict[int, int]:
        """The number of each table's entry in the publication: its own, that of its schema, or of all tables. A table
        that is gone has none."""
        has_schemas = self._queries.server_version >= _COLUMN_LISTS
        text = _ENTRIES.format(of_schema="n.oid, " if has_schemas else "", schemas=_SCHEMAS if has_schemas else "")
        return dict(self._queries.rows(text, self._publication, [*numbers]))

    def _key(self, number: int, identity: object) -> tuple[tuple[str, ...], bool]:
        """The columns of the key, and whether it is checked at once."""
        found = self._queries.rows(_KEY, number, identity == "i")
        is_immediate = all(each for _, each in found)
        if identity == "n" or (identity == "d" and not is_immediate):
            return (), True  # nothing of an old row is logged; so it is with a key that is checked at the end
        return tuple(name for name, _ in found), is_immediate

    def _table(
        self, row: Sequence[object], names: Sequence[str] | None = None, condition: str | None = None
    ) -> SourceTable:
        number, schema, name, kind, identity = row
        assert isinstance(number, int)
        assert isinstance(schema, str)
        assert isinstance(name, str)
        columns = self.columns(number, f"{schema}.{name}")
        keys, is_immediate = self._key(number, identity)
        published = tuple(column for column in columns if names is None or column.name in names)
        partitions = self.partitions(number) if kind == "p" else None
        return SourceTable(number, schema, name, published, keys, identity == "f", is_immediate, partitions, condition)

    def _in_publication(self, publication: str) -> dict[str, tuple[Sequence[str] | None, str | None]] | None:
        """The tables of a publication, with their columns and conditions; None if there is no such publication."""
        if not self._queries.rows("select 1 from pg_catalog.pg_publication where pubname = %s", publication):
            return None
        more = "attnames, rowfilter" if self._queries.server_version >= _COLUMN_LISTS else "null, null"
        text = f"select schemaname, tablename, {more} from pg_catalog.pg_publication_tables where pubname = %s"
        return {
            f"{schema}.{name}": (names, where) for schema, name, names, where in self._queries.rows(text, publication)
        }

    def _require_all_changes(self, publication: str, *, has_partitions: bool) -> None:
        """Raises InvalidInputError for a publication that somebody made, and that leaves changes out."""
        ((is_whole, via_root),) = self._queries.rows(
            "select pubinsert and pubupdate and pubdelete and pubtruncate, pubviaroot from pg_catalog.pg_publication"
            " where pubname = %s",
            publication,
        )
        if not is_whole:
            what, setting = "some kinds of changes", "publish = 'insert, update, delete, truncate'"
        elif has_partitions and not via_root:
            what, setting = "the changes of a table with partitions", "publish_via_partition_root = true"
        else:
            return
        raise InvalidInputError(
            f"the publication {publication} leaves out {what}, so the mirror would have other rows than its source: run"
            f" ALTER PUBLICATION {identifier(publication)} SET ({setting})"
        )

    def _require_published(self, tables: Sequence[SourceTable]) -> None:
        silent = [table for table in tables if not table.keys and not table.logs_whole_rows]
        if silent:
            statements = "; ".join(
                f"ALTER TABLE {identifier(table.schema, table.name)} REPLICA IDENTITY FULL" for table in silent
            )
            raise InvalidInputError(
                f"{', '.join(table.shown for table in silent)}: without a primary key, PostgreSQL refuses updates and"
                f" deletes of a published table until it logs whole rows. Run {statements}, then mirror"
                " them as logs of their changes; or name the other tables alone"
            )
        for table in tables:
            folded = [column.name.lower() for column in table.columns]
            twice = [column.name for column in table.columns if folded.count(column.name.lower()) > 1]
            if twice:
                raise InvalidInputError(
                    f"{table.shown} has the columns {', '.join(twice)}, which Delta cannot tell apart: rename one, or"
                    " make the publication yourself, with a list of columns"
                )

    def _type(self, number: int) -> SourceType:
        self._load([number])
        return self._types[number]

    def _load(self, numbers: Sequence[int]) -> None:
        missing = sorted({number for number in numbers if number not in self._types})
        if not missing:
            return
        rows = self._queries.rows(_TYPES, missing)
        self._load([number for row in rows for number in (row[3], row[5]) if number])
        for number, schema, name, base, modifier, element in rows:
            inner = self._types.get(base), modifier, self._types.get(element)
            self._types[number] = SourceType(schema, name, *inner)
        for number in missing:  # a type that was dropped since
            self._types.setdefault(number, SourceType("unknown", str(number)))


def _publish(queries: Queries, publication: str, tables: Sequence[SourceTable], *, exists: bool) -> None:
    listed = ", ".join(identifier(table.schema, table.name) for table in tables)
    name = identifier(publication)
    if exists:
        queries.run(f"alter publication {name} add table {listed}")
    else:
        queries.run(f"create publication {name} for table {listed} with (publish_via_partition_root = true)")


def _in_public(name: str, parts: int) -> str:
    """A name with its schema: ``public``, if it has none."""
    return name if name.count(".") >= parts - 1 else f"public.{name}"


def _only_element(text: str | None) -> str | None:
    """The value in an array of one, which is how the catalog has what rows without the column have."""
    return None if text is None else elements(text)[0]


def _some(known: Mapping[str, object]) -> str:
    shown = ", ".join(list(known)[:10])
    return f"{shown} and {len(known) - 10:,} more" if len(known) > 10 else shown or "no tables"
