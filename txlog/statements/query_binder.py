"""A query in Spark's SQL as one of duckdb's with the same values, types and names; or a refusal.

In: the parsed query, and the columns of its tables. Out: `BoundQuery`: duckdb's text, and the functions that it calls.

Every expression is bound by the reader of UPDATE's. duckdb computes it if `native` knows it, or else calls a function
with its columns, in which txlog's own kernels compute it. Each shape of query is read here part by part, and whatever
has no reader is refused. No name of the query is one in duckdb's text: relations are ``r0``, their columns ``c0``.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from sqlglot import exp

from txlog.core.format.schema import (
    BOOLEAN,
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMES,
    TIMESTAMP,
    VOID,
    Array,
    DataType,
    Field,
    Map,
    Struct,
    fold_name,
    repeated_in_other_case,
    type_name,
    types_in,
)
from txlog.core.format.time_zones import offset_of
from txlog.core.predicates import (
    Interval,
    IntervalType,
    SqlReader,
    as_condition,
    balanced,
    can_fail,
    compare,
    convert,
    evaluate,
    plain_equal,
)
from txlog.core.predicates.terms.predicate import And, Comparison, In, Predicate
from txlog.core.predicates.terms.tree import Call, Expression, Value, columns_of
from txlog.core.predicates.terms.types import common_type, is_floating, is_integer, is_ordered
from txlog.core.predicates.terms.values import fit
from txlog.core.predicates.terms.zones import read_in
from txlog.core.wording import setting
from txlog.errors import InvalidInputError
from txlog.statements.aggregates import (
    ORDERED_OTHERWISE,
    RANKS,
    WINDOW_VALUES,
    Aggregate,
    AggregateOperand,
    aggregate,
    is_aggregate,
)
from txlog.statements.duckdb_expressions import duckdb_type, identifier, native, text_literal
from txlog.statements.numeric_aggregates import average_of_intervals
from txlog.statements.query_pivot import pivoted
from txlog.statements.query_recursion import names_itself, recursive_query
from txlog.statements.query_scope import QueryColumn, QueryRows, QueryScope, Relation, column_key
from txlog.statements.query_select import SelectList
from txlog.statements.query_tree import (
    Unsupported,
    as_group,
    bound_of_frame,
    column_named,
    has_aggregate,
    has_scalar_query,
    ordinal_of,
    taken_apart,
    takes,
    terms_of,
    with_named_window,
    with_names,
    without_parentheses,
    wrong_query,
)
from txlog.statements.result_names import result_name

WAYS_OUT = (
    f"; txlog.spark.sql runs the query in Spark. Without Java, {setting('engine', 'sail')} runs it in Sail and"
    f" {setting('dialect', 'duckdb')} as duckdb's own SQL: both have other values than Spark in some expressions"
)
GENERATORS = (
    *("explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer", "stack"),
)
_JOINS = {
    **{("", ""): "JOIN", ("", "INNER"): "JOIN", ("", "CROSS"): "CROSS JOIN", ("LEFT", ""): "LEFT JOIN"},
    **{("RIGHT", ""): "RIGHT JOIN", ("FULL", ""): "FULL JOIN", ("LEFT", "OUTER"): "LEFT JOIN"},
    **{("RIGHT", "OUTER"): "RIGHT JOIN", ("FULL", "OUTER"): "FULL JOIN", ("LEFT", "SEMI"): "SEMI JOIN"},
    **{("LEFT", "ANTI"): "ANTI JOIN", ("", "SEMI"): "SEMI JOIN", ("", "ANTI"): "ANTI JOIN"},
}
_SETS = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}
_OF_ORDER = ("percentile_cont", "percentile_disc")
"""Aggregates with WITHIN GROUP."""
_OF_INTERVALS = ("min", "max", "sum", "avg")
"""Aggregates whose value of intervals is one."""
_OF_SETS = ("grouping", "grouping_id")
_DAY = 86_400_000_000
_MODIFIERS = ("order", "limit", "offset", "with_", "with")


class Function(msgspec.Struct, frozen=True):
    """What duckdb calls: the value of each row, from arrays of these types."""

    name: str
    run: Callable[..., pa.Array]
    arguments: tuple[DataType, ...]
    result: DataType


class BoundQuery(msgspec.Struct, frozen=True):
    """duckdb's text, in which the columns are ``c0``, ``c1``, ...; their names and types; and functions to register.

    ``conditions`` are those by which duckdb skips files, for each placeholder of a table.
    """

    text: str
    columns: tuple[Field, ...]
    functions: tuple[Function, ...]
    conditions: Mapping[str, Sequence[str]]


_Common = Mapping[str, tuple[str, "QueryRows"]]


def bind_query(
    tree: Any, tables: Mapping[str, Struct], zone: str, now: datetime.datetime, prefix: str, shown: str
) -> BoundQuery:
    """The query for duckdb.

    Args:
        tree: The query, parsed by `grammar.QueryDialect`, with a placeholder for each table.
        tables: The columns of each placeholder.
        zone: The time zone of times without one.
        now: The value of ``current_timestamp()``.
        prefix: What the names of functions begin with.
        shown: What an error calls the query.

    Raises:
        InvalidInputError: It has a part that is wrong, or has no equal in duckdb and in txlog's expressions.
    """
    binder = Binder(tables, zone, now, prefix, shown)
    try:
        with read_in(zone):
            rows = binder.query(tree.transform(_any_as_call), None, {})
    except Unsupported as error:
        raise InvalidInputError(f"{error} (in {shown}){WAYS_OUT}") from None
    word = "WITH RECURSIVE" if binder.is_recursive else "WITH"
    common = f"{word} {', '.join(binder.common)} " if binder.common else ""
    columns = tuple(Field(name, data_type) for name, data_type in rows.columns)
    return BoundQuery(common + rows.text, columns, tuple(binder.functions), binder.conditions)


def check_functions(tree: Any) -> None:
    """Raises ValueError if a query calls a function that nothing here knows, whatever its arguments are."""
    for node in tree.find_all(exp.Anonymous):
        name = str(node.this).lower()
        if not (is_aggregate(name) or name in (*RANKS, *WINDOW_VALUES, *GENERATORS, *_OF_SETS, *_OF_ORDER, "range")):
            SqlReader.check_call(name)


def _any_as_call(node: Any) -> Any:
    """``any(condition)``, which sqlglot takes for a part of ``x = ANY (...)``, as the call of an aggregate."""
    is_part = isinstance(node, exp.Any) and isinstance(node.parent, exp.Like | exp.ILike)  # LIKE ANY ('a%')
    is_call = isinstance(node, exp.Any) and not is_part and not isinstance(node.this, (exp.Select, exp.Subquery))
    return exp.Anonymous(this="any", expressions=[without_parentheses(node.this)]) if is_call else node


class _Reader(SqlReader):
    def __init__(self, shown: str, scope: QueryScope) -> None:
        super().__init__(shown, scope)  # type: ignore[arg-type]  # which has all that is asked of a scope
        self._shown = shown

    def _place(self, node: exp.Expression) -> str:
        return f" (in {self._shown})"


class Binder:
    def __init__(
        self, tables: Mapping[str, Struct], zone: str, now: datetime.datetime, prefix: str, shown: str
    ) -> None:
        self.tables, self.zone, self.now, self.prefix, self.shown = tables, zone, now, prefix, shown
        self.functions: list[Function] = []
        self.common: list[str] = []
        self.is_recursive = False
        """Whether one of these reads itself."""
        self.conditions: defaultdict[str, list[str]] = defaultdict(list)
        self._tables_of: dict[str, str] = {}
        """The table's placeholder of each alias."""
        self._optional: set[str] = set()
        """The aliases of which a join may have no row, so that WHERE is not about the rows of the table."""
        self._calls: dict[str, str] = {}
        self._aliases = 0

    def alias(self) -> str:
        self._aliases += 1
        return f"r{self._aliases - 1}"

    def scope(self, outer: QueryScope | None) -> QueryScope:
        return QueryScope(zone=self.zone, now=self.now, outer=outer)

    # --- queries ------------------------------------------------------------------------------------------------

    def query(self, node: Any, outer: QueryScope | None, common: _Common) -> QueryRows:
        """Any query. ``common`` are those that WITH names."""
        match node:
            case exp.Select():
                return self.select(node, outer, self.with_queries(node, common))
            case exp.Union() | exp.Intersect() | exp.Except():
                return self.set_operation(node, outer, self.with_queries(node, common))
            case exp.Subquery():
                takes(node, "this", "alias", *_MODIFIERS)
                common = self.with_queries(node, common)
                rows = self.query(node.this, outer, common)
                return self.ordered(node, rows, outer) if any(node.args.get(each) for each in _MODIFIERS[:3]) else rows
            case exp.Values():
                return self.values(node, outer)
        raise Unsupported(f"{type(node).__name__.upper()} is not supported as a query")

    def with_queries(self, node: exp.Expression, common: _Common) -> _Common:
        found = node.args.get("with_") or node.args.get("with")
        if found is None:
            return common
        takes(found, "expressions", "recursive")
        known = dict(common)
        for each in found.expressions:
            takes(each, "this", "alias")
            names = [str(name.this) for name in each.args["alias"].args.get("columns") or ()]
            own = self.alias()
            if found.args.get("recursive") and names_itself(each):
                self.is_recursive = True
                text, rows = recursive_query(self, each, names, known, own)
            else:
                rows = with_names(self.query(each.this, None, known), names, each.alias)
                text = rows.text
            self.common.append(f"{own} AS ({text})")
            known[fold_name(each.alias)] = (own, rows)
        return known

    def values(self, node: exp.Values, outer: QueryScope | None) -> QueryRows:
        """Rows of literals. The types of a column have one in common."""
        takes(node, "expressions", "alias")
        rows = [
            each.expressions if isinstance(each, exp.Tuple) else [without_parentheses(each)]
            for each in node.expressions
        ]
        if len({len(row) for row in rows}) != 1:
            raise wrong_query("the rows of VALUES have different numbers of values")
        scope = self.scope(outer)
        columns = [[self.bound(value, scope) for value in values] for values in zip(*rows, strict=True)]
        types = [self.common_type([value.type for value in column], "VALUES") for column in columns]
        texts = [
            [self.text(convert(value, kind), scope) for value in column]
            for column, kind in zip(columns, types, strict=True)
        ]
        names = ", ".join(f"c{at}" for at in range(len(types)))
        rows_text = ", ".join(f"({', '.join(row)})" for row in zip(*texts, strict=True))
        text = f"SELECT {names} FROM (VALUES {rows_text}) AS {self.alias()}({names})"
        return QueryRows(text, tuple((f"col{at}", kind) for at, kind in enumerate(types, 1)))

    def set_operation(self, node: Any, outer: QueryScope | None, common: _Common) -> QueryRows:
        takes(node, "this", "expression", "distinct", *_MODIFIERS)
        sides = [self.query(side, outer, common) for side in (node.this, node.expression)]
        counts = [len(side.columns) for side in sides]
        if counts[0] != counts[1]:
            raise wrong_query(f"the queries of a UNION have {counts[0]} and {counts[1]} columns")
        word = _SETS[type(node)]
        if isinstance(node.this, exp.Select) and any(node.this.args.get(each) for each in _MODIFIERS[:3]):
            raise wrong_query(f"ORDER BY, LIMIT and OFFSET before {word} need parentheses around their query")
        pairs = zip(sides[0].columns, sides[1].columns, strict=True)
        types = [self.common_type([left, right], f"column {name} of a {word}") for (name, left), (_, right) in pairs]
        is_distinct = bool(node.args.get("distinct"))
        for kind in types if is_distinct or not isinstance(node, exp.Union) else ():
            as_group("", kind)  # refuses what cannot be compared
            if any(isinstance(each, Map) for each in types_in(kind)):
                raise wrong_query(f"{word} compares no maps: write map_entries()")
        texts = [self.converted(side, types, is_distinct=is_distinct) for side in sides]
        columns = tuple((name, kind) for (name, _), kind in zip(sides[0].columns, types, strict=True))
        whole = f"({texts[0]}) {word}{'' if is_distinct else ' ALL'} ({texts[1]})"
        names = ", ".join(f"c{at}" for at in range(len(types)))
        rows = QueryRows(f"SELECT {names} FROM ({whole}) AS {self.alias()}", columns)
        return self.ordered(node, rows, outer) if any(node.args.get(each) for each in _MODIFIERS[:3]) else rows

    def converted(self, rows: QueryRows, types: Sequence[DataType], *, is_distinct: bool) -> str:
        if [kind for _, kind in rows.columns] == list(types) and not (is_distinct and any(map(is_floating, types))):
            return rows.text
        alias, scope = self.alias(), self.scope(None)
        scope.relations = [rows.relation(alias, "")]
        texts = []
        for at, (column, kind) in enumerate(zip(scope.relations[0].columns, types, strict=True)):
            text = column.text
            if not isinstance(kind, IntervalType):  # all of which have microseconds
                name = scope.hold(column.name, column.type, column.text)
                held = exp.column(exp.to_identifier(name, quoted=True))
                text = self.text(convert(self.bound(held, scope), kind), scope)
            texts.append(f"{as_group(text, kind) if is_distinct else text} AS c{at}")
        return f"SELECT {', '.join(texts)} FROM ({rows.text}) AS {alias}"

    def ordered(self, node: exp.Expression, rows: QueryRows, outer: QueryScope | None) -> QueryRows:
        """The rows with the ORDER BY, LIMIT and OFFSET of a node around them."""
        alias, scope = self.alias(), self.scope(outer)
        scope.relations = [rows.relation(alias, "")]
        columns = scope.relations[0].columns
        order = self.order(node.args.get("order"), scope, columns)
        names = ", ".join(column.text for column in columns)
        return QueryRows(f"SELECT {names} FROM ({rows.text}) AS {alias}{order}{self.limit(node)}", rows.columns)

    def common_type(self, types: Sequence[DataType], what: str) -> DataType:
        kind: DataType | None = types[0]
        for each in types[1:]:
            if isinstance(kind, IntervalType) and isinstance(each, IntervalType):
                kind = kind.around(each)
            else:
                kind = common_type(kind, each) if kind is not None else None
        if kind is None or (isinstance(kind, IntervalType) and VOID in types):
            shown = " and ".join(sorted({type_name(each) for each in types}))
            raise Unsupported(f"{what} has values of types {shown}, which have none in common: CAST one of them")
        return kind

    # --- FROM ---------------------------------------------------------------------------------------------------

    def relation(self, node: Any, outer: QueryScope | None, common: _Common) -> tuple[str, Relation]:
        """duckdb's text of one item of FROM, and its columns."""
        if node.args.get("sample") is not None:
            raise Unsupported(
                "TABLESAMPLE takes other rows each time: write LIMIT 5, or WHERE pmod(hash(id), 100) < 5 for 5 percent"
            )
        if node.args.get("pivots"):
            return self.pivoted(node, outer, common)
        named = node.args.get("alias")
        name = str(named.this.this) if named is not None and named.this is not None else ""
        names = [str(each.this) for each in (named.args.get("columns") or ())] if named is not None else []
        alias = self.alias()
        match node:
            case exp.Table() if isinstance(node.this, exp.Identifier):
                takes(node, "this", "alias", "joins")
                table = str(node.this.this)
                if table in self.tables:
                    self._tables_of[alias] = table
                    schema = self.tables[table]
                    numbers = [f"c{at}" for at in range(len(schema.fields))] if repeated_in_other_case(schema) else []
                    columns = [
                        QueryColumn(
                            names[at] if at < len(names) else field.name,
                            field.type,
                            f"{alias}.{numbers[at] if numbers else identifier(field.name)}",
                            dict(field.metadata),
                            is_by_letter=True,
                        )
                        for at, field in enumerate(schema.fields)
                    ]
                    as_named = f"{alias}({', '.join(numbers)})" if numbers else alias
                    return f"{table} AS {as_named}", Relation(name, tuple(columns))
                if fold_name(table) in common:
                    text, rows = common[fold_name(table)]
                    return f"{text} AS {alias}", rows.relation(alias, name or table, names)
                raise Unsupported(f"{node.sql(dialect='spark')} is not supported in FROM")
            case exp.Table() if isinstance(node.this, exp.Anonymous) and str(node.this.this).lower() == "range":
                takes(node, "this", "alias")
                rows = self.numbers(node.this)
            case exp.Table() if isinstance(node.this, exp.Anonymous) and str(node.this.this).lower() in GENERATORS:
                takes(node, "this", "alias", "joins")
                rows = self.rows_of(node.this, None)
            case exp.Subquery():
                takes(node, "this", "alias", *_MODIFIERS)
                rows = self.query(node, outer, common)
            case exp.Values():
                rows = self.values(node, None)
            case exp.Lateral() if not node.args.get("view"):
                takes(node, "this", "alias", "view", "outer")
                is_function = isinstance(node.this, exp.Anonymous)
                rows = self.rows_of(node.this, outer) if is_function else self.query(node.this, outer, common)
                return f"LATERAL ({rows.text}) AS {alias}", rows.relation(alias, name, names)
            case _:
                raise Unsupported(f"{node.sql(dialect='spark')} is not supported in FROM")
        return f"({rows.text}) AS {alias}", rows.relation(alias, name, names)

    def pivoted(self, node: Any, outer: QueryScope | None, common: _Common) -> tuple[str, Relation]:
        """An item of FROM with PIVOT or UNPIVOT behind it. In Spark, one behind a join is about the join."""
        if isinstance(node.parent, exp.Join) or node.args.get("joins"):
            raise Unsupported("PIVOT after a JOIN is not supported: put the JOIN into a query in parentheses")
        bare = node.copy()
        bare.set("pivots", None)
        text, relation = self.relation(bare, outer, common)
        name, names = relation.alias, []
        for pivot in node.args["pivots"]:
            columns = ", ".join(f"{column.text} AS c{at}" for at, column in enumerate(relation.columns))
            rows = QueryRows(
                f"SELECT {columns} FROM {text}", tuple((each.name, each.type) for each in relation.columns)
            )
            rows = pivoted(self, pivot, rows, name, outer, common)
            named, alias = pivot.args.get("alias"), self.alias()
            name = "" if named is None or named.this is None else str(named.this.this)
            names = [] if named is None else [str(each.this) for each in named.args.get("columns") or ()]
            text, relation = f"({rows.text}) AS {alias}", rows.relation(alias, name, names)
        return text, relation

    def numbers(self, node: exp.Expression) -> QueryRows:
        """``range(end)``, ``range(start, end, step)``."""
        scope = self.scope(None)
        bounds = [self.bound(each, scope) for each in node.expressions]
        whole = [each.value for each in bounds if isinstance(each, Value) and type(each.value) is int]
        if len(whole) != len(bounds) or not 1 <= len(bounds) <= 3:
            raise Unsupported("range() takes one to three literal whole numbers in a query")
        return QueryRows(f"SELECT range AS c0 FROM range({', '.join(map(str, whole))})", (("id", LONG),))

    def from_items(self, node: exp.Select, outer: QueryScope | None, common: _Common) -> tuple[str, QueryScope]:
        scope = self.scope(outer)
        first = node.args.get("from_") or node.args.get("from")
        if first is None:
            if node.args.get("laterals") or node.args.get("joins"):
                raise Unsupported("a query without FROM has no joins")
            return " FROM (SELECT 1)", scope  # one row, which a function that makes rows joins
        takes(first, "this")
        text, relation = self.relation(first.this, outer, common)
        scope.relations.append(relation)
        for join in [*(first.this.args.get("joins") or ()), *(node.args.get("joins") or ())]:
            text += self.join(join, scope, common)
        for lateral in node.args.get("laterals") or ():
            text += self.lateral_view(lateral, scope)
        return f" FROM {text}", scope

    def join(self, node: exp.Join, scope: QueryScope, common: _Common) -> str:
        """The text of a join, whose columns are in the scope then."""
        takes(node, "this", "side", "kind", "method", "on", "using")
        side, kind, method = (str(node.args.get(each) or "").upper() for each in ("side", "kind", "method"))
        word = _JOINS.get((side, kind))
        if word is None or method not in ("", "NATURAL"):
            raise Unsupported(f"{' '.join(filter(None, (method, side, kind)))} JOIN is not supported")
        is_lateral = isinstance(node.this, exp.Lateral)
        if is_lateral and side and isinstance(node.this.this, exp.Anonymous):  # Spark leaves out rows without any
            raise Unsupported(f"{side} JOIN LATERAL of a function is not supported: write LATERAL VIEW OUTER")
        text, relation = self.relation(node.this, scope if is_lateral else scope.outer, common)
        self._note_optional(side, scope.relations, relation)
        left = list(scope.visible())
        names = [str(name.this) for name in node.args.get("using") or ()]
        if method:
            names = [
                each.name for each in left if any(fold_name(each.name) == fold_name(c.name) for c in relation.columns)
            ]
        is_half = word in ("SEMI JOIN", "ANTI JOIN")
        conditions = [self.pair(name, left, relation, scope) for name in names]
        inner = QueryScope([*scope.relations, relation], zone=self.zone, now=self.now, outer=scope.outer)
        inner.common = common
        if node.args.get("on") is not None:
            inner.merged = list(scope.merged)
            conditions.append(self.condition(node.args["on"], inner))
            if inner.is_named_inside and has_scalar_query(node.args["on"]):
                raise wrong_query("ON has a query as a value that names columns of the join: write it in WHERE")
        if not is_half:
            scope.relations.append(relation)
            scope.merged = [self.merged(name, left, relation, word) for name in names] + [
                each for each in scope.merged if fold_name(each.name) not in set(map(fold_name, names))
            ]
        if word == "JOIN" and not conditions:
            word = "CROSS JOIN"
        if word == "CROSS JOIN" and conditions:
            word = "JOIN"
        on = "" if word == "CROSS JOIN" else f" ON {' AND '.join(conditions or ['true'])}"
        return f" {word} {text}{on}"

    def _note_optional(self, side: str, left: Sequence[Relation], right: Relation) -> None:
        without_row = [*(left if side in ("RIGHT", "FULL") else ()), *([right] if side in ("LEFT", "FULL") else ())]
        self._optional |= {_alias_of(column) for each in without_row for column in each.columns[:1]}

    def pair(self, name: str, left: Sequence[QueryColumn], relation: Relation, scope: QueryScope) -> str:
        """The condition that a column of USING is equal on both sides."""
        sides = [column_named(name, left), column_named(name, relation.columns)]
        held = self.scope(None)
        ends = [held.find((held.hold(each.name, each.type, each.text),)) for each in sides]
        return self.text(self.checked(lambda: compare("=", *ends)), held)

    def merged(self, name: str, left: Sequence[QueryColumn], relation: Relation, word: str) -> QueryColumn:
        one, other = column_named(name, left), column_named(name, relation.columns)
        if word == "FULL JOIN":
            kind = self.common_type([one.type, other.type], f"column {name} of USING")
            return QueryColumn(one.name, kind, f"CAST(coalesce({one.text}, {other.text}) AS {duckdb_type(kind)})")
        return other if word == "RIGHT JOIN" else one

    def lateral_view(self, node: exp.Lateral, scope: QueryScope) -> str:
        takes(node, "this", "view", "outer", "alias")
        alias = node.args.get("alias")
        if alias is None or (alias.this is None and not alias.args.get("columns")):
            raise wrong_query("LATERAL VIEW needs a name for its rows: LATERAL VIEW explode(a) v AS x")
        names = [str(name.this) for name in (alias.args.get("columns") or ())]
        table = str(alias.this.this) if alias.this is not None else ""
        text, relation = self.generated(node.this, scope, names, table, is_outer=bool(node.args.get("outer")))
        scope.relations.append(relation)
        return text

    def generated(
        self, node: Any, scope: QueryScope, names: Sequence[str], table: str, *, is_outer: bool
    ) -> tuple[str, Relation]:
        """The rows that a function makes of each row, as a join."""
        name = str(node.this).lower() if isinstance(node, exp.Anonymous) else type(node).__name__
        if name not in GENERATORS or (len(node.expressions) != 1 and name not in ("stack", "json_tuple")):
            raise Unsupported(f"{name}() is not supported where rows are made: there are {', '.join(GENERATORS)}")
        if name == "stack":
            return self.stacked(node, scope, names, table)
        if name == "json_tuple":
            return self.members(node, scope, names, table)
        found = self.value(node.expressions[0], scope)
        given = self.alias()
        if name.startswith("inline") and not (isinstance(found.type, Array) and isinstance(found.type.element, Struct)):
            raise wrong_query(f"{name}() takes an array of structs, not {type_name(found.type)}")
        match found.type:
            case Array(Struct(fields)) if name.startswith("inline"):
                columns, count = [(field.name, field.type) for field in fields], f"len({given}.v)"
                lists = [f"[struct_extract(x, {text_literal(each.name)}) FOR x IN {given}.v]" for each in fields]
            case Array(element):
                columns, lists = [("col", element)], [f"{given}.v"]
                count = f"len({given}.v)"
            case Map(key, value):
                columns = [("key", key), ("value", value)]
                lists = [f"map_keys({given}.v)", f"map_values({given}.v)"]
                count = f"cardinality({given}.v)"
            case _:
                raise wrong_query(f"{name}() takes an array or a map, not {type_name(found.type)}")
        if name.startswith("pos"):
            columns = [("pos", INTEGER), *columns]
            lists = [f"CAST(range(0, CAST({count} AS BIGINT)) AS INTEGER[])", *lists]
        if is_outer or name.endswith("_outer"):
            lists = [f"CASE WHEN {count} > 0 THEN {each} ELSE [NULL] END" for each in lists]
        return self.unnested(f"{found.text} AS v", given, lists, columns, names, table)

    def stacked(self, node: Any, scope: QueryScope, names: Sequence[str], table: str) -> tuple[str, Relation]:
        """``stack(rows, value, ...)``: the values, row by row; the last row may lack some."""
        number, *values = [self.bound(each, scope) for each in node.expressions]
        count = number.value if isinstance(number, Value) else None
        if type(count) is not int or count < 1 or not values:
            raise wrong_query("stack() takes a literal number of rows, and values")
        width = -(-len(values) // count)
        given, columns, texts = self.alias(), [], []
        for at in range(width):
            column = values[at::width]
            kinds = {each.type for each in column if each.type != VOID}
            if len(kinds) != 1:
                raise wrong_query(f"stack() has values of several types in column {at + 1}: CAST them to one")
            (kind,) = kinds
            column += [Value(None, kind)] * (count - len(column))
            texts.append(f"[{', '.join(self.text(convert(each, kind), scope) for each in column)}] AS v{at}")
            columns.append((f"col{at}", kind))
        lists = [f"{given}.v{at}" for at in range(width)]
        return self.unnested(", ".join(texts), given, lists, columns, names, table)

    def members(self, node: Any, scope: QueryScope, names: Sequence[str], table: str) -> tuple[str, Relation]:
        """``json_tuple(text, 'a', 'b')``: the members of these names, as one row."""
        text, *keys = [self.bound(each, scope) for each in node.expressions]
        names_of_members = [each.value if isinstance(each, Value) else None for each in keys]
        if not keys or text.type not in (STRING, VOID) or any(type(each) is not str for each in names_of_members):
            raise wrong_query("json_tuple() takes a string, and literal names")
        values = [Call("json_member", (convert(text, STRING),), STRING, (each,)) for each in names_of_members]
        given, parts = self.alias(), enumerate(self.text(each, scope) for each in values)
        columns = [(f"c{at}", STRING) for at in range(len(keys))]
        texts = ", ".join(f"[{each}] AS v{at}" for at, each in parts)
        return self.unnested(texts, given, [f"{given}.v{at}" for at in range(len(keys))], columns, names, table)

    def unnested(
        self,
        values: str,
        given: str,
        lists: Sequence[str],
        columns: Sequence[tuple[str, DataType]],
        names: Sequence[str],
        table: str,
    ) -> tuple[str, Relation]:
        """The elements of lists as columns of rows. ``values`` has what ``given`` is in the lists: of a column of its
        own, duckdb makes rows in its order; of another value, by a join without any."""
        if names and len(names) != len(columns):
            raise wrong_query(f"a function makes {len(columns)} columns, and {len(names)} names are given")
        alias = self.alias()
        parts = ", ".join(f"unnest({each}) AS c{at}" for at, each in enumerate(lists))
        rows = QueryRows(f"SELECT {parts}", tuple(columns))
        text = f" CROSS JOIN LATERAL (SELECT {values}) AS {given} CROSS JOIN LATERAL ({rows.text}) AS {alias}"
        return text, rows.relation(alias, table, names)

    def rows_of(self, node: Any, outer: QueryScope | None) -> QueryRows:
        """What a function in FROM makes, as a query."""
        text, relation = self.generated(node, outer or self.scope(None), (), "", is_outer=False)
        listed = ", ".join(f"{each.text} AS c{at}" for at, each in enumerate(relation.columns))
        columns = tuple((each.name, each.type) for each in relation.columns)
        return QueryRows(f"SELECT {listed} FROM (SELECT 1) AS {self.alias()}{text}", columns)

    # --- SELECT -------------------------------------------------------------------------------------------------

    def select(self, node: exp.Select, outer: QueryScope | None, common: _Common) -> QueryRows:
        takes(
            node,
            *("expressions", "from_", "from", "joins", "laterals", "where", "group", "having", "distinct", "windows"),
            *("hint", "qualify", *_MODIFIERS),
        )
        text, scope = self.from_items(node, outer, common)
        scope.common = common
        scope.windows = {fold_name(str(each.this.this)): each for each in node.args.get("windows") or ()}
        made, items = self.with_generator(node.expressions, scope)
        if made and node.args.get("group") is not None:
            raise wrong_query("GROUP BY is computed before a function in SELECT makes rows: use LATERAL VIEW")
        where = node.args.get("where")
        if where is not None and has_aggregate(where.this):
            raise wrong_query("WHERE is applied before aggregates are computed: write HAVING")
        if where is not None and where.find(exp.Window) is not None:
            raise wrong_query("WHERE is applied before window functions are computed: write QUALIFY")
        filtered = "" if where is None else f" WHERE {self.condition(where.this, scope, skips=True)}"
        return SelectList(self, node).finished(text + made + filtered, scope, items)

    def with_generator(self, nodes: Sequence[Any], scope: QueryScope) -> tuple[str, list[Any]]:
        """The join for a function in the list of SELECT that makes rows, and the list with its columns."""
        found: list[Any] = []
        text = ""
        for node in nodes:
            inner = node.this if isinstance(node, (exp.Alias, exp.Aliases)) else node
            if not (isinstance(inner, exp.Anonymous) and str(inner.this).lower() in GENERATORS):
                found.append(node)
                continue
            if text:
                raise wrong_query("a query has one function that makes rows: use LATERAL VIEW for more")
            names = [node.alias] if isinstance(node, exp.Alias) else []
            names = [str(each.this) for each in node.expressions] if isinstance(node, exp.Aliases) else names
            text, relation = self.generated(inner, scope, names, "", is_outer=False)
            found += relation.columns
        return text, found

    def order(self, node: Any, scope: QueryScope, columns: Sequence[QueryColumn]) -> str:
        """ORDER BY, which may name the query's own columns by their numbers."""
        if node is None:
            return ""
        takes(node, "expressions")
        given = list(node.expressions)
        if len(given) == 1 and isinstance(given[0].this, exp.Var) and str(given[0].this.this).upper() == "ALL":
            parts = {name: given[0].args.get(name) for name in ("desc", "nulls_first")}
            given = [exp.Ordered(this=exp.Literal.number(at), **parts) for at in range(1, len(columns) + 1)]
        return f" ORDER BY {', '.join(self.sort_key(each, scope, columns) for each in given)}"

    def sort_key(self, node: Any, scope: QueryScope, columns: Sequence[QueryColumn] = ()) -> str:
        takes(node, "this", "desc", "nulls_first")
        number = ordinal_of(node.this)
        if number is not None and columns:
            if not 1 <= number <= len(columns):
                raise wrong_query(f"ORDER BY {number}: the query has {len(columns)} columns")
            found = columns[number - 1]
        else:
            found = self.column(node.this, scope)
        is_known = is_ordered(found.type) or found.type == VOID or isinstance(found.type, IntervalType)
        if not is_known:
            raise Unsupported(f"ORDER BY a value of type {type_name(found.type)} is not supported")
        texts = [column.text for column in columns]
        shown = str(texts.index(found.text) + 1) if found.text in texts else found.text
        if not columns and shown.isdigit():
            shown = f"({shown})"
        first = node.args.get("nulls_first")
        return f"{shown}{' DESC' if node.args.get('desc') else ''} NULLS {'FIRST' if first else 'LAST'}"

    def limit(self, node: exp.Expression) -> str:
        text = ""
        for name in ("limit", "offset"):
            part = node.args.get(name)
            if part is None:
                continue
            takes(part, "expression")
            value = self.bound(part.expression, self.scope(None))
            if not isinstance(value, Value) or type(value.value) is not int or value.value < 0:
                raise wrong_query(f"{name.upper()} takes a whole number, not {part.expression.sql()}")
            text += f" {name.upper()} {value.value}"
        return text

    # --- expressions --------------------------------------------------------------------------------------------

    def value(self, node: Any, scope: QueryScope) -> QueryColumn:
        """A value: duckdb's text and the type."""
        if isinstance(node, QueryColumn):
            return node
        bound = self.bound(node, scope)
        return QueryColumn("", bound.type, self.text(bound, scope))

    def column(self, node: Any, scope: QueryScope) -> QueryColumn:
        """The same, or an interval of days and times."""
        if isinstance(node, QueryColumn):
            return node
        bound = self.interval_or_value(node, scope)
        return QueryColumn("", bound.type, self.text(_whole(bound), scope))

    def bound(self, node: Any, scope: QueryScope) -> Expression:
        """The bound expression, in which the values of several rows and of other queries are columns."""
        held = self.with_held(node, scope)
        return self.checked(lambda: _Reader(self.shown, scope).value(held), scope)

    def interval_or_value(self, node: Any, scope: QueryScope) -> Expression:
        """The same as `bound`, or an interval of days and times."""
        reader, held = _Reader(self.shown, scope), self.with_held(node, scope)

        def read() -> Expression:
            found = reader.operand(held)
            return reader.value(held) if isinstance(found, Interval) and found.is_of_months else found

        return self.checked(read, scope)

    def with_held(self, node: Any, scope: QueryScope) -> Any:
        return node.transform(lambda each: self.held(each, scope) or each)

    def checked(self, read: Callable[[], Expression], scope: QueryScope | None = None) -> Expression:
        """What ``read`` returns. What it refuses, other ways may take, unless a name is not there."""
        try:
            return read()
        except ValueError as error:
            if isinstance(error, SqlReader.Mistake) or (scope is not None and scope.lacks_a_name):
                raise
            told = error.template if isinstance(error, InvalidInputError) else str(error)
            raise InvalidInputError(f"{told}{WAYS_OUT}") from None

    def text(self, bound: Expression, scope: QueryScope) -> str:
        """duckdb's text: its own, or a call of a function."""
        found = native(bound, scope.texts, lambda part: self.function(part, scope))
        return self.function(bound, scope) if found is None else found

    def function(self, bound: Expression, scope: QueryScope) -> str:
        """A call of a function that computes the expression."""
        keys = sorted({path[0] for _, path in columns_of(bound)})
        types = [scope.types[key] for key in keys]

        def run(*arrays: pa.Array) -> pa.Array:
            return evaluate(bound, pa.RecordBatch.from_arrays(list(arrays), names=keys or ["row"]))

        return self.call(run, [scope.texts[key] for key in keys], types, bound.type, repr((bound, types)))

    def call(
        self,
        run: Callable[..., pa.Array],
        texts: Sequence[str],
        types: Sequence[DataType],
        result: DataType,
        what: str = "",
    ) -> str:
        """A call of a function, which is the same for the same ``what``. One without columns gets a constant."""
        name = self._calls.get(what)
        if name is None:
            name = f"{self.prefix}{len(self.functions)}"
            self.functions.append(Function(name, run, tuple(types) or (BOOLEAN,), result))
            if what:
                self._calls[what] = name
        return f"{name}({', '.join(texts) or 'true'})"

    def condition(self, node: Any, scope: QueryScope, *, skips: bool = False) -> str:
        """A condition. Each term of AND that duckdb knows, and that cannot fail, is one there, so that files are
        skipped, if it is one of WHERE; a term that may fail is computed only for rows that the terms before it
        leave."""
        terms = [self.term(each, scope) for each in terms_of(node)]
        if len(terms) == 1 and terms[0].type == VOID:
            raise wrong_query("a condition is a boolean, and NULL has no type: write CAST(NULL AS BOOLEAN)")
        conditions = [self.as_condition(term) for term in terms]
        fails = [can_fail(term) for term in conditions]
        texts, others = [], []
        for term, may_fail in zip(conditions, fails, strict=True):
            text = None if may_fail else native(term, scope.texts)
            if text is None:
                others.append(term)
            else:
                texts.append(text)
                if skips:
                    self._note_condition(term, scope)
        if others:
            whole = conditions if any(fails) else others
            texts.append(self.text(balanced(whole, And), scope))
        return " AND ".join(texts)

    def _note_condition(self, term: Expression, scope: QueryScope) -> None:
        """Keep a comparison of one table's columns with literals, as SQL."""
        keys = {path[0] for _, path in columns_of(term)}
        aliases = {scope.texts[key].partition(".")[0] for key in keys}
        are_columns = all(scope.texts[key].endswith(f".{identifier(key)}") for key in keys)
        if len(aliases) == 1 and are_columns and isinstance(term, Comparison | In):  # of which Arrow gets a filter
            (alias,) = aliases - self._optional or {""}
            if alias in self._tables_of:
                self.conditions[self._tables_of[alias]].append(str(term))

    def as_condition(self, term: Expression) -> Predicate:
        try:
            return as_condition(term)
        except ValueError as error:
            raise wrong_query(str(error)) from None

    def held(self, node: Any, scope: QueryScope) -> exp.Expression | None:
        """A column that stands for a node that is no expression of one row; None for any other node."""
        found = self.computed(node, scope)
        if found is None:
            return None
        return exp.column(exp.to_identifier(scope.hold(found.name, found.type, found.text), quoted=True))

    def computed(self, node: Any, scope: QueryScope) -> QueryColumn | None:
        if scope.groups is not None and not _names_an_alias(node, scope):
            group = scope.groups.get(self.canonical(node, scope))
            if group is not None:
                return group
        match node:
            case exp.Window():
                return self.window(node, scope)
            case exp.Filter() | exp.WithinGroup() | exp.IgnoreNulls() | exp.RespectNulls():
                return self.aggregate(node, scope)
            case exp.Anonymous() if is_aggregate(str(node.this).lower()):
                return self.aggregate(node, scope)
            case exp.Subquery() | exp.Select():
                return self.scalar_query(node, scope)
            case exp.Exists():
                takes(node, "this")
                rows = self.query(node.this, scope, scope.common)
                return QueryColumn("exists()", BOOLEAN, f"(EXISTS ({rows.text}))")
            case exp.Not() if isinstance(inner := without_parentheses(node.this), exp.In) and inner.args.get("query"):
                return self.membership(inner, scope, negated=True)
            case exp.In() if node.args.get("query") is not None:
                return self.membership(node, scope)
        return None

    def canonical(self, node: Any, scope: QueryScope) -> str:
        """The same text for all ways to write an expression: with other names of its columns, in other cases."""
        if isinstance(node, (exp.Literal, exp.Identifier, exp.Null, exp.Boolean)):
            return ""

        def change(each: Any) -> Any:
            if isinstance(each, exp.Paren):
                return without_parentheses(each).transform(change)
            if each.meta.get("is_not") and isinstance(each.this.expression, exp.Null):
                return exp.Anonymous(this="isnotnull", expressions=[each.this.this.transform(change)])
            if isinstance(each, exp.Column) and not isinstance(each.this, exp.Star):
                path = tuple(str(part.this) for part in each.parts)
                try:
                    column, rest = scope.base.column(path)
                except InvalidInputError:
                    scope.base.lacks_a_name = False
                    return each
                return exp.Var(this=column_key(".".join((column.text, *map(fold_name, rest)))))
            if isinstance(each, exp.Anonymous) and str(each.this) != str(each.this).lower():
                each.set("this", str(each.this).lower())
            return plain_equal(each)

        return str(node.transform(change).sql(dialect="spark"))

    def scalar_query(self, node: Any, scope: QueryScope) -> QueryColumn:
        rows = self.query(node, scope, scope.common)
        if len(rows.columns) != 1:
            raise wrong_query(f"a query in place of a value has one column, not {len(rows.columns)}")
        return QueryColumn("scalarsubquery()", rows.columns[0][1], f"({rows.text})")

    def term(self, node: Any, scope: QueryScope) -> Expression:
        """A term of a condition, for which NULL is as good as false: duckdb then joins the query of IN."""
        inner = without_parentheses(node)
        negated = isinstance(inner, exp.Not)
        operand = without_parentheses(inner.this) if negated else inner
        if isinstance(operand, exp.In) and operand.args.get("query") is not None:
            found = self.membership(operand, scope, negated=negated, is_condition=True)
            node = exp.column(exp.to_identifier(scope.hold(found.name, found.type, found.text), quoted=True))
        return self.bound(node, scope)

    def membership(
        self, node: exp.In, scope: QueryScope, *, negated: bool = False, is_condition: bool = False
    ) -> QueryColumn:
        """``a IN (SELECT ...)``: where SQL has NULL, Spark's value is false, also that of NOT IN."""
        takes(node, "this", "query")
        operands = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        given = [self.bound(each, scope) for each in operands]
        rows = self.query(node.args["query"], scope, scope.common)
        if len(rows.columns) != len(given):
            raise wrong_query(f"IN compares {len(given)} values with {len(rows.columns)} columns of a query")
        types = [
            self.common_type([value.type, kind], "IN") for value, (_, kind) in zip(given, rows.columns, strict=True)
        ]
        texts = [self.text(convert(value, kind), scope) for value, kind in zip(given, types, strict=True)]
        found = self.converted(rows, types, is_distinct=False)
        if len(texts) == 1:
            whole = f"{'NOT ' * negated}({texts[0]} IN ({found}))"
            return QueryColumn("in()", BOOLEAN, f"({whole})" if is_condition else f"coalesce({whole}, false)")
        # duckdb's own IN has NULL where one part differs and another is NULL; Spark has false, as `=` and AND say.
        if any(
            map(_is_of_several_rows, node.this.walk(prune=lambda each: isinstance(each, exp.Query)))
        ):  # inside the query it would be one of the query's rows
            raise Unsupported("aggregates and window functions among several values IN a query are not supported")
        alias, names = self.alias(), [f"{self.prefix}c{at}" for at in range(len(texts))]
        equal = " AND ".join(f"{text} = {alias}.{name}" for text, name in zip(texts, names, strict=True))
        value = f"CASE WHEN bool_or({equal}) THEN true WHEN bool_or(({equal}) IS NULL) THEN NULL ELSE false END"
        whole = f"{'NOT ' * negated}(SELECT {value} FROM ({found}) AS {alias}({', '.join(names)}))"
        return QueryColumn("in()", BOOLEAN, f"({whole})" if is_condition else f"coalesce({whole}, false)")

    # --- several rows -------------------------------------------------------------------------------------------

    def aggregate(self, node: Any, scope: QueryScope, over: str = "") -> QueryColumn:
        """The value of an aggregate, or with ``over`` of one as a window function."""
        name, call, where, order, ignores = taken_apart(node)
        inner = scope if over or name in _OF_SETS else scope.base
        if name in _OF_SETS and not scope.base.has_sets:
            raise wrong_query(f"{name}() needs ROLLUP, CUBE or GROUPING SETS")
        if where is not None:
            condition = self.condition(where, inner)
        distinct = call.expressions[0] if call.expressions and isinstance(call.expressions[0], exp.Distinct) else None
        if distinct is not None:
            takes(distinct, "expressions")
        if distinct is not None and over:
            raise wrong_query(f"{name}(DISTINCT ...) is not a window function")
        given = call.expressions if distinct is None else distinct.expressions
        is_of_order = name in _OF_ORDER or (name == "mode" and order is not None)
        if is_of_order:
            given = [*self.only_key(name, order), *given]
        operands = [self.operand(each, inner) for each in given]
        if is_of_order:
            is_upwards = not order.expressions[0].args.get("desc")
            operands.append(AggregateOperand("", BOOLEAN, Value(is_upwards, BOOLEAN)))
        if name == "grouping_id" and not operands:
            operands = [AggregateOperand(each.text, each.type) for each in (scope.groups or {}).values()]
        if distinct is not None or name == "collect_set":
            operands = [AggregateOperand(as_group(each.text, each.type), each.type, each.literal) for each in operands]
        found = self.found_aggregate(name, operands, ignores=ignores)
        sorting = ""
        if order is not None and not is_of_order:
            if name not in ("listagg", "string_agg"):
                raise Unsupported(f"{name}() does not support WITHIN GROUP in a query")
            sorting = self.order(order, inner, ())
        shape = _Shape("" if where is None else condition, sorting, over, is_distinct=distinct is not None)
        shown = node if is_of_order and isinstance(node, exp.WithinGroup) else call
        return QueryColumn(result_name(shown), found.type, self.shaped(found, shape))

    def found_aggregate(self, name: str, operands: list[AggregateOperand], *, ignores: bool) -> Aggregate:
        """What computes it. That of an interval is an interval, computed of its microseconds."""
        spans = [each.type for each in operands if isinstance(each.type, IntervalType)]
        if spans and (len(operands) > 1 or name not in (*_OF_INTERVALS, "count")):
            raise Unsupported(f"{name}() of an interval is not supported: CAST(b - a AS BIGINT) has its seconds")
        if spans:
            operands = [msgspec.structs.replace(operands[0], type=LONG)]
        try:
            if spans and name == "avg":
                return average_of_intervals(operands[0])
            found = aggregate(name, operands, ignores_nulls=ignores)
        except ValueError as error:
            raise Unsupported(str(error)) from None
        return msgspec.structs.replace(found, type=spans[0]) if spans and name != "count" else found

    def only_key(self, name: str, order: Any) -> list[Any]:
        """What WITHIN GROUP orders by."""
        keys = [] if order is None else order.expressions
        if len(keys) != 1:
            raise Unsupported(f"{name}() without WITHIN GROUP (ORDER BY one value) is not supported")
        return [keys[0].this]

    def operand(self, node: Any, scope: QueryScope) -> AggregateOperand:
        if isinstance(node, exp.Star):
            return AggregateOperand("*", LONG)
        bound = self.interval_or_value(node, scope)
        whole = bound if isinstance(bound, Value) else None
        text = self.text(_whole(bound), scope)
        return AggregateOperand(text, bound.type, whole, _items_of(bound))

    def shaped(self, found: Aggregate, shape: _Shape) -> str:
        texts = []
        for call in found.calls:
            where = " AND ".join(filter(None, (shape.where, call.where)))
            distinct = "DISTINCT " if shape.is_distinct and call.operands != ("*",) else ""
            text = f"{call.name}({distinct}{', '.join(call.operands)}{shape.sorting})"
            texts.append(f"{text}{f' FILTER (WHERE {where})' if where else ''}{shape.over}")
        if found.compute is None:
            assert isinstance(found.text, str)
            return found.text.format(*texts)
        values = [text.format(*texts) for text in found.text]
        return self.call(found.compute, values, found.call_types, found.type)

    def window(self, node: exp.Window, scope: QueryScope) -> QueryColumn:
        node = with_named_window(node, scope.windows)
        takes(node, "this", "partition_by", "order", "spec", "over")
        partition = [self.value(each, scope) for each in node.args.get("partition_by") or ()]
        parts = [f"PARTITION BY {', '.join(as_group(each.text, each.type) for each in partition)}"] if partition else []
        keys, frame = self.order_and_frame(node.args.get("order"), node.args.get("spec"), scope)
        parts += [f"ORDER BY {', '.join(keys)}"] if keys else []
        over = f" OVER ({' '.join(filter(None, (*parts, frame)))})"
        name, call, where, _, ignores = taken_apart(node.this)
        if name in RANKS:
            if not keys or where is not None or ignores:
                raise wrong_query(f"{name}() needs ORDER BY in its window")
            texts = [self.value(each, scope).text for each in call.expressions]
            return QueryColumn(
                result_name(call), RANKS[name], f"CAST({name}({', '.join(texts)}){over} AS {duckdb_type(RANKS[name])})"
            )
        if name in WINDOW_VALUES:
            return self.window_value(name, call, scope, over, ignores=ignores)
        if not is_aggregate(name) or name in ORDERED_OTHERWISE:
            raise Unsupported(f"the window function {name}() is not supported in a query")
        return self.aggregate(node.this, scope, over)

    def window_value(self, name: str, call: Any, scope: QueryScope, over: str, *, ignores: bool) -> QueryColumn:
        operand, *rest = [self.interval_or_value(each, scope) for each in call.expressions]
        texts = [self.text(_whole(operand), scope)]
        is_offset = name in ("lag", "lead")
        if not is_offset and name != "nth_value" and rest:
            flag = rest.pop()
            ignores = ignores or str(flag) == "TRUE"
            if rest or str(flag) not in ("TRUE", "FALSE"):
                raise wrong_query(f"{name}() takes true or false as its second value")
        for at, each in enumerate(rest):
            if at == 0 and (not isinstance(each, Value) or type(each.value) is not int):
                raise Unsupported(f"{name}() takes a literal whole number in a query")
            if at == 1:
                each = self.default(each, operand.type, name)
            texts.append(self.text(each, scope))
        name = {"first": "first_value", "any_value": "first_value", "last": "last_value"}.get(name, name)
        text = f"{name}({', '.join(texts)}{' IGNORE NULLS' if ignores else ''}){over}"
        return QueryColumn(result_name(call), operand.type, text)

    def default(self, value: Expression, kind: DataType, name: str) -> Expression:
        """What lag() and lead() have where there is no row."""
        if isinstance(kind, IntervalType):
            if value.type == VOID:
                return Value(None, LONG)
            if value.type != kind:
                raise Unsupported(f"{name}() of an interval takes a default of the same type, {type_name(kind)}")
            return _whole(value)
        self.common_type([kind, value.type], f"{name}()")
        return self.checked(lambda: convert(value, kind))

    def order_and_frame(self, order: Any, node: Any, scope: QueryScope) -> tuple[list[str], str]:
        """The keys of ORDER BY in a window, and its frame: of timestamps, both count microseconds."""
        keys = [] if order is None else [self.sort_key(each, scope) for each in order.expressions]
        if node is None:
            return keys, ""
        takes(node, "kind", "start", "start_side", "end", "end_side")
        kind = str(node.args["kind"]).upper()
        sides = [bound_of_frame(node.args.get(side), node.args.get(f"{side}_side")) for side in ("start", "end")]
        intervals = [int(side.split()[1]) for side in sides if side.startswith("INTERVAL")]
        given = [] if order is None else [self.value(each.this, scope) for each in order.expressions]
        if kind == "RANGE" and any(side[:1].isdigit() for side in sides):
            if len(given) != 1 or not is_integer(given[0].type):
                raise Unsupported("a RANGE of numbers needs one whole number in ORDER BY")
            counts = [int(side.split()[0]) for side in sides if side[:1].isdigit()]
            if not all(fit(count, given[0].type).exact for count in counts):
                raise Unsupported(
                    f"a RANGE of numbers that are not of the type {type_name(given[0].type)} is not supported"
                )
        if intervals:
            if self._check_intervals(kind, intervals, [each.type for each in given]):
                sides = [_in_days(side) for side in sides]
            else:
                keys = [keys[0].replace(given[0].text, f"epoch_us({given[0].text})", 1)]
                sides = [side.removeprefix("INTERVAL ").replace("MICROSECONDS ", "") for side in sides]
        return keys, f"{kind} BETWEEN {sides[0]} AND {sides[1] or 'CURRENT ROW'}"

    def _check_intervals(self, kind: str, intervals: Sequence[int], types: Sequence[DataType]) -> bool:
        """Whether a frame of so many microseconds is one of dates, and else of timestamps."""
        if kind != "RANGE" or len(types) != 1 or types[0] not in TIMES:
            raise Unsupported("a frame of intervals needs RANGE and one date or timestamp in ORDER BY")
        if types[0] == DATE:
            if any(each % _DAY for each in intervals):
                raise Unsupported("a RANGE of dates takes whole days: ORDER BY a timestamp for shorter intervals")
            return True
        is_fixed = types[0] != TIMESTAMP or offset_of(self.zone) is not None
        if not is_fixed and any(each >= _DAY for each in intervals):
            raise Unsupported(
                f"a RANGE of days of timestamps in {self.zone}, where days have 23 to 25 hours, is not supported:"
                " ORDER BY CAST(t AS DATE), or a time without a zone"
            )
        return False


def _in_days(side: str) -> str:
    """A bound of a frame of dates."""
    if not side.startswith("INTERVAL"):
        return side
    word, count, _, where = side.split()
    return f"{word} {int(count) // _DAY} DAYS {where}"


def _names_an_alias(node: Any, scope: QueryScope) -> bool:
    """Whether ORDER BY means a column of the query, also where a value of GROUP BY has the same name."""
    is_name = scope.aliases_first and isinstance(node, exp.Column) and len(node.parts) == 1
    return is_name and fold_name(str(node.name)) in scope.aliases


def _whole(bound: Expression) -> Expression:
    """The value, or the number that is an interval's."""
    return bound.count if isinstance(bound, Interval) else bound


def _items_of(bound: Expression) -> tuple[Value, ...]:
    """The values of an array of literals."""
    if not isinstance(bound, Call) or bound.name != "array":
        return ()
    items = tuple(each for each in bound.arguments if isinstance(each, Value))
    return items if len(items) == len(bound.arguments) else ()


def _is_of_several_rows(node: Any) -> bool:
    return isinstance(node, exp.Window) or (isinstance(node, exp.Anonymous) and is_aggregate(str(node.this).lower()))


def _alias_of(column: QueryColumn) -> str:
    return column.text.partition(".")[0]


class _Shape(msgspec.Struct, frozen=True):
    """What goes around an aggregate's operands."""

    where: str
    sorting: str
    over: str
    is_distinct: bool
