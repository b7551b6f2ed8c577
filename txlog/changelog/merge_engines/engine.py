"""A merge engine's definition: `MergeEngine`, checked against a table's columns.

In: options with Apache Paimon's names, from a table's properties or a caller. Out: plain data that is sent to tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.core.format.identity import is_identity
from txlog.core.format.properties import DEFAULT_FUNCTION, FIELDS, MERGE_ENGINES, PREFIX, field_option, merge_options
from txlog.core.format.schema import Array, DataType, Decimal, Primitive, Struct, fold_name, type_name
from txlog.core.util.arguments import invalid, one_of
from txlog.core.writing.generated_columns import is_computed
from txlog.errors import InvalidInputError, UnsupportedFeatureError

__all__ = ["RETRACTABLE", "FieldFunction", "MergeEngine", "SequenceGroup"]

RETRACTABLE = frozenset(("sum", "product", "count", "last_value", "last_non_null_value", "collect"))
"""The functions that can retract a value."""

_NO_TOMBSTONES = {
    "first-row": "first-row takes no deletes, so there is none to remember",
    "partial-update": "in a partial-update, an older row could still fill nulls of a row that came after the delete;"
    " a sequence group retracts values and keeps its sequence",
    "aggregation": "in an aggregation, an older row could still be added to a row that came after the delete;"
    " last_value retracts values and keeps the row with its sequence",
}

_COMMUTATIVE = frozenset(("sum", "product", "count", "min", "max", "bool_and", "bool_or"))
_WHOLE = frozenset(("byte", "short", "integer", "long"))
_FLOATING = frozenset(("float", "double"))
_ORDERED = _WHOLE | _FLOATING | {"string", "binary", "date", "timestamp", "timestamp_ntz"}


class FieldFunction(msgspec.Struct, frozen=True):
    """The aggregate function of one column."""

    name: str
    ignores_retracts: bool = False
    delimiter: str = ","
    is_distinct: bool = False


class SequenceGroup(msgspec.Struct, frozen=True):
    """``columns`` come from the row with the greatest ``sequence``, whose columns are compared one by one."""

    sequence: tuple[str, ...]
    columns: tuple[str, ...]


class MergeEngine(msgspec.Struct, frozen=True):
    """How rows with one key become one, for the columns of one table.

    Attributes:
        name: "deduplicate", "partial-update", "aggregation" or "first-row".
        sequence: The columns that order rows with one key; without them, arrival does.
        ignores_deletes: Whether rows of the kinds -U and -D are left out.
        removes_on_delete: Whether a row of the kind -D deletes the whole row; otherwise it retracts values column by
            column.
        functions: The functions of columns, by name.
        groups: The sequence groups of "partial-update".
    """

    name: str
    sequence: tuple[str, ...] = ()
    ignores_deletes: bool = False
    removes_on_delete: bool = False
    functions: Mapping[str, FieldFunction] = msgspec.field(default_factory=dict)
    groups: tuple[SequenceGroup, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str], schema: Struct, keys: Sequence[str] = ()) -> MergeEngine:
        """The engine that ``options`` describe, for the columns of ``schema``.

        Args:
            options: By Paimon's names; values in the form of `properties.validate`.
            schema: The table's schema.
            keys: The key columns, for which no function or sequence group is allowed.

        Raises:
            InvalidInputError: An option names no column, does not fit the engine or the column's type, or contradicts
                another one.
            UnsupportedFeatureError: The engine merges rows column by column, but the table has generated columns or
                defaults.
        """
        name = options.get("merge-engine", "deduplicate")
        if name not in MERGE_ENGINES:
            raise invalid("merge-engine", name, one_of(MERGE_ENGINES))
        reader = _Options(name, options, schema, frozenset(keys))
        functions, groups = reader.functions(), reader.groups()
        sequence = reader.columns("sequence.field", options.get("sequence.field", ""))
        for column in sequence:
            reader.check_ordered("sequence.field", column)
        found = cls(
            name,
            sequence,
            options.get("ignore-delete") == "true",
            options.get(f"{name}.remove-record-on-delete") == "true",
            functions,
            groups,
        )
        reader.check(found)
        counted = [field.name for field in schema.fields if is_identity(field)]
        if counted:
            raise UnsupportedFeatureError(
                f"{counted[0]} is an identity column, and merge-engine {name} replaces whole rows, so that they would"
                " get new values there: leave one of them out; Table.upsert keeps the values of identity columns",
                features=("identityColumns",),
            )
        computed = [field.name for field in schema.fields if is_computed(field)]
        if computed and not found.takes_whole_rows:
            raise UnsupportedFeatureError(
                f"merge-engine {name} merges the columns of rows one by one, and {', '.join(computed)} of the table"
                " is generated or has a default, which would have to follow from the merged row: use deduplicate or"
                " first-row",
                features=("generatedColumns", "allowColumnDefaults"),
            )
        return found

    @classmethod
    def stored(cls, configuration: Mapping[str, str], schema: Struct, keys: Sequence[str] = ()) -> MergeEngine | None:
        """The engine that a table's properties define; None if they define none. Raises what `of` raises."""
        options = merge_options(configuration)
        return cls.of(options, schema, keys) if options else None

    def is_commutative(self, columns: Iterable[str], *, retracts: bool = True, deletes: bool = True) -> bool:
        """Whether rows without a sequence may arrive in any order without affecting ``columns``.

        Args:
            columns: Columns that are not key columns.
            retracts: Rows of the kinds -U and -D may be among them.
            deletes: Rows of the kind -D may be.
        """
        if self.name != "aggregation" or (deletes and self.removes_on_delete):
            return False
        return all(self.commutes(column, retracts=retracts) for column in columns if column not in self.sequence)

    def commutes(self, column: str, *, retracts: bool) -> bool:
        """Whether a column's function has the same result for any order of values, even if some are retracted."""
        function = self.functions.get(column)
        if function is None or function.name not in _COMMUTATIVE:
            return False
        # A factor can be retracted only from an existing product.
        keeps_all = not retracts or self.ignores_deletes or function.ignores_retracts
        return keeps_all or function.name != "product"

    @property
    def takes_whole_rows(self) -> bool:
        """Whether the merged row is always one of the rows, never a combination."""
        return self.name in ("deduplicate", "first-row")

    @property
    def replaces_rows(self) -> bool:
        """Whether a change may take the place of the table's row with its key."""
        return self.name != "first-row"

    @property
    def takes_last_row(self) -> bool:
        """Whether the last change of a key alone decides: its row, a delete, or a retraction of the row that it
        carries."""
        return self.name == "deduplicate"

    @property
    def leaves_absent_values(self) -> bool:
        """Whether a null, or a column that the changes lack, leaves the value as it is."""
        return self.name == "partial-update"

    @property
    def why_no_tombstones(self) -> str | None:
        """Why a tombstone is not enough for it: new rows are merged with older ones, and it disappears once its key has
        a row again. None if it is."""
        return _NO_TOMBSTONES.get(self.name)

    @property
    def reads_old_rows(self) -> bool:
        """Whether the result depends on the table's values for a key."""
        return not self.takes_whole_rows or (self.takes_last_row and bool(self.sequence))

    @property
    def cancelling_kinds(self) -> tuple[int, ...]:
        """The kinds of rows that cancel an equal row that comes in the same version of a feed: none whose retraction is
        left out, as the row that comes counts then."""
        if self.ignores_deletes:
            return ()
        if not any(function.ignores_retracts for function in self.functions.values()):
            return (DELETE, UPDATE_BEFORE)
        return (DELETE,) if self.removes_on_delete else ()

    def group_of(self, column: str) -> SequenceGroup | None:
        """A column's sequence group, whether the column is taken or compared."""
        return next((each for each in self.groups if column in each.columns or column in each.sequence), None)


class _Options:
    """Reads the options of one engine."""

    def __init__(self, engine: str, options: Mapping[str, str], schema: Struct, keys: frozenset[str]) -> None:
        self._engine = engine
        self._options = options
        self._schema = schema
        self._keys = {fold_name(key) for key in keys}

    def columns(self, option: str, text: str) -> tuple[str, ...]:
        """The columns that an option lists, in the table's spelling."""
        found = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            column = self._schema.find(part)
            if column is None:
                names = ", ".join(self._schema.names)
                problem = f"{PREFIX}{option} names {part!r}, which is not a column"
                raise InvalidInputError(f"{problem}; the columns are {names}")
            found.append(column.name)
        if len(set(found)) < len(found):
            raise InvalidInputError(f"{PREFIX}{option} names a column twice: {text}")
        return tuple(found)

    def check_ordered(self, option: str, column: str) -> None:
        """Refuse a column whose values have no order."""
        data_type = self._type(column)
        if not _is_ordered(data_type):
            raise InvalidInputError(
                f"{PREFIX}{option} orders rows by {column}, a {type_name(data_type)}, whose values have no order"
            )

    def functions(self) -> dict[str, FieldFunction]:
        """The function of each column that has one, by column name."""
        given: dict[str, dict[str, str]] = {}
        for option, value in self._options.items():
            found = field_option(option)
            if found is None:
                if option.startswith(FIELDS) and option != DEFAULT_FUNCTION:
                    raise InvalidInputError(f"{PREFIX}{option} is not an option of a column")
            elif found[1] != "sequence-group":
                column = self.columns(option, found[0])
                if len(column) != 1 or self._is_key(column[0]):
                    raise InvalidInputError(f"{PREFIX}{option} must name one column that is not a key column")
                given.setdefault(column[0], {})[found[1]] = value
        self._add_defaults(given)
        return {column: self._function(column, options) for column, options in given.items()}

    def _add_defaults(self, given: dict[str, dict[str, str]]) -> None:
        default = self._options.get(DEFAULT_FUNCTION)
        if default is None and self._engine == "aggregation":
            default = "last_non_null_value"
        if default is None:
            return
        in_order = {column for _, columns in self._group_texts() for column in columns[0]}
        in_order.update(self.columns("sequence.field", self._options.get("sequence.field", "")))
        grouped = {column for _, columns in self._group_texts() for column in columns[1]}
        for column in self._schema.names:
            takes_it = column in grouped if self._engine == "partial-update" else not self._is_key(column)
            if takes_it and column not in in_order:
                given.setdefault(column, {}).setdefault("aggregate-function", default)

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
        data_type = self._type(column)
        expected = _EXPECTED.get(name)
        fits = expected is None or expected[1](data_type)
        if not fits:
            assert expected is not None
            raise InvalidInputError(
                f"{PREFIX}fields.{column}.aggregate-function = {name} needs {expected[0]}; {column} is a"
                f" {type_name(data_type)}"
            )
        if is_distinct and isinstance(data_type, Array) and not _is_plain(data_type.element):
            raise InvalidInputError(
                f"{PREFIX}fields.{column}.distinct compares elements, and the elements of {column} are"
                f" {type_name(data_type.element)}: only plain values can be compared"
            )

    def groups(self) -> tuple[SequenceGroup, ...]:
        """The sequence groups, in the order of their names."""
        found = []
        owner: dict[str, str] = {}
        for option, (sequence, columns) in self._group_texts():
            for column in sequence:
                self.check_ordered(option, column)
            for column in (*sequence, *columns):
                if self._is_key(column):
                    raise InvalidInputError(f"{PREFIX}{option} names {column}, which is a key column")
                if column in owner:
                    raise InvalidInputError(f"{PREFIX}{option} names {column}, which {PREFIX}{owner[column]} has")
                owner[column] = option
            found.append(SequenceGroup(sequence, columns))
        return tuple(found)

    def _group_texts(self) -> list[tuple[str, tuple[tuple[str, ...], tuple[str, ...]]]]:
        found = []
        for option, value in sorted(self._options.items()):
            split = field_option(option)
            if split is not None and split[1] == "sequence-group":
                found.append((option, (self.columns(option, split[0]), self.columns(option, value))))
        return found

    def check(self, engine: MergeEngine) -> None:
        """Refuse options that belong to another engine, or contradict each other."""
        name, options = engine.name, self._options
        is_partial = name == "partial-update"
        if engine.groups and not is_partial:
            raise InvalidInputError(f"a sequence group is for merge-engine partial-update; it is {name}")
        if engine.functions and engine.takes_whole_rows:
            raise InvalidInputError(f"merge-engine {name} takes whole rows, and has no aggregate functions")
        for flag in ("partial-update", "aggregation"):
            if flag != name and options.get(f"{flag}.remove-record-on-delete") == "true":
                raise InvalidInputError(
                    f"{PREFIX}{flag}.remove-record-on-delete is for merge-engine {flag}, not {name}"
                )
        if name == "first-row" and engine.sequence:
            raise InvalidInputError("merge-engine first-row keeps the row that arrived first: it has no sequence.field")
        if engine.groups and engine.sequence:
            raise InvalidInputError(
                "set sequence groups or sequence.field, not both: each defines which row of a key is the last"
            )
        if engine.ignores_deletes and engine.removes_on_delete:
            raise InvalidInputError(
                "set ignore-delete or remove-record-on-delete, not both: deletes are left out, or they count"
            )
        if engine.groups and engine.removes_on_delete:
            raise InvalidInputError(
                "set sequence groups or remove-record-on-delete, not both: a delete retracts a group, or the row"
            )
        if is_partial:
            grouped = {column for group in engine.groups for column in group.columns}
            outside = [column for column in engine.functions if column not in grouped]
            if outside:
                raise InvalidInputError(
                    f"{', '.join(outside)} has an aggregate function but is in no sequence group, which would order its"
                    " values: put it into one, or use merge-engine aggregation"
                )
        ordering = {column for group in engine.groups for column in group.sequence} | set(engine.sequence)
        if both := sorted(ordering & set(engine.functions)):
            raise InvalidInputError(
                f"{', '.join(both)} orders rows and keeps the greatest value, so it has no function"
            )
        if of_key := [column for column in engine.sequence if self._is_key(column)]:
            raise InvalidInputError(f"{of_key[0]} is a key column, so it cannot order rows with one key")

    def _is_key(self, column: str) -> bool:
        return fold_name(column) in self._keys

    def _type(self, column: str) -> DataType:
        found = self._schema.find(column)
        assert found is not None
        return found.type


def _is_primitive(data_type: DataType, names: frozenset[str]) -> bool:
    return isinstance(data_type, Primitive) and data_type.name in names


def _is_ordered(data_type: DataType) -> bool:
    return isinstance(data_type, Decimal) or _is_primitive(data_type, _ORDERED)


def _is_plain(data_type: DataType) -> bool:
    return _is_ordered(data_type) or _is_primitive(data_type, frozenset(("boolean",)))


_EXPECTED: Mapping[str, tuple[str, Callable[[DataType], bool]]] = {
    "sum": (
        "a column of numbers",
        lambda found: isinstance(found, Decimal) or _is_primitive(found, _WHOLE | _FLOATING),
    ),
    "product": ("a column of integers or floats", lambda found: _is_primitive(found, _WHOLE | _FLOATING)),
    "count": ("a column of integers", lambda found: _is_primitive(found, _WHOLE)),
    "min": ("a column whose values have an order", _is_ordered),
    "max": ("a column whose values have an order", _is_ordered),
    "listagg": ("a column of strings", lambda found: _is_primitive(found, frozenset(("string",)))),
    "bool_and": ("a column of booleans", lambda found: _is_primitive(found, frozenset(("boolean",)))),
    "bool_or": ("a column of booleans", lambda found: _is_primitive(found, frozenset(("boolean",)))),
    "collect": ("an array column", lambda found: isinstance(found, Array)),
}
"""The column types that functions require, and whether a type is one of them."""
