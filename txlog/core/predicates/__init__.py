"""Pure: SQL text -> bound, typed expression -> `pyarrow.compute`. Plain data, safe in tasks; bound once per operation.

What other rooms call:

* ``sql.parse(text, schema, source=, target_alias=, source_alias=, now=)`` -> `tree.Expression`: ``.type`` (a Delta
  type), ``.sides``, ``tree.columns_of(e)``, ``str(e)``; ``evaluate.evaluate(e, target, source=None)`` -> array;
* ``sql.parse_predicate(...)`` -> `predicates.Predicate`, a condition; ``conditions.bind_predicate`` accepts what
  users pass, and ``unbound`` is what they build with ``txlog.col`` and ``txlog.expr``;
* ``binding.assign(value, column, schema, ...)``: a value as UPDATE SET stores it, cast to its column's type, checked;
* ``predicates.prunable(p)``: the part that ``skipping`` understands; the other parts exclude no file;
* ``join.split_join(p)``: keys, terms of one side alone, and the rest; ``join.conjuncts(p)``: the terms of AND.

Conditions follow SQL's three-valued logic; values are Spark's in ANSI mode with UTC as the time zone. What has no
result there (overflow, division by zero) raises ``InvalidInputError`` during evaluation. What engines disagree about
raises it during parsing. docs/expressions.md has the list.
"""
