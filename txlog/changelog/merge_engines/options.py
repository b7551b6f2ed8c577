"""The options of one merge engine, as an engine reads them: `EngineOptions`.

In: options with Apache Paimon's names, from a table's properties or a caller, and the table's columns. Out: columns in
the table's spelling, functions and sequence groups, checked against the columns. An option that the engine does not
read is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from txlog.changelog.merge_engines.field_functions import FieldFunction, is_ordered, is_plain, needed_type
from txlog.core.format.properties import DEFAULT_FUNCTION, FIELDS, MERGE_ENGINE, PREFIX, field_option
from txlog.core.format.schema import Array, DataType, Struct, fold_name, type_name
from txlog.errors import InvalidInputError

_GROUP = "sequence-group"
_SEQUENCE = "sequence.field"


class SequenceGroup(msgspec.Struct, frozen=True):
    """``columns`` come from the row with the greatest ``sequence``, whose columns are compared one by one."""

    sequence: tuple[str, ...]
    columns: tuple[str, ...]


class EngineOptions:
    """The options of an engine for the columns of one table. Its methods raise InvalidInputError for an option that
    does not fit them.

    Args:
        engine: The engine's name.
        options: By Paimon's names; values in the form of `properties.validate`.
        schema: The table's columns.
        keys: The key columns.
    """

    def __init__(self, engine: str, options: Mapping[str, str], schema: Struct, keys: Sequence[str]) -> None:
        self._engine = engine
        self._options = options
        self._keys = {fold_name(key) for key in keys}
        self._read = {MERGE_ENGINE.removeprefix(PREFIX)}
        self.schema = schema
        self.keys = tuple(field.name for field in schema.fields if fold_name(field.name) in self._keys)

    def text(self, option: str) -> str | None:
        """The value of an option; None if it is not set."""
        self._read.add(option)
        return self._options.get(option)

    def is_true(self, option: str) -> bool:
        """Whether an option is set to true."""
        return self.text(option) == "true"

    def is_key(self, column: str) -> bool:
        """Whether a column has the key, or a part of it."""
        return fold_name(column) in self._keys

    def type_of(self, column: str) -> DataType:
        """The type of a column of the table."""
        found = self.schema.find(column)
        assert found is not None
        return found.type

    def columns(self, option: str, text: str) -> tuple[str, ...]:
        """The columns that an option lists, in the table's spelling."""
        found = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            column = self.schema.find(part)
            if column is None:
                names = ", ".join(self.schema.names)
                problem = f"{PREFIX}{option} names {part!r}, which is not a column"
                raise InvalidInputError(f"{problem}; the columns are {names}")
            found.append(column.name)
        if len(set(found)) < len(found):
            raise InvalidInputError(f"{PREFIX}{option} names a column twice: {text}")
        return tuple(found)

    def check_ordered(self, option: str, column: str) -> None:
        """Refuse a column whose values have no order."""
        data_type = self.type_of(column)
        if not is_ordered(data_type):
            raise InvalidInputError(
                f"{PREFIX}{option} orders rows by {column}, a {type_name(data_type)}, whose values have no order"
            )

    def sequence(self) -> tuple[str, ...]:
        """The columns that order rows with one key: ``sequence.field``."""
        found = self.columns(_SEQUENCE, self.text(_SEQUENCE) or "")
        for column in found:
            self.check_ordered(_SEQUENCE, column)
            if self.is_key(column):
                raise InvalidInputError(f"{column} is a key column, so it cannot order rows with one key")
        return found

    def groups(self) -> tuple[SequenceGroup, ...]:
        """The sequence groups, in the order of their names."""
        found = []
        owner: dict[str, str] = {}
        for option, value in sorted(self._options.items()):
            split = field_option(option)
            if split is None or split[1] != _GROUP:
                continue
            self._read.add(option)
            sequence, columns = self.columns(option, split[0]), self.columns(option, value)
            for column in sequence:
                self.check_ordered(option, column)
            for column in (*sequence, *columns):
                if self.is_key(column):
                    raise InvalidInputError(f"{PREFIX}{option} names {column}, which is a key column")
                if column in owner:
                    raise InvalidInputError(f"{PREFIX}{option} names {column}, which {PREFIX}{owner[column]} has")
                owner[column] = option
            found.append(SequenceGroup(sequence, columns))
        return tuple(found)

    def functions(
        self, takes_default: Callable[[str], bool], ordering: Iterable[str], default: str | None = None
    ) -> dict[str, FieldFunction]:
        """The function of each column that has one, by column name.

        Args:
            takes_default: Whether a column without a function gets the default one.
            ordering: The columns that order rows: they have none.
            default: The default function, if no option names one.
        """
        given: dict[str, dict[str, str]] = {}
        for option, value in self._options.items():
            split = field_option(option)
            if split is not None and split[1] != _GROUP:
                self._read.add(option)
                column = self.columns(option, split[0])
                if len(column) != 1 or self.is_key(column[0]):
                    raise InvalidInputError(f"{PREFIX}{option} must name one column that is not a key column")
                given.setdefault(column[0], {})[split[1]] = value
        default = self.text(DEFAULT_FUNCTION) or default
        in_order = set(ordering)
        for column_name in self.schema.names if default is not None else ():
            if takes_default(column_name) and column_name not in in_order:
                given.setdefault(column_name, {}).setdefault("aggregate-function", default or "")
        found = {name: self._function(name, options) for name, options in given.items()}
        if both := sorted(in_order & set(found)):
            raise InvalidInputError(
                f"{', '.join(both)} orders rows and keeps the greatest value, so it has no function"
            )
        return found

    def _function(self, column: str, options: Mapping[str, str]) -> FieldFunction:
        name = options.get("aggregate-function")
        if name is None:
            raise InvalidInputError(
                f"{PREFIX}fields.{column}.{next(iter(options))} is for an aggregate function, but the column has none:"
                f" set {PREFIX}fields.{column}.aggregate-function too"
            )
        for option, owner in (("list-agg-delimiter", "listagg"), ("distinct", "collect")):
            if option in options and name != owner:
                raise InvalidInputError(f"{PREFIX}fields.{column}.{option} is for {owner}; the column's is {name}")
        is_distinct = options.get("distinct") == "true"
        self._check_type(column, name, is_distinct)
        return FieldFunction(
            name, options.get("ignore-retract") == "true", options.get("list-agg-delimiter", ","), is_distinct
        )

    def _check_type(self, column: str, name: str, is_distinct: bool) -> None:
        data_type = self.type_of(column)
        needed = needed_type(name, data_type)
        if needed is not None:
            raise InvalidInputError(
                f"{PREFIX}fields.{column}.aggregate-function = {name} needs {needed}; {column} is a"
                f" {type_name(data_type)}"
            )
        if is_distinct and isinstance(data_type, Array) and not is_plain(data_type.element):
            raise InvalidInputError(
                f"{PREFIX}fields.{column}.distinct compares elements, and the elements of {column} are"
                f" {type_name(data_type.element)}: only plain values can be compared"
            )

    def refuse_rest(self, *, takes_whole_rows: bool) -> None:
        """Refuse each option that the engine did not read: it would do nothing."""
        for option in sorted(set(self._options) - self._read):
            split, owner = field_option(option), option.partition(".")[0]
            if split is not None and split[1] == _GROUP:
                problem = f"a sequence group is for merge-engine partial-update; it is {self._engine}"
            elif split is not None or option == DEFAULT_FUNCTION:
                takes = "takes whole rows, and" if takes_whole_rows else ""
                problem = f"merge-engine {self._engine} {takes} has no aggregate functions".replace("  ", " ")
            elif option.startswith(FIELDS):
                problem = f"{PREFIX}{option} is not an option of a column"
            elif option in (_SEQUENCE, "ignore-delete") or owner == self._engine:
                problem = f"merge-engine {self._engine} has no {option}"
            else:
                problem = f"{PREFIX}{option} is for merge-engine {owner}, not {self._engine}"
            if self._options[option] != "false":
                raise InvalidInputError(problem)
