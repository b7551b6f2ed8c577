"""Merge engines in plain Python, row by row: the reference for the columnar merges.

A table is a dict of rows by key. `apply` takes one changelog, as one commit does; without a sequence its result does
not depend on how a changelog is cut.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
KINDS = ("+I", "-U", "+U", "-D")
RETRACTS = ("-U", "-D")


@dataclass
class Step:
    """One row on its way into a table: ``is_old`` for what the table has."""

    kind: str
    row: Row
    is_old: bool = False

    @property
    def retracts(self) -> bool:
        return self.kind in RETRACTS


def apply(
    options: Mapping[str, str], columns: Sequence[str], table: Mapping[Any, Row], changelog: Sequence[tuple[str, Row]]
) -> dict[Any, Row]:
    """The table after the changelog; rows have the key ``k``."""
    result = dict(table)
    steps: dict[Any, list[Step]] = {}
    for kind, row in changelog:
        steps.setdefault(row["k"], []).append(Step(kind, row))
    for key, new in steps.items():
        old = [Step("+I", dict(table[key]), is_old=True)] if key in table else []
        left = merged(options, columns, old + new)
        if left is None:
            result.pop(key, None)
        else:
            result[key] = left
    return result


def merged(options: Mapping[str, str], columns: Sequence[str], steps: list[Step]) -> Row | None:
    engine = options["merge-engine"]
    sequence = [name for name in options.get("sequence.field", "").split(",") if name]
    if options.get("ignore-delete") == "true":
        steps = [step for step in steps if not step.retracts]
    if sequence:
        steps = sorted(steps, key=lambda step: ordinal(step.row, sequence))
    if engine == "first-row":
        return steps[0].row if steps else None
    if engine == "deduplicate":
        assert all(step.kind != "-U" for step in steps), "a -U is about one row: see feed_programs"
        return None if not steps or steps[-1].kind == "-D" else steps[-1].row
    if options.get(f"{engine}.remove-record-on-delete") == "true":
        if engine == "partial-update":
            steps = [step for step in steps if step.kind != "-U"]
        deletes = [at for at, step in enumerate(steps) if step.kind == "-D"]
        steps = steps[deletes[-1] + 1 :] if deletes else steps
    if not steps or (engine == "partial-update" and all(step.retracts for step in steps)):
        return None
    groups = {}
    for option, value in options.items():
        if option.endswith(".sequence-group"):
            names = option.removeprefix("fields.").removesuffix(".sequence-group").split(",")
            for name in (*names, *value.split(",")):
                groups[name] = names
    row = {}
    for name in columns:
        row[name] = value_of(name, options, steps, sequence, groups.get(name))
    return row


def value_of(
    name: str, options: Mapping[str, str], steps: list[Step], sequence: list[str], group: list[str] | None
) -> Any:
    engine = options["merge-engine"]
    if name == "k":
        return steps[-1].row["k"]
    if group is not None:
        steps = [step for step in steps if any(step.row[each] is not None for each in group)]
        steps = sorted(steps, key=lambda step: ordinal(step.row, group))
    if name in sequence or (group is not None and name in group):
        return steps[-1].row[name] if steps else None
    function = options.get(f"fields.{name}.aggregate-function")
    if function is None and (engine == "aggregation" or group is not None):
        function = options.get("fields.default-aggregate-function")
    if function is None and engine == "aggregation":
        function = "last_non_null_value"
    if function is None and group is not None:
        function = "last_value"
    if function is None:
        steps = [step for step in steps if not step.retracts]
        function = "last_non_null_value"
    if options.get(f"fields.{name}.ignore-retract") == "true":
        steps = [step for step in steps if not step.retracts]
    is_distinct = options.get(f"fields.{name}.distinct") == "true"
    delimiter = options.get(f"fields.{name}.list-agg-delimiter", ",")
    accumulator: Any = 0 if function == "count" else None
    for at, step in enumerate(steps):
        value = step.row[name]
        if function == "count":
            accumulator = accumulator + counted(step, value)
        elif function == "first_value":
            accumulator = value if at == 0 else accumulator
        elif function == "last_value":
            accumulator = None if step.retracts else value
        elif value is not None:
            accumulator = with_value(function, accumulator, value, step.retracts, is_distinct, delimiter)
    return accumulator


def counted(step: Step, value: Any) -> int:
    if step.is_old:
        return value or 0
    return 0 if value is None else -1 if step.retracts else 1


def with_value(function: str, accumulator: Any, value: Any, retracts: bool, is_distinct: bool, delimiter: str) -> Any:
    if function == "collect":
        return collected(accumulator, value, retracts, is_distinct)
    if function == "last_non_null_value":
        return None if retracts else value
    if function == "sum":
        return (accumulator or 0) + (-value if retracts else value)
    if accumulator is None:
        return None if retracts else value
    match function:
        case "first_non_null_value":
            return accumulator
        case "product":
            return accumulator // value if retracts else accumulator * value
        case "min" | "bool_and":
            return min(accumulator, value)
        case "max" | "bool_or":
            return max(accumulator, value)
        case "listagg":
            return f"{accumulator}{delimiter}{value}"
    raise AssertionError(function)


def collected(accumulator: list[Any] | None, value: list[Any], retracts: bool, is_distinct: bool) -> list[Any] | None:
    if retracts:
        left = list(accumulator or [])
        for element in value:
            if element in left:
                left.remove(element)
        return None if accumulator is None else left
    left = list(accumulator or [])
    for element in value:
        if not is_distinct or element not in left:
            left.append(element)
    return left


def ordinal(row: Row, names: Sequence[str]) -> Any:
    """Rows in order of these columns, one by one, nulls first."""

    def compare(left: Row, right: Row) -> int:
        for name in names:
            a, b = left[name], right[name]
            if a != b:
                return -1 if a is None or (b is not None and a < b) else 1
        return 0

    return functools.cmp_to_key(compare)(row)
