"""Pure: SQL text -> bound, typed expression -> `pyarrow.compute`. Plain data, safe in tasks; bound once per operation.

What other rooms call; the values that they get are in ``terms``:

* ``parse(text, schema, source=, target_alias=, source_alias=, now=)`` -> `terms.tree.Expression`: ``.type`` (a Delta
  type), ``.sides``, ``columns_of(e)``, ``str(e)``; ``evaluate(e, target, source=None)`` -> array;
* ``parse_predicate(...)`` -> `terms.predicate.Predicate`, a condition; ``bind_predicate`` accepts what users pass, and
  `Column` and the like are what they build with ``txlog.col`` and ``txlog.expr``;
* ``assign(value, column, schema, ...)``: a value as UPDATE SET stores it, cast to its column's type, checked;
* ``terms.predicate.prunable(p)``: the part that ``skipping`` understands; the other parts exclude no file;
* ``split_join(p)``: keys, terms of one side alone, and the rest.

Conditions follow SQL's three-valued logic; values are Spark's in ANSI mode with UTC as the time zone. What has no
result there (overflow, division by zero) raises ``InvalidInputError`` during evaluation. What engines disagree about
raises it during parsing. docs/expressions.md has the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.predicates._binding import assign
    from txlog.core.predicates._build import (
        FLIPPED,
        as_condition,
        assigned,
        balanced,
        cast_to,
        compare,
        convert,
        lit,
        struct_of,
    )
    from txlog.core.predicates._casts import try_cast
    from txlog.core.predicates._conditions import bind_predicate
    from txlog.core.predicates._evaluate import can_fail, evaluate
    from txlog.core.predicates._float_texts import float_text
    from txlog.core.predicates._grammar import NullSafeEQ, QueryDialect, is_parameter, plain_equal
    from txlog.core.predicates._hash_kernels import HASH_KERNELS
    from txlog.core.predicates._intervals import Interval, IntervalType
    from txlog.core.predicates._join import JoinCondition, JoinKey, JoinRange, path_of, split_join
    from txlog.core.predicates._operands import constant, typed
    from txlog.core.predicates._package_functions import PackageFunction, package_function
    from txlog.core.predicates._scope import Context
    from txlog.core.predicates._sql import as_string, parse, parse_predicate, parse_stored_condition, parse_stored_value
    from txlog.core.predicates._sql_reader import SqlReader
    from txlog.core.predicates._time_patterns import pattern_parts
    from txlog.core.predicates._unbound import (
        AnyCondition,
        Column,
        Operand,
        Parameters,
        Sql,
        col,
        expr,
        texts_of,
        with_parameters,
    )
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _binding: assign
        _build: FLIPPED as_condition assigned balanced cast_to compare convert lit struct_of
        _casts: try_cast
        _conditions: bind_predicate
        _evaluate: can_fail evaluate
        _float_texts: float_text
        _grammar: NullSafeEQ QueryDialect is_parameter plain_equal
        _hash_kernels: HASH_KERNELS
        _intervals: Interval IntervalType
        _join: JoinCondition JoinKey JoinRange path_of split_join
        _operands: constant typed
        _package_functions: PackageFunction package_function
        _scope: Context
        _sql: as_string parse parse_predicate parse_stored_condition parse_stored_value
        _sql_reader: SqlReader
        _time_patterns: pattern_parts
        _unbound: AnyCondition Column Operand Parameters Sql col expr texts_of with_parameters
        """,
    )

__all__ = [
    "FLIPPED",
    "HASH_KERNELS",
    "AnyCondition",
    "Column",
    "Context",
    "Interval",
    "IntervalType",
    "JoinCondition",
    "JoinKey",
    "JoinRange",
    "NullSafeEQ",
    "Operand",
    "PackageFunction",
    "Parameters",
    "QueryDialect",
    "Sql",
    "SqlReader",
    "as_condition",
    "as_string",
    "assign",
    "assigned",
    "balanced",
    "bind_predicate",
    "can_fail",
    "cast_to",
    "col",
    "compare",
    "constant",
    "convert",
    "evaluate",
    "expr",
    "float_text",
    "is_parameter",
    "lit",
    "package_function",
    "parse",
    "parse_predicate",
    "parse_stored_condition",
    "parse_stored_value",
    "path_of",
    "pattern_parts",
    "plain_equal",
    "split_join",
    "struct_of",
    "texts_of",
    "try_cast",
    "typed",
    "with_parameters",
]
