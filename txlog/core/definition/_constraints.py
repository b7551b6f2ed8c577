"""Adds a CHECK constraint to a table, or drops one, as Spark's ALTER TABLE ... ADD CONSTRAINT does.

In: an open table, a name and a condition. Out: a commit of the table's definition. All rows of the table are checked
first (``_checked_definition``). PROTOCOL.md, "CHECK Constraints".
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from txlog.core.definition._checked_definition import DefinitionChange, commit_definition_change
from txlog.core.definition._table_definition import Definition, commit_definition
from txlog.core.format.actions import operation_parameters
from txlog.core.format.features import upgraded_for
from txlog.core.format.properties import CONSTRAINT_PREFIX
from txlog.core.row_rules import Constraint
from txlog.core.util import invalid
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.workers import GivenWorkers
from txlog.errors import InvalidInputError, TxlogError
from txlog.result import WriteResult


def add_constraint(
    open_table: OpenTable,
    name: Any,
    condition: Any,
    user_metadata: str | None,
    workers: GivenWorkers | None = None,
) -> WriteResult:
    """See `Table.add_constraint`."""
    from txlog.core.predicates import parse_predicate

    state = open_table.writable_state()
    key = CONSTRAINT_PREFIX + _checked_name(name, open_table.uri)
    if not isinstance(condition, str):
        raise invalid("condition", condition, "SQL, such as 'amount > 0'", table=open_table.uri)
    with TxlogError.located(open_table.uri, state.version):
        found = _stored_key(state, key)
        if found is not None:
            raise InvalidInputError(
                f"the table has a constraint with this name, {_name(found)}"
                f" ({state.metadata.configuration[found]}): drop it first with table.drop_constraint, or choose another"
                " name"
            )
        rule = Constraint(
            f"constraint {_name(key)}", condition, parse_predicate(condition, state.schema, zone=state.time_zone)
        )

    def change(state: TableState) -> DefinitionChange:
        metadata = replace(state.metadata, configuration={**state.metadata.configuration, key: condition})
        definition = Definition(metadata, upgraded_for(state.protocol, state.schema, metadata.configuration))
        parameters = operation_parameters(name=_name(key), expr=condition)
        return DefinitionChange(definition, "ADD CONSTRAINT", parameters, rule)

    return commit_definition_change(open_table, state, change, user_metadata, workers)


def drop_constraint(
    open_table: OpenTable, name: Any, user_metadata: str | None, *, is_optional: bool = False
) -> WriteResult:
    """See `Table.drop_constraint`."""
    state = open_table.log.newest_state()
    open_table.check_maintainable(state)
    key = _stored_key(state, CONSTRAINT_PREFIX + _checked_name(name, open_table.uri))
    configuration = dict(state.metadata.configuration)
    if key is None:
        if is_optional:
            return WriteResult(state.version, "committed", 0, "")
        names = [_name(each) for each in configuration if each.startswith(CONSTRAINT_PREFIX)]
        known = f"it has {', '.join(sorted(names))}" if names else "it has none"
        raise InvalidInputError(
            f"the table has no constraint {name!r}: {known}", table=open_table.uri, version=state.version
        )
    condition = configuration.pop(key)
    definition = Definition(replace(state.metadata, configuration=configuration))
    parameters = operation_parameters(name=_name(key), expr=condition, existed=True)
    return commit_definition(open_table, state, definition, "DROP CONSTRAINT", parameters, user_metadata)


def _checked_name(name: Any, table: str) -> str:
    """The name in lower case, as Delta stores it."""
    if not isinstance(name, str) or not name.strip() or name != name.strip():
        raise invalid("name", name, "the name of a constraint, such as 'positive_amount'", table=table)
    return name.lower()


def _name(key: str) -> str:
    return key.removeprefix(CONSTRAINT_PREFIX)


def _stored_key(state: TableState, key: str) -> str | None:
    """The property of this constraint in the table's spelling; None if there is none."""
    return next((each for each in state.metadata.configuration if each.lower() == key.lower()), None)
