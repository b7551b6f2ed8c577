"""Pure: SQL text -> bound, typed expression -> `pyarrow.compute`. Plain data, safe in tasks; bound once an operation.

What other rooms call:

* ``sql.parse(text, schema, source=, target_alias=, source_alias=, now=)`` -> `tree.Expression`: ``.type`` (a Delta
  type), ``.sides``, ``tree.columns_of(e)``, ``.evaluate(target, source=None)`` -> array, ``.to_arrow()``, ``str(e)``;
* ``sql.parse_predicate(...)`` -> `predicates.Predicate`, a condition; ``predicates.bind_predicate`` takes what users
  give;
* ``sql.assign(value, column, schema, ...)``: a value as UPDATE SET stores it, cast to the column's type and checked;
* ``predicates.prunable(p)``: the part that ``skipping`` understands; what it does not excludes nothing;
* ``join.split_join(p)``: keys, terms of one side alone, and the rest; ``join.conjuncts(p)``: the terms of AND.

Conditions are SQL's, three-valued; values are those of Spark in ANSI mode with UTC as its time zone. What has no answer
there (overflow, division by zero) raises ``InvalidInputError`` as it is evaluated, what engines disagree about as it is
read. docs/expressions.md has the list.
"""
