"""`MergeBuilder`: builds the clauses of a MERGE, with the method names of other Delta libraries.

In: method calls for matched rows, for rows that only the source has, and for rows that only the table has. Out: one
commit, by `execute`. Clauses are tried in the order of the calls; the first that applies wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from txlog.core.changes.tasks.operations import MergeClause, MergeOptions
from txlog.core.predicates import AnyCondition, with_parameters
from txlog.core.util import explains_calls, invalid, no_attribute
from txlog.errors import InvalidInputError

Done = TypeVar("Done")


@explains_calls
class MergeBuilder(Generic[Done]):
    """Made by `Table.merge`, and by `merge` of a transaction. Each ``when_...`` adds a clause and returns the builder;
    `execute` merges.

    Conditions are SQL, or built from `txlog.col`; ``target.`` and ``source.`` (or the given aliases) name the two
    sides. Values are as for `Table.update`: ``txlog.col("source.amount")``, ``txlog.expr("target.n + source.n")``,
    ``txlog.lit("new")``, or a Python value that is no string.
    """

    def __init__(self, uri: str, merge: MergeOptions, run: Callable[[tuple[MergeClause, ...]], Done]) -> None:
        self._uri = uri
        self._merge = merge
        self._run = run
        self._clauses: list[MergeClause] = []

    def when_matched_update(
        self, updates: Mapping[str, object], predicate: AnyCondition | None = None
    ) -> MergeBuilder[Done]:
        """Set columns of matched rows.

        Args:
            updates: The new values by column or struct field (``"address.zip"``).
            predicate: A condition in SQL on both sides; the clause applies only to rows where it is true. None: always.

        Returns:
            This builder.
        """
        return self._add("matched", "update", updates, predicate)

    def when_matched_update_all(
        self, predicate: AnyCondition | None = None, *, except_cols: Iterable[str] = ()
    ) -> MergeBuilder[Done]:
        """Replace matched rows by their source rows; the source must have all columns of the table.

        Args:
            predicate: A condition in SQL on both sides; the clause applies only to rows where it is true. None: always.
            except_cols: Columns that keep their values; the source need not have them.

        Returns:
            This builder.
        """
        return self._add("matched", "update", None, predicate, except_cols)

    def when_matched_delete(self, predicate: AnyCondition | None = None) -> MergeBuilder[Done]:
        """Delete matched rows.

        Args:
            predicate: A condition in SQL on both sides; the clause applies only to rows where it is true. None: always.

        Returns:
            This builder.
        """
        return self._add("matched", "delete", None, predicate)

    def when_not_matched_insert(
        self, updates: Mapping[str, object], predicate: AnyCondition | None = None
    ) -> MergeBuilder[Done]:
        """Insert source rows that match no table row; columns that are not named become null.

        Args:
            updates: The new values by column; what they compute reads the source alone.
            predicate: A condition in SQL on the source; the clause applies only to rows where it is true. None: always.

        Returns:
            This builder.
        """
        return self._add("not matched", "insert", updates, predicate)

    def when_not_matched_insert_all(
        self, predicate: AnyCondition | None = None, *, except_cols: Iterable[str] = ()
    ) -> MergeBuilder[Done]:
        """Insert these rows with every column of the source, which must have all columns of the table.

        Args:
            predicate: A condition in SQL on the source; the clause applies only to rows where it is true. None: always.
            except_cols: Columns that get their default, or null; the source need not have them.

        Returns:
            This builder.
        """
        return self._add("not matched", "insert", None, predicate, except_cols)

    def when_not_matched_by_source_update(
        self, updates: Mapping[str, object], predicate: AnyCondition | None = None
    ) -> MergeBuilder[Done]:
        """Set columns of rows that no source row matches. This reads every file of the table.

        Args:
            updates: The new values by column or struct field; what they compute reads the table alone.
            predicate: A condition in SQL on the table; the clause applies only to rows where it is true. None: always.

        Returns:
            This builder.
        """
        return self._add("not matched by source", "update", updates, predicate)

    def when_not_matched_by_source_delete(self, predicate: AnyCondition | None = None) -> MergeBuilder[Done]:
        """Delete rows that no source row matches. This reads every file of the table.

        Args:
            predicate: A condition in SQL on the table; the clause applies only to rows where it is true. None: always.

        Returns:
            This builder.
        """
        return self._add("not matched by source", "delete", None, predicate)

    def execute(self) -> Done:
        """Run the merge as one new version, or as a part of the transaction; the source is read once.

        Returns:
            A `WriteResult`; None in a transaction, whose own result covers the merge.

        Raises:
            InvalidInputError: There is no clause, the join is no condition on the two sides, a column or value does not
                fit, or clauses apply to two source rows that match one row of the table, and do not both delete it.
            TxlogError: What `Table.upsert` raises.
        """
        if not self._clauses:
            raise InvalidInputError("a merge without a clause does nothing: add .when_matched_update_all() or another")
        given = [self._merge.on, *(part for each in self._clauses for part in (each.predicate, each.values))]
        with_parameters(self._merge.parameters, *given)  # one that nothing names is a mistake
        return self._run(tuple(self._clauses))

    def __repr__(self) -> str:
        clauses = ", ".join(f"{clause.when} {clause.then}" for clause in self._clauses) or "no clause yet"
        return f"MergeBuilder({self._uri}, on={self._merge.on!r}, {clauses})"

    if not TYPE_CHECKING:  # a type checker reports a misspelled name

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, self.__dict__.get("_uri"))

    def _add(
        self,
        when: Any,
        then: Any,
        values: Mapping[str, object] | None,
        predicate: AnyCondition | None,
        except_cols: Iterable[str] = (),
    ) -> MergeBuilder[Done]:
        if isinstance(except_cols, str):
            raise invalid("except_cols", except_cols, "a list of column names", hint=f"Use [{except_cols!r}]")
        self._clauses.append(MergeClause(when, then, values, predicate, tuple(except_cols)))
        return self
