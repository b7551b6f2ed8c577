"""What the definition of a table demands of rows and computes for them: constraints, limits of text,
generated and identity columns, and keys. Safe in tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.row_rules._constraints import (
        Constraint,
        check_constraints,
        check_same_conditions,
        constraints_of,
        first_not_true,
        stored_constraints,
    )
    from txlog.core.row_rules._generated_columns import (
        ComputedColumns,
        Numbers,
        NumbersOfPreview,
        check_added_are_plain,
        check_computed_columns,
        check_defaults_are_literals,
        computed_columns,
        computed_names,
        generated_of,
        is_computed,
        refuse_given_numbers,
        refuse_set_numbers,
        stored_generated,
        without_computed,
        without_generated,
    )
    from txlog.core.row_rules._keys import (
        KeyColumn,
        KeyIndex,
        compared_as,
        key_columns,
        key_text,
        with_stored_partition_values,
    )
    from txlog.core.row_rules._text_limits import TextLimit, limits_of, with_limits_kept
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _constraints: Constraint check_constraints check_same_conditions constraints_of
            first_not_true stored_constraints
        _generated_columns: ComputedColumns Numbers NumbersOfPreview check_added_are_plain
            check_computed_columns check_defaults_are_literals
            computed_columns computed_names generated_of is_computed refuse_given_numbers
            refuse_set_numbers stored_generated without_computed without_generated
        _keys: KeyColumn KeyIndex compared_as key_columns key_text with_stored_partition_values
        _text_limits: TextLimit limits_of with_limits_kept
        """,
    )

__all__ = [
    "ComputedColumns",
    "Constraint",
    "KeyColumn",
    "KeyIndex",
    "Numbers",
    "NumbersOfPreview",
    "TextLimit",
    "check_added_are_plain",
    "check_computed_columns",
    "check_constraints",
    "check_defaults_are_literals",
    "check_same_conditions",
    "compared_as",
    "computed_columns",
    "computed_names",
    "constraints_of",
    "first_not_true",
    "generated_of",
    "is_computed",
    "key_columns",
    "key_text",
    "limits_of",
    "refuse_given_numbers",
    "refuse_set_numbers",
    "stored_constraints",
    "stored_generated",
    "with_limits_kept",
    "with_stored_partition_values",
    "without_computed",
    "without_generated",
]
