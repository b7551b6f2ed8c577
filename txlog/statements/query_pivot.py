"""PIVOT and UNPIVOT: values of a column as columns, and columns as values, with Spark's names and types.

In: the rows of a relation, and the parsed PIVOT. Out: the rows that it makes. A PIVOT is written with GROUP BY, and
read by the binder as any query is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlglot import exp

from txlog.core.format.schema import BOOLEAN, STRING, VOID, DataType, type_name
from txlog.core.predicates import NullSafeEQ, cast_to, convert
from txlog.core.predicates.terms.tree import Expression, Value
from txlog.core.predicates.terms.types import is_numeric
from txlog.statements.aggregates import is_aggregate
from txlog.statements.duckdb_expressions import text_literal
from txlog.statements.query_scope import QueryColumn, QueryRows, QueryScope
from txlog.statements.query_tree import Unsupported, has_aggregate, takes, without_parentheses, wrong_query
from txlog.statements.result_names import result_name

_Common = Mapping[str, tuple[str, QueryRows]]
_SOURCE = "pivot'"
_BY_THE_FIRST = ("first", "first_value", "last", "last_value", "any_value")
_PARTS = ("expressions", "fields", "unpivot", "include_nulls", "alias")
_OF_THE_PARSER = (
    *("columns", "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming", "default_on_null"),
    "value_columns_first",
)
"""How sqlglot would name the columns."""


class ReadsQueries(Protocol):
    """What reads queries and expressions: `query_binder` has it."""

    def query(self, node: Any, outer: QueryScope | None, common: _Common) -> QueryRows: ...

    def scope(self, outer: QueryScope | None) -> QueryScope: ...

    def bound(self, node: Any, scope: QueryScope) -> Expression: ...

    def text(self, bound: Expression, scope: QueryScope) -> str: ...

    def alias(self) -> str: ...

    def common_type(self, types: Sequence[DataType], what: str) -> DataType: ...


def pivoted(
    binder: ReadsQueries, node: exp.Pivot, rows: QueryRows, name: str, outer: QueryScope | None, common: _Common
) -> QueryRows:
    """The rows of ``PIVOT (...)`` or ``UNPIVOT (...)`` behind a relation with these rows and this name.

    Raises:
        InvalidInputError: It is wrong.
        Unsupported: Spark's values of it are not known here.
    """
    takes(node, *_PARTS, *_OF_THE_PARSER)
    fields: list[Any] = node.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In):
        raise Unsupported(f"{node.sql(dialect='spark')} is not supported in a query")
    takes(fields[0], "this", "expressions")
    scope = binder.scope(outer)
    scope.relations = [rows.relation(binder.alias(), name)]
    scope.common = common
    if node.args.get("unpivot"):
        return _unpivoted(binder, node, fields[0], rows, scope)
    return _Pivot(binder, node, fields[0], scope).rows(rows, name, outer, common)


def _listed(node: Any) -> list[Any]:
    node = without_parentheses(node)
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _named(node: Any) -> tuple[str, Any]:
    """The name that AS gives, or "", and what it names."""
    if not isinstance(node, (exp.Alias, exp.PivotAlias)):
        return "", node
    alias = node.args["alias"]
    if not isinstance(alias, exp.Identifier):
        raise wrong_query(f"{alias.sql(dialect='spark')} is not a name: write it without quotes, or in backquotes")
    return str(alias.this), node.this


def _left(nodes: Sequence[Any], scope: QueryScope) -> list[QueryColumn]:
    """The columns of the relation that none of these expressions names."""
    named = [tuple(str(part.this) for part in each.parts) for node in nodes for each in node.find_all(exp.Column)]
    used = {scope.column(path)[0].text for path in named}
    return [each for each in scope.relations[0].columns if each.text not in used]


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _select(items: Sequence[Any], source: str, groups: Sequence[Any]) -> exp.Select:
    alias = exp.TableAlias(this=exp.to_identifier(source, quoted=True))
    table = exp.Table(this=exp.to_identifier(_SOURCE, quoted=True), alias=alias)
    group = {"group": exp.Group(expressions=[each.copy() for each in groups])} if groups else {}
    return exp.Select(expressions=[each.copy() for each in items], from_=exp.From(this=table), **group)


class _Pivot:
    def __init__(self, binder: ReadsQueries, node: exp.Pivot, field: exp.In, scope: QueryScope) -> None:
        self.binder, self.scope = binder, scope
        self.keys = _listed(field.this)
        self.aggregates = [_named(each) for each in node.expressions]
        self.kept = [_column(each.name) for each in _left([*self.keys, *(each for _, each in self.aggregates)], scope)]
        self.known: set[tuple[str, ...]] = set()
        self.values = [self.value(each) for each in field.expressions]
        for _, aggregate in self.aggregates:
            if not has_aggregate(aggregate):
                raise wrong_query(f"PIVOT takes aggregates, and {result_name(aggregate)} is not one")

    def rows(self, source: QueryRows, name: str, outer: QueryScope | None, common: _Common) -> QueryRows:
        """As in Spark, numbers are first computed for each value, so that a value without rows has null, ``count(*)``
        included; other types are computed from the rows that have the value."""
        common = {**common, _SOURCE: (f"({source.text})", source)}
        keys = [exp.alias_(each.copy(), f"{at}'key", quoted=True) for at, each in enumerate(self.keys)]
        made = [exp.alias_(each.copy(), f"{at}'value", quoted=True) for at, (_, each) in enumerate(self.aggregates)]
        groups = [*self.kept, *self.keys]
        inner = self.binder.query(_select([*self.kept, *keys, *made], name, groups), outer, common)
        types = [kind for _, kind in inner.columns[len(groups) :]]
        if not all(is_numeric(kind) or kind == BOOLEAN for kind in types):
            items = [self.of_rows(each, values) for _, values in self.values for _, each in self.aggregates]
            return self.binder.query(self.selected(items, name), outer, common)
        known = [_column(f"{at}'key") for at in range(len(self.keys))]
        items = [
            exp.Filter(
                this=exp.Anonymous(this="first", expressions=[_column(f"{at}'value")]),
                expression=exp.Where(this=_equal(known, values)),
            )
            for _, values in self.values
            for at in range(len(self.aggregates))
        ]
        return self.binder.query(self.selected(items, name), outer, {**common, _SOURCE: (f"({inner.text})", inner)})

    def selected(self, items: Sequence[Any], name: str) -> exp.Select:
        names = [
            value if len(self.aggregates) == 1 else f"{value}_{alias or result_name(aggregate)}"
            for value, _ in self.values
            for alias, aggregate in self.aggregates
        ]
        columns = [exp.alias_(each, known, quoted=True) for each, known in zip(items, names, strict=True)]
        return _select([*self.kept, *columns], name, self.kept)

    def of_rows(self, aggregate: Any, values: Sequence[Any]) -> Any:
        """The expression, with its aggregates of the rows that have these values."""

        def change(node: Any) -> Any:
            if isinstance(node, exp.Filter):
                raise Unsupported("FILTER in a PIVOT of values that are not numbers is not supported")
            if not isinstance(node, exp.Anonymous) or not is_aggregate(str(node.this).lower()):
                return node
            if str(node.this).lower() in _BY_THE_FIRST:
                raise Unsupported(
                    f"{node.this}() in a PIVOT of values that are not numbers is not supported: write max()"
                )
            return exp.Filter(this=node.copy(), expression=exp.Where(this=_equal(self.keys, values)))

        return _replaced(aggregate, change)

    def value(self, node: Any) -> tuple[str, list[Any]]:
        """A value, or several, with the name of its column."""
        name, given = _named(node)
        parts = _listed(given)
        if len(parts) != len(self.keys):
            raise wrong_query(f"PIVOT has {len(self.keys)} columns, and {len(parts)} values for them in its list")
        pairs = list(zip(parts, self.keys, strict=True))
        texts, parts = [self.shown(*pair) for pair in pairs], [self.as_key(*pair) for pair in pairs]
        if tuple(texts) in self.known:
            raise wrong_query(f"PIVOT has {', '.join(texts)} twice in its list")
        self.known.add(tuple(texts))
        return name or (texts[0] if len(texts) == 1 else f"{{{', '.join(texts)}}}"), parts

    def as_key(self, node: Any, key: Any) -> Any:
        """The value with the column's type, as far as a literal of Spark's has it."""
        value, kind = self.binder.bound(node, self.binder.scope(None)), self.binder.bound(key, self.scope).type
        if value.type in (kind, VOID, BOOLEAN):
            return node
        return exp.Cast(this=node.copy(), to=exp.DataType.build(type_name(kind), dialect="databricks"))

    def shown(self, node: Any, key: Any) -> str:
        """The text of a value, which the column's type has."""
        value, kind = self.binder.bound(node, self.binder.scope(None)), self.binder.bound(key, self.scope).type
        is_known = isinstance(value, Value) or value.type == BOOLEAN
        if not is_known or not self.is_of(value, kind):
            shown = f"{result_name(node)} ({type_name(value.type)})"
            raise wrong_query(f"PIVOT takes literals of the type of {result_name(key)}, {type_name(kind)}, not {shown}")
        text = convert(value, STRING)
        if value.type == VOID or (isinstance(text, Value) and text.value is None):
            return "null"
        if not isinstance(text, Value):
            raise Unsupported(f"{result_name(node)} in PIVOT needs a name: write AS")
        return str(text.value)

    @staticmethod
    def is_of(value: Expression, kind: DataType) -> bool:
        if value.type in (kind, VOID):
            return True
        try:
            return value.type != BOOLEAN and isinstance(cast_to(value, kind), Value)
        except ValueError:
            return False


def _replaced(node: Any, change: Any) -> Any:
    """The expression, with what ``change`` makes of its outermost aggregates."""
    changed = change(node)
    if changed is not node:
        return changed
    found = node.copy()
    for key, value in node.args.items():
        if isinstance(value, list):
            found.set(key, [_replaced(each, change) if isinstance(each, exp.Expression) else each for each in value])
        elif isinstance(value, exp.Expression):
            found.set(key, _replaced(value, change))
    return found


def _equal(keys: Sequence[Any], values: Sequence[Any]) -> Any:
    pairs = [NullSafeEQ(this=key.copy(), expression=value.copy()) for key, value in zip(keys, values, strict=True)]
    found: Any = pairs[0]
    for each in pairs[1:]:
        found = exp.And(this=found, expression=each)
    return found


def _unpivoted(binder: ReadsQueries, node: exp.Pivot, field: exp.In, rows: QueryRows, scope: QueryScope) -> QueryRows:
    """For each row, one of each part of the list: its name, and its values."""
    name = str(field.this.name)
    names = [str(each.name) for given in node.expressions for each in _listed(given)]
    parts = [(alias, _listed(given)) for alias, given in map(_named, field.expressions)]
    if any(len(columns) != len(names) for _, columns in parts):
        raise wrong_query(f"UNPIVOT makes {len(names)} columns of values, and its list has parts of another number")
    named = [each for _, columns in parts for each in columns]
    if any(not isinstance(each, exp.Column) or each.is_star for each in named) or any(
        scope.column(tuple(str(part.this) for part in each.parts))[1] for each in named
    ):
        raise wrong_query("UNPIVOT takes names of columns in its list, and no fields of them")
    kept = _left(named, scope)
    known = [alias or "_".join(str(each.name) for each in columns) for alias, columns in parts]
    lists = [f"[{', '.join(map(text_literal, known))}]"]
    types: list[DataType] = [STRING]
    for at, wanted in enumerate(names):
        values = [binder.bound(columns[at], scope) for _, columns in parts]
        types.append(binder.common_type([each.type for each in values], f"column {wanted} of UNPIVOT"))
        lists.append(f"[{', '.join(binder.text(convert(each, types[-1]), scope) for each in values)}]")
    items = [*(each.text for each in kept), *(f"unnest({each})" for each in lists)]
    columns = [*((each.name, each.type) for each in kept), *zip([name, *names], types, strict=True)]
    listed = ", ".join(f"{item} AS c{at}" for at, item in enumerate(items))
    whole = f"SELECT {listed} FROM ({rows.text}) AS {scope.relations[0].columns[0].text.partition('.')[0]}"
    if not node.args.get("include_nulls"):
        present = " OR ".join(f"c{at} IS NOT NULL" for at in range(len(kept) + 1, len(items)))
        same = ", ".join(f"c{at}" for at in range(len(items)))
        whole = f"SELECT {same} FROM ({whole}) AS {binder.alias()} WHERE {present}"
    return QueryRows(whole, tuple(columns))
