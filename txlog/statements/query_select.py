"""The list of SELECT, and all that depends on it: groups, HAVING, DISTINCT, ORDER BY, LIMIT.

In: the columns of FROM. Out: the rows of the query, as duckdb's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from sqlglot import exp

from txlog.core.format.schema import DataType, Map, Struct, fold_name, types_in
from txlog.core.predicates.terms.tree import Expression
from txlog.errors import InvalidInputError
from txlog.statements.query_scope import QueryColumn, QueryRows, QueryScope, column_key, columns_named
from txlog.statements.query_tree import (
    Unsupported,
    as_group,
    has_aggregate,
    has_scalar_query,
    is_column,
    ordinal_of,
    takes,
    wrong_query,
)
from txlog.statements.result_names import Known, result_name

_GROUPS_OUTSIDE = (
    "aggregates, groups and windows name no columns of a query around: write them into WHERE or HAVING, or compute them"
    " in the query around"
)


class WritesExpressions(Protocol):
    """What writes the expressions: `query_binder` has it."""

    def value(self, node: Any, scope: QueryScope) -> QueryColumn: ...

    def column(self, node: Any, scope: QueryScope) -> QueryColumn: ...

    def interval_or_value(self, node: Any, scope: QueryScope) -> Expression: ...

    def condition(self, node: Any, scope: QueryScope) -> str: ...

    def order(self, node: Any, scope: QueryScope, columns: Sequence[QueryColumn]) -> str: ...

    def limit(self, node: exp.Expression) -> str: ...

    def canonical(self, node: Any, scope: QueryScope) -> str: ...


class SelectList:
    """The list of SELECT, and all that depends on it."""

    def __init__(self, binder: WritesExpressions, node: exp.Select) -> None:
        self.binder, self.node = binder, node

    def finished(self, text: str, scope: QueryScope, nodes: Sequence[Any]) -> QueryRows:
        items = list(self.items(nodes, scope))
        group = self.node.args.get("group")
        having, order, qualify = (self.node.args.get(each) for each in ("having", "order", "qualify"))
        if qualify is not None and qualify.find(exp.Window) is None and not any(_has_window(node) for _, node in items):
            raise wrong_query("QUALIFY needs a window function, and the query has none: write WHERE or HAVING")
        if qualify is not None and has_aggregate(qualify.this):
            raise wrong_query("QUALIFY has an aggregate: name it in SELECT, and write the name")
        nodes = [each for _, each in items if not isinstance(each, QueryColumn)]
        is_grouped = group is not None or any(map(has_aggregate, [*nodes, *filter(None, (having, order))]))
        grouped = ""
        if is_grouped:
            scope.names_outer = scope.is_named_inside = False
            grouped, groups = self.groups(group, items, scope)
            self.check_groups(group, items, scope)
            scope.has_sets = any(word in grouped for word in ("ROLLUP (", "CUBE (", "GROUPING SETS ("))
            scope = scope.grouped(groups)
        columns = self.columns(items, scope)
        if is_grouped and scope.base.names_outer:
            raise wrong_query(_GROUPS_OUTSIDE)
        text += grouped
        if having is not None:
            if having.find(exp.Window) is not None:
                raise wrong_query("HAVING is applied before window functions are computed: write QUALIFY")
            text += f" HAVING {self.binder.condition(having.this, scope.naming(columns, first=False))}"
        if qualify is not None:
            text += f" QUALIFY {self.binder.condition(qualify.this, scope.naming(columns, first=False))}"
        shown = self.distinct(columns)
        sorting = self.sorting(scope, columns, shown)
        listed = ", ".join(f"{column.text} AS c{at}" for at, column in enumerate(shown))
        word = "SELECT" if self.node.args.get("distinct") is None else "SELECT DISTINCT"
        whole = f"{word} {listed}{text}{sorting}{self.binder.limit(self.node)}"
        return QueryRows(whole, tuple((column.name, column.type) for column in columns))

    def distinct(self, columns: list[QueryColumn]) -> list[QueryColumn]:
        """The columns, as DISTINCT compares them if the query has it."""
        distinct = self.node.args.get("distinct")
        if distinct is None:
            return columns
        takes(distinct)
        maps = [each.name for each in columns if any(isinstance(kind, Map) for kind in types_in(each.type))]
        if maps:
            raise wrong_query(f"DISTINCT compares no maps, as in column {maps[0]}: write map_entries()")
        return [QueryColumn(each.name, each.type, as_group(each.text, each.type)) for each in columns]

    def sorting(self, scope: QueryScope, columns: Sequence[QueryColumn], shown: Sequence[QueryColumn]) -> str:
        """ORDER BY: behind DISTINCT, of what the query shows."""
        order = self.node.args.get("order")
        if order is None:
            return ""
        if order.find(exp.Window) is not None:
            raise Unsupported("ORDER BY a window function is not supported: name it in SELECT, and order by its name")
        if self.node.args.get("distinct") is not None:
            if has_aggregate(order):
                raise wrong_query("ORDER BY behind DISTINCT has an aggregate: name it in SELECT, and order by its name")
            scope = scope.behind_distinct(columns)
        here = scope.naming(shown, first=True)
        text = self.binder.order(order, here, shown)
        if here.names_outer or here.is_named_inside:
            raise wrong_query(
                "ORDER BY names columns of another query: name the value in SELECT, and order by its name"
            )
        return text

    def check_groups(self, node: Any, items: Sequence[tuple[str, Any]], scope: QueryScope) -> None:
        """Raise for values of GROUP BY that Spark does not group by."""
        if scope.names_outer:
            raise wrong_query(_GROUPS_OUTSIDE)
        if scope.is_named_inside and any(has_scalar_query(each) for each in node.expressions):
            raise wrong_query("GROUP BY has a query as a value that names columns around it: name it in SELECT first")

    def items(self, nodes: Sequence[Any], scope: QueryScope) -> Iterator[tuple[str, Any]]:
        """Each column by its name, as a node, or as what ``*`` names."""
        for node in nodes:
            match node:
                case QueryColumn():
                    yield node.name, node
                case exp.Star():
                    yield from self.stars(node, scope.visible())
                case exp.Column() if isinstance(node.this, exp.Star):
                    name = str(node.parts[-2].this)
                    found = [each for each in scope.relations if fold_name(each.alias) == fold_name(name)]
                    yield from self.stars(node.this, found[0].columns if found else self.members(node, scope))
                case exp.Alias():
                    takes(node, "this", "alias")
                    yield node.alias, node.this
                case exp.Aliases():
                    raise Unsupported("several names for one column are for explode() and posexplode() only")
                case _:
                    yield self.named(node, scope), node

    def named(self, node: Any, scope: QueryScope) -> str:
        """The name of a column that has none."""

        def type_of(part: Any) -> DataType | None:
            try:
                return self.binder.interval_or_value(part, scope.copy()).type
            except (InvalidInputError, Unsupported):
                return None  # which is said where the column itself is read

        def fields_of(column: Any) -> int:
            try:
                return len(scope.copy().base.column(tuple(str(part.this) for part in column.parts))[1])
            except InvalidInputError:
                scope.base.lacks_a_name = False
                return 0

        return result_name(node, Known(scope.windows, type_of, fields_of))

    def members(self, node: exp.Column, scope: QueryScope) -> list[QueryColumn]:
        """The fields of a column, as in ``place.*``."""
        path = [str(part.this) for part in node.parts[:-1]]
        try:
            kind = scope.find(tuple(path)).type
        except InvalidInputError:
            kind = None
        if not isinstance(kind, Struct):
            raise wrong_query(f"{'.'.join(path)}.* names no table of FROM, and no column that is a struct")
        names = [[*path, field.name] for field in kind.fields]
        texts = [exp.Dot.build([exp.to_identifier(each, quoted=True) for each in name]) for name in names]
        found = [self.binder.value(text, scope) for text in texts]
        return [QueryColumn(name[-1], each.type, each.text) for name, each in zip(names, found, strict=True)]

    def stars(self, star: Any, columns: Any) -> Iterator[tuple[str, QueryColumn]]:
        takes(star, "except_", "except")
        given = star.args.get("except_") or star.args.get("except") or ()
        columns = list(columns)
        found = {str(each.name): columns_named(columns, str(each.name)) for each in given}
        unknown = [name for name, named in found.items() if not named]
        if unknown:
            raise wrong_query(f"EXCEPT names {', '.join(sorted(unknown))}, which * does not have")
        several = [name for name, named in found.items() if len(named) > 1]
        if several:
            raise wrong_query(
                f"EXCEPT names {several[0]}, which may be one of several columns: list the columns you want"
            )
        left_out = {column.text for named in found.values() for column in named}
        yield from ((column.name, column) for column in columns if column.text not in left_out)

    def columns(self, items: Sequence[tuple[str, Any]], scope: QueryScope) -> list[QueryColumn]:
        """The columns. Each expression may name those before it."""
        found: list[QueryColumn] = []
        for name, node in items:
            here = scope.naming(found, first=False)
            if isinstance(node, QueryColumn) and scope.groups is not None:
                node = self.star_in_group(node, scope)
            made = self.binder.column(node, here)
            self.check_item(node, here)
            found.append(QueryColumn(name, made.type, made.text, made.metadata))
        return found

    def check_item(self, node: Any, here: QueryScope) -> None:
        """Raise for what Spark does not compute of rows of another query."""
        if isinstance(node, QueryColumn):
            return
        if here.names_outer and (here.groups is not None or _has_window(node)):
            raise wrong_query(_GROUPS_OUTSIDE)
        if here.groups is not None and here.is_named_inside and has_scalar_query(node):
            raise wrong_query(
                "a query as a value names columns of groups: put it into first(...), or write its name in GROUP BY"
            )

    def star_in_group(self, column: QueryColumn, scope: QueryScope) -> QueryColumn:
        assert scope.groups is not None
        group = scope.groups.get(column_key(column.text))
        if group is None:
            raise wrong_query(f"{column.name} has several values in a group: name the columns in place of *")
        return group

    def groups(
        self, node: Any, items: Sequence[tuple[str, Any]], scope: QueryScope
    ) -> tuple[str, dict[str, QueryColumn]]:
        """GROUP BY, and the values that it has, by their canonical texts."""
        if node is None:
            return "", {}
        takes(node, "expressions", "all", "rollup", "cube", "grouping_sets")
        known: dict[str, QueryColumn] = {}
        given = list(node.expressions)
        if any(isinstance(each, exp.Tuple) for each in given):
            raise wrong_query("GROUP BY takes no parentheses around several values or none: write GROUP BY a, b")
        if node.args.get("all"):
            given = [each for _, each in items if not has_aggregate(each)]
        texts = [self.group(each, items, scope, known) for each in given]
        for word in ("rollup", "cube"):
            for each in node.args.get(word) or ():
                if each.expressions:
                    texts.append(self.group(each, items, scope, known))
                else:
                    texts = [f"{word.upper()} ({', '.join(texts)})"]
        texts += [self.group(each, items, scope, known) for each in node.args.get("grouping_sets") or ()]
        return (f" GROUP BY {', '.join(texts)}" if texts else ""), known

    def group(
        self, node: Any, items: Sequence[tuple[str, Any]], scope: QueryScope, known: dict[str, QueryColumn]
    ) -> str:
        if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets)):
            word = {"Rollup": "ROLLUP", "Cube": "CUBE"}.get(type(node).__name__, "GROUPING SETS")
            return f"{word} ({', '.join(self.group(each, items, scope, known) for each in node.expressions)})"
        if isinstance(node, exp.Tuple):
            return f"({', '.join(self.group(each, items, scope, known) for each in node.expressions)})"
        number = ordinal_of(node)
        if number is not None:
            if not 1 <= number <= len(items):
                raise wrong_query(f"GROUP BY {number}: the query has {len(items)} columns")
            node = items[number - 1][1]
        elif isinstance(node, exp.Column) and len(node.parts) == 1 and not is_column(node, scope):
            name = fold_name(str(node.name))
            node = next((each for known_name, each in items if fold_name(known_name) == name), node)
        if not isinstance(node, QueryColumn) and has_aggregate(node):
            raise wrong_query("GROUP BY names a value of several rows")
        made = self.binder.column(node, scope)
        text = as_group(made.text, made.type)
        if isinstance(node, QueryColumn):
            canonical, name = column_key(node.text), node.name
        else:
            canonical, name = self.binder.canonical(node, scope), self.named(node, scope)
        if canonical:
            known[canonical] = QueryColumn(name, made.type, text)
        return text


def _has_window(node: Any) -> bool:
    return not isinstance(node, QueryColumn) and node.find(exp.Window) is not None
